import { expect, test } from "vitest";
import { changedArguments } from "./changed-arguments";

test("only what has changed is an edit, by name or by place", () => {
  expect(changedArguments({ a: 1, b: [2] }, { a: 1, b: [3], c: 4 })).toEqual({ b: [3], c: 4 });
  expect(changedArguments([1, "x"], [1, "y"])).toEqual({ "2": "y" });
});

test("what can't be an edit is refused in words", () => {
  expect(() => changedArguments({ a: 1 }, {})).toThrow("not removed: a");
  expect(() => changedArguments([1], { a: 1 })).toThrow("keep the list");
  expect(() => changedArguments([1], 5)).toThrow("an object of arguments");
});
