// Joins pages of a log to one part without gaps, and counts its types.
import type { Schemas } from "@/api/client";

/** The end at which reading begins. */
export type LogOrder = "newest" | "oldest";

/** Events in the order of their numbers, without gaps. The log has events from number `first` on. */
export interface LogPart {
  items: Schemas["LoggedEvent"][];
  first: number;
}

/** A part with a page that stands before or behind it. A page that does not adjoin takes its place. */
export function joinedLog(part: LogPart | null, page: Schemas["LogPage"]): LogPart {
  const [lowest, highest] = [part?.items[0]?.number, part?.items.at(-1)?.number];
  const [begin, end] = [page.items[0]?.number, page.items.at(-1)?.number];
  if (!part || lowest === undefined || highest === undefined) return { items: page.items, first: page.first };
  if (begin === undefined || end === undefined) return { items: part.items, first: page.first };
  if (begin > highest + 1 || end < lowest - 1) return { items: page.items, first: page.first };
  const before = page.items.filter((one) => one.number < lowest);
  const behind = page.items.filter((one) => one.number > highest);
  return { items: [...before, ...part.items, ...behind], first: page.first };
}

/** The types of events, in alphabetical order, each with its count. */
export function typeCounts(events: readonly { type: string }[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const one of events) counts.set(one.type, (counts.get(one.type) ?? 0) + 1);
  return [...counts].sort(([one], [other]) => one.localeCompare(other));
}
