// The page of one execution: what it is and why it stands where it stands, what can be done, and its steps in several views, now or as of an event.
import { Link, useParams } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { queries } from "@/api/client";
import { Problem } from "@/api/problem";
import { useLiveExecution } from "@/api/use-live";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Page } from "@/parts/page";
import { StateMark } from "@/parts/state-mark";
import { type Tab, Tabs } from "@/parts/tabs";
import { useView } from "@/shell/search";
import { DataTab } from "./data-tab";
import { EventsTab } from "./events-tab";
import { ExecutionActions, type OpenedAction } from "./execution-actions";
import { ExecutionFacts, ExecutionTools } from "./execution-facts";
import { ExecutionFamily } from "./execution-family";
import { type ExecutionKey, type ExecutionRecord, nameOf, requestAt, requestOf, useRecord, useSteps } from "./execution-reads";
import { remedyOf } from "./remedies";
import { StepsTable } from "./steps-table";
import styles from "./execution-page.module.css";

/** The page of the execution that the URL names. */
export function ExecutionPage() {
  const { workflow = "", id = "" } = useParams({ strict: false }) as Partial<ExecutionKey>;
  const of = useMemo(() => ({ workflow, id }), [workflow, id]);
  return <OneExecution key={nameOf(of)} of={of} />;
}

function OneExecution({ of }: { of: ExecutionKey }) {
  const view = useView();
  const at = eventNumber(view.text("at"));
  useLiveExecution(of.workflow, of.id, at !== null);
  const now = useRecord(of, null);
  const past = useRecord(of, at);
  const record = past.data ?? now.data;
  const heading = <Heading of={of} />;
  if (!record) {
    return (
      <Page title={heading} name={nameOf(of)}>
        {now.error ? <Missing of={of} error={now.error} onRetry={() => void now.refetch()} /> : <Loading what={`the execution ${nameOf(of)}`} />}
      </Page>
    );
  }
  return <Known of={of} record={record} latest={now.data ?? record} at={at} pastError={at === null ? null : past.error} />;
}

interface KnownProps {
  of: ExecutionKey;
  record: ExecutionRecord;
  latest: ExecutionRecord;
  at: number | null;
  pastError: unknown;
}

function Known({ of, record, latest, at, pastError }: KnownProps) {
  const view = useView();
  const [action, openAction] = useState<OpenedAction | null>(null);
  const steps = useSteps(of, at);
  const status = queries.useQuery("get", "/api/executions/{workflow}/{id}/status", requestOf(of));
  const definition = queries.useQuery("get", "/api/executions/{workflow}/{id}/definition", requestAt(of, at), { enabled: Boolean(record.definition) });
  const list = steps.data?.steps ?? [];
  const tabs: Tab[] = [
    { id: "graph", title: "Graph", content: () => <StepsTable steps={list} chosen={view.text("step")} onChoose={(path) => view.change({ step: path })} /> },
    { id: "events", title: "Events", content: () => <EventsTab of={of} at={at} /> },
    { id: "data", title: "Data", content: () => <DataTab record={record} isPast={at !== null} /> },
  ];
  return (
    <Page
      title={<Heading of={of} />}
      name={nameOf(of)}
      below={<Why record={record} />}
      actions={<ExecutionActions record={latest} steps={list} definition={definition.data?.document} refusal={at === null ? "" : "A past state is shown; go back to now first"} opened={action} onOpen={openAction} />}
    >
      <ExecutionTools record={record} />
      <ExecutionFacts record={record} />
      <ExecutionFamily record={record} steps={list} />
      {status.data && <Forgotten forgotten={status.data.forgotten ?? {}} />}
      {pastError !== null && <ErrorNotice error={pastError} />}
      {steps.error && record.version > 0 ? <ErrorNotice error={steps.error} onRetry={() => void steps.refetch()} /> : null}
      <Tabs label="Views of the execution" tabs={tabs} chosen={view.text("tab")} onChoose={(tab) => view.change({ tab })} />
    </Page>
  );
}

function Heading({ of }: { of: ExecutionKey }) {
  return (
    <span className={styles.heading}>
      <Link to="/executions" search={{ workflow: of.workflow }} className={styles.workflow} title="Executions of this workflow">
        {of.workflow}
      </Link>
      <span aria-hidden="true" className={styles.slash}>
        /
      </span>
      <bdi>{of.id}</bdi>
    </span>
  );
}

function Why({ record }: { record: ExecutionRecord }) {
  const remedy = remedyOf(record);
  return (
    <p className={styles.why}>
      <StateMark state={record.status} /> <bdi>{record.why}</bdi> {remedy && <span className={styles.remedy}>{remedy}</span>}
    </p>
  );
}

function Forgotten({ forgotten }: { forgotten: Record<string, unknown> }) {
  const loops = Object.entries(forgotten).filter(([, count]) => Number(count) > 0);
  if (loops.length === 0) return null;
  return (
    <Notice>
      <p>
        Completed iterations of loops are forgotten: {loops.map(([path, count]) => `${Number(count).toLocaleString("en")} of ${path}`).join(", ")}. Their steps are not in the views below.
      </p>
    </Notice>
  );
}

function Missing({ of, error, onRetry }: { of: ExecutionKey; error: unknown; onRetry: () => void }) {
  if (!(error instanceof Problem) || (error.status !== 404 && error.status !== 410)) return <ErrorNotice error={error} onRetry={onRetry} />;
  const isRemoved = error.status === 410;
  return (
    <div className={styles.missing}>
      <Notice look="warn">
        <h2>{isRemoved ? "The log of this execution was removed" : "There is no such execution"}</h2>
        <p>{error.message}</p>
        {isRemoved ? (
          <p>Retention, or a person, has removed it. How it ended is in the list of executions.</p>
        ) : (
          <p>
            The workflow is <code>{of.workflow}</code> and the id is <code>{of.id}</code>. It may belong to another tenant, may have been removed, or the link may be cut off.
          </p>
        )}
        <p>
          <Link to="/executions" search={{ workflow: of.workflow }}>
            Executions of {of.workflow}
          </Link>{" "}
          · <Link to="/executions">all executions</Link>
        </p>
      </Notice>
    </div>
  );
}

function eventNumber(text: string): number | null {
  return /^\d{1,15}$/.test(text) ? Number(text) : null;
}
