// The structure of a graph: boxes in boxes. A block is a box with its steps inside; parallel items of one kind, a captioned list and a cycle are boxes of their own.
import type { components } from "@generated/schema";

export type ShownGraph = components["schemas"]["ShownGraph"];
export type ShownNode = components["schemas"]["ShownNode"];
export type ShownEdge = components["schemas"]["ShownEdge"];
export type LeftWay = components["schemas"]["LeftWay"];
export type ShownRegion = components["schemas"]["ShownRegion"];

/** Parallel items of one kind become one box if there are more of them than this. */
export const ITEMS_MAX = 8;

export type BoxForm = "root" | "step" | "block" | "loop" | "list" | "items" | "cycle";

/** A box of the structure. A block of more than `ITEMS_MAX` parallel items has the form "items"; so has the box of such items in a list. `node` is the number of its node in the graph (-1: it has none), and `children` are the ids of the boxes directly inside. */
export interface Box {
  id: string;
  form: BoxForm;
  parent: string;
  children: string[];
  node: number;
  caption: string;
  /** Of a cycle: the bound on its turns (0: none). */
  turnsMax: number;
  /** How many nodes are inside, itself not counted. */
  size: number;
}

/** The boxes of a graph by id. Ids that begin with a slash are those of boxes that are no nodes; the root has the id "/". */
export interface GraphModel {
  boxes: ReadonlyMap<string, Box>;
  nodes: readonly ShownNode[];
  edges: readonly ShownEdge[];
  /** The boxes of nodes by their number. */
  byNode: readonly string[];
}

export const ROOT = "/";

/** Whether two graphs have the same boxes and edges, whatever their states are. Nodes that are the same objects are not looked into. */
export function sameStructure(one: ShownGraph, other: ShownGraph): boolean {
  return sameList(one.nodes, other.nodes, sameNode) && sameList(one.edges, other.edges, sameEdge) && sameList(one.regions, other.regions, sameRegion);
}

function sameList<T>(one: readonly T[], other: readonly T[], same: (a: T, b: T) => boolean): boolean {
  return one === other || (one.length === other.length && one.every((item, at) => item === other[at] || same(item, other[at] as T)));
}

function sameNode(a: ShownNode, b: ShownNode): boolean {
  return a.id === b.id && a.kind === b.kind && a.block === b.block && a.region === b.region && a.name === b.name;
}

function sameEdge(a: ShownEdge, b: ShownEdge): boolean {
  return a.source === b.source && a.target === b.target && a.label === b.label && a.isBack === b.isBack;
}

function sameRegion(a: ShownRegion, b: ShownRegion): boolean {
  return a.parent === b.parent && a.block === b.block && a.isCycle === b.isCycle && a.caption === b.caption && a.max === b.max;
}

/** Builds the boxes of a graph. What its data contradicts (a block that is not there, blocks inside each other) stands at the root. */
export function graphModel(graph: ShownGraph): GraphModel {
  const boxes = new Map<string, Box>();
  boxes.set(ROOT, newBox(ROOT, "root", ""));
  graph.nodes.forEach((node, number) => boxes.set(node.id, { ...newBox(node.id, "step", ROOT), node: number }));
  const regionBoxes = placeRegions(graph, boxes);
  graph.nodes.forEach((node) => {
    const own = boxes.get(node.id)!;
    own.parent = regionBoxes[node.region] ?? ROOT;
  });
  mendCircles(boxes);
  for (const box of boxes.values()) if (box.id !== ROOT) boxes.get(box.parent)!.children.push(box.id);
  removeEmpty(boxes);
  nameForms(boxes, graph.nodes);
  groupItems(boxes, graph);
  setSizes(boxes);
  return { boxes, nodes: graph.nodes, edges: graph.edges, byNode: graph.nodes.map((node) => node.id) };
}

function newBox(id: string, form: BoxForm, parent: string): Box {
  return { id, form, parent, children: [], node: -1, caption: "", turnsMax: 0, size: 0 };
}

/** The box of each region: that of its block, or one of its own if the block has several lists, if the list has a caption, or if it is a cycle. */
function placeRegions(graph: ShownGraph, boxes: Map<string, Box>): string[] {
  const lists = new Map<string, number>();
  graph.regions.forEach((region, number) => {
    if (number > 0 && !region.isCycle) lists.set(region.block, (lists.get(region.block) ?? 0) + 1);
  });
  const found: string[] = [];
  graph.regions.forEach((region, number) => {
    const block = boxes.has(region.block) ? region.block : ROOT;
    const isOwn = region.isCycle || region.caption !== "" || (lists.get(region.block) ?? 0) > 1;
    if (number === 0 || !isOwn) {
      found.push(number === 0 ? ROOT : block);
      return;
    }
    const id = region.isCycle ? `/cycle/${number}` : `/list/${number}`;
    const parent = region.isCycle ? (found[region.parent] ?? block) : block;
    boxes.set(id, { ...newBox(id, region.isCycle ? "cycle" : "list", parent), caption: region.caption, turnsMax: region.max });
    found.push(id);
  });
  return found;
}

/** A box that is inside itself, through others or directly, stands at the root. */
function mendCircles(boxes: Map<string, Box>): void {
  const good = new Set<string>([ROOT]);
  for (const start of boxes.keys()) {
    const way: string[] = [];
    const seen = new Set<string>();
    let at = start;
    while (!good.has(at) && !seen.has(at)) {
      seen.add(at);
      way.push(at);
      at = boxes.get(at)!.parent;
    }
    if (!good.has(at)) boxes.get(at)!.parent = ROOT;
    way.forEach((id) => good.add(id));
  }
}

