// @vitest-environment jsdom
import { expect, test } from "vitest";
import { neighboursOf, rememberList } from "./neighbours";

const key = (id: string) => ({ workflow: "order", id });

test("an execution has the neighbours of the list that was kept last, and none if it is not in it", () => {
  expect(neighboursOf(key("b"))).toEqual({ before: null, after: null });
  rememberList([key("a"), key("b"), key("c")]);
  expect(neighboursOf(key("b"))).toEqual({ before: key("a"), after: key("c") });
  expect(neighboursOf(key("c"))).toEqual({ before: key("b"), after: null });
  expect(neighboursOf(key("d"))).toEqual({ before: null, after: null });
  expect(neighboursOf({ workflow: "other", id: "b" })).toEqual({ before: null, after: null });
});
