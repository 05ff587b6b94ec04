// Two texts beside each other, or in one column where the page is narrow, with what differs marked.
import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { defaultHighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { useEffect, useRef } from "react";
import { CSP_NONCE } from "@/api/base";
import styles from "./text-diff.module.css";

const NARROW = "(max-width: 60rem)";

interface Props {
  before: string;
  after: string;
  beforeName: string;
  afterName: string;
}

/** Shows the differences of two texts. Neither can be edited. */
export function TextDiff({ before, after, beforeName, afterName }: Props) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!place.current) return;
    const language = /^\s*[{[]/.test(after) ? json() : yaml();
    const shared = (name: string): Extension => [
      EditorView.cspNonce.of(CSP_NONCE),
      EditorState.readOnly.of(true),
      EditorView.editable.of(false),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": name, tabindex: "0" }),
      lineNumbers(),
      syntaxHighlighting(defaultHighlightStyle),
      language,
    ];
    const folded = { collapseUnchanged: { margin: 3, minSize: 6 } };
    const view = matchMedia(NARROW).matches
      ? new EditorView({ parent: place.current, doc: after, extensions: [shared(`${afterName}, with what differs from ${beforeName}`), unifiedMergeView({ original: before, mergeControls: false, ...folded })] })
      : new MergeView({ parent: place.current, a: { doc: before, extensions: shared(beforeName) }, b: { doc: after, extensions: shared(afterName) }, ...folded });
    return () => view.destroy();
  }, [before, after, beforeName, afterName]);
  return <div ref={place} className={styles.diff} />;
}
