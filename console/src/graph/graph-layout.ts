// Where boxes stand and how edges run. Inner boxes are laid out before outer ones; the result depends on the structure alone, so nothing jumps when states change.
import { Graph, layout as dagreLayout } from "@dagrejs/dagre";
import type { VisibleGraph } from "./graph-folding";

export const STEP_WIDTH = 208;
export const STEP_HEIGHT = 66;
export const HEADER_HEIGHT = 44;
export const CAPTION_HEIGHT = 24;
const PADDING = 16;
const GAP = 28;
const RANK_GAP = 44;
const LABEL_CHARACTER = 6.4;
const CYCLE_MARGIN = 14;

/** With more boxes than this in one list, `layeredPlaces` replaces dagre, which would take minutes. */
export const DAGRE_BOXES_MAX = 500;
export const DAGRE_EDGES_MAX = 1200;

/** The structure as a layout needs it; `parent` is a number of a box before (-1: none). */
export interface LayoutInput {
  boxes: { parent: number; isOpen: boolean; form: string; width: number; height: number }[];
  edges: { source: number; target: number; label: number; isBack: boolean }[];
}

export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

/** The places of boxes and the ways of edges, in the order of the input; `label` is the middle of the label of an edge. */
export interface GraphLayout {
  places: Place[];
  ways: { points: Point[]; label: Point | null }[];
  width: number;
  height: number;
}

/** The structure of what is in sight, as plain data for a worker. */
export function layoutInput(visible: VisibleGraph): LayoutInput {
  const numbers = new Map([...visible.boxes.keys()].map((id, number) => [id, number]));
  return {
    boxes: [...visible.boxes.values()].map((one) => ({
      parent: one.parent === "" ? -1 : numbers.get(one.parent)!,
      isOpen: one.isOpen,
      form: one.box.form,
      width: STEP_WIDTH,
      height: STEP_HEIGHT,
    })),
    edges: visible.edges.map((edge) => ({ source: numbers.get(edge.source)!, target: numbers.get(edge.target)!, label: edge.label.length, isBack: edge.isBack })),
  };
}

/** Inner edge of a list: between boxes that stand in the same list, or the boxes around them that do. */
interface ListEdge {
  number: number;
  source: number;
  target: number;
  label: number;
  isBack: boolean;
}

/** Where a list has its boxes, with the left upper corner of all at 0, 0. */
interface ListPlaces {
  places: Map<number, Place>;
  ways: Map<number, { points: Point[]; label: Point | null }>;
  width: number;
  height: number;
}

/** Lays out a graph. */
export function layoutGraph(input: LayoutInput): GraphLayout {
  const lists = listsOf(input);
  const sizes = input.boxes.map(({ width, height }) => ({ width, height }));
  const found = new Map<number, ListPlaces>();
  for (let number = input.boxes.length - 1; number >= -1; number -= 1) {
    const box = input.boxes[number];
    if (box && (!box.isOpen || box.form === "cycle")) continue;
    const made = placeList(input, lists.members.get(number) ?? [], lists.edges.get(number) ?? [], sizes, box?.form === "items");
    found.set(number, made);
    if (box) {
      const top = headerHeight(box.form);
      sizes[number] = { width: Math.max(made.width + 2 * PADDING, STEP_WIDTH + 2 * PADDING), height: top + made.height + PADDING };
    }
  }
  return absolute(input, lists.home, found, sizes);
}

function headerHeight(form: string): number {
  return form === "list" ? CAPTION_HEIGHT : HEADER_HEIGHT + 8;
}

/** The members of each list (boxes in cycles included), its edges, and the list of each box. */
function listsOf(input: LayoutInput): { members: Map<number, number[]>; edges: Map<number, ListEdge[]>; home: number[] } {
  const home: number[] = [];
  const members = new Map<number, number[]>();
  input.boxes.forEach((box, number) => {
    const outer = box.parent >= 0 && input.boxes[box.parent]!.form === "cycle" ? home[box.parent]! : box.parent;
    home.push(outer);
    addTo(members, outer, number);
  });
  const edges = new Map<number, ListEdge[]>();
  input.edges.forEach((edge, number) => {
    const lifted = liftedEdge(home, edge.source, edge.target);
    if (lifted === null) return;
    const [list, source, target] = lifted;
    addTo(edges, list, { number, source, target, label: edge.label, isBack: edge.isBack });
  });
  return { members, edges, home };
}

