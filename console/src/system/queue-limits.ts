// The limits of a queue in words, and the form that changes them.
import type { Schemas } from "@/api/client";
import { durationText } from "@/words/times";

export type QueueLimits = Schemas["QueueLimits"];

/** The limits of a queue in a few words; empty for none. */
export function limitWords(limits: QueueLimits): string {
  return [
    limits.concurrency == null ? "" : `${limits.concurrency} at a time`,
    limits.perLane == null ? "" : `${limits.perLane} in each lane`,
    limits.intervalSeconds ? `one each ${durationText(limits.intervalSeconds * 1_000)}${(limits.burst ?? 1) > 1 ? `, up to ${limits.burst} at once` : ""}` : "",
  ]
    .filter(Boolean)
    .join("; ");
}

export interface LimitForm {
  concurrency: string;
  perLane: string;
  interval: string;
  burst: string;
}

/** The form of the limits that a queue has. Empty fields are no limit. */
export function limitForm(limits: QueueLimits): LimitForm {
  return { concurrency: limits.concurrency == null ? "" : String(limits.concurrency), perLane: limits.perLane == null ? "" : String(limits.perLane), interval: limits.intervalSeconds ? String(limits.intervalSeconds) : "", burst: String(limits.burst ?? 1) };
}

/** What a form changes, as the API takes it, or the sentence of what is wrong with it. */
export function limitChanges(form: LimitForm): { concurrency: number | null; perLane: number | null; rate: [number, number] | null } | string {
  const [concurrency, perLane, interval, burst] = [form.concurrency, form.perLane, form.interval, form.burst].map((one) => (one.trim() === "" ? null : Number(one)));
  for (const [name, value] of [["At a time", concurrency], ["In each lane", perLane], ["At once", burst]] as const) if (value != null && (!Number.isInteger(value) || value < 1)) return `${name}: give a whole number from 1 on, or nothing`;
  if (interval != null && !(interval > 0)) return "Time between two: give a number of seconds above 0, or nothing";
  return { concurrency: concurrency ?? null, perLane: perLane ?? null, rate: interval == null ? null : [interval, burst ?? 1] };
}
