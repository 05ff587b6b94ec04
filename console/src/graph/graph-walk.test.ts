import { expect, test } from "vitest";
import { visibleGraph } from "./graph-folding";
import { layoutGraph, layoutInput } from "./graph-layout";
import { graphModel } from "./graph-model";
import { SAMPLES } from "./graph-samples";
import { stateCounts } from "./graph-states";
import { treeRows, treeStep } from "./graph-tree";
import { walkedTo } from "./graph-walk";

const NONE = new Map<string, never>();

function walkerOf(name: string) {
  const visible = visibleGraph(graphModel(SAMPLES[name]!), NONE, NONE);
  const { places } = layoutGraph(layoutInput(visible));
  const byId = new Map([...visible.boxes.keys()].map((id, at) => [id, places[at]!]));
  return (from: string, ...keys: string[]) => keys.reduce((at, key) => walkedTo(visible, byId, at, key), from);
}

test("down goes along edges, into blocks and out of them, and up goes the same way back", () => {
  const walk = walkerOf("code-of-every-kind");
  expect(walk("load", "ArrowDown")).toBe("join");
  expect(walk("load", "ArrowDown", "ArrowDown")).toBe("join/left");
  expect(walk("join/left/first", "ArrowDown")).toBe("join/left/second");
  expect(walk("join/left/second", "ArrowDown")).toBe("race");
  expect(walk("join/left/first", "ArrowUp")).toBe("join/left");
  expect(walk("join", "ArrowUp")).toBe("load");
});

test("left and right go to what stands beside, and Home to the start", () => {
  const walk = walkerOf("code-of-every-kind");
  expect(walk("join/left", "ArrowRight")).toBe("join/right");
  expect(walk("join/right", "ArrowLeft")).toBe("join/left");
  expect(walk("join/right", "ArrowRight")).toBe("");
  expect(walk("race", "Home")).toBe("load");
});

test("lists with captions are no steps: walking passes through them", () => {
  const walk = walkerOf("plan-release");
  expect(walk("gate", "ArrowDown")).toBe("images");
  expect(walk("images", "ArrowUp")).toBe("gate");
});

test("every step of a tree is reached by going down, and right opens what is folded", () => {
  const model = graphModel(SAMPLES["code-of-every-kind"]!);
  const rows = treeRows(model, NONE, false);
  let [at, seen] = [rows[0]!.id, 1];
  for (let step = treeStep(rows, at, "ArrowDown"); step && "focus" in step; step = treeStep(rows, at, "ArrowDown")) [at, seen] = [step.focus, seen + 1];
  expect(seen).toBe(rows.length);
  expect(treeStep(rows, "map:item", "ArrowRight")).toEqual({ id: "map:item", isFolded: false });
  expect(treeStep(rows, "join/left/first", "ArrowLeft")).toEqual({ focus: "join/left" });
  expect(treeStep(rows, "join", "ArrowLeft")).toEqual({ id: "join", isFolded: true });
  expect(rows.find((row) => row.id === "join/right")).toMatchObject({ depth: 2, position: 2, count: 2 });
});

test("of a loop, the tree has every turn, and the last one is open", () => {
  const rows = treeRows(graphModel(SAMPLES["code-of-every-kind"]!), NONE, false);
  expect(rows.filter((row) => row.parent === "poll").map((row) => row.isOpen)).toEqual([false, false, false, true]);
});

test("a box of items counts the states of its items, and a block those of its steps", () => {
  const graph = SAMPLES["code-of-every-kind"]!;
  const counts = stateCounts(graphModel(graph), graph.nodes);
  expect(counts.get("map:item")).toEqual({ completed: 24 });
  expect(counts.get("join")).toEqual({ completed: 3 });
});
