// What the boxes of a graph say: their titles, the line below, and the sentence for those who hear it.
import { stateWord } from "@/words/states";
import { countText } from "@/words/times";
import type { Box, LeftWay, ShownNode } from "./graph-model";
import { inOrder, nodeFacts, type StateCounts } from "./graph-states";

/** The title of a box. */
export function boxTitle(box: Box, node: ShownNode | undefined): string {
  if (node) return node.name || node.id;
  if (box.form === "items") return box.caption || "items";
  if (box.form === "cycle") return box.turnsMax > 0 ? `cycle, at most ${box.turnsMax} turns` : "cycle";
  return box.caption || "inside";
}

/** What a box does, in a line. */
export function boxDetail(box: Box, node: ShownNode | undefined, withModifiers = true): string {
  const items = box.form === "items" ? [`${box.children.length} in parallel`] : [];
  if (!node) return items.join();
  const does = node.detail === "branches" ? "" : node.detail.replace(/, \d+ attempts$/, "");
  return [does, ...(withModifiers ? node.modifiers : []), ...items].filter((part) => part !== "").join(" · ");
}

/** What earlier executions did where this one has left their way: "3 did left and 1 did right". */
export function insteadText({ examples, instead }: LeftWay): string {
  const others = Object.entries(instead).map(([step, count]) => `${count === examples ? "all" : countText(count)} did ${step}`);
  const still = examples - Object.values(instead).reduce((sum, one) => sum + one, 0);
  if (still > 0) others.push(`${still === examples ? "all" : countText(still)} did nothing more`);
  return others.length < 2 ? others.join("") : `${others.slice(0, -1).join(", ")} and ${others.at(-1)}`;
}

/** When and how often a step runs: "each @items · when @input.n > 1". */
export function modifiersText(node: ShownNode): string {
  return node.modifiers.join(" · ");
}

/** How many are in which state: "21 completed, 3 failed". Of a plan, how many steps it has. */
export function countsText(counts: StateCounts): string {
  return inOrder(Object.entries(counts))
    .map(([state, count]) => (state === "plan" ? `${count} ${count === 1 ? "step" : "steps"}` : `${count} ${stateWord(state).word}`))
    .join(", ");
}

/** The state and what has happened, in a line: "failed · 3 attempts · 2.1 s". Empty in a plan. */
export function factsText(node: ShownNode): string {
  return node.state === null ? "" : [stateWord(node.state).word, ...nodeFacts(node)].join(" · ");
}

/** All of it, as a sentence that a screen reader says and a title shows. */
export function boxSentence(box: Box, node: ShownNode | undefined, counts: StateCounts | undefined): string {
  const said = [boxTitle(box, node), boxDetail(box, node)];
  if (node) said.push(factsText(node));
  if (counts) said.push(countsText(counts));
  return said.filter((part) => part !== "").join("; ");
}
