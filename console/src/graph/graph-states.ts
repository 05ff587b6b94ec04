// The states of boxes: that of a node, or for a box of several how many are in which state; and the texts that say it.
import { durationText } from "@/words/times";
import { innerFirst, type Box, type GraphModel, type ShownGraph, type ShownNode } from "./graph-model";

export type StateCounts = Readonly<Record<string, number>>;

/** The order of states in bars and legends, the most urgent first. */
export const STATE_ORDER = [
  "failed",
  "abandoned",
  "parked",
  "interrupted",
  "retrying",
  "waiting_approval",
  "performing",
  "ending",
  "waiting",
  "completed",
  "skipped",
  "cancelled",
  "not_taken",
  "not_reached",
] as const;

const ACTIVE = new Set(["performing", "ending", "retrying", "interrupted", "parked", "waiting", "waiting_approval"]);

/** Whether something goes on in this state, or is waited for. */
export function isActive(state: string | null): boolean {
  return state !== null && ACTIVE.has(state);
}

/** Whether nothing has happened in this state. */
export function isGhost(state: string | null): boolean {
  return state === "not_taken" || state === "not_reached";
}

/** How many nodes are in which state, by the ids of boxes that contain any. A block that is no item counts by what is inside. */
export function stateCounts(model: GraphModel, nodes: readonly ShownNode[]): Map<string, StateCounts> {
  const found = new Map<string, StateCounts>();
  for (const id of innerFirst(model.boxes)) {
    const box = model.boxes.get(id)!;
    if (box.children.length === 0) continue;
    const sum: Record<string, number> = {};
    for (const inner of box.children) addCounts(sum, box, model.boxes.get(inner)!, nodes, found);
    found.set(id, sum);
  }
  return found;
}

function addCounts(sum: Record<string, number>, outer: Box, inner: Box, nodes: readonly ShownNode[], found: ReadonlyMap<string, StateCounts>): void {
  const isOne = inner.node >= 0 && (outer.form === "items" || outer.form === "loop" || inner.children.length === 0);
  if (isOne) {
    const state = nodes[inner.node]!.state ?? "plan";
    sum[state] = (sum[state] ?? 0) + 1;
    return;
  }
  for (const [state, count] of Object.entries(found.get(inner.id) ?? {})) sum[state] = (sum[state] ?? 0) + count;
}

/** How many nodes of a graph are in which state, in the order of legends; blocks count as well. */
export function countedStates(graph: ShownGraph): [string, number][] {
  const found = new Map<string, number>();
  for (const node of graph.nodes) if (node.state !== null) found.set(node.state, (found.get(node.state) ?? 0) + 1);
  return inOrder(found);
}

/** Counts in the order of legends; states that this page does not know come last. */
export function inOrder(counts: Iterable<[string, number]>): [string, number][] {
  const place = (state: string) => (STATE_ORDER as readonly string[]).indexOf(state) >>> 0;
  return [...counts].sort(([a], [b]) => place(a) - place(b) || (a < b ? -1 : 1));
}

/** How long a step took, in a few characters; empty if it has not both begun and ended. */
function tookText(node: Pick<ShownNode, "startedAt" | "completedAt">): string {
  if (!node.startedAt || !node.completedAt) return "";
  const ms = Date.parse(node.completedAt) - Date.parse(node.startedAt);
  return Number.isFinite(ms) && ms >= 0 ? durationText(ms) : "";
}

/** Kinds of code whose own operation only records a result, so that its time says nothing of what is inside. */
const CONTAINERS = new Set(["branches", "branch", "iteration"]);

/** What has happened at a node besides its state: "2 attempts", "3 turns", "1.2 s". */
export function nodeFacts(node: ShownNode): string[] {
  const facts: string[] = [];
  if (node.attempts > 1) facts.push(`${node.attempts} attempts`);
  if (node.passages > 1) facts.push(`turn ${node.passages}`);
  const took = isActive(node.state) || CONTAINERS.has(node.kind) ? "" : tookText(node);
  if (took) facts.push(took);
  return facts;
}