/** The innermost list that has both ends of an edge inside, and the boxes there that contain them. */
function liftedEdge(home: readonly number[], source: number, target: number): [number, number, number] | null {
  const around = new Map<number, number>();
  for (let at = source; at >= 0; at = home[at]!) around.set(home[at]!, at);
  for (let at = target; at >= 0; at = home[at]!) {
    const from = around.get(home[at]!);
    if (from !== undefined) return [home[at]!, from, at];
  }
  return null;
}

type Sizes = { width: number; height: number }[];

function placeList(input: LayoutInput, members: number[], edges: ListEdge[], sizes: Sizes, isSet: boolean): ListPlaces {
  const hasCycles = members.some((number) => input.boxes[number]!.form === "cycle");
  const forward = edges.filter((edge) => edge.source !== edge.target);
  if (members.length === 0) return { places: new Map(), ways: new Map(), width: 0, height: 0 };
  if (isSet || (forward.length === 0 && !hasCycles)) {
    const areLists = members.every((number) => input.boxes[number]!.form === "list");
    return withLoops(gridPlaces(members, sizes, areLists ? members.length : gridColumns(members, sizes)), edges);
  }
  const linked = new Set(forward.flatMap((edge) => [edge.source, edge.target]));
  const apart = members.filter((number) => !linked.has(number) && input.boxes[number]!.form !== "cycle" && input.boxes[input.boxes[number]!.parent]?.form !== "cycle");
  const isApart = apart.length > 3 ? new Set(apart) : new Set<number>();
  const rest = members.filter((number) => !isApart.has(number));
  const main = rest.length > DAGRE_BOXES_MAX || forward.length > DAGRE_EDGES_MAX ? layeredPlaces(input, rest, forward, sizes) : dagrePlaces(input, rest, forward, edges.filter((edge) => edge.source === edge.target), sizes);
  return withLoops(isApart.size > 0 ? beneath(main, gridPlaces(apart, sizes, gridColumns(apart, sizes, main.width))) : main, edges);
}

/** So many columns that a grid is somewhat wider than high, or as wide as what it stands under. */
function gridColumns(members: number[], sizes: Sizes, width = 0): number {
  if (members.length <= 4 && width === 0) return members.length;
  const area = members.reduce((sum, number) => sum + (sizes[number]!.width + GAP) * (sizes[number]!.height + GAP), 0);
  const widest = Math.max(...members.map((number) => sizes[number]!.width)) + GAP;
  return Math.max(1, Math.min(members.length, Math.round(Math.max(Math.sqrt(area * 1.6), width) / widest)));
}

function gridPlaces(members: number[], sizes: Sizes, columns: number): ListPlaces {
  const places = new Map<number, Place>();
  const widths = Array.from({ length: columns }, (_, column) => members.reduce((most, number, at) => (at % columns === column ? Math.max(most, sizes[number]!.width) : most), 0));
  let y = 0;
  for (let first = 0; first < members.length; first += columns) {
    let [x, highest] = [0, 0];
    members.slice(first, first + columns).forEach((number, column) => {
      places.set(number, { x, y, ...sizes[number]! });
      x += widths[column]! + GAP;
      highest = Math.max(highest, sizes[number]!.height);
    });
    y += highest + GAP;
  }
  return { places, ways: new Map(), width: widths.reduce((sum, one) => sum + one + GAP, -GAP), height: y - GAP };
}

function beneath(upper: ListPlaces, lower: ListPlaces): ListPlaces {
  const places = new Map(upper.places);
  for (const [number, place] of lower.places) places.set(number, { ...place, y: place.y + upper.height + RANK_GAP });
  return { places, ways: upper.ways, width: Math.max(upper.width, lower.width), height: upper.height + RANK_GAP + lower.height };
}

/** How much room the edges from a box to itself take beside it. */
function loopWidths(loops: ListEdge[]): Map<number, number> {
  const found = new Map<number, number>();
  for (const edge of loops) found.set(edge.source, Math.max(found.get(edge.source) ?? 0, 40 + (edge.label ? (edge.label + 2) * LABEL_CHARACTER : 0)));
  return found;
}

