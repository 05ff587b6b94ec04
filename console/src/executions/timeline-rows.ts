// The rows of a timeline: what each step did when, as segments of queue, attempts, back-off and waits.
import { durationText } from "@/words/times";
import type { StepAttempt, StepTrace } from "./execution-reads";
import type { Span } from "./time-axis";

export type SegmentKind = "queue" | "attempt" | "backoff" | "wait" | "moment";

/** A segment of a row. `state` is that of the attempt, or of the step for a wait; `attempt` is 0 where it belongs to none. */
export interface Segment extends Span {
  kind: SegmentKind;
  state: string;
  attempt: number;
  says: string;
}

export interface TimelineRow {
  step: StepTrace;
  segments: Segment[];
}

/** A wait in a queue that is shorter than this is not shown: the times of two processes are compared. */
const QUEUE_MIN_MS = 20;

/** The rows of steps, at the time `nowMs` for what has not ended. With `attempt`, only what belongs to the attempts of this number. */
export function timelineRows(steps: readonly StepTrace[], nowMs: number, attempt = 0): TimelineRow[] {
  return steps.map((step) => {
    const segments = segmentsOf(step, nowMs);
    return { step, segments: attempt === 0 ? segments : segments.filter((one) => one.attempt === attempt) };
  });
}

function segmentsOf(step: StepTrace, nowMs: number): Segment[] {
  const fromMs = Date.parse(step.startedAt);
  const toMs = step.completedAt === null ? Math.max(nowMs, fromMs) : Date.parse(step.completedAt);
  if (step.attempts.length > 0) return attemptSegments(step, fromMs, nowMs);
  if (step.kind === "call" && step.completedAt === null) return [segment("queue", step.state, 1, fromMs, toMs, "waits for a worker")];
  if (toMs - fromMs < 1) return [segment("moment", step.state, 0, fromMs, fromMs, step.target || step.kind)];
  return [segment("wait", step.state, 0, fromMs, toMs, `waits: ${step.target || step.kind}`)];
}

function attemptSegments(step: StepTrace, fromMs: number, nowMs: number): Segment[] {
  const segments: Segment[] = [];
  let readyMs = fromMs;
  for (const one of step.attempts) {
    const begunMs = Date.parse(one.startedAt);
    if (begunMs - readyMs >= QUEUE_MIN_MS) segments.push(segment("queue", "waiting", one.number, readyMs, begunMs, "waited for a worker"));
    const endMs = one.completedAt ? Date.parse(one.completedAt) : Math.max(nowMs, begunMs);
    segments.push(segment("attempt", one.state, one.number, begunMs, endMs, attemptSays(one)));
    readyMs = endMs;
    if (one.nextAt) {
      readyMs = Math.max(Date.parse(one.nextAt), endMs);
      segments.push(segment("backoff", "retrying", one.number, endMs, isLast(step, one) ? Math.min(readyMs, Math.max(nowMs, endMs)) : readyMs, "waits before the next attempt"));
    }
  }
  return segments;
}

function isLast(step: StepTrace, attempt: StepAttempt): boolean {
  return step.attempts.at(-1) === attempt;
}

function attemptSays(attempt: StepAttempt): string {
  return `attempt ${attempt.number} ${attempt.state}${attempt.error ? `: ${attempt.error.code}: ${attempt.error.message.split("\n")[0]?.slice(0, 200)}` : ""}`;
}

function segment(kind: SegmentKind, state: string, attempt: number, fromMs: number, toMs: number, says: string): Segment {
  const end = Math.max(toMs, fromMs);
  return { kind, state, attempt, fromMs, toMs: end, says: kind === "moment" ? says : `${says}, ${durationText(end - fromMs)}` };
}

/** The spans in which something was done: attempts, queues and moments, but not waits. */
export function busySpans(rows: readonly TimelineRow[]): Span[] {
  return rows.flatMap((row) => row.segments.filter((one) => one.kind === "attempt" || one.kind === "queue" || one.kind === "moment"));
}

/** From the begin of the execution, or of its first segment, to the end of the last segment. */
export function wholeSpan(rows: readonly TimelineRow[], startedMs: number): Span {
  let fromMs = startedMs;
  let toMs = startedMs;
  for (const row of rows) {
    for (const one of row.segments) {
      fromMs = Math.min(fromMs, one.fromMs);
      toMs = Math.max(toMs, one.toMs);
    }
  }
  return { fromMs, toMs: Math.max(toMs, fromMs + 1) };
}

/** The largest number of attempts that a step has. */
export function attemptsMax(steps: readonly StepTrace[]): number {
  return steps.reduce((most, one) => Math.max(most, one.attempts.at(-1)?.number ?? 0), 0);
}
