import { expect, test } from "vitest";
import { clipped, sentence } from "./sentence";

test("a text of the server becomes a sentence, and a name at its begin stays as it is", () => {
  expect(["there is no execution o-1. Check its id", "order@2 is not known", "oidc:ada may not", "the text ends.", "why?", "a line\n", "it ends. (a remark)", ""].map(sentence)).toEqual([
    "There is no execution o-1. Check its id.",
    "order@2 is not known.",
    "oidc:ada may not.",
    "The text ends.",
    "Why?",
    "A line.",
    "It ends. (a remark)",
    "",
  ]);
});

test("a long text is clipped between characters", () => {
  expect([clipped("short", 5), clipped("longer", 5), clipped("👍👍👍", 2), clipped("a line", 2)]).toEqual(["short", "longe…", "👍👍…", "a…"]);
});
