import { expect, test } from "vitest";
import { timeLabels } from "./time-labels";

const AT = Date.parse("2026-11-28T22:00:00Z") / 1_000;

test("hours have the date where the day begins", () => {
  expect(timeLabels([AT, AT + 3_600, AT + 7_200, AT + 10_800], "UTC")).toEqual(["22:00\n28/11", "23:00", "00:00\n29/11", "01:00"]);
});

test("times that are close have seconds and no date", () => {
  expect(timeLabels([AT, AT + 5], "UTC")).toEqual(["22:00:00", "22:00:05"]);
});
