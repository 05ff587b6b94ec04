// Places in the shown text and in the source name the same characters, whatever the line breaks are.
import fc from "fast-check";
import { expect, test } from "vitest";
import { ShownText } from "./line-endings";
import { applyChanges } from "./text-change";

const SOURCES = fc.array(fc.constantFrom("a", "b", "\n", "\r\n", "é"), { maxLength: 20 }).chain((parts) => fc.constantFrom("", "\uFEFF").map((mark) => mark + parts.join("")));

test("places lead to the source and back", () => {
  fc.assert(
    fc.property(SOURCES, (source) => {
      const shown = new ShownText(source);
      for (let place = 0; place <= shown.text.length; place += 1) {
        const found = shown.sourcePosition(place);
        expect(shown.shownPosition(found)).toBe(place);
        expect(new ShownText(source.slice(0, found)).text).toBe(shown.text.slice(0, place));
      }
    }),
  );
});

test("a change of the shown text is the same change of the source", () => {
  fc.assert(
    fc.property(SOURCES, fc.nat(30), fc.nat(5), fc.constantFrom("", "x", "\n", "y\nz"), (source, at, length, insert) => {
      const shown = new ShownText(source);
      const from = Math.min(at, shown.text.length);
      const change = { from, to: Math.min(from + length, shown.text.length), insert };
      const changed = applyChanges(source, shown.sourceChanges([change], "\r\n"));
      expect(new ShownText(changed).text).toBe(applyChanges(shown.text, [change]));
    }),
  );
});
