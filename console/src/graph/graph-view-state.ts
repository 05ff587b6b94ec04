// What a viewer has chosen in a graph, as the search parameters of a page hold it: folded boxes, turns of loops, the filter, follow mode, and graph or tree.
import { readFolds, readTurns, writeFolds, writeTurns, type FoldChoices, type TurnChoices } from "./graph-folding";

/** The search parameters of a graph. All are text, and all may be left out. */
export interface GraphSearch {
  /** Folded and opened boxes, as `readFolds` reads them. */
  fold?: string | undefined;
  /** Turns of loops, as `readTurns` reads them. */
  turn?: string | undefined;
  /** States with commas between; only steps in them are shown in full. */
  states?: string | undefined;
  /** "1": what goes on is kept in view. */
  follow?: string | undefined;
  /** "tree": the tree is shown in place of the graph. */
  as?: string | undefined;
}

const NAMES = ["fold", "turn", "states", "follow", "as"] as const;

/** Those of them that the address of a page has. */
export function graphSearchOf(view: { text: (name: string) => string }): GraphSearch {
  return Object.fromEntries(NAMES.map((name) => [name, view.text(name) || undefined]));
}

/** The same, read. `states` is empty if all are shown. */
export interface GraphChoices {
  folds: FoldChoices;
  turns: TurnChoices;
  states: ReadonlySet<string>;
  isFollowing: boolean;
  isTree: boolean;
}

/** Reads search parameters. */
export function graphChoices(search: GraphSearch): GraphChoices {
  return {
    folds: readFolds(search.fold),
    turns: readTurns(search.turn),
    states: new Set((search.states ?? "").split(",").filter((state) => state !== "")),
    isFollowing: search.follow === "1",
    isTree: search.as === "tree",
  };
}

/** Writes what has changed as search parameters. */
export function graphSearch(change: Partial<GraphChoices>): GraphSearch {
  const found: GraphSearch = {};
  if (change.folds) found.fold = writeFolds(change.folds);
  if (change.turns) found.turn = writeTurns(change.turns);
  if (change.states) found.states = [...change.states].join(",") || undefined;
  if (change.isFollowing !== undefined) found.follow = change.isFollowing ? "1" : undefined;
  if (change.isTree !== undefined) found.as = change.isTree ? "tree" : undefined;
  return found;
}
