// A command for many executions: beforehand how many and which, then how far it is. It is itself an execution, which goes on without this page.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, refresh, type Schemas } from "@/api/client";
import { randomId } from "@/api/random-id";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { StateMark } from "@/parts/state-mark";
import { isEnded, stateWord } from "@/words/states";
import { countText } from "@/words/times";
import { apiFilter, type ExecutionFilter, filterText } from "./execution-filter";
import styles from "./bulk-dialog.module.css";

export type BulkAction = "cancel" | "terminate" | "pause" | "resume" | "retry" | "undo" | "requeue" | "discard";
type Key = { workflow: string; id: string };

interface Props {
  action: BulkAction;
  filter: ExecutionFilter;
  /** Those that were chosen one by one; without any, all that the filter selects. */
  keys: Key[];
  onClose: () => void;
}

const MEANS: Record<BulkAction, string> = {
  cancel: "Each is asked to end: it undoes what it has to, and is cancelled after that.",
  terminate: "Each ends at once, without undoing anything. What is in flight is abandoned.",
  pause: "Each takes no further step until it is resumed. Steps in flight end.",
  resume: "Each that is paused goes on.",
  retry: "Each that has failed goes on at its failed steps, with all results that it has.",
  undo: "Each undoes its steps, in reverse order.",
  requeue: "Each goes on at its failed steps.",
  discard: "Each dead letter is closed for good, with your reason.",
};
const SAMPLES = 3;

/** Shows what a command would act on, and carries it out. */
export function BulkDialog({ action, filter, keys, onClose }: Props) {
  const [reason, setReason] = useState("");
  const bulkId = useMemo(() => `console-${randomId()}`, []);
  const body = { action, reason: reason || undefined, bulkId, ...apiFilter(filter) };
  const preview = useQuery({
    queryKey: ["bulk preview", action, filter],
    queryFn: async () => (await api.POST("/api/executions/bulk", { body: { ...body, dryRun: true } as never })).data?.count ?? null,
    enabled: keys.length === 0,
    staleTime: 0,
  });
  const perform = useMutation({
    mutationFn: async (): Promise<Schemas["BulkResult"] | Schemas["StartedBulk"] | undefined> =>
      keys.length
        ? (await api.POST("/api/executions/batch", { body: { verb: action, reason: reason || undefined, which: {}, keys } as never })).data
        : (await api.POST("/api/executions/bulk", { body: body as never })).data,
    onSuccess: () => void refresh("/api/execution"),
  });
  const count = keys.length || (preview.data?.total ?? 0);
  const samples = (keys.length ? keys : (preview.data?.newest ?? [])).slice(0, SAMPLES);
  const done = perform.data;
  const title = `${action[0]?.toUpperCase()}${action.slice(1)}`;
  return (
    <Dialog
      title={`${title} many executions`}
      onClose={onClose}
      actions={
        done ? (
          <Button look="main" onClick={onClose}>
            Close
          </Button>
        ) : (
          <>
            <Button onClick={onClose}>Do nothing</Button>
            <Button look={action === "terminate" || action === "discard" ? "danger" : "main"} busy={perform.isPending} refusal={count ? (action === "discard" && !reason ? "Closing them for good needs a reason" : "") : preview.isLoading ? "It is being counted on how many it would act" : "It acts on none"} onClick={() => perform.mutate()}>
              {title} {preview.isLoading ? "…" : countText(count)}
            </Button>
          </>
        )
      }
    >
      {!done && (
        <>
          <p>{MEANS[action]}</p>
          <p>{keys.length ? "It acts on those that you have chosen." : `It acts on all executions of the filter${filterText(filter) ? "" : ", which is empty: on all"}, not only on those of this page.`}</p>
          {filterText(filter) && keys.length === 0 && <code>{filterText(filter)}</code>}
          {preview.isLoading && <Loading what="what it would act on" />}
          {preview.error && <ErrorNotice error={preview.error} onRetry={() => void preview.refetch()} />}
          {preview.data && count === 0 && <Notice>The filter selects none on which this would act.</Notice>}
          {preview.data && count > 0 && (
            <ul className={styles.statuses}>
              {Object.entries(preview.data.statuses).map(([status, one]) => (
                <li key={status}>
                  <StateMark state={status} /> {countText(one)}
                </li>
              ))}
            </ul>
          )}
          {samples.length > 0 && (
            <div>
              <p>{count > samples.length ? `Such as the newest ${samples.length}:` : "These:"}</p>
              <KeyList keys={samples} />
            </div>
          )}
          <label className={styles.reason}>
            Reason ({action === "discard" ? "" : "optional, "}kept in each log)
            <input value={reason} onChange={(event) => setReason(event.target.value)} maxLength={500} />
          </label>
        </>
      )}
      {perform.error && <ErrorNotice error={perform.error} />}
      {done && "accepted" in done && <BatchOutcome result={done} />}
      {done && !("accepted" in done) && done && "workflow" in done && done.workflow && done.id && <Progress workflow={done.workflow} id={done.id} />}
    </Dialog>
  );
}

