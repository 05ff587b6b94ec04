// The text of the definition, which can always be edited. It shows what the other views change, and what the server has found.
import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, openSearchPanel, search, searchKeymap } from "@codemirror/search";
import { Annotation, Compartment, EditorState, StateEffect, StateField, type ChangeSpec } from "@codemirror/state";
import { Decoration, EditorView, keymap, type DecorationSet } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { ShownText } from "../document/line-endings";
import type { DefinitionStore, ReadText } from "../document/definition-store";
import { applyChanges } from "../document/text-change";
import { languageOf, nodeAt, offsetOfLine } from "../document/source-tree";
import { type Step, stepAt } from "../model/step-tree";
import type { JsonSchema } from "../model/definition-schema";
import type { Finding } from "../findings";
import { baseExtensions } from "./code-editing";
import { offeredReferences } from "../offered-references";
import { type CompletionSource, completeDefinition } from "./completion";
import styles from "./text-view.module.css";

const EXTERNAL = Annotation.define<boolean>();
const SET_STEP = StateEffect.define<{ from: number; to: number } | null>();
const STEP_LINE = Decoration.line({ class: "cm-stepLine" });

/** The lines of the chosen step. */
const STEP_LINES = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(before, transaction) {
    let found = before.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(SET_STEP)) continue;
      if (effect.value === null) found = Decoration.none;
      else {
        const { doc } = transaction.state;
        const lines = [];
        for (let number = doc.lineAt(effect.value.from).number; number <= doc.lineAt(effect.value.to).number; number += 1) lines.push(STEP_LINE.range(doc.line(number).from));
        found = Decoration.set(lines);
      }
    }
    return found;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** A place that the text view is to show; line and column count from 1. */
export interface TextPlace {
  line: number;
  column: number;
}

interface Props {
  store: DefinitionStore;
  findings: readonly Finding[];
  schema: JsonSchema | null;
  readOnly: boolean;
  selected: string;
  onSelect: (id: string) => void;
  /** The place to show, a new object each time. */
  place: TextPlace | null;
}

