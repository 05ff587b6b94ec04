// Samples of rates and latencies that the page takes while it is open, and the hours that the server has counted.
import type { Schemas } from "@/api/client";
import { stateWord } from "@/words/states";

export interface Sample {
  atS: number;
  startedPerMinute: number;
  endedPerMinute: number;
  failedPerMinute: number;
  durationMs: number | null;
  latencyMs: number;
}

const KEPT = 720;

/** The sample of a state of the system that was read at a time. */
export function sampleOf(status: Schemas["SystemStatus"], atMs: number): Sample {
  const { rates, store } = status;
  const minutes = rates.overSeconds / 60;
  return {
    atS: atMs / 1_000,
    startedPerMinute: rates.started / minutes,
    endedPerMinute: rates.ended / minutes,
    failedPerMinute: rates.failed / minutes,
    durationMs: rates.durationSeconds === null ? null : rates.durationSeconds * 1_000,
    latencyMs: store.latencySeconds * 1_000,
  };
}

/** The samples with one more behind them; one that is not later than the last is left out, and the oldest go. */
export function withSample(samples: readonly Sample[], one: Sample): readonly Sample[] {
  const last = samples.at(-1);
  return last && one.atS <= last.atS ? samples : [...samples, one].slice(-KEPT);
}

export interface HourCounts {
  atS: number;
  good: number;
  bad: number;
  other: number;
}

/** The executions of all workflows by the hour in which they were started, also of hours without any. */
export function hourCounts(items: readonly Schemas["WorkflowOutcomes"][], fromMs: number, untilMs: number): HourCounts[] {
  const hours = new Map<number, HourCounts>();
  for (let atMs = fromMs; atMs < untilMs; atMs += 3_600_000) hours.set(atMs, { atS: atMs / 1_000, good: 0, bad: 0, other: 0 });
  for (const hour of items.flatMap((one) => one.hours)) {
    const counts = hours.get(Date.parse(hour.hourAt));
    if (!counts) continue;
    for (const [status, count] of Object.entries(hour.statuses)) {
      const { style } = stateWord(status);
      counts[style === "good" || style === "bad" ? style : "other"] += count;
    }
  }
  return [...hours.values()];
}
