// Dead letters in groups of those that failed alike: what failed, how often, since when; to be run again or closed, one, a group, or a filter.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { queries, type Schemas } from "@/api/client";
import { usePolling } from "@/api/polling";
import { BulkDialog, type BulkAction } from "@/executions/bulk-dialog";
import { type ExecutionFilter, parseFilter } from "@/executions/execution-filter";
import { Button } from "@/parts/button";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { Page } from "@/parts/page";
import { StateMark } from "@/parts/state-mark";
import { TimeText } from "@/parts/time-text";
import { ValueView } from "@/parts/value-view";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { countText } from "@/words/times";
import { RequeueDialog } from "./requeue-dialog";
import styles from "./dead-letter-page.module.css";

type Group = Schemas["CountedDeadLetters"];
type Letter = Pick<Schemas["DeadLetter"], "workflow" | "id">;

const SHOWN = 20;

/** The page of dead letters. */
export function DeadLetterPage() {
  const view = useView();
  const which = { workflow: view.text("workflow") || undefined, failedSince: view.text("failedSince") || undefined, fingerprint: view.text("fingerprint") || undefined };
  const [bulk, setBulk] = useState<{ action: BulkAction; filter: ExecutionFilter } | null>(null);
  const refusal = useRefusal("operator");
  const found = queries.useQuery("get", "/api/dead-letter-counts", { params: { query: which } }, usePolling(10));
  const groups = found.data?.items ?? [];
  const filter: ExecutionFilter = { ...parseFilter(""), workflow: which.workflow ?? "", failedSince: which.failedSince ?? "", fingerprint: which.fingerprint ?? "" };
  const isNarrow = Object.values(which).some(Boolean);
  return (
    <Page
      title="Dead letters"
      name="Dead letters"
      below="Executions that have failed or need attention, and that nobody has retried or closed."
      actions={
        <>
          <Button refusal={refusal || (groups.length ? "" : "There are none")} onClick={() => setBulk({ action: "requeue", filter })}>
            Requeue {isNarrow ? "all of the filter" : "all"} …
          </Button>
          <Button look="danger" refusal={refusal || (groups.length ? "" : "There are none")} onClick={() => setBulk({ action: "discard", filter })}>
            Discard {isNarrow ? "all of the filter" : "all"} …
          </Button>
        </>
      }
    >
      <Filter workflow={which.workflow ?? ""} failedSince={which.failedSince ?? ""} fingerprint={which.fingerprint ?? ""} />
      {found.error && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && <Loading what="the dead letters" />}
      {found.data && groups.length === 0 && <Empty title={isNarrow ? "No dead letter fits this filter" : "There are no dead letters: nothing has failed that nobody has looked after"} />}
      {found.data?.isPartial && <p role="status">There are more dead letters than the newest {countText(found.data.scanned)}, which were counted: numbers with + are lower bounds.</p>}
      <ul className={styles.groups}>
        {groups.map((group) => (
          <GroupView
            key={`${group.workflow} ${group.fingerprint}`}
            group={group}
            isPartial={found.data?.isPartial ?? false}
            isOpen={which.fingerprint !== undefined}
            onBulk={(action) => setBulk({ action, filter: { ...parseFilter(""), workflow: group.workflow, fingerprint: group.fingerprint, failedSince: which.failedSince ?? "" } })}
          />
        ))}
      </ul>
      {bulk && <BulkDialog action={bulk.action} filter={bulk.filter} keys={[]} onClose={() => setBulk(null)} />}
    </Page>
  );
}

function Filter({ workflow, failedSince, fingerprint }: { workflow: string; failedSince: string; fingerprint: string }) {
  const view = useView();
  return (
    <search className={styles.filter}>
      <label>
        Workflow
        <input key={workflow} defaultValue={workflow} onBlur={(event) => view.change({ workflow: event.target.value.trim() || undefined })} onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()} />
      </label>
      <label>
        Failed
        <select value={failedSince} onChange={(event) => view.change({ failedSince: event.target.value || undefined })}>
          <option value="">at any time</option>
          {[...new Set(["1h", "24h", "7d", "30d", failedSince])].filter(Boolean).map((one) => (
            <option key={one} value={one}>
              in the last {one}
            </option>
          ))}
        </select>
      </label>
      {fingerprint && (
        <Button onClick={() => view.change({ fingerprint: undefined })}>
          Show all groups
        </Button>
      )}
    </search>
  );
}

