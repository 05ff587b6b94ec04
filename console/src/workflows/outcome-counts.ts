// The outcomes of a workflow by hour, as the bars of a strip and as a sentence that says the same.
import type { Schemas } from "@/api/client";
import { type StateStyle, stateWord } from "@/words/states";
import { countText } from "@/words/times";

export interface HourBar {
  /** The beginning of the hour, in milliseconds since 1970. */
  atMs: number;
  parts: { style: StateStyle; count: number }[];
  total: number;
}

const HOUR_MS = 3_600_000;
const ORDER: StateStyle[] = ["bad", "warn", "live", "dim", "plain", "good"];

/** The bars of all hours of a range, also of those in which nothing was started, the earliest first. */
export function hourBars(hours: Schemas["HourOutcomes"][], fromMs: number, untilMs: number): HourBar[] {
  const known = new Map(hours.map((one) => [Date.parse(one.hourAt), one.statuses]));
  const bars: HourBar[] = [];
  for (let atMs = fromMs; atMs < untilMs; atMs += HOUR_MS) {
    const counts = new Map<StateStyle, number>();
    for (const [status, count] of Object.entries(known.get(atMs) ?? {})) {
      const { style } = stateWord(status);
      counts.set(style, (counts.get(style) ?? 0) + count);
    }
    const parts = ORDER.filter((style) => counts.has(style)).map((style) => ({ style, count: counts.get(style) ?? 0 }));
    bars.push({ atMs, parts, total: parts.reduce((sum, one) => sum + one.count, 0) });
  }
  return bars;
}

/** How many executions have each status, in all hours together, the most frequent first. */
export function statusTotals(hours: Schemas["HourOutcomes"][]): [status: string, count: number][] {
  const totals = new Map<string, number>();
  for (const hour of hours) for (const [status, count] of Object.entries(hour.statuses)) totals.set(status, (totals.get(status) ?? 0) + count);
  return [...totals].sort(([, one], [, other]) => other - one);
}

/** The strip as a sentence: "12 started in 24 h: 9 completed, 3 failed". */
export function outcomeSentence(hours: Schemas["HourOutcomes"][], range: string, isPartial = false): string {
  const totals = statusTotals(hours);
  const all = totals.reduce((sum, [, count]) => sum + count, 0);
  if (all === 0) return `None started in ${range}`;
  const said = totals.map(([status, count]) => `${countText(count)} ${stateWord(status).word}`).join(", ");
  return `${isPartial ? "At least " : ""}${countText(all)} started in ${range}: ${said}`;
}
