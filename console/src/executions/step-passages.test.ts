import { expect, it } from "vitest";
import type { StepTrace } from "./execution-reads";
import { nodePath, passagesOf } from "./step-passages";

it("takes the numbers of passages and iterations out of a path", () => {
  expect(nodePath("audit/~3/charge#2")).toBe("audit/charge");
  expect(nodePath("turn 1/call#2/look")).toBe("turn 1/call/look");
  expect(nodePath("charge")).toBe("charge");
  expect(nodePath("a~3/b#c")).toBe("a~3/b#c");
});

it("finds all passages of a node in order", () => {
  const steps = ["ask", "pause", "ask#2", "pay", "ask#3"].map((path) => ({ path }) as StepTrace);
  expect(passagesOf(steps, "ask#2").map((one) => one.path)).toEqual(["ask", "ask#2", "ask#3"]);
  const cycle = ["ask/~0/ask", "ask/~0/pause", "ask/~1/ask"].map((path) => ({ path, stepId: path.split("/").at(-1) }) as StepTrace);
  expect(passagesOf(cycle, "ask").map((one) => one.path)).toEqual(["ask/~0/ask", "ask/~1/ask"]);
  expect(passagesOf(cycle, "ask/~1/ask").map((one) => one.path)).toEqual(["ask/~0/ask", "ask/~1/ask"]);
  expect(passagesOf(steps, "unknown")).toEqual([]);
});