/** Removes lists without steps, and cycles of one step, which its own edge shows. */
function removeEmpty(boxes: Map<string, Box>): void {
  for (const box of [...boxes.values()].reverse()) {
    const limit = box.form === "cycle" ? 1 : 0;
    if ((box.form !== "list" && box.form !== "cycle") || box.children.length > limit) continue;
    const outer = boxes.get(box.parent)!;
    outer.children.splice(outer.children.indexOf(box.id), 1, ...box.children);
    box.children.forEach((id) => (boxes.get(id)!.parent = box.parent));
    boxes.delete(box.id);
  }
}

function nameForms(boxes: Map<string, Box>, nodes: readonly ShownNode[]): void {
  for (const box of boxes.values()) {
    if (box.form !== "step" || box.children.length === 0) continue;
    const isLoop = box.children.every((id) => nodes[boxes.get(id)!.node]?.kind === "iteration");
    box.form = isLoop ? "loop" : "block";
  }
}

/** Puts more than `ITEMS_MAX` parallel items into a box: the branches of a block, and steps that follow the same steps and lead to the same ones. */
function groupItems(boxes: Map<string, Box>, graph: ShownGraph): void {
  const ends = edgeEnds(graph);
  for (const outer of [...boxes.values()]) {
    if (outer.children.length <= ITEMS_MAX || outer.form === "loop") continue;
    const areBranches = graph.nodes[outer.node]?.kind === "branches";
    const groups = new Map<string, string[]>();
    for (const id of outer.children) {
      if (boxes.get(id)!.node < 0 || ends.looped.has(id)) continue;
      const key = areBranches ? "" : `${ends.into.get(id) ?? ""}\n${ends.from.get(id) ?? ""}`;
      const known = groups.get(key);
      if (known) known.push(id);
      else groups.set(key, [id]);
    }
    for (const members of groups.values()) {
      if (members.length <= ITEMS_MAX) continue;
      const caption = commonName(members.map((id) => graph.nodes[boxes.get(id)!.node]!));
      if (outer.form === "block" && members.length === outer.children.length) Object.assign(outer, { form: "items", caption });
      else addItems(boxes, outer, members, caption);
    }
  }
}

function addItems(boxes: Map<string, Box>, outer: Box, members: string[], caption: string): void {
  const id = `/items/${members[0]}`;
  const inside = new Set(members);
  boxes.set(id, { ...newBox(id, "items", outer.id), children: members, caption });
  const at = outer.children.indexOf(members[0]!);
  outer.children = outer.children.filter((one) => !inside.has(one));
  outer.children.splice(at, 0, id);
  members.forEach((one) => (boxes.get(one)!.parent = id));
}

/** What the names of items have in common at their begin, without a number that is cut in the middle; else their kind. */
export function commonName(nodes: readonly ShownNode[]): string {
  const names = nodes.map((node) => node.name || node.id);
  let common = names[0] ?? "";
  for (const name of names) while (!name.startsWith(common)) common = common.slice(0, -1);
  const isName = names.includes(common) && names.every((name) => name === common || name[common.length] === "#");
  const word = isName ? common : common.replace(/[\s\d#_:.,/-]*$/u, "").replace(/[\s_-](?:ID|id|no|nr)$/u, "");
  const kinds = new Set(nodes.map((node) => node.kind));
  return word.length > 1 ? word : kinds.size === 1 ? [...kinds][0]! : "";
}

function edgeEnds(graph: ShownGraph): { into: Map<string, string>; from: Map<string, string>; looped: Set<string> } {
  const into = new Map<string, string>();
  const from = new Map<string, string>();
  const looped = new Set<string>();
  const numbers = new Map(graph.nodes.map((node, number) => [node.id, number]));
  const bySource = [...graph.edges].sort((a, b) => (numbers.get(a.source) ?? 0) - (numbers.get(b.source) ?? 0));
  for (const edge of bySource) into.set(edge.target, `${into.get(edge.target) ?? ""}${numbers.get(edge.source)}:${edge.label} `);
  const byTarget = [...graph.edges].sort((a, b) => (numbers.get(a.target) ?? 0) - (numbers.get(b.target) ?? 0));
  for (const edge of byTarget) from.set(edge.source, `${from.get(edge.source) ?? ""}${numbers.get(edge.target)}:${edge.label} `);
  for (const edge of graph.edges) if (edge.isBack) looped.add(edge.source).add(edge.target);
  return { into, from, looped };
}

function setSizes(boxes: Map<string, Box>): void {
  for (const id of innerFirst(boxes)) {
    const box = boxes.get(id)!;
    box.size = box.children.reduce((sum, one) => sum + boxes.get(one)!.size + (boxes.get(one)!.node >= 0 ? 1 : 0), 0);
  }
}

/** The ids of all boxes, each after those inside it. */
export function innerFirst(boxes: ReadonlyMap<string, Box>): string[] {
  const found: string[] = [];
  const waiting = [ROOT];
  while (waiting.length > 0) {
    const id = waiting.pop()!;
    found.push(id);
    waiting.push(...boxes.get(id)!.children);
  }
  return found.reverse();
}
