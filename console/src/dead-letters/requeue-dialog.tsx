// Runs one dead letter again: from what failed, or from the beginning with other input; or closes it.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, refresh, type Schemas } from "@/api/client";
import { parseExact, writeExact } from "@/api/exact-json";
import { planSentence } from "@/executions/plan-text";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { changedArguments } from "./changed-arguments";
import styles from "./requeue-dialog.module.css";

/** A dialog about one dead letter. */
export function RequeueDialog({ letter, onClose }: { letter: Pick<Schemas["DeadLetter"], "workflow" | "id">; onClose: () => void }) {
  const path = { workflow: letter.workflow, id: letter.id };
  const [reason, setReason] = useState("");
  const [text, setText] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const input = useQuery({
    queryKey: ["input", letter.workflow, letter.id],
    queryFn: async () => (await api.GET("/api/executions/{workflow}/{id}/input", { params: { path } })).data?.input ?? null,
  });
  const plan = useQuery({
    queryKey: ["requeue plan", letter.workflow, letter.id],
    queryFn: async () => (await api.POST("/api/executions/{workflow}/{id}/plan", { params: { path }, body: { verb: "retry" } })).data,
  });
  const requeue = useMutation({
    mutationFn: async (edits: Record<string, unknown> | undefined) =>
      (await api.POST("/api/dead-letters/{workflow}/{id}/requeue", { params: { path }, body: { reason: reason || undefined, edits: edits as never } })).data,
    onSuccess: () => void refresh("/api/dead-letters", "/api/execution"),
  });
  const discard = useMutation({
    mutationFn: async () => void (await api.POST("/api/dead-letters/{workflow}/{id}/discard", { params: { path }, body: { reason: reason || undefined } })),
    onSuccess: () => void refresh("/api/dead-letters", "/api/execution"),
  });
  const begin = () => {
    try {
      const edits = text === null ? undefined : changedArguments(input.data, parseExact(text));
      setProblem("");
      requeue.mutate(edits && Object.keys(edits).length ? edits : undefined);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const done = requeue.data;
  return (
    <Dialog
      title={`Requeue ${letter.workflow}/${letter.id}`}
      onClose={onClose}
      actions={
        done || discard.isSuccess ? (
          <Button look="main" onClick={onClose}>
            Close
          </Button>
        ) : (
          <>
            <Button onClick={onClose}>Do nothing</Button>
            <Button look="danger" busy={discard.isPending} refusal={reason ? "" : "Closing it for good needs a reason"} onClick={() => discard.mutate()}>
              Discard
            </Button>
            <Button look="main" busy={requeue.isPending} onClick={begin}>
              Requeue
            </Button>
          </>
        )
      }
    >
      {done && (
        <Notice look="good">
          It goes on as{" "}
          <Link to="/executions/$workflow/$id" params={{ workflow: done.workflow, id: done.id }}>
            {done.workflow}/{done.id}
          </Link>
          .
        </Notice>
      )}
      {discard.isSuccess && <Notice look="good">It is closed, with your reason in its log.</Notice>}
      {!done && !discard.isSuccess && (
        <>
          {plan.isLoading && <Loading what="what would happen" />}
          {plan.data && text === null && <p>{planSentence(plan.data)}</p>}
          {text !== null && <p>With other input a new execution starts from the beginning, and this one is closed. The same input twice starts one.</p>}
          {input.data !== undefined && text === null && (
            <Button onClick={() => setText(writeExact(input.data ?? {}, 2))} refusal={input.data === null ? "Its input was removed with its log" : ""}>
              Change the input …
            </Button>
          )}
          {text !== null && (
            <label className={styles.field}>
              Input, as JSON
              <textarea rows={8} spellCheck={false} value={text} aria-invalid={problem !== ""} onChange={(event) => setText(event.target.value)} />
            </label>
          )}
          {problem && <ErrorNotice error={new Error(problem)} />}
          <label className={styles.field}>
            Reason
            <input value={reason} maxLength={500} onChange={(event) => setReason(event.target.value)} />
          </label>
          {(requeue.error ?? discard.error) && <ErrorNotice error={requeue.error ?? discard.error} />}
        </>
      )}
    </Dialog>
  );
}
