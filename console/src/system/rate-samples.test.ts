import { expect, test } from "vitest";
import { hourCounts, type Sample, withSample } from "./rate-samples";

const sample = (atS: number) => ({ atS }) as Sample;

test("a sample that was taken already is not taken twice, and the oldest go", () => {
  expect(withSample([sample(1)], sample(1))).toEqual([sample(1)]);
  const many = Array.from({ length: 720 }, (_, index) => sample(index));
  expect(withSample(many, sample(1_000))).toHaveLength(720);
});

test("hours of several workflows are added up, with hours in which nothing began", () => {
  const from = Date.parse("2026-11-28T10:00:00Z");
  const hours = [{ hourAt: "2026-11-28T11:00:00.000000Z", statuses: { completed: 2, failed: 1, running: 4 } }];
  const items = ["a", "b"].map((workflow) => ({ workflow, hours, countedFromAt: "", isPartial: false }));
  expect(hourCounts(items as never, from, from + 7_200_000)).toEqual([
    { atS: from / 1_000, good: 0, bad: 0, other: 0 },
    { atS: from / 1_000 + 3_600, good: 4, bad: 2, other: 8 },
  ]);
});
