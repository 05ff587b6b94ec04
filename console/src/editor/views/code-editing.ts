// What all text editors of the page have in common: language, colours, keys.
import { defaultKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { CSP_NONCE } from "@/api/base";
import type { Language } from "../document/source-tree";

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--link)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--text-soft)", fontStyle: "italic" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--live)" },
  { tag: [tags.labelName, tags.typeName, tags.meta], color: "var(--warn)" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

const THEME = EditorView.theme({
  "&": { backgroundColor: "var(--bg)", color: "var(--text)", fontSize: "var(--size-s)", height: "100%" },
  ".cm-scroller": { fontFamily: "var(--font-mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--bg-soft)", color: "var(--text-soft)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--bg-hover) 45%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--bg-hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--bg-chosen)" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-2px" },
  ".cm-panels": { backgroundColor: "var(--bg-soft)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-panel input, .cm-panel button": { backgroundColor: "var(--bg)", backgroundImage: "none", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "4px" },
  ".cm-tooltip": { backgroundColor: "var(--bg-raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "var(--radius)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--bg-chosen)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--text-soft)", fontStyle: "normal" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--warn)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--warn)", textUnderlineOffset: "3px" },
  ".cm-stepLine": { backgroundColor: "color-mix(in srgb, var(--bg-chosen) 40%, transparent)" },
  ".cm-changedLine, .cm-insertedLine": { backgroundColor: "var(--good-bg)" },
  "&.cm-merge-a .cm-changedLine, .cm-deletedChunk": { backgroundColor: "var(--bad-bg)" },
  "&.cm-merge-a .cm-changedText, .cm-deletedChunk .cm-deletedText": { background: "color-mix(in srgb, var(--bad) 25%, transparent)" },
  "&.cm-merge-b .cm-changedText": { background: "color-mix(in srgb, var(--good) 25%, transparent)" },
  ".cm-collapsedLines": { background: "var(--bg-soft)", color: "var(--text-soft)" },
});

export function baseExtensions(language: Language): Extension[] {
  return [
    EditorView.cspNonce.of(CSP_NONCE),
    lineNumbers(),
    highlightSpecialChars(),
    drawSelection(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    EditorState.allowMultipleSelections.of(true),
    language === "json" ? json() : yaml(),
    indentUnit.of("  "),
    indentOnInput(),
    bracketMatching(),
    syntaxHighlighting(COLOURS),
    THEME,
    keymap.of([...defaultKeymap, indentWithTab]),
  ];
}
