// Somebody else has saved meanwhile: what both began with, theirs, and yours, to be brought together.
import { lazy, Suspense, useMemo, useState } from "react";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { Loading, Notice } from "@/parts/notice";
import { mergedText } from "../document/merged-text";

const TextDiff = lazy(async () => ({ default: (await import("@/parts/text-diff")).TextDiff }));
const MergeEditor = lazy(async () => ({ default: (await import("./merge-editor")).MergeEditor }));

interface Props {
  base: string;
  theirs: string;
  mine: string;
  /** Who has saved. */
  by: string;
  onResolve: (text: string) => void;
  onClose: () => void;
}

export function ConflictDialog({ base, theirs, mine, by, onResolve, onClose }: Props) {
  const merged = useMemo(() => mergedText(base, mine, theirs), [base, mine, theirs]);
  const [begin, setBegin] = useState(mine);
  const [text, setText] = useState(mine);
  const take = (next: string) => {
    setBegin(next);
    setText(next);
  };
  const who = by || "Somebody else";
  return (
    <Dialog
      title={`${who} has saved this definition meanwhile`}
      wide
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Go on editing without saving</Button>
          <Button look="main" onClick={() => onResolve(text)}>
            Save the text on the right
          </Button>
        </>
      }
    >
      <div className={blocks.stack}>
        <p>Nothing is saved yet, and nothing is lost. Bring both texts together on the right; what you save there replaces theirs.</p>
        <div className={blocks.row}>
          {merged !== null && <Button onClick={() => take(merged)}>Take both changes</Button>}
          <Button onClick={() => take(mine)}>Take yours</Button>
          <Button onClick={() => take(theirs)}>Take theirs</Button>
        </div>
        {merged === null && <Notice look="warn">Both have changed the same lines, so they can't be taken together by themselves.</Notice>}
        <Suspense fallback={<Loading what="the texts" />}>
          <MergeEditor theirs={theirs} mine={begin} names={[`Theirs (${who})`, "What will be saved"]} onChange={setText} />
          <details>
            <summary>What they have changed in the text with which you both began</summary>
            <TextDiff before={base} after={theirs} beforeName="what both began with" afterName="theirs" />
          </details>
          <details>
            <summary>What you have changed in it</summary>
            <TextDiff before={base} after={mine} beforeName="what both began with" afterName="yours" />
          </details>
        </Suspense>
      </div>
    </Dialog>
  );
}
