// The drawer of the chosen step: what it was given and gave, its attempts and errors, what it waits for, and what can be done from here.
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";
import { writeExact } from "@/api/exact-json";
import { Button } from "@/parts/button";
import { CopyButton } from "@/parts/copy-button";
import { Empty } from "@/parts/notice";
import { Facts } from "@/parts/page";
import { StateMark } from "@/parts/state-mark";
import { DurationText, TimeText } from "@/parts/time-text";
import { ValueView } from "@/parts/value-view";
import { useShortcut } from "@/shell/shortcuts";
import { ChildAgent } from "./agent-view";
import { AttemptList } from "./attempt-list";
import { ErrorView } from "./error-view";
import type { OpenedAction } from "./execution-actions";
import { Member, useFamily } from "./execution-family";
import { type ExecutionRecord, type StepTrace, isReceiving, maySpawn, nameOf } from "./execution-reads";
import { shellWord } from "@/words/shell-word";
import { ChangedMark } from "./timeline-tab";
import { LogsLink } from "./logs-link";
import { modelUsage, usageText } from "./model-usage";
import { PassageChoice } from "./passage-choice";
import { StepConditions } from "./step-conditions";
import { passagesOf } from "./step-passages";
import styles from "./step-drawer.module.css";

interface Props {
  record: ExecutionRecord;
  steps: StepTrace[];
  path: string;
  /** The event as of which the execution is shown; null: now. */
  at: number | null;
  changed: ReadonlySet<string>;
  /** Whether the focus goes into the drawer; not if the page was opened with it. */
  takesFocus: boolean;
  /** Why nothing can be done; empty if something can. */
  refusal: string;
  onAction: (action: OpenedAction) => void;
  onChoose: (path: string) => void;
  onClose: () => void;
}

/** Everything about one step. */
export function StepDrawer({ record, steps, path, at, changed, takesFocus, refusal, onAction, onChoose, onClose }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (takesFocus) heading.current?.focus();
  }, [path, takesFocus]);
  useShortcut("Escape", "close the step", onClose);
  const passages = passagesOf(steps, path);
  const step = steps.find((one) => one.path === path) ?? passages.at(-1);
  return (
    <aside
      className={styles.drawer}
      aria-label={`Step ${path}`}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented) return;
        event.preventDefault();
        onClose();
      }}
    >
      <header className={styles.header}>
        <h2 ref={heading} tabIndex={-1} className={styles.title}>
          <bdi>{step?.path ?? path}</bdi>
        </h2>
        <button type="button" className={styles.close} aria-label="Close the step" onClick={onClose}>
          ✕
        </button>
      </header>
      <div className={styles.body}>
        {step ? (
          <>
            {changed.has(step.path) && <ChangedMark />}
            <PassageChoice passages={passages} chosen={step.path} onChoose={onChoose} />
            <StepBody key={step.path} record={record} step={step} at={at} refusal={refusal} onAction={onAction} />
          </>
        ) : (
          <NotReached record={record} path={path} refusal={refusal} onAction={onAction} />
        )}
      </div>
    </aside>
  );
}

function NotReached({ record, path, refusal, onAction }: { record: ExecutionRecord; path: string; refusal: string; onAction: (action: OpenedAction) => void }) {
  return (
    <Empty title="This step has not been reached">
      <p>{record.completedAt ? "The execution has ended without it, or its iteration is forgotten." : "There is nothing to show of it yet."}</p>
      {!record.completedAt && (
        <Button refusal={refusal} onClick={() => onAction({ verb: "preset", given: { step: path } })}>
          Give its result beforehand …
        </Button>
      )}
    </Empty>
  );
}

