import { describe, expect, it } from "vitest";
import { type ChangePlan, planLists, planSentence } from "./plan-text";

const plan = (change: Partial<ChangePlan>): ChangePlan => ({ workflow: "order", id: "o-17", verb: "retry", status: "failed", hasEffect: true, ...change });

describe("the sentence of a plan", () => {
  it("counts what is reused, run again and undone", () => {
    expect(planSentence(plan({ reused: ["a", "b", "c", "d"], repeated: ["e", "f", "g"] }))).toBe("It reuses 4 results, runs 3 steps again, and undoes nothing.");
    expect(planSentence(plan({ reused: ["a"], repeated: ["e"], undone: ["a"] }))).toBe("It reuses 1 result, runs 1 step again, and undoes 1 step.");
  });
  it("says that a fork starts a new execution", () => {
    expect(planSentence(plan({ verb: "fork", reused: ["a"] }))).toBe("It starts a new execution, reuses 1 result, and undoes nothing.");
    expect(planSentence(plan({ verb: "rerun" }))).toBe("It starts a new execution, reuses no results, and undoes nothing.");
  });
  it("says what becomes of children", () => {
    const children = [1, 2, 3].map((id) => ({ workflow: "c", id: String(id), effect: id === 3 ? ("left to itself" as const) : ("cancelled" as const) }));
    expect(planSentence(plan({ verb: "cancel", stopped: ["a"], children }))).toBe("It stops 1 open step, has 2 children cancelled, leaves 1 child to itself, and undoes nothing.");
  });
  it("says that a command would have no effect, or would be refused", () => {
    expect(planSentence(plan({ hasEffect: false, status: "waiting_approval" }))).toBe("It would have no effect now: the execution is waiting approval.");
    expect(planSentence(plan({ verb: "patch", refused: ["a step that has run is removed"] }))).toBe("An engine would refuse it.");
  });
  it("names the step that a preset gives a value", () => {
    expect(planSentence(plan({ verb: "preset", given: ["charge"] }))).toBe("It takes your value as the result of charge.");
  });
});

it("leaves out lists that are empty", () => {
  expect(planLists(plan({ reused: ["a"], children: [{ workflow: "c", id: "1", effect: "retried" }] })).map((one) => one.title)).toEqual(["Results that are reused", "Children"]);
});
