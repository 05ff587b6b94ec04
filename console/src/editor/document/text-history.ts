// The history of a text: every change with its inverse, for undo and redo across all views.
import { applyChanges, invertChanges, type ChangeSet } from "./text-change";

export interface HistoryEntry {
  /** What was done, in a few words: "Rename step pay". */
  label: string;
  /** One after the other. */
  changes: readonly ChangeSet[];
  inverse: readonly ChangeSet[];
  atMs: number;
}

export interface TextHistory {
  past: readonly HistoryEntry[];
  future: readonly HistoryEntry[];
}

export const NO_HISTORY: TextHistory = { past: [], future: [] };

/** Typing within so many milliseconds is undone at once. */
const TYPING_MS = 700;
const ENTRIES_MAX = 1000;

export function historyEntry(text: string, changes: readonly ChangeSet[], label: string, atMs: number): HistoryEntry {
  const inverse: ChangeSet[] = [];
  let current = text;
  for (const one of changes) {
    inverse.unshift(invertChanges(current, one));
    current = applyChanges(current, one);
  }
  return { label, changes, inverse, atMs };
}

export function recorded(history: TextHistory, entry: HistoryEntry, isTyping: boolean): TextHistory {
  const last = history.past.at(-1);
  if (isTyping && last !== undefined && last.label === entry.label && entry.atMs - last.atMs < TYPING_MS && continues(last, entry)) {
    const merged = { ...entry, changes: [...last.changes, ...entry.changes], inverse: [...entry.inverse, ...last.inverse] };
    return { past: [...history.past.slice(0, -1), merged], future: [] };
  }
  return { past: [...history.past, entry].slice(-ENTRIES_MAX), future: [] };
}

/** Whether typing goes on where it was. */
function continues(last: HistoryEntry, entry: HistoryEntry): boolean {
  const before = last.changes.at(-1)?.at(-1);
  const now = entry.changes[0]?.[0];
  if (before === undefined || now === undefined || before.insert.includes("\n")) return false;
  return now.from === before.from + before.insert.length || now.to === before.from || now.to === before.from + before.insert.length;
}
