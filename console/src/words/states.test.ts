import { expect, test } from "vitest";
import states from "@generated/states.json";

test("a state that has a glyph has a style", () => {
  expect(states.failed).toEqual({ glyph: "✗", style: "bad" });
});
