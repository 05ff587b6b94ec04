import fc from "fast-check";
import { expect, test } from "vitest";
import { bareWords, FIELDS, type ExecutionFilter, filterText, parseFilter } from "./execution-filter";

test("names, attributes and quoted text are told apart", () => {
  expect(parseFilter('status=failed status=cancelled workflow=order cents>500 customer=ada "card declined"')).toEqual({
    status: ["failed", "cancelled"], workflow: "order", since: "", failedSince: "", id: "", error: "", fingerprint: "", q: ["cents>500", "customer=ada"], text: "card declined", order: "",
  });
});

test("a filter that is written and read is the same", () => {
  const names = Object.keys(FIELDS).filter((name) => name !== "status");
  const word = fc.string({ unit: "grapheme", maxLength: 12 }).filter((text) => text.trim() === text);
  fc.assert(
    fc.property(fc.subarray(names), word, fc.subarray(["failed", "running", "needs_attention"]), (named, value, status) => {
      const filter: ExecutionFilter = { ...parseFilter(""), status, q: ["cents>5", "vip || due<2026-01-31T12:00:00Z"] };
      for (const name of named) filter[name as "workflow"] = value;
      expect(parseFilter(filterText(filter))).toEqual(filter);
    }),
  );
});

test("words alone are known as such", () => {
  expect(bareWords(parseFilter("o-17 cents>500 customer=ada vip || old"))).toEqual(["o-17"]);
});
