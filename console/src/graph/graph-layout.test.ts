import { describe, expect, test } from "vitest";
import { visibleGraph } from "./graph-folding";
import { DAGRE_BOXES_MAX, layoutGraph, layoutInput, type Place } from "./graph-layout";
import { graphModel, type ShownGraph } from "./graph-model";
import { layeredSample, sampleGraph, sampleNode, SAMPLES } from "./graph-samples";

function laidOut(graph: ShownGraph, folds = new Map<string, boolean>()) {
  const visible = visibleGraph(graphModel(graph), folds, new Map());
  const made = layoutGraph(layoutInput(visible));
  return { visible, ...made, byId: new Map([...visible.boxes.keys()].map((id, at) => [id, made.places[at]!])) };
}

const overlap = (a: Place, b: Place) => a.x < b.x + b.width - 0.5 && b.x < a.x + a.width - 0.5 && a.y < b.y + b.height - 0.5 && b.y < a.y + a.height - 0.5;
const inside = (inner: Place, outer: Place) => inner.x >= outer.x - 0.5 && inner.y >= outer.y - 0.5 && inner.x + inner.width <= outer.x + outer.width + 0.5 && inner.y + inner.height <= outer.y + outer.height + 0.5;

describe.each(Object.keys(SAMPLES))("%s", (name) => {
  for (const isOpen of [false, true]) {
    const folds = new Map(isOpen ? [...graphModel(SAMPLES[name]!).boxes.keys()].map((id) => [id, false]) : []);

    test(`boxes of a list do not overlap, and stand inside the box around them${isOpen ? ", all open" : ""}`, () => {
      const { visible, byId } = laidOut(SAMPLES[name]!, folds);
      const all = [...visible.boxes.values()];
      for (const one of all) {
        const place = byId.get(one.id)!;
        if (one.parent) expect(inside(place, byId.get(one.parent)!), `${one.id} in ${one.parent}`).toBe(true);
        for (const other of all) if (other.parent === one.parent && other.id > one.id) expect(overlap(place, byId.get(other.id)!), `${one.id} over ${other.id}`).toBe(false);
      }
    });
  }

  test("what follows stands below, and each edge has a way that begins and ends at its boxes", () => {
    const { visible, byId, ways } = laidOut(SAMPLES[name]!);
    visible.edges.forEach((edge, at) => {
      const [from, to] = [byId.get(edge.source)!, byId.get(edge.target)!];
      if (!edge.isBack && edge.source !== edge.target) expect(to.y, edge.id).toBeGreaterThanOrEqual(from.y + from.height);
      expect(ways[at]!.points.length, edge.id).toBeGreaterThan(1);
    });
  });

  test("the same structure has the same layout, whatever the states are", () => {
    const graph = SAMPLES[name]!;
    const other = { ...graph, nodes: graph.nodes.map((node) => ({ ...node, state: "failed" as const, attempts: 7 })) };
    expect(laidOut(other).places).toEqual(laidOut(graph).places);
  });
});

test("an empty graph and a single step have a layout", () => {
  expect(laidOut(sampleGraph([]))).toMatchObject({ places: [], width: 0, height: 0 });
  expect(laidOut(sampleGraph([sampleNode("only")])).places).toHaveLength(1);
});

test("forty unrelated steps are not one endless row", () => {
  const { width, height } = laidOut(sampleGraph(Array.from({ length: 40 }, (_, at) => sampleNode(`n${at}`))), new Map([["/items/n0", false]]));
  expect(width / height).toBeLessThan(4);
});

test("more steps than dagre can place are laid out in layers, fast", () => {
  const started = performance.now();
  const { byId, visible } = laidOut(layeredSample(10_000, 50));
  expect(visible.boxes.size).toBeGreaterThan(DAGRE_BOXES_MAX);
  for (const edge of visible.edges) if (byId.get(edge.target)!.y <= byId.get(edge.source)!.y) throw new Error(`${edge.target} is not below ${edge.source}`);
  expect(performance.now() - started).toBeLessThan(40_000);
}, 60_000);

test("a circle of edges that none declares as leading back is laid out as well", () => {
  expect(laidOut(sampleGraph([sampleNode("a"), sampleNode("b")], [["a", "b"], ["b", "a"]])).places).toHaveLength(2);
});
