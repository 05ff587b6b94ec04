import fc from "fast-check";
import { expect, test } from "vitest";
import { OPEN_MAX, readFolds, readTurns, seenBox, visibleGraph, writeFolds, writeTurns } from "./graph-folding";
import { graphModel } from "./graph-model";
import { layeredSample, sampleGraph, sampleNode, SAMPLES } from "./graph-samples";

const NONE = new Map<string, never>();
const code = graphModel(SAMPLES["code-of-every-kind"]!);

test("items are folded at first, and blocks are open", () => {
  const seen = visibleGraph(code, NONE, NONE);
  expect(seen.boxes.get("map:item")).toMatchObject({ isOpen: false, children: [] });
  expect(seen.boxes.get("join/left")).toMatchObject({ isOpen: true });
  expect(seen.edges.map((edge) => [edge.source, edge.target])).toContainEqual(["map:item", "poll"]);
});

test("what a person chooses has precedence, and edges of what is folded lead to its box", () => {
  const seen = visibleGraph(code, new Map([["map:item", false], ["join", true]]), NONE);
  expect(seen.boxes.get("map:item")!.children).toHaveLength(24);
  expect(seen.boxes.has("join/left")).toBe(false);
  expect(seenBox(code, seen.boxes, "join/left/first")).toBe("join");
  const items = new Set(seen.boxes.get("map:item")!.children);
  expect(seen.edges.filter((edge) => items.has(edge.source) && items.has(edge.target))).toEqual([]);
});

test("a loop shows its last turn, or the one that is chosen, or the last if that is forgotten", () => {
  const shown = (turn?: number) => visibleGraph(code, NONE, turn === undefined ? NONE : new Map([["poll", turn]])).boxes.get("poll")!;
  expect(shown()).toMatchObject({ turn: 4, turns: [1, 2, 3, 4], children: ["poll/~4/ask"] });
  expect(shown(2)).toMatchObject({ turn: 2, children: ["poll/~2/ask"] });
  expect(shown(99)).toMatchObject({ turn: 4 });
});

test("a graph with too many boxes has its blocks folded at first, and a person may open them", () => {
  const regions = [{ parent: -1, block: "", isCycle: false, max: 0, caption: "" }, { parent: 0, block: "b", isCycle: false, max: 0, caption: "" }];
  const steps = Array.from({ length: OPEN_MAX + 1 }, (_, at) => sampleNode(`s${at}`, { block: "b", region: 1 }));
  const chain = steps.slice(1).map((node, at) => [`s${at}`, node.id] as const);
  const model = graphModel(sampleGraph([sampleNode("b", { kind: "do" }), ...steps], chain, { regions }));
  expect(visibleGraph(model, NONE, NONE)).toMatchObject({ isLarge: true, top: ["b"], edges: [] });
  expect(visibleGraph(model, new Map([["b", false]]), NONE).boxes.size).toBe(OPEN_MAX + 2);
});

test("edges between the same boxes are one, labelled unless one of them is taken by default", () => {
  const edge = (label: string) => ({ source: "a", target: "b", label, isBack: false, isTaken: false });
  const labels = (...given: string[]) => visibleGraph(graphModel(sampleGraph([sampleNode("a"), sampleNode("b")], given.map(edge))), NONE, NONE).edges.map((one) => one.label);
  expect(labels("true", "false")).toEqual(["true / false"]);
  expect(labels("", "error")).toEqual([""]);
});

test("choices survive an address, whatever the ids are", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string({ minLength: 1, unit: "grapheme" }), fc.boolean())), (pairs) => {
      const folds = new Map(pairs);
      expect(readFolds(writeFolds(folds))).toEqual(folds);
    }),
  );
  expect(readTurns(writeTurns(new Map([["a.b/~1,c", 3]])))).toEqual(new Map([["a.b/~1,c", 3]]));
  expect([readFolds("x,,f.,%"), readTurns("a.x,.3")]).toEqual([new Map(), new Map()]);
});

test("ten thousand steps are looked through in seconds", () => {
  const started = performance.now();
  const seen = visibleGraph(graphModel(layeredSample(10_000, 50)), NONE, NONE);
  expect(seen.boxes.size).toBeGreaterThan(5000);
  expect(performance.now() - started).toBeLessThan(40_000);
}, 60_000);