function StepBody({ record, step, at, refusal, onAction }: { record: ExecutionRecord; step: StepTrace; at: number | null; refusal: string; onAction: (action: OpenedAction) => void }) {
  const usage = modelUsage(step.output);
  const isDone = step.completedAt !== null;
  const name = nameOf(record);
  return (
    <>
      <p>
        <StateMark state={step.state} /> <bdi>{step.kind === step.target ? step.kind : `${step.kind} ${step.target}`}</bdi>
      </p>
      <Facts
        of={[
          ["Began", <TimeText at={step.startedAt} />],
          [isDone ? "Took" : "For", <DurationText from={step.startedAt} until={step.completedAt} />],
          ["By itself", isDone || !step.dueAt ? "" : <TimeText at={step.dueAt} />],
          ["Went on by", step.port],
          ["Tokens and cost", usage && usageText(usage)],
        ]}
      />
      <div className={styles.actions}>
        {isDone && step.kind !== "keep" && (
          <Button refusal={refusal} onClick={() => onAction({ verb: "fork", given: { fromStep: step.path } })}>
            Fork from here …
          </Button>
        )}
        {isDone && step.kind !== "keep" && record.status === "failed" && (
          <Button refusal={refusal} onClick={() => onAction({ verb: "retry", given: { fromStep: step.path } })}>
            Retry from here
          </Button>
        )}
        {(!isDone || step.state === "failed") && !isReceiving(step) && (
          <Button refusal={refusal} onClick={() => onAction({ verb: "preset", given: { step: step.path } })}>
            Preset …
          </Button>
        )}
        {isReceiving(step) && (
          <Button refusal={refusal} onClick={() => onAction({ verb: "send" })}>
            Send message …
          </Button>
        )}
        {step.state === "completed" && step.kind !== "keep" && (
          <CopyButton text={`perdure preset ${shellWord(name)} ${shellWord(step.path)} ${shellWord(writeExact(step.output ?? null))}`} label="Copy as preset: the command that gives this result">
            Copy as preset
          </CopyButton>
        )}
      </div>
      <Waits record={record} at={at} step={step} />
      {step.error && (
        <Part title="Error">
          <ErrorView error={step.error} />
        </Part>
      )}
      {step.attempts.length > 0 && (
        <Part title={step.attempts.length === 1 ? "1 attempt" : `${step.attempts.length} attempts`}>
          <AttemptList attempts={step.attempts} />
          <LogsLink record={record} step={step} />
        </Part>
      )}
      <StepConditions record={record} path={step.path} at={at} title={(shown) => <Part title="Conditions">{shown}</Part>} />
      {step.input !== null && (
        <Part title="Input">
          <ValueView value={step.input} name="the input" />
        </Part>
      )}
      {(step.output !== null || (isDone && step.state === "completed")) && (
        <Part title="Output">
          <ValueView value={step.output} name="the output" />
        </Part>
      )}
    </>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={styles.part} aria-label={title}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

/** What an open step waits for: a message, a time, a child, or people. */
function Waits({ record, at, step }: { record: ExecutionRecord; at: number | null; step: StepTrace }) {
  const isSpawn = maySpawn(step);
  const family = useFamily(record, at, isSpawn);
  const child = family.data?.children.find((one) => one.path === step.path);
  const approval = record.approvals?.find((one) => (one as { path?: string }).path === step.path);
  if (step.state === "waiting_approval")
    return (
      <Part title="Waits for people">
        <p>
          {approval ? (
            <Link to="/approvals/$id" params={{ id: (approval as { id: string }).id }}>
              Its approval
            </Link>
          ) : (
            <Link to="/approvals">Approvals</Link>
          )}
        </p>
      </Part>
    );
  if (isSpawn && child)
    return (
      <Part title="Child">
        <p>
          <Member of={child} at={at} />
        </p>
        {step.kind === "agent" && (at === null || (child.version ?? 0) > 0) && (
          <details>
            <summary>Transcript</summary>
            <ChildAgent of={child} at={at === null ? null : (child.version ?? 0)} />
          </details>
        )}
      </Part>
    );
  if (step.completedAt !== null || step.kind === "call") return null;
  const what = { receive: `the message ${step.target}`, listen: `the message ${step.target}`, sleep: "a time" }[step.kind] ?? step.target;
  return (
    <Part title="Waits">
      <p>
        for {what}
        {step.dueAt && (
          <>
            , until <TimeText at={step.dueAt} />
          </>
        )}
      </p>
    </Part>
  );
}