function KeyList({ keys }: { keys: Key[] }) {
  return (
    <ul className={styles.keys}>
      {keys.map((one) => (
        <li key={`${one.workflow}/${one.id}`}>
          <Link to="/executions/$workflow/$id" params={one}>
            <bdi>
              {one.workflow}/{one.id}
            </bdi>
          </Link>
        </li>
      ))}
    </ul>
  );
}

function BatchOutcome({ result }: { result: Schemas["BulkResult"] }) {
  const failed = (result.failed ?? []) as unknown[];
  return (
    <>
      <Notice look="good">{countText(result.accepted?.length ?? 0)} have the request; it is durable. Each acts on it as soon as an engine takes it.</Notice>
      {(result.ended?.length ?? 0) > 0 && <p>{countText(result.ended?.length ?? 0)} had ended before, or needed nothing.</p>}
      {failed.length > 0 && <Notice look="warn">{countText(failed.length)} could not be asked.</Notice>}
    </>
  );
}

interface BulkProgress {
  total: number;
  done: number;
  passed: number;
  failed: number;
  left: number;
  failures?: { workflow: string; id: string; message: string }[];
}

function Progress({ workflow, id }: { workflow: string; id: string }) {
  const path = { workflow, id };
  const { data: record } = useQuery({
    queryKey: ["bulk", id],
    queryFn: async () => (await api.GET("/api/executions/{workflow}/{id}", { params: { path } })).data,
    refetchInterval: ({ state }) => (isEnded(state.data?.status ?? "") ? false : 700),
  });
  const ended = isEnded(record?.status ?? "");
  const { data: state } = useQuery({
    queryKey: ["bulk state", id, ended],
    queryFn: async () => (await api.GET("/api/executions/{workflow}/{id}/state", { params: { path } })).data as { items?: Record<string, unknown>; progress?: BulkProgress } | undefined,
    refetchInterval: ended ? false : 700,
  });
  const progress = (state?.progress ?? state?.items?.progress) as BulkProgress | undefined;
  return (
    <>
      <p>
        <StateMark state={record?.status ?? "pending"} /> It runs as the execution{" "}
        <Link to="/executions/$workflow/$id" params={path}>
          {workflow}/{id}
        </Link>
        , and goes on when you close this. Cancelling it stops it between two pieces.
      </p>
      {progress && (
        <>
          <progress className={styles.progress} max={Math.max(progress.total, 1)} value={progress.total - progress.left} aria-label="Progress" />
          <p role="status">
            {countText(progress.done)} have the request, {countText(progress.passed)} needed nothing, {countText(progress.failed)} failed, {countText(progress.left)} left.
          </p>
          {progress.failures?.map((one) => (
            <p key={`${one.workflow}/${one.id}`} className={styles.failure}>
              {one.workflow}/{one.id}: {one.message}
            </p>
          ))}
        </>
      )}
      {!progress && record && !ended && <p role="status">{record.why || stateWord(record.status).word}</p>}
    </>
  );
}
