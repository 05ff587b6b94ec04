import { expect, test } from "vitest";
import type { Schemas } from "@/api/client";
import { hourBars, outcomeSentence, statusTotals } from "./outcome-counts";

const HOURS: Schemas["HourOutcomes"][] = [
  { hourAt: "2026-11-28T10:00:00.000000Z", statuses: { completed: 3, failed: 1 } },
  { hourAt: "2026-11-28T12:00:00.000000Z", statuses: { completed: 2, running: 1 } },
];

test("hours in which nothing was started have a bar of nothing, and failures stand at the bottom", () => {
  const bars = hourBars(HOURS, Date.parse("2026-11-28T10:00:00Z"), Date.parse("2026-11-28T12:20:00Z"));
  expect(bars.map((one) => one.total)).toEqual([4, 0, 3]);
  expect(bars[0]?.parts).toEqual([
    { style: "bad", count: 1 },
    { style: "good", count: 3 },
  ]);
});

test("a strip is said in one sentence", () => {
  expect(outcomeSentence(HOURS, "24 h")).toBe("7 started in 24 h: 5 completed, 1 failed, 1 running");
  expect(outcomeSentence([], "24 h")).toBe("None started in 24 h");
  expect(outcomeSentence(HOURS, "24 h", true)).toMatch(/^At least 7/);
  expect(statusTotals(HOURS)[0]).toEqual(["completed", 5]);
});
