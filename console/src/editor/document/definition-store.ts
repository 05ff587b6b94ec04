// The document that is edited: its text, what it says, and its history. All views read it and change it here.
import { stepTree, isNativeFormat, type StepTree } from "../model/step-tree";
import type { Action } from "../model/step-edits";
import { EditRefused } from "./plain-edits";
import type { Plain } from "./plain-values";
import { newlineOf, parseSource, valueOf, type SourceDocument, type SourceProblem } from "./source-tree";
import { applyChanges, changeBetween, type ChangeSet } from "./text-change";
import { historyEntry, NO_HISTORY, recorded, type TextHistory } from "./text-history";
import { patchDocument } from "./text-patch";

/** What a text says, when it can be read. */
export interface ReadText {
  source: SourceDocument;
  value: Plain;
  tree: StepTree;
  isNative: boolean;
}

export interface DefinitionState {
  text: string;
  /** What the text says, or what it said when it could last be read; null if it never could. */
  read: ReadText | null;
  /** Why the text can't be read; null if `read` is of this text. */
  problem: SourceProblem | null;
  history: TextHistory;
}

/** Changes of the text, for the text view; `from` is who made them. */
export type TextListener = (changes: readonly ChangeSet[], from: unknown) => void;

export class DefinitionStore {
  private state: DefinitionState;
  private readonly listeners = new Set<() => void>();
  private readonly textListeners = new Set<TextListener>();

  constructor(text: string) {
    this.state = { text, history: NO_HISTORY, ...readText(text, null) };
  }

  readonly get = (): DefinitionState => this.state;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  onText(listener: TextListener): () => void {
    this.textListeners.add(listener);
    return () => this.textListeners.delete(listener);
  }

  /** Takes what somebody has typed in the text view. */
  type(changes: ChangeSet, from: unknown): void {
    this.change([changes], "Typing", from, true);
  }

  /** Does what a form or the canvas asks for; returns why it can't be done, or an empty text. */
  act(action: Action): string {
    if (this.state.problem !== null || this.state.read === null) return "The text can't be read at present. Mend it first, in the text view.";
    try {
      const { changes } = patchDocument(this.state.read.source, action.edits);
      if (changes.length > 0) this.change(changes, action.label, this, false);
      return "";
    } catch (error) {
      if (error instanceof EditRefused) return `${action.label}: ${error.message}.`;
      throw error;
    }
  }

  /** Replaces the whole text. */
  replace(text: string, label: string): void {
    const changes = changeBetween(this.state.text, text);
    if (changes.length > 0) this.change([changes], label, this, false);
  }

  undo(): void {
    const entry = this.state.history.past.at(-1);
    if (entry === undefined) return;
    const { past, future } = this.state.history;
    this.write(entry.inverse, { past: past.slice(0, -1), future: [entry, ...future] }, this);
  }

  redo(): void {
    const entry = this.state.history.future[0];
    if (entry === undefined) return;
    const { past, future } = this.state.history;
    this.write(entry.changes, { past: [...past, entry], future: future.slice(1) }, this);
  }

  get newline(): string {
    return newlineOf(this.state.text);
  }

  private change(changes: readonly ChangeSet[], label: string, from: unknown, isTyping: boolean): void {
    const entry = historyEntry(this.state.text, changes, label, Date.now());
    this.write(changes, recorded(this.state.history, entry, isTyping), from);
  }

  private write(changes: readonly ChangeSet[], history: TextHistory, from: unknown): void {
    let text = this.state.text;
    for (const one of changes) text = applyChanges(text, one);
    this.state = { text, history, ...readText(text, this.state.read) };
    for (const listener of this.textListeners) listener(changes, from);
    for (const listener of this.listeners) listener();
  }
}

function readText(text: string, last: ReadText | null): { read: ReadText | null; problem: SourceProblem | null } {
  const parsed = parseSource(text);
  if (parsed.document === null) return { read: last, problem: parsed.problem };
  const value = valueOf(parsed.document.root);
  return { read: { source: parsed.document, value, tree: stepTree(value), isNative: isNativeFormat(value) }, problem: null };
}
