// The data of an event in one line, and how many events there are of each type.
import { exactTime } from "@/words/times";
import type { PublicEvent } from "./execution-events";

/** The data of an event: "attempt 2, error ValueError: …". Times are in the zone of the viewer. */
export function eventText(event: PublicEvent): string {
  return Object.entries(event.data ?? {})
    .map(([name, value]) => (name.endsWith("_at_s") || name === "until_s" ? `${name.replace(/_at_s$|_s$/, "")} ${exactTime(Number(value) * 1_000)}` : `${name} ${String(value)}`))
    .join(", ");
}

/** The types of events in the order of their first, each with its count. */
export function typeCounts(events: readonly PublicEvent[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const one of events) counts.set(one.type, (counts.get(one.type) ?? 0) + 1);
  return [...counts];
}
