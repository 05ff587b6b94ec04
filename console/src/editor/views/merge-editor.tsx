// Two texts beside each other, of which the right one is edited: parts of the left one can be taken over.
import { MergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { languageOf } from "../document/source-tree";
import { baseExtensions } from "./code-editing";
import styles from "./merge-editor.module.css";

interface Props {
  theirs: string;
  /** The text with which editing begins. */
  mine: string;
  names: [theirs: string, mine: string];
  onChange: (text: string) => void;
}

export function MergeEditor({ theirs, mine, names, onChange }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const latest = useRef(onChange);
  latest.current = onChange;
  useEffect(() => {
    if (frame.current === null) return;
    const shared = [...baseExtensions(languageOf(mine)), EditorView.lineWrapping];
    const view = new MergeView({
      parent: frame.current,
      a: { doc: theirs, extensions: [...shared, EditorState.readOnly.of(true), EditorView.editable.of(false), EditorView.contentAttributes.of({ "aria-label": names[0], tabindex: "0" })] },
      b: { doc: mine, extensions: [...shared, EditorView.updateListener.of((update) => update.docChanged && latest.current(update.state.doc.toString())), EditorView.contentAttributes.of({ "aria-label": names[1] })] },
      collapseUnchanged: { margin: 3, minSize: 6 },
      revertControls: "a-to-b",
      renderRevertControl: () => {
        const button = document.createElement("button");
        button.type = "button";
        button.title = "Take this part of theirs";
        button.setAttribute("aria-label", button.title);
        button.textContent = "→";
        return button;
      },
    });
    return () => view.destroy();
  }, [theirs, mine, names[0], names[1]]);
  return (
    <figure className={styles.diff}>
      <figcaption className={styles.names}>
        <span>{names[0]}</span>
        <span>{names[1]}</span>
      </figcaption>
      <div ref={frame} className={styles.frame} />
    </figure>
  );
}
