// What of a graph is seen: which boxes are folded, which turn of a loop is shown, and between which boxes the edges lead then.
import { ROOT, type Box, type GraphModel } from "./graph-model";

/** With more boxes in sight than this, blocks are folded at first. */
export const OPEN_MAX = 400;

/** What a person has folded or opened, by the id of the box. */
export type FoldChoices = ReadonlyMap<string, boolean>;

/** Which turn of a loop a person looks at, by the id of its box: the number of the iteration, from 1. */
export type TurnChoices = ReadonlyMap<string, number>;

/** An edge between two boxes in sight, for all edges between what they contain. `edges` are their numbers. */
export interface VisibleEdge {
  id: string;
  source: string;
  target: string;
  label: string;
  isBack: boolean;
  edges: number[];
}

/** A box in sight. An open one has its `children`; of a loop, those are the steps of the turn that is shown. */
export interface VisibleBox {
  id: string;
  box: Box;
  parent: string;
  children: string[];
  isOpen: boolean;
  /** Of a loop: the number of the turn that is shown (0: it is no loop), and the numbers of those that are known. */
  turn: number;
  turns: readonly number[];
}

export interface VisibleGraph {
  /** By id, each box after the one around it; the root is not among them. */
  boxes: ReadonlyMap<string, VisibleBox>;
  top: readonly string[];
  edges: readonly VisibleEdge[];
  /** Whether blocks are folded at first, since there are too many boxes. */
  isLarge: boolean;
}

/** Reads the choices of an address: "f.ID" is folded and "o.ID" open, with commas between. */
export function readFolds(text: string | undefined): FoldChoices {
  const found = new Map<string, boolean>();
  for (const part of (text ?? "").split(",")) if (/^[fo]\../.test(part)) found.set(decoded(part.slice(2)), part.startsWith("f."));
  return found;
}

/** Writes choices for an address; none is undefined. */
export function writeFolds(choices: FoldChoices): string | undefined {
  return [...choices].map(([id, isFolded]) => `${isFolded ? "f" : "o"}.${encoded(id)}`).join(",") || undefined;
}

/** Reads the turns of an address: "ID.3" is the third turn. */
export function readTurns(text: string | undefined): TurnChoices {
  const found = new Map<string, number>();
  for (const part of (text ?? "").split(",")) {
    const [, id, turn] = /^(.+)\.(\d{1,9})$/.exec(part) ?? [];
    if (id !== undefined) found.set(decoded(id), Number(turn));
  }
  return found;
}

/** Writes turns for an address; none is undefined. */
export function writeTurns(choices: TurnChoices): string | undefined {
  return [...choices].map(([id, turn]) => `${encoded(id)}.${turn}`).join(",") || undefined;
}

