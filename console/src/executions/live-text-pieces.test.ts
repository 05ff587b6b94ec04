import { expect, it } from "vitest";
import { type LiveTexts, withPiece } from "./live-text-pieces";

const joined = (...pieces: [path: string, offset: number, text: string][]) =>
  pieces.reduce<LiveTexts>((texts, [path, offset, text], number) => withPiece(texts, { number, path, attempt: 1, offset, text, isComplete: false }), {});

it("puts each piece in the place of everything from its offset on", () => {
  expect(joined(["model", 0, "It left "], ["model", 8, "on Monday"], ["model#2", 0, "Yes"])).toEqual({ model: "It left on Monday", "model#2": "Yes" });
  expect(joined(["model", 0, "It left on Tue"], ["model", 0, "It left on Monday"])).toEqual({ model: "It left on Monday" });
});

it("counts characters as the server does", () => {
  expect(joined(["model", 0, "😀 a"], ["model", 2, "b"])).toEqual({ model: "😀 b" });
});
