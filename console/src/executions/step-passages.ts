// The passages of a step: the operations of one node that an execution has passed several times, as in a loop.
import type { StepTrace } from "./execution-reads";

/** The path without the numbers of its passages and iterations: "loop/~3/pay#2" and "loop/~4/pay" are passages of "loop/pay". */
export function nodePath(path: string): string {
  return path
    .split("/")
    .filter((part) => !/^~\d+$/.test(part))
    .map((part) => part.replace(/#\d+$/, ""))
    .join("/");
}

/** The passages of the node of `path`, in the order of opening. A node of a cycle may be named by its id alone. */
export function passagesOf(steps: readonly StepTrace[], path: string): StepTrace[] {
  const node = nodePath(path);
  const found = steps.filter((one) => nodePath(one.path) === node);
  return found.length > 0 ? found : steps.filter((one) => one.stepId === path);
}
