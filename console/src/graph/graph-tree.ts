// The tree that says the same as the graph: a row for each box, with those inside it below, and how arrow keys walk through it.
import { isFoldable, type FoldChoices, type VisibleGraph } from "./graph-folding";
import { ROOT, type Box, type GraphModel } from "./graph-model";

/** A row of the tree. `isOpen` is null if nothing is inside; `position` counts from 1 among `count` rows of the same parent. */
export interface TreeRow {
  id: string;
  box: Box;
  parent: string;
  depth: number;
  isOpen: boolean | null;
  position: number;
  count: number;
}

/** The rows in sight, from top to bottom. Of a loop, the last turn is open at first. */
export function treeRows(model: GraphModel, folds: FoldChoices, isLarge: VisibleGraph["isLarge"]): TreeRow[] {
  const rows: TreeRow[] = [];
  const waiting: [string, number, number, number][] = [];
  const push = (box: Box, depth: number) => {
    for (let at = box.children.length - 1; at >= 0; at -= 1) waiting.push([box.children[at]!, depth, at + 1, box.children.length]);
  };
  push(model.boxes.get(ROOT)!, 1);
  while (waiting.length > 0) {
    const [id, depth, position, count] = waiting.pop()!;
    const box = model.boxes.get(id)!;
    const isOpen = box.children.length === 0 ? null : !(folds.get(id) ?? isFoldedAtFirst(model, box, isLarge));
    rows.push({ id, box, parent: box.parent === ROOT ? "" : box.parent, depth, isOpen, position, count });
    if (isOpen) push(box, depth + 1);
  }
  return rows;
}

function isFoldedAtFirst(model: GraphModel, box: Box, isLarge: boolean): boolean {
  const outer = model.boxes.get(box.parent);
  if (outer?.form === "loop") return outer.children[outer.children.length - 1] !== box.id;
  return isFoldable(box) && (box.form === "items" || isLarge);
}

/** What a key does in the tree: another row gets the focus, or a row is folded or opened. */
export type TreeStep = { focus: string } | { id: string; isFolded: boolean };

/** The step of a key as trees have it: up and down, right opens or goes inside, left folds or goes outside, Home and End. Null: the key does nothing. */
export function treeStep(rows: readonly TreeRow[], id: string, key: string): TreeStep | null {
  const at = rows.findIndex((row) => row.id === id);
  const row = rows[at];
  if (!row) return rows[0] ? { focus: rows[0].id } : null;
  const to = (other: TreeRow | undefined) => (other ? { focus: other.id } : null);
  switch (key) {
    case "ArrowDown":
      return to(rows[at + 1]);
    case "ArrowUp":
      return to(rows[at - 1]);
    case "Home":
      return to(rows[0]);
    case "End":
      return to(rows[rows.length - 1]);
    case "ArrowRight":
      if (row.isOpen === null) return null;
      return row.isOpen ? to(rows[at + 1]) : { id, isFolded: false };
    case "ArrowLeft":
      return row.isOpen ? { id, isFolded: true } : row.parent === "" ? null : { focus: row.parent };
    default:
      return null;
  }
}
