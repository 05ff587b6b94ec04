import { expect, test } from "vitest";
import { followedViewport, placeAround, type Viewport } from "./graph-following";

const WINDOW = { width: 1000, height: 600 };
const place = (x: number, y: number, width = 208, height = 66) => ({ x, y, width, height });
const START: Viewport = { x: 0, y: 0, zoom: 1 };

test("the view stays while what goes on is in it, and moves to it when it is not", () => {
  expect(followedViewport(place(100, 100), START, WINDOW)).toBeNull();
  const moved = followedViewport(place(100, 900), START, WINDOW)!;
  expect(moved).toEqual({ x: 500 - 204, y: 300 - 933, zoom: 1 });
  expect(followedViewport(place(100, 900), moved, WINDOW)).toBeNull();
});

test("what is spread widely is shown from afar, and what is close together from near", () => {
  const wide = placeAround([place(0, 0), place(3000, 1500)]);
  const far = followedViewport(wide, START, WINDOW)!;
  expect(far.zoom).toBeLessThan(0.3);
  expect(followedViewport(wide, far, WINDOW)).toBeNull();
  expect(followedViewport(place(0, 0), far, WINDOW)!.zoom).toBe(1);
});

test("what is larger than the window even from afar does not move the view to and fro", () => {
  let view: Viewport = START;
  let moves = 0;
  for (let round = 0; round < 200; round += 1) {
    const active = placeAround([place((round * 37) % 400, 0), place(9_000 + ((round * 91) % 400), 40_000)]);
    const next = followedViewport(active, view, WINDOW);
    if (next === null) continue;
    view = next;
    moves += 1;
  }
  expect(moves).toBe(1);
});
