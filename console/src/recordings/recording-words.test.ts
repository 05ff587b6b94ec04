import { describe, expect, it } from "vitest";
import { callState, placeText, recordingState, sureness, switched } from "./recording-words";

describe("words for recordings", () => {
  it("writes places as people do", () => {
    expect(placeText("/items/0/id")).toBe("items[0].id");
    expect(placeText("/a~1b/~0c")).toBe("a/b.~c");
    expect(placeText("")).toBe("");
  });

  it("shows states of executions and steps", () => {
    expect([{ open: true, idle: false }, { open: true, idle: true }, { open: false }].map(recordingState)).toEqual(["running", "waiting", "completed"]);
    expect(callState({ number: 1, step: "a_1", tool: "x.a", state: "in_doubt" })).toBe("failed");
    expect(callState({ number: 1, step: "a_1", tool: "x.a" })).toBe("running");
  });

  it("says how sure a suggestion is", () => {
    expect(sureness({ confidence: 0.951, found: true })).toBe("likely, 95 %");
    expect(sureness({ confidence: 0.4, found: false })).toBe("possible, 40 %");
  });

  it("switches one key and keeps the order of the others", () => {
    expect(switched(["a", "b"], "c")).toEqual(["a", "b", "c"]);
    expect(switched(["a", "b", "c"], "b")).toEqual(["a", "c"]);
    expect(switched(["a", "b", "c"], "loop", ["b", "d"])).toEqual(["a", "c", "loop"]);
  });
});
