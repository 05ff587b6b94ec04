import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/client";
import { joinedLog, typeCounts } from "./log-parts";

const page = (from: number, to: number): Schemas["LogPage"] => ({
  items: Array.from({ length: Math.max(to - from + 1, 0) }, (_, index) => ({ number: from + index, type: "opened", at: "", path: "", text: "", cause: from + index })),
  first: 1,
  last: 100,
  next: null,
  previous: null,
});
const numbers = (part: { items: { number: number }[] }) => part.items.map((one) => one.number);

describe("pages of a log", () => {
  it("are joined before and behind what is there", () => {
    const part = joinedLog(null, page(5, 6));
    expect(numbers(joinedLog(part, page(3, 4)))).toEqual([3, 4, 5, 6]);
    expect(numbers(joinedLog(part, page(7, 8)))).toEqual([5, 6, 7, 8]);
  });
  it("that overlap are taken once", () => {
    expect(numbers(joinedLog(joinedLog(null, page(5, 6)), page(4, 8)))).toEqual([4, 5, 6, 7, 8]);
  });
  it("that do not adjoin take the place of what is there, so that there is no gap", () => {
    expect(numbers(joinedLog(joinedLog(null, page(1, 2)), page(8, 9)))).toEqual([8, 9]);
  });
  it("that are empty change nothing", () => {
    expect(numbers(joinedLog(joinedLog(null, page(1, 2)), page(3, 2)))).toEqual([1, 2]);
  });
});

it("counts types in alphabetical order", () => {
  expect(typeCounts([{ type: "settled" }, { type: "opened" }, { type: "settled" }])).toEqual([["opened", 1], ["settled", 2]]);
});