function encoded(id: string): string {
  return encodeURIComponent(id);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Whether a box can be folded. */
export function isFoldable(box: Box): boolean {
  return box.children.length > 0 && (box.form === "block" || box.form === "loop" || box.form === "items");
}

/** What of a graph is seen under the choices of a person. It depends on the structure alone, never on states. */
export function visibleGraph(model: GraphModel, folds: FoldChoices, turns: TurnChoices): VisibleGraph {
  const isLarge = countOpen(model, folds) > OPEN_MAX;
  const boxes = new Map<string, VisibleBox>();
  const isFolded = (box: Box) => isFoldable(box) && (folds.get(box.id) ?? (box.form === "items" || isLarge));
  const waiting: [string, string][] = [...model.boxes.get(ROOT)!.children].reverse().map((id) => [id, ""]);
  while (waiting.length > 0) {
    const [id, parent] = waiting.pop()!;
    const box = model.boxes.get(id)!;
    const isOpen = box.children.length > 0 && !isFolded(box);
    const known = box.form === "loop" ? turnNumbers(box) : NO_TURNS;
    const place = known.length > 0 ? chosenPlace(known, turns.get(id)) : -1;
    const inside = place >= 0 ? model.boxes.get(box.children[place]!)!.children : box.children;
    const children = isOpen ? inside : [];
    boxes.set(id, { id, box, parent, children, isOpen, turn: known[place] ?? 0, turns: known });
    for (let at = children.length - 1; at >= 0; at -= 1) waiting.push([children[at]!, id]);
  }
  return { boxes, top: model.boxes.get(ROOT)!.children, edges: visibleEdges(model, boxes), isLarge };
}

const NO_TURNS: readonly number[] = [];

/** The numbers of the turns of a loop, of which a log may have only the last ones. */
function turnNumbers(box: Box): number[] {
  return box.children.map((id, at) => Number(/~(\d+)$/.exec(id)?.[1] ?? at + 1));
}

/** Where the chosen turn stands; the last one, if none is chosen or it is not known any more. */
function chosenPlace(known: readonly number[], chosen: number | undefined): number {
  const place = chosen === undefined ? -1 : known.indexOf(chosen);
  return place < 0 ? known.length - 1 : place;
}

/** How many boxes are in sight when blocks are open and items are folded. */
function countOpen(model: GraphModel, folds: FoldChoices): number {
  let count = 0;
  const waiting = [ROOT];
  while (waiting.length > 0) {
    const box = model.boxes.get(waiting.pop()!)!;
    count += box.node >= 0 ? 1 : 0;
    if (box.form === "loop") waiting.push(...model.boxes.get(box.children[box.children.length - 1]!)!.children);
    else if (box.form !== "items" || folds.get(box.id) === false) waiting.push(...box.children);
  }
  return count;
}

/** The box in sight that stands for a box: itself, or the innermost around it that is in sight. Empty if there is none. */
export function seenBox(model: GraphModel, boxes: ReadonlyMap<string, VisibleBox>, id: string): string {
  for (let at = id; at !== "" && at !== ROOT; at = model.boxes.get(at)?.parent ?? "") if (boxes.has(at)) return at;
  return "";
}

/** One edge for all between the same two boxes in the same direction. Inside a box of items there are none: they are a set. */
function visibleEdges(model: GraphModel, boxes: ReadonlyMap<string, VisibleBox>): VisibleEdge[] {
  const seen = model.byNode.map((id) => seenBox(model, boxes, id));
  const numbers = new Map(model.byNode.map((id, number) => [id, number]));
  const found = new Map<string, VisibleEdge & { labels: Set<string> }>();
  model.edges.forEach((edge, number) => {
    const [from, to] = [numbers.get(edge.source), numbers.get(edge.target)];
    if (from === undefined || to === undefined) return;
    const [source, target] = [seen[from]!, seen[to]!];
    const isInside = source === target && edge.source !== edge.target;
    if (source === "" || target === "" || isInside || isNested(boxes, source, target) || isAmongItems(boxes, source, target)) return;
    const id = `${edge.isBack ? "<" : ">"}${source}\n${target}`;
    const known = found.get(id);
    if (known) {
      known.edges.push(number);
      known.labels.add(edge.label);
    } else found.set(id, { id, source, target, label: "", isBack: edge.isBack, edges: [number], labels: new Set([edge.label]) });
  });
  return [...found.values()].map(({ labels, ...edge }) => ({ ...edge, label: labels.has("") ? "" : [...labels].join(" / ") }));
}

function isNested(boxes: ReadonlyMap<string, VisibleBox>, one: string, other: string): boolean {
  return one !== other && (isInsideOf(boxes, one, other) || isInsideOf(boxes, other, one));
}

function isInsideOf(boxes: ReadonlyMap<string, VisibleBox>, inner: string, outer: string): boolean {
  for (let at = boxes.get(inner)?.parent ?? ""; at !== ""; at = boxes.get(at)?.parent ?? "") if (at === outer) return true;
  return false;
}

function isAmongItems(boxes: ReadonlyMap<string, VisibleBox>, source: string, target: string): boolean {
  const parent = boxes.get(source)!.parent;
  return source !== target && parent === boxes.get(target)!.parent && boxes.get(parent)?.box.form === "items";
}
