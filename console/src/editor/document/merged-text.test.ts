// Two changes of one text are merged where they touch different lines, and only there.
import fc from "fast-check";
import { expect, test } from "vitest";
import { mergedText } from "./merged-text";

test("changes of different lines are both in the merged text", () => {
  expect(mergedText("a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\nb\nc\nd\ne\n")).toBe("a\nB\nc\nd\ne\n");
  expect(mergedText("a\nb\nc\n", "b\nc\n", "a\nb\nc\nd")).toBe("b\nc\nd");
});

test("changes of the same line have to be looked at", () => {
  expect(mergedText("a\nb\nc\n", "a\nB\nc\n", "a\nX\nc\n")).toBeNull();
  expect(mergedText("a\nb\n", "a\nx\nb\n", "a\ny\nb\n")).toBeNull();
});

test("a change with none, or with the same one, is that change", () => {
  const texts = fc.array(fc.constantFrom("a\n", "b\n", "c\n"), { maxLength: 8 }).map((lines) => lines.join(""));
  fc.assert(
    fc.property(texts, texts, (base, mine) => {
      expect(mergedText(base, mine, base)).toBe(mine);
      expect(mergedText(base, base, mine)).toBe(mine);
      expect(mergedText(base, mine, mine)).toBe(mine);
    }),
  );
});