/** Adds the edges from a box to itself: a bow at its right side. */
function withLoops(list: ListPlaces, edges: ListEdge[]): ListPlaces {
  for (const edge of edges) {
    const at = list.places.get(edge.source);
    if (edge.source !== edge.target || !at) continue;
    const [right, middle] = [at.x + at.width, at.y + at.height / 2];
    const points = [-0.25, -0.35, 0.35, 0.25].map((part, place) => ({ x: right + (place === 1 || place === 2 ? 26 : 0), y: middle + part * Math.min(at.height, STEP_HEIGHT) }));
    const half = edge.label ? ((edge.label + 2) * LABEL_CHARACTER) / 2 : 0;
    list.ways.set(edge.number, { points: points.reverse(), label: edge.label ? { x: right + 34 + half, y: middle } : null });
    list.width = Math.max(list.width, right + 34 + 2 * half);
  }
  return list;
}

/** Places the boxes of a list by dagre; its cycles are clusters, and edges that lead back run forward in it. */
function dagrePlaces(input: LayoutInput, members: number[], edges: ListEdge[], loops: ListEdge[], sizes: Sizes): ListPlaces {
  try {
    return placedByDagre(input, members, edges, loops, sizes, true);
  } catch {
    // dagre fails on some clusters that share nodes with edges in both directions; without clusters it places every graph
    return placedByDagre(input, members, edges, loops, sizes, false);
  }
}

function placedByDagre(input: LayoutInput, members: number[], edges: ListEdge[], loops: ListEdge[], sizes: Sizes, withClusters: boolean): ListPlaces {
  const graph = new Graph({ multigraph: true, compound: true });
  graph.setGraph({ rankdir: "TB", nodesep: GAP, ranksep: RANK_GAP, edgesep: 18, ranker: members.length > 200 ? "tight-tree" : "network-simplex" });
  const beside = loopWidths(loops);
  for (const number of members) {
    const isCycle = input.boxes[number]!.form === "cycle";
    if (isCycle && !withClusters) continue;
    const { width, height } = sizes[number]!;
    graph.setNode(String(number), isCycle ? {} : { width: width + 2 * (beside.get(number) ?? 0), height });
  }
  for (const number of members) {
    const parent = input.boxes[number]!.parent;
    if (withClusters && parent >= 0 && input.boxes[parent]!.form === "cycle") graph.setParent(String(number), String(parent));
  }
  for (const edge of edges) {
    const label = edge.label ? { width: edge.label * LABEL_CHARACTER + 14, height: 20, labelpos: "c" } : { width: edge.isBack ? 8 : 0, height: 0 };
    const [from, to] = edge.isBack ? [edge.target, edge.source] : [edge.source, edge.target];
    graph.setEdge(String(from), String(to), { ...label, weight: edge.isBack ? 1 : 2 }, String(edge.number));
  }
  dagreLayout(graph);
  return fromDagre(input, graph, members, edges, sizes, withClusters);
}

function fromDagre(input: LayoutInput, graph: Graph, members: number[], edges: ListEdge[], sizes: Sizes, withClusters: boolean): ListPlaces {
  const places = new Map<number, Place>();
  for (const number of members) {
    if (input.boxes[number]!.form === "cycle" && !withClusters) continue;
    const { x, y } = graph.node(String(number)) as unknown as Place;
    const { width, height } = sizes[number]!;
    places.set(number, { x: x - width / 2, y: y - height / 2, width, height });
  }
  surroundCycles(input, members, places);
  const ways = new Map<number, { points: Point[]; label: Point | null }>();
  for (const edge of edges) {
    const [from, to] = edge.isBack ? [edge.target, edge.source] : [edge.source, edge.target];
    const made = graph.edge({ v: String(from), w: String(to), name: String(edge.number) }) as unknown as { points: Point[]; x?: number; y?: number };
    const points = made.points.map(({ x, y }) => ({ x, y }));
    const isFree = !edge.isBack && edge.label === 0 && !isCrossed(input, members, places, edge);
    ways.set(edge.number, { points: isFree ? [points[0]!, points[points.length - 1]!] : edge.isBack ? points.reverse() : points, label: edge.label && made.x !== undefined ? { x: made.x, y: made.y! } : null });
  }
  return toCorner({ places, ways, width: 0, height: 0 });
}

