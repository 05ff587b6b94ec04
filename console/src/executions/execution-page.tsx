// The page of one execution: what it is and why it stands where it stands, what can be done, and its steps in several views, now or as of an event.
import { Link, useParams } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";
import { queries } from "@/api/client";
import { Problem } from "@/api/problem";
import { useLiveExecution } from "@/api/use-live";
import { Button } from "@/parts/button";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Page } from "@/parts/page";
import { type Tab, Tabs } from "@/parts/tabs";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { useShortcut } from "@/shell/shortcuts";
import { sentence } from "@/words/sentence";
import { agentTurns } from "./agent-transcript";
import { AgentView } from "./agent-view";
import { DataTab } from "./data-tab";
import { EventsTab } from "./events-tab";
import { GraphTab } from "./graph-tab";
import { useFirstEvent, useShownEvent } from "./execution-log";
import { ExecutionActions, type OpenedAction } from "./execution-actions";
import { ExecutionFacts, ExecutionTools } from "./execution-facts";
import { ExecutionFamily } from "./execution-family";
import { type ExecutionKey, type ExecutionRecord, type StepTrace, nameOf, requestAt, requestOf, useRecord, useSteps } from "./execution-reads";
import { useNeighbours } from "./neighbours";
import { StepDrawer } from "./step-drawer";
import { TimeTravel } from "./time-travel";
import { TimelineTab } from "./timeline-tab";
import { WhyView } from "./why-view";
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
  useNeighbours(of);
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

const NO_STEPS: StepTrace[] = [];

function Known({ of, record, latest, at, pastError }: KnownProps) {
  const view = useView();
  const [action, openAction] = useState<OpenedAction | null>(null);
  const steps = useSteps(of, at);
  const status = queries.useQuery("get", "/api/executions/{workflow}/{id}/status", requestOf(of));
  const definition = queries.useQuery("get", "/api/executions/{workflow}/{id}/definition", requestAt(of, at), { enabled: Boolean(record.definition) });
  const list = steps.data?.steps ?? NO_STEPS;
  const shown = useShownEvent(of, at).data ?? null;
  const first = useFirstEvent(of, latest.version > 0);
  const changed = useMemo(() => new Set(shown?.changed ?? []), [shown]);
  const chosen = view.text("step");
  const opener = useRef<Element | null>(null);
  const [takesFocus, takeFocus] = useState(false);
  const choose = (path: string) => {
    if (!document.activeElement?.closest("aside")) opener.current = document.activeElement;
    takeFocus(true);
    view.change({ step: path }, chosen !== "");
  };
  const close = () => {
    view.change({ step: "", attempt: "" }, true);
    (opener.current as HTMLElement | null)?.focus();
  };
  const refusal = useRefusal("operator");
  const pastRefusal = at === null ? "" : "A past state is shown; go back to now first";
  const shownMs = shown && Date.parse(shown.event.at);
  const isAgent = useMemo(() => agentTurns(list).length > 0, [list]) || (at !== null && view.text("tab") === "agent");
  const isWide = view.text("wide") === "1";
  const tabs: Tab[] = [
    { id: "graph", title: "Graph", content: () => <GraphTab record={record} at={at} steps={list} isWide={isWide} chosen={chosen} onChoose={choose} /> },
    { id: "timeline", title: "Timeline", content: () => <TimelineTab record={record} steps={list} shownMs={shownMs} changed={changed} chosen={chosen} onChoose={choose} /> },
    { id: "events", title: "Events", content: () => <EventsTab of={of} at={at} last={latest.version} changed={changed} onChoose={choose} /> },
    ...(isAgent
      ? [
          {
            id: "agent",
            title: "Agent",
            content: () => (
              <AgentView
                steps={list}
                changed={changed}
                onChoose={choose}
                onFork={(path) => openAction({ verb: "fork", given: { fromStep: path } })}
                forkRefusal={pastRefusal || refusal}
                live={at === null && record.completedAt === null ? of : undefined}
              />
            ),
          },
        ]
      : []),
    { id: "data", title: "Data", content: () => <DataTab record={record} at={at} /> },
  ];
  return (
    <Page
      title={<Heading of={of} />}
      name={nameOf(of)}
      below={<WhyView record={record} isPast={at !== null} />}
      actions={<ExecutionActions record={latest} steps={list} definition={definition.data?.document} refusal={pastRefusal} opened={action} onOpen={openAction} />}
    >
      {!isWide && (
        <div className={styles.about}>
          <ExecutionTools record={record} />
          <ExecutionFacts record={record} shownMs={shownMs} />
          <ExecutionFamily record={record} at={at} steps={list} />
        </div>
      )}
      {isRemoved(latest) && (
        <Notice>
          <p>The log of this execution was removed, by retention or by a person. How it ended is kept; its steps, its input and its output are gone.</p>
        </Notice>
      )}
      {status.data && <Forgotten forgotten={status.data.forgotten ?? {}} />}
      {steps.error && record.version > 0 && !pastError ? <ErrorNotice error={steps.error} onRetry={() => void steps.refetch()} /> : null}
      <TimeTravel at={at} first={first} last={latest.version} shown={shown} error={pastError} tools={<Expand isWide={isWide} />} />
      {!pastError && (
        <div className={chosen ? styles.withDrawer : styles.alone}>
          <Tabs label="Views of the execution" tabs={tabs} chosen={view.text("tab")} onChoose={(tab) => view.change({ tab })} />
          {chosen && (
            <StepDrawer record={record} steps={list} path={chosen} at={at} changed={changed} takesFocus={takesFocus} refusal={pastRefusal || refusal} onAction={openAction} onChoose={choose} onClose={close} />
          )}
        </div>
      )}
    </Page>
  );
}

/** Leaves out what stands above the views, for more room. */
function Expand({ isWide }: { isWide: boolean }) {
  const view = useView();
  const toggle = () => view.change({ wide: isWide ? "" : "1" }, true);
  useShortcut("e", isWide ? "show the facts above the views again" : "more room for the views", toggle);
  return (
    <Button aria-pressed={isWide} onClick={toggle}>
      Expand
    </Button>
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

/** Whether only the end of an execution is kept: one that has begun has an input as long as its log is there. */
function isRemoved(record: ExecutionRecord): boolean {
  return record.completedAt !== null && record.version > 0 && (record.variables ?? null) === null;
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
        <p>{sentence(error.message)}</p>
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
