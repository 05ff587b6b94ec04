// The references that a step, or the whole document, may use, as far as the document itself tells them.
import { isMap } from "../document/plain-values";
import type { Step, StepTree } from "./step-tree";

export interface OfferedReference {
  text: string;
  says: string;
}

/** Begins of references behind which a name follows. */
export const PREFIXES: readonly OfferedReference[] = [
  { text: "@secrets.", says: "a secret by its name" },
  { text: "@steps.", says: "envelope of a step" },
];

export function referencesFor(tree: StepTree, step?: Step): OfferedReference[] {
  const found: OfferedReference[] = [];
  const { input, vars } = tree.document;
  if (isMap(input)) for (const name of Object.keys(input)) found.push({ text: `@input.${name}`, says: "input" });
  if (isMap(vars)) for (const name of Object.keys(vars)) found.push({ text: `@vars.${name}`, says: "variable" });
  for (const name of itemsAround(step)) found.push({ text: `@${name}`, says: "of each" });
  for (const other of tree.all) if (other.hasId && other !== step) found.push({ text: `@${other.id}`, says: `result of ${other.verb || "a step"}` });
  if (step !== undefined) found.push({ text: "@self", says: "the step's own result" });
  found.push({ text: "@input", says: "all inputs" }, { text: "@vars", says: "all variables" }, { text: "@execution.id", says: "id of the execution" }, { text: "@last", says: "the last result" }, { text: "@error", says: "in on_error" }, ...PREFIXES);
  return found;
}

function itemsAround(step: Step | undefined): string[] {
  const names: string[] = [];
  for (let one: Step | null | undefined = step; one; one = one.list.owner) {
    const each = one.fields["each"];
    if (isMap(each)) names.push(typeof each["as"] === "string" ? each["as"] : "item", typeof each["index"] === "string" ? each["index"] : "index");
    if ("repeat" in one.fields) names.push("index", "loop", "state");
  }
  return [...new Set(names)];
}
