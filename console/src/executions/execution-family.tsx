// The family of an execution as a tree: the one that has started it, itself, and the executions that it has started.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { queries, type Schemas } from "@/api/client";
import { Button } from "@/parts/button";
import { ErrorNotice } from "@/parts/notice";
import { StateMark } from "@/parts/state-mark";
import { type ExecutionKey, type ExecutionRecord, type StepTrace, maySpawn, nameOf, requestOf } from "./execution-reads";
import styles from "./execution-family.module.css";

type Details = Schemas["ExecutionDetails"];

const READ_BY_ITSELF_MAX = 100;
const SHOWN_MAX = 50;

/** The family of an execution; nothing if it has neither a parent nor children. */
export function ExecutionFamily({ record, steps }: { record: ExecutionRecord; steps: StepTrace[] }) {
  const spawned = steps.filter(maySpawn).length;
  const [isWanted, want] = useState(false);
  const isRead = spawned > 0 && (isWanted || steps.length <= READ_BY_ITSELF_MAX);
  const details = queries.useQuery("get", "/api/executions/{workflow}/{id}/details", requestOf(record), { enabled: isRead });
  if (!record.parent && spawned === 0) return null;
  return (
    <nav aria-label="Family" className={styles.family}>
      {record.parent && (
        <p>
          <span className={styles.soft}>Started by</span> <ExecutionLink of={record.parent} />
        </p>
      )}
      {spawned > 0 && !isRead && <Button onClick={() => want(true)}>Show what it has started ({spawned.toLocaleString("en")})</Button>}
      {isRead && details.isPending && <p className={styles.soft}>Reading what it has started …</p>}
      {isRead && details.error && <ErrorNotice error={details.error} onRetry={() => void details.refetch()} />}
      {details.data && Object.keys(details.data.children).length > 0 && (
        <>
          <p className={styles.soft}>Has started</p>
          <Children of={details.data} />
        </>
      )}
    </nav>
  );
}

function Children({ of }: { of: Details }) {
  const [shown, showMore] = useState(SHOWN_MAX);
  const children = Object.entries(of.children as Record<string, Details>);
  if (children.length === 0) return null;
  return (
    <ul className={styles.children}>
      {children.slice(0, shown).map(([path, child]) => (
        <li key={path}>
          <StateMark state={child.status.status} /> {child.status.workflow === APPROVAL ? <ApprovalLink id={child.status.id} /> : <ExecutionLink of={child.status} />} <span className={styles.soft}>{child.status.completedAt ? "" : child.status.why}</span>
          <Children of={child} />
        </li>
      ))}
      {children.length > shown && (
        <li>
          <Button look="quiet" onClick={() => showMore(shown + 500)}>
            {(children.length - shown).toLocaleString("en")} more
          </Button>
        </li>
      )}
    </ul>
  );
}

const APPROVAL = "perdure.approval";

/** A link to the page of an approval. */
function ApprovalLink({ id }: { id: string }) {
  return (
    <Link to="/approvals/$id" params={{ id }} dir="auto">
      approval {id.split(":").at(-1)}
    </Link>
  );
}

function ExecutionLink({ of }: { of: ExecutionKey }) {
  return (
    <Link to="/executions/$workflow/$id" params={{ workflow: of.workflow, id: of.id }} dir="auto">
      {nameOf(of)}
    </Link>
  );
}
