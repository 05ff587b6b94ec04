// Graphs to look at and to test with: of real definitions and executions (`fixtures`), and made ones of any size.
import type { ShownEdge, ShownGraph, ShownNode } from "./graph-model";

const FILES = import.meta.glob<ShownGraph>("./fixtures/*.json", { eager: true, import: "default" });

/** Graphs of definitions and executions in the examples and the tests of Perdure, by name. */
export const SAMPLES: Readonly<Record<string, ShownGraph>> = Object.fromEntries(
  Object.entries(FILES).map(([path, graph]) => [path.replace(/^.*\/(.+)\.json$/, "$1"), graph]),
);

/** A node with the usual values, for graphs that are made. */
export function sampleNode(id: string, given: Partial<ShownNode> = {}): ShownNode {
  const state = given.state === undefined ? null : given.state;
  return { id, kind: "tool", name: "", detail: "tool work", modifiers: [], block: "", region: 0, path: id, passages: 0, attempts: 0, startedAt: null, completedAt: null, ...given, state };
}

/** A graph with the usual values, for graphs that are made. Pairs are edges. */
export function sampleGraph(nodes: ShownNode[], edges: (ShownEdge | readonly [string, string])[] = [], given: Partial<ShownGraph> = {}): ShownGraph {
  const regions = [{ parent: -1, block: "", isCycle: false, max: 0, caption: "" }];
  return { name: "sample", version: "", definition: "", order: "", at: 0, nodes, edges: edges.map(sampleEdge), regions, ...given };
}

function sampleEdge(edge: ShownEdge | readonly [string, string]): ShownEdge {
  return "source" in edge ? edge : { source: edge[0], target: edge[1], label: "", isBack: false, isTaken: false };
}

/** A graph of so many steps in layers, each step with up to `fan` edges into the next layer: no two have the same, so that nothing folds. */
export function layeredSample(count: number, width = 25, fan = 2): ShownGraph {
  const nodes = Array.from({ length: count }, (_, at) => sampleNode(`step_${at}`, { name: `Step ${at}`, state: "not_reached" }));
  const edges: (readonly [string, string])[] = [];
  for (let at = width; at < count; at += 1) {
    const above = Math.floor(at / width) * width - width;
    for (let way = 0; way < fan; way += 1) edges.push([`step_${above + ((at * 7 + way * (1 + (Math.floor(at / width) % 5))) % width)}`, `step_${at}`] as const);
  }
  return sampleGraph(nodes, [...new Map(edges.map((edge) => [edge.join(), edge])).values()]);
}

const STATES: readonly ShownNode["state"][] = ["performing", "completed", "retrying", "performing", "completed", "failed"];

/** The graph after some more steps have changed; steps that have not are the same objects. */
export function changedSample(graph: ShownGraph, changes: number, round: number): ShownGraph {
  const nodes = [...graph.nodes];
  const changed = new Set<string>();
  for (let at = 0; at < changes && nodes.length > 0; at += 1) {
    const place = (round * changes + at * 7) % nodes.length;
    const node = nodes[place]!;
    changed.add(node.id);
    nodes[place] = { ...node, state: STATES[(round + at) % STATES.length]!, attempts: 1 + ((round + at) % 3), passages: 1, startedAt: "2026-01-01T10:00:00Z", completedAt: "2026-01-01T10:00:02.5Z" };
  }
  const edges = graph.edges.map((edge) => (!edge.isTaken && changed.has(edge.target) ? { ...edge, isTaken: true } : edge));
  return { ...graph, at: graph.at + changes, nodes, edges };
}
