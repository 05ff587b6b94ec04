// Two texts and what differs between them, in one column. The library comes when it is needed.
import { useEffect, useRef, useState } from "react";
import { CSP_NONCE } from "@/api/base";
import { errorText } from "@/words/failures";
import { ErrorNotice, Loading } from "./notice";
import styles from "./text-diff.module.css";

/** Shows how `before` becomes `after`; parts that are the same are folded. */
export function TextDiff({ before, after, label }: { before: string; after: string; label: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<"loading" | "shown" | { error: unknown }>("loading");
  useEffect(() => {
    let end = () => {};
    let isOver = false;
    const show = async () => {
      const [{ EditorState }, { EditorView }, { unifiedMergeView }] = await Promise.all([import("@codemirror/state"), import("@codemirror/view"), import("@codemirror/merge")]);
      if (isOver || !place.current) return;
      const view = new EditorView({
        parent: place.current,
        doc: after,
        extensions: [
          EditorState.readOnly.of(true),
          EditorView.editable.of(false),
          EditorView.cspNonce.of(CSP_NONCE),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } }),
        ],
      });
      end = () => view.destroy();
      setState("shown");
    };
    show().catch((error: unknown) => setState({ error: errorText(error).text }));
    return () => {
      isOver = true;
      end();
    };
  }, [before, after, label]);
  return (
    <>
      {state === "loading" && <Loading what="the difference" />}
      {typeof state === "object" && <ErrorNotice error={state.error} />}
      <div ref={place} className={styles.diff} />
    </>
  );
}