function GroupView({ group, isPartial, isOpen, onBulk }: { group: Group; isPartial: boolean; isOpen: boolean; onBulk: (action: BulkAction) => void }) {
  const [requeued, setRequeued] = useState<Letter | null>(null);
  const refusal = useRefusal("operator");
  const [isShown, show] = useState(isOpen);
  const sample = group.sample;
  return (
    <li className={styles.group}>
      <h2 className={styles.title}>
        <span className={styles.count}>
          {countText(group.count)}
          {isPartial && "+"}
        </span>{" "}
        <bdi>{group.workflow}</bdi>
        {sample?.path && (
          <>
            {" "}
            at <code>{sample.path}</code>
          </>
        )}
      </h2>
      <p className={styles.error} dir="auto">
        <b>{group.errorType}</b>
        {sample?.message && `: ${sample.message}`}
      </p>
      <p className={styles.soft}>
        {REASONS[sample?.reason ?? "failed"] ?? (sample?.reason ?? "").replaceAll("_", " ")} · first <TimeText at={group.firstAt} /> · last <TimeText at={group.lastAt} /> ·{" "}
        <Link to="/dead-letters" search={{ fingerprint: group.fingerprint, workflow: group.workflow }}>
          fingerprint {group.fingerprint.slice(0, 8)}
        </Link>{" "}
        ·{" "}
        <Link to="/executions" search={{ fingerprint: group.fingerprint, workflow: group.workflow }}>
          all executions that failed like this
        </Link>
      </p>
      <div className={styles.buttons}>
        <Button refusal={refusal} onClick={() => onBulk("requeue")}>
          Requeue the group …
        </Button>
        <Button look="danger" refusal={refusal} onClick={() => onBulk("discard")}>
          Discard the group …
        </Button>
      </div>
      <details open={isShown} onToggle={(event) => show(event.currentTarget.open)}>
        <summary>The executions</summary>
        {isShown && <Letters group={group} onRequeue={setRequeued} />}
        {isShown && sample?.input !== undefined && sample.input !== null && (
          <>
            <p className={styles.soft}>What the step of the newest was given:</p>
            <ValueView value={sample.input} name="the input of the step" />
          </>
        )}
      </details>
      {requeued && <RequeueDialog letter={requeued} onClose={() => setRequeued(null)} />}
    </li>
  );
}

function Letters({ group, onRequeue }: { group: Group; onRequeue: (letter: Letter) => void }) {
  const refusal = useRefusal("operator");
  const query = { workflow: group.workflow, fingerprint: group.fingerprint, status: ["failed", "needs_attention"], limit: SHOWN };
  const found = queries.useQuery("get", "/api/executions", { params: { query } }, usePolling(10));
  if (found.error) return <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />;
  if (!found.data) return <Loading what="the executions" />;
  return (
    <ul className={styles.letters}>
      {found.data.items.map((letter) => (
        <li key={letter.id}>
          <Link to="/executions/$workflow/$id" params={{ workflow: letter.workflow, id: letter.id }}>
            <bdi>{letter.id}</bdi>
          </Link>
          <StateMark state={letter.status} />
          <span className={styles.soft}>
            <TimeText at={letter.completedAt ?? letter.createdAt} />
          </span>
          <Button look="quiet" refusal={refusal} aria-label={`Requeue … ${letter.id}`} onClick={() => onRequeue(letter)}>
            Requeue …
          </Button>
        </li>
      ))}
      {found.data.next && <li className={styles.soft}>and more, which the list of all that failed like this has</li>}
    </ul>
  );
}

const REASONS: Record<string, string> = {
  max_retries_exceeded: "all its attempts have failed",
  timeout: "it took too long",
  interrupted: "it was interrupted, and may not be repeated",
  fatal: "its error is not retried",
  rollback: "it was undone",
  deadline_exceeded: "its deadline has passed",
  failed: "the workflow has failed",
};