/** Whether a straight line between two boxes would run through a third one, or close to it. */
function isCrossed(input: LayoutInput, members: number[], places: ReadonlyMap<number, Place>, edge: ListEdge): boolean {
  const [from, to] = [places.get(edge.source)!, places.get(edge.target)!];
  const [x, top, bottom] = [from.x + from.width / 2, from.y + from.height, to.y];
  const slope = (to.x + to.width / 2 - x) / Math.max(bottom - top, 1);
  return members.some((number) => {
    const place = places.get(number);
    if (!place || number === edge.source || number === edge.target || input.boxes[number]!.form === "cycle" || place.y >= bottom || place.y + place.height <= top) return false;
    const [first, second] = [x + slope * (Math.max(place.y, top) - top), x + slope * (Math.min(place.y + place.height, bottom) - top)];
    return Math.min(first, second) < place.x + place.width + GAP / 2 && Math.max(first, second) > place.x - GAP / 2;
  });
}

/** The place of a cycle is that of what it contains, with a margin and room for its caption; inner cycles first. */
function surroundCycles(input: LayoutInput, members: number[], places: Map<number, Place>): void {
  for (const number of [...members].reverse()) {
    if (input.boxes[number]!.form !== "cycle") continue;
    const inside = members.filter((one) => input.boxes[one]!.parent === number).map((one) => places.get(one)).filter((one) => one !== undefined);
    if (inside.length === 0) continue;
    const [left, top] = [Math.min(...inside.map((one) => one.x)) - CYCLE_MARGIN, Math.min(...inside.map((one) => one.y)) - CYCLE_MARGIN - 8];
    const right = Math.max(...inside.map((one) => one.x + one.width)) + CYCLE_MARGIN;
    const bottom = Math.max(...inside.map((one) => one.y + one.height)) + CYCLE_MARGIN;
    places.set(number, { x: left, y: top, width: right - left, height: bottom - top });
  }
}

/** Moves a list so that its left upper corner is at 0, 0, and sets its size. */
function toCorner(list: ListPlaces): ListPlaces {
  const [all, points] = [[...list.places.values()], [...list.ways.values()].flatMap((way) => way.points)];
  const left = all.concat(points.map((one) => ({ ...one, width: 0, height: 0 }))).reduce((least, one) => Math.min(least, one.x), Infinity);
  const top = all.reduce((least, one) => Math.min(least, one.y), Infinity);
  const moved = (one: Point) => ({ x: one.x - left, y: one.y - top });
  for (const [number, place] of list.places) list.places.set(number, { ...place, ...moved(place) });
  for (const way of list.ways.values()) {
    way.points = way.points.map(moved);
    way.label = way.label && moved(way.label);
  }
  list.width = all.reduce((most, one) => Math.max(most, one.x + one.width - left), points.reduce((most, one) => Math.max(most, one.x - left), 0));
  list.height = all.reduce((most, one) => Math.max(most, one.y + one.height - top), 0);
  return list;
}

const SWEEPS = 6;

/** Places very many boxes in layers, each below those that lead to it, and near the middle of them; edges run straight. Takes time in proportion to the edges. */
function layeredPlaces(input: LayoutInput, members: number[], edges: ListEdge[], sizes: Sizes): ListPlaces {
  const boxes = members.filter((number) => input.boxes[number]!.form !== "cycle");
  const layers = layersOf(boxes, edges.filter((edge) => !edge.isBack));
  orderLayers(layers, edges);
  const places = new Map<number, Place>();
  let y = 0;
  for (const layer of layers) {
    const width = layer.reduce((sum, number) => sum + sizes[number]!.width + GAP, -GAP);
    let x = -width / 2;
    for (const number of layer) {
      places.set(number, { x, y, ...sizes[number]! });
      x += sizes[number]!.width + GAP;
    }
    y += Math.max(...layer.map((number) => sizes[number]!.height)) + RANK_GAP * 1.5;
  }
  surroundCycles(input, members, places);
  const ways = new Map<number, { points: Point[]; label: Point | null }>();
  for (const edge of edges) {
    const [from, to] = [places.get(edge.source), places.get(edge.target)];
    if (from && to) ways.set(edge.number, straight(from, to, edge.label > 0));
  }
  return toCorner({ places, ways, width: 0, height: 0 });
}

function straight(from: Place, to: Place, hasLabel: boolean): { points: Point[]; label: Point | null } {
  const [start, end] = [{ x: from.x + from.width / 2, y: from.y + from.height }, { x: to.x + to.width / 2, y: to.y }];
  return { points: [start, end], label: hasLabel ? { x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 } : null };
}

