import { expect, test } from "vitest";
import { sentence } from "./sentence";

test("a text of the server becomes a sentence, and a name at its begin stays as it is", () => {
  expect(["there is no execution o-1. Check its id", "order@2 is not known", "the text ends.", "why?", ""].map(sentence)).toEqual([
    "There is no execution o-1. Check its id.",
    "order@2 is not known.",
    "The text ends.",
    "Why?",
    "",
  ]);
});
