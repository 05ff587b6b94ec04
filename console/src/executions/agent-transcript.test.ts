import { describe, expect, it } from "vitest";
import { agentTurns } from "./agent-transcript";
import type { StepTrace } from "./execution-reads";

const step = (path: string, change: Partial<StepTrace>): StepTrace => ({ path, target: path.replace(/#\d+$/, ""), kind: "call", state: "completed", attempts: [], input: null, output: null, ...change }) as StepTrace;
const usage = { input_tokens: 340, output_tokens: 13, cost_usd: 0.0001 };

const STEPS = [
  step("model", {
    input: [[{ role: "user", text: "Look into this ticket" }], "fc40"],
    output: { text: "I look.", calls: [{ id: "1", name: "find_customer", args: { email: "jon" } }, { id: "2", name: "find_orders", args: { customer: 33 } }], usage, model: "small" },
  }),
  step("checked 1", { kind: "keep", output: { calls: [{}, { how: "unfit", why: "its arguments do not fit" }] } }),
  step("turn 1/call/find_customer", { output: { id: "c-90" } }),
  step("model#2", { input: [[{ role: "tool", text: "c-90", name: "find_customer" }], "ef80"], output: { data: { next: ["developers"], reasoning: "A defect.", urgency: "high" }, usage } }),
  step("checked 2", { kind: "keep", output: { wrong: { why: "chose the step 'developers', which is not allowed" } } }),
  step("model#3", { state: "performing", input: [[{ role: "user", text: "Correct it" }], "aebe"], output: null }),
];

describe("the turns of an agent", () => {
  const turns = agentTurns(STEPS);
  it("are its model calls in their order", () => {
    expect(turns.map((one) => [one.number, one.step.path])).toEqual([[1, "model"], [2, "model#2"], [3, "model#3"]]);
    expect(turns[0]?.asked).toEqual([{ role: "user", text: "Look into this ticket", tool: "" }]);
    expect(turns[0]?.usage?.inputTokens).toBe(340);
  });
  it("have the tools that were called, each with the step that has performed it, or why none has", () => {
    expect(turns[0]?.tools.map((one) => [one.name, one.step?.path ?? null, one.refused])).toEqual([
      ["find_customer", "turn 1/call/find_customer", ""],
      ["find_orders", null, "its arguments do not fit"],
    ]);
  });
  it("have the choice and its reason, and why an answer could not be used", () => {
    expect(turns[1]).toMatchObject({ chosen: ["developers"], reasoning: "A defect.", data: { urgency: "high" }, wrong: "chose the step 'developers', which is not allowed" });
  });
  it("have one without an answer while the model is asked", () => {
    expect(turns[2]).toMatchObject({ text: "", tools: [], usage: null });
  });
});

it("are none for an execution that is no agent", () => {
  expect(agentTurns([step("model", { target: "car model" }), step("pay", {})])).toEqual([]);
});
