// Why an execution stands where it stands: one sentence, what it is about as links, and what to do.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Schemas } from "@/api/client";
import { StateMark } from "@/parts/state-mark";
import { TimeText } from "@/parts/time-text";
import { clipped, sentence } from "@/words/sentence";
import type { ExecutionRecord } from "./execution-reads";
import styles from "./why-view.module.css";

type Reason = Schemas["ExecutionReason"];

/** So much of a reason is shown; the step that it is about has all of its error. */
const TEXT_MAX = 400;

/** The state of an execution, the reason for it, and the remedy. */
export function WhyView({ record, isPast }: { record: ExecutionRecord; isPast: boolean }) {
  const { reason } = record;
  const facts = factsOf(reason, isPast);
  return (
    <div className={styles.why}>
      <p>
        <StateMark state={record.status} /> <bdi className={styles.text}>{sentence(clipped(reason.text, TEXT_MAX))}</bdi>
      </p>
      {facts.length > 0 && (
        <p className={styles.facts}>
          {facts.map((one, index) => (
            <span key={index}>{one}</span>
          ))}
        </p>
      )}
      {reason.remedy && !isPast && <p className={styles.remedy}>{sentence(reason.remedy)}</p>}
    </div>
  );
}

function factsOf(reason: Reason, isPast: boolean): ReactNode[] {
  const facts: ReactNode[] = [];
  if (reason.workflow && reason.id) {
    if (reason.code === "approval")
      facts.push(
        <Link to="/approvals/$id" params={{ id: reason.id }}>
          {isPast ? "The approval as it is now" : "Decide on the approval"}
        </Link>,
      );
    else
      facts.push(
        <Link to="/executions/$workflow/$id" params={{ workflow: reason.workflow, id: reason.id }}>
          {reason.workflow}/{reason.id}
        </Link>,
      );
  }
  if (reason.step)
    facts.push(
      <Link to="." search={((before: Record<string, unknown>) => ({ ...before, step: reason.step })) as never}>
        Step {reason.step}
      </Link>,
    );
  if (reason.at)
    facts.push(
      <>
        {reason.isDeadline ? "at the latest" : isPast ? "due" : "goes on"} <TimeText at={reason.at} />
      </>,
    );
  return facts;
}