/** The layers from top to bottom: each box is in the first one below all that lead to it. Boxes in a circle stand below what is not. */
function layersOf(boxes: number[], edges: ListEdge[]): number[][] {
  const after = new Map<number, number[]>();
  const open = new Map(boxes.map((number) => [number, 0]));
  for (const edge of edges) {
    open.set(edge.target, (open.get(edge.target) ?? 0) + 1);
    addTo(after, edge.source, edge.target);
  }
  const layers: number[][] = [];
  let layer = boxes.filter((number) => open.get(number) === 0);
  const left = new Set(boxes);
  while (left.size > 0) {
    if (layer.length === 0) layer = [[...left][0]!];
    layers.push(layer);
    layer.forEach((number) => left.delete(number));
    const next: number[] = [];
    for (const number of layer) {
      for (const target of after.get(number) ?? []) {
        open.set(target, open.get(target)! - 1);
        if (open.get(target) === 0 && left.has(target)) next.push(target);
      }
    }
    layer = next;
  }
  return layers;
}

/** Orders each layer by the mean place of the neighbours in the layer before, then after, some times. */
function orderLayers(layers: number[][], edges: ListEdge[]): void {
  const place = new Map<number, number>();
  const setPlaces = (layer: number[]) => layer.forEach((number, at) => place.set(number, (at + 0.5) / layer.length));
  layers.forEach(setPlaces);
  const [before, after] = [new Map<number, number[]>(), new Map<number, number[]>()];
  for (const edge of edges) {
    addTo(before, edge.target, edge.source);
    addTo(after, edge.source, edge.target);
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const near = sweep % 2 === 0 ? before : after;
    for (const layer of sweep % 2 === 0 ? layers : [...layers].reverse()) {
      const wanted = new Map(layer.map((number) => [number, mean((near.get(number) ?? [number]).map((one) => place.get(one) ?? 0.5))]));
      layer.sort((a, b) => wanted.get(a)! - wanted.get(b)! || a - b);
      setPlaces(layer);
    }
  }
}

function addTo<T>(lists: Map<number, T[]>, key: number, item: T): void {
  const known = lists.get(key);
  if (known) known.push(item);
  else lists.set(key, [item]);
}

function mean(numbers: number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}

/** Turns the places in lists into places in the whole, and gives each edge the ends of its own boxes. */
function absolute(input: LayoutInput, home: readonly number[], lists: ReadonlyMap<number, ListPlaces>, sizes: Sizes): GraphLayout {
  const corners = new Map<number, Point>([[-1, { x: 0, y: 0 }]]);
  const places: Place[] = [];
  input.boxes.forEach((box, number) => {
    const corner = corners.get(home[number]!) ?? { x: 0, y: 0 };
    const own = lists.get(home[number]!)?.places.get(number) ?? { x: 0, y: 0, ...sizes[number]! };
    const place = { ...own, x: round(corner.x + own.x), y: round(corner.y + own.y) };
    places.push(place);
    if (box.isOpen && box.form !== "cycle") {
      const inner = lists.get(number);
      const free = place.width - 2 * PADDING - (inner?.width ?? 0);
      corners.set(number, { x: place.x + PADDING + Math.max(free, 0) / 2, y: place.y + headerHeight(box.form) });
    }
  });
  const ways = input.edges.map(() => ({ points: [] as Point[], label: null as Point | null }));
  for (const [number, list] of lists) {
    const corner = corners.get(number)!;
    for (const [edge, way] of list.ways) ways[edge] = { points: way.points.map((one) => shifted(one, corner)), label: way.label && shifted(way.label, corner) };
  }
  input.edges.forEach((edge, number) => {
    if (edge.source !== edge.target) ways[number]!.points = withEnds(ways[number]!.points, places[edge.source]!, places[edge.target]!, edge.isBack);
  });
  const root = lists.get(-1)!;
  return { places, ways, width: round(root.width), height: round(root.height) };
}

function shifted(one: Point, corner: Point): Point {
  return { x: round(one.x + corner.x), y: round(one.y + corner.y) };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** An edge leaves a box in the middle below and enters the next one in the middle above; one that leads back does the reverse, right of the middle. */
function withEnds(points: Point[], from: Place, to: Place, isBack: boolean): Point[] {
  if (points.length < 2) return points;
  const inner = points.slice(1, -1);
  const goesUp = isBack ? from.y >= to.y + to.height : false;
  const aside = goesUp ? 0.3 : 0;
  const first = { x: round(from.x + from.width * (0.5 + aside)), y: goesUp ? from.y : from.y + from.height };
  const last = { x: round(to.x + to.width * (0.5 + aside)), y: goesUp ? to.y + to.height : to.y };
  return [first, ...inner, last];
}
