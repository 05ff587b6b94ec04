import { describe, expect, it } from "vitest";
import type { StepAttempt, StepTrace } from "./execution-reads";
import { attemptsMax, busySpans, timelineRows, wholeSpan } from "./timeline-rows";

const at = (ms: number) => new Date(ms).toISOString();
const attempt = (number: number, from: number, to: number | null, more: Partial<StepAttempt> = {}): StepAttempt => ({ number, state: to === null ? "performing" : "failed", startedAt: at(from), completedAt: to === null ? null : at(to), ...more });
const step = (change: Partial<StepTrace>): StepTrace => ({
  number: 1, path: "charge", stepId: "charge", kind: "call", target: "charge", state: "completed", seedStatus: "completed", attempt: 1,
  startedAt: at(0), completedAt: at(1_000), dueAt: null, port: "", error: null, input: null, output: null, attempts: [], ...change,
});
const kinds = (given: StepTrace, now = 5_000) => timelineRows([given], now)[0]!.segments.map((one) => [one.kind, one.fromMs, one.toMs]);

describe("the segments of a step", () => {
  it("are its queue, its attempts and the back-off between them", () => {
    const retried = step({ attempts: [attempt(1, 100, 200, { nextAt: at(500) }), attempt(2, 700, 1_000)] });
    expect(kinds(retried)).toEqual([["queue", 0, 100], ["attempt", 100, 200], ["backoff", 200, 500], ["queue", 500, 700], ["attempt", 700, 1_000]]);
  });
  it("reach to the present time while an attempt or a back-off goes on", () => {
    expect(kinds(step({ state: "performing", completedAt: null, attempts: [attempt(1, 0, null)] }))).toEqual([["attempt", 0, 5_000]]);
    expect(kinds(step({ state: "retrying", completedAt: null, attempts: [attempt(1, 0, 100, { nextAt: at(60_000) })] }))).toEqual([["attempt", 0, 100], ["backoff", 100, 5_000]]);
  });
  it("are a wait for what has no attempts, and a moment for what takes no time", () => {
    expect(kinds(step({ kind: "receive", state: "waiting", completedAt: null }))).toEqual([["wait", 0, 5_000]]);
    expect(kinds(step({ kind: "keep", completedAt: at(0) }))).toEqual([["moment", 0, 0]]);
  });
  it("never end before they begin, whatever the clocks say", () => {
    const skewed = step({ completedAt: null, state: "performing", attempts: [attempt(1, 9_000, null)] });
    for (const one of timelineRows([skewed], 5_000)[0]!.segments) expect(one.toMs).toBeGreaterThanOrEqual(one.fromMs);
  });
  it("can be those of one attempt", () => {
    const retried = step({ attempts: [attempt(1, 100, 200, { nextAt: at(500) }), attempt(2, 700, 1_000)] });
    expect(timelineRows([retried], 5_000, 2)[0]!.segments.map((one) => one.kind)).toEqual(["queue", "attempt"]);
    expect(attemptsMax([retried, step({})])).toBe(2);
  });
});

it("counts no wait as busy, and spans all segments", () => {
  const rows = timelineRows([step({ kind: "sleep", completedAt: at(86_400_000) }), step({ attempts: [attempt(1, 20, 90)] })], 5_000);
  expect(busySpans(rows).every((one) => one.toMs <= 90)).toBe(true);
  expect(wholeSpan(rows, 0)).toEqual({ fromMs: 0, toMs: 86_400_000 });
  expect(wholeSpan([], 10)).toEqual({ fromMs: 10, toMs: 11 });
});
