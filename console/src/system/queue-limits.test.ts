import { expect, test } from "vitest";
import { limitChanges, limitForm, limitWords } from "./queue-limits";

const LIMITS = { concurrency: 3, perLane: null, intervalSeconds: 0.5, burst: 4, declared: "" };

test("limits are said in a few words", () => {
  expect(limitWords(LIMITS)).toBe("3 at a time; one each 500 ms, up to 4 at once");
  expect(limitWords({})).toBe("");
});

test("a form that is unchanged changes nothing", () => {
  expect(limitChanges(limitForm(LIMITS))).toEqual({ concurrency: 3, perLane: null, rate: [0.5, 4] });
  expect(limitChanges(limitForm({}))).toEqual({ concurrency: null, perLane: null, rate: null });
});

test("a form with what is no limit says which field", () => {
  expect(limitChanges({ concurrency: "0", perLane: "", interval: "", burst: "1" })).toMatch(/^At a time/);
  expect(limitChanges({ concurrency: "", perLane: "", interval: "-1", burst: "1" })).toMatch(/^Time between/);
});