export function TextView({ store, findings, schema, readOnly, selected, onSelect, place }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const viewRef = useRef<EditorView | null>(null);
  const shownRef = useRef(new ShownText(store.get().text));
  const latest = useRef({ schema, onSelect, selected });
  latest.current = { schema, onSelect, selected };
  const writable = useRef(new Compartment());

  useEffect(() => {
    const own = {};
    const shown = new ShownText(store.get().text);
    shownRef.current = shown;
    const source: CompletionSource = {
      schema: () => latest.current.schema,
      references: async (position, field) => {
        const { read, problem, text } = store.get();
        if (read === null) return [];
        return offeredReferences(text, read.tree, problem === null ? stepAtOffset(read, shownRef.current.sourcePosition(position)) : undefined, field, problem !== null);
      },
    };
    const undo = { key: "Mod-z", preventDefault: true, run: () => (store.undo(), true) };
    const redo = { key: "Mod-y", mac: "Mod-Shift-z", preventDefault: true, run: () => (store.redo(), true) };
    const view = new EditorView({
      parent: frame.current!,
      state: EditorState.create({
        doc: shown.text,
        extensions: [
          keymap.of([undo, redo, { ...redo, key: "Mod-Shift-z" }, ...completionKeymap, ...searchKeymap]),
          ...baseExtensions(languageOf(shown.text)),
          STEP_LINES,
          closeBrackets(),
          search({ top: true }),
          highlightSelectionMatches(),
          lintGutter(),
          autocompletion({ override: [completeDefinition(source)] }),
          writable.current.of(readOnlyExtensions(readOnly)),
          EditorView.contentAttributes.of({ "aria-label": "Text of the definition", tabindex: "0" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged && !update.transactions.some((one) => one.annotation(EXTERNAL))) {
              const changes: { from: number; to: number; insert: string }[] = [];
              update.changes.iterChanges((from, to, _from, _to, text) => changes.push({ from, to, insert: text.toString() }), true);
              const before = shownRef.current;
              const sourceChanges = before.sourceChanges(changes, store.newline);
              shownRef.current = new ShownText(applyChanges(before.source, sourceChanges));
              store.type(sourceChanges, own);
            }
            if (update.selectionSet && !update.transactions.some((one) => one.annotation(EXTERNAL)) && update.view.hasFocus) chooseAtCursor(store, shownRef.current, update.state.selection.main.head, latest.current);
          }),
        ],
      }),
    });
    viewRef.current = view;
    const end = store.onText((changes, from) => {
      if (from === own) return;
      let text = shownRef.current.source;
      const specs: { changes: ChangeSpec; sequential: true }[] = [];
      for (const one of changes) {
        const before = new ShownText(text);
        specs.push({ changes: one.map((change) => ({ from: before.shownPosition(change.from), to: before.shownPosition(change.to), insert: new ShownText(change.insert).text })), sequential: true });
        text = applyChanges(text, one);
      }
      shownRef.current = new ShownText(text);
      view.dispatch(...specs.map((one) => ({ ...one, annotations: EXTERNAL.of(true) })));
      // Where a change cuts a line break in two, the lines are taken as they are.
      if (view.state.doc.toString() !== shownRef.current.text) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: shownRef.current.text }, annotations: EXTERNAL.of(true) });
    });
    return () => {
      end();
      view.destroy();
      viewRef.current = null;
    };
  }, [store]);

  useEffect(() => viewRef.current?.dispatch({ effects: writable.current.reconfigure(readOnlyExtensions(readOnly)) }), [readOnly]);

  useEffect(() => {
    const view = viewRef.current;
    if (view === null) return;
    const shown = shownRef.current;
    const diagnostics: Diagnostic[] = findings.flatMap((finding) => {
      const range = rangeOf(store, shown, finding);
      return range === null ? [] : [{ ...range, severity: finding.severity, message: finding.message }];
    });
    view.dispatch(setDiagnostics(view.state, diagnostics.sort((one, other) => one.from - other.from)));
  }, [findings, store]);

  useEffect(() => {
    const view = viewRef.current;
    const { read, problem } = store.get();
    const step = selected === "" || problem !== null ? undefined : read?.tree.byId.get(selected);
    if (view === null) return;
    const node = step && nodeAt(read!.source.root, step.path);
    if (node === undefined) {
      view.dispatch({ effects: SET_STEP.of(null) });
      return;
    }
    const from = shownRef.current.shownPosition(node.start);
    const to = shownRef.current.shownPosition(node.end);
    view.dispatch({ effects: [SET_STEP.of({ from, to }), ...(view.hasFocus ? [] : [EditorView.scrollIntoView(from, { y: "nearest", yMargin: 60 })])] });
  }, [selected, store, findings]);

  useEffect(() => {
    const view = viewRef.current;
    if (view === null || place === null) return;
    const shown = shownRef.current;
    const offset = offsetOfLine(shown.text, place.line, place.column);
    view.dispatch({ selection: { anchor: Math.min(offset, view.state.doc.length) }, effects: EditorView.scrollIntoView(offset, { y: "center" }), annotations: EXTERNAL.of(true) });
    view.focus();
  }, [place]);

  return (
    <div className={styles.view}>
      <div ref={frame} className={styles.frame} onKeyDown={(event) => event.key === "/" && event.ctrlKey && viewRef.current && openSearchPanel(viewRef.current)} />
    </div>
  );
}

function readOnlyExtensions(readOnly: boolean) {
  return readOnly ? [EditorState.readOnly.of(true)] : [];
}

function chooseAtCursor(store: DefinitionStore, shown: ShownText, position: number, latest: { onSelect: (id: string) => void; selected: string }): void {
  const { read, problem } = store.get();
  if (read === null || problem !== null) return;
  const found = stepAtOffset(read, shown.sourcePosition(position))?.id ?? "";
  if (found !== latest.selected) latest.onSelect(found);
}

/** The innermost step whose text is at an offset. */
function stepAtOffset(read: ReadText, offset: number): Step | undefined {
  return read.tree.all.findLast((step) => {
    const node = nodeAt(read.source.root, step.path);
    return node !== undefined && node.start <= offset && offset <= node.end;
  });
}

function rangeOf(store: DefinitionStore, shown: ShownText, finding: Finding): { from: number; to: number } | null {
  const { read, problem, text } = store.get();
  if (shown.source !== text) return null;
  if (problem === null && read !== null && finding.path.length > 0) {
    const node = nodeAt(read.source.root, finding.path);
    const step = stepAt(read.tree, finding.path);
    if (node !== undefined && !(step !== undefined && step.path.length === finding.path.length && finding.line > 0)) {
      return { from: shown.shownPosition(node.start), to: shown.shownPosition(node.kind === "scalar" || node.kind === "alias" ? node.end : Math.min(node.end, endOfLine(text, node.start))) };
    }
  }
  if (finding.line === 0) return null;
  const from = offsetOfLine(shown.text, finding.line, Math.max(1, finding.column));
  return { from, to: Math.max(from, endOfLine(shown.text, from)) };
}

function endOfLine(text: string, offset: number): number {
  const end = text.indexOf("\n", offset);
  return end < 0 ? text.length : end;
}
