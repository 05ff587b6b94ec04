// Undo gives back every byte, and typing is undone as one.
import { expect, test } from "vitest";
import { applyChanges, type ChangeSet } from "./text-change";
import { historyEntry, NO_HISTORY, recorded } from "./text-history";

test("typing at one place is one entry, and another place begins a new one", () => {
  let history = NO_HISTORY;
  let text = "";
  const type = (changes: ChangeSet, atMs: number) => {
    history = recorded(history, historyEntry(text, [changes], "Typing", atMs), true);
    text = applyChanges(text, changes);
  };
  type([{ from: 0, to: 0, insert: "a" }], 0);
  type([{ from: 1, to: 1, insert: "b" }], 100);
  type([{ from: 2, to: 2, insert: "\n" }], 200);
  type([{ from: 3, to: 3, insert: "c" }], 300);
  type([{ from: 0, to: 0, insert: "d" }], 400);
  type([{ from: 1, to: 1, insert: "e" }], 2_000);
  expect(history.past).toHaveLength(4);
  for (const entry of [...history.past].reverse()) for (const changes of entry.inverse) text = applyChanges(text, changes);
  expect(text).toBe("");
});
