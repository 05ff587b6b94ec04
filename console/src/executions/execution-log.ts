// Reads the events of a log: page by page in either direction, as they are added, and one with what it has changed.
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, queries, type Schemas } from "@/api/client";
import { type ExecutionKey, requestOf } from "./execution-reads";
import { type LogOrder, joinedLog, type LogPart } from "./log-parts";

export type LoggedEvent = Schemas["LoggedEvent"];
type LogPage = Schemas["LogPage"];

const PAGE_EVENTS = 200;
const ADDED_MAX = 1_000;

interface Reading {
  after?: number;
  before?: number;
  limit: number;
  payloads?: boolean;
}

async function readLog(of: ExecutionKey, query: Reading, signal?: AbortSignal): Promise<LogPage> {
  const { data } = await api.GET("/api/executions/{workflow}/{id}/log", { params: { ...requestOf(of).params, query }, signal });
  return data as LogPage;
}

/** The events that are read, in the order of their numbers, and how to read more of them. */
export interface ReadLog {
  items: LoggedEvent[];
  isReading: boolean;
  error: unknown;
  /** Whether there are more in the direction in which they are read. */
  hasMore: boolean;
  /** How many were added behind those that are read; they are shown by `readAdded`. */
  added: number;
  readMore: () => void;
  readAdded: () => void;
  retry: () => void;
}

/** Reads a log from one of its ends. `last` is the number of its last event, or of the one that is shown of the past. */
export function useLog(of: ExecutionKey, order: LogOrder, last: number): ReadLog {
  const [part, setPart] = useState<LogPart | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isReading, setReading] = useState(false);
  const [attempt, setAttempt] = useState(0);
  const busy = useRef<AbortController | null>(null);
  const end = useRef(last);
  end.current = last;
  const read = useCallback(
    async (query: Reading, isFirst: boolean) => {
      if (busy.current && !isFirst) return;
      busy.current?.abort();
      const request = new AbortController();
      busy.current = request;
      setReading(true);
      try {
        const page = await readLog(of, query, request.signal);
        setPart((before) => joinedLog(isFirst ? null : before, page));
        setError(null);
      } catch (failure) {
        if (!request.signal.aborted) setError(failure);
      } finally {
        if (busy.current === request) {
          busy.current = null;
          setReading(false);
        }
      }
    },
    [of],
  );
  const begin = useCallback(() => read(order === "oldest" ? { after: 0, limit: PAGE_EVENTS } : { before: end.current + 1, limit: PAGE_EVENTS }, true), [read, order]);
  useEffect(() => {
    setPart(null);
    if (end.current > 0) void begin();
    return () => {
      busy.current?.abort();
      busy.current = null;
    };
    // A log that had no event yet is read when it has one.
  }, [begin, attempt, last > 0]);
  const items = useMemo(() => (part?.items ?? []).filter((one) => one.number <= last), [part, last]);
  const lowest = part?.items[0]?.number ?? 0;
  const highest = part?.items.at(-1)?.number ?? 0;
  const added = part ? Math.max(last - highest, 0) : 0;
  return {
    items,
    isReading: isReading || (part === null && error === null && last > 0),
    error,
    hasMore: part !== null && (order === "oldest" ? added > 0 : lowest > part.first),
    added: order === "oldest" ? 0 : added,
    readMore: () => void read(order === "oldest" ? { after: highest, limit: PAGE_EVENTS } : { before: lowest, limit: PAGE_EVENTS }, false),
    readAdded: () => void (added > ADDED_MAX ? begin() : read({ after: highest, limit: ADDED_MAX }, false)),
    retry: () => setAttempt(attempt + 1),
  };
}

/** The payload of an event. */
export function useEventPayload(of: ExecutionKey, number: number, isOn: boolean) {
  return useQuery({
    queryKey: ["event payload", of.workflow, of.id, number],
    queryFn: async ({ signal }) => (await readLog(of, { after: number - 1, limit: 1, payloads: true }, signal)).items[0]?.payload ?? null,
    enabled: isOn,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** An event with the paths that it, or what has caused it, has changed. */
export interface ShownEvent {
  event: LoggedEvent;
  changed: string[];
}

/** The event of a number; nothing for the present state. */
export function useShownEvent(of: ExecutionKey, at: number | null) {
  return useQuery({
    queryKey: ["event", of.workflow, of.id, at],
    queryFn: async ({ signal }): Promise<ShownEvent | null> => {
      const number = at ?? 0;
      const event = (await readLog(of, { after: number - 1, limit: 1 }, signal)).items.find((one) => one.number === number);
      if (!event) return null;
      const cause = event.cause === event.number ? event : (await readLog(of, { after: event.cause - 1, limit: 1 }, signal)).items.find((one) => one.number === event.cause);
      return { event, changed: [...new Set([event.path, ...(cause?.touched ?? [])].filter(Boolean))] };
    },
    enabled: at !== null && at > 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** The number of the first event that the log still has; 1 while it is not known. */
export function useFirstEvent(of: ExecutionKey, isOn: boolean): number {
  const { data } = queries.useQuery("get", "/api/executions/{workflow}/{id}/log", { params: { ...requestOf(of).params, query: { limit: 1 } } }, { enabled: isOn, staleTime: 60_000 });
  return Math.max(data?.first ?? 1, 1);
}
