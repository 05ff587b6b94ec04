// Times and durations in pages: relative, with the exact one on hover; all of a page move on together.
import { useSyncExternalStore } from "react";
import { durationText, exactTime, relativeTime, serverNow } from "@/words/times";

const listeners = new Set<() => void>();
let now = serverNow();
let ticking: ReturnType<typeof setInterval> | null = null;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  ticking ??= setInterval(() => {
    now = serverNow();
    for (const one of listeners) one();
  }, 1_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0 && ticking !== null) {
      clearInterval(ticking);
      ticking = null;
    }
  };
}

/** The time of the server, each second anew. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

/** A time, as the API writes it. */
export function TimeText({ at, missing = "–" }: { at: string | null | undefined; missing?: string }) {
  const nowMs = useNow();
  if (!at) return <>{missing}</>;
  const atMs = Date.parse(at);
  return (
    <time dateTime={at} title={exactTime(atMs)}>
      {relativeTime(atMs, nowMs)}
    </time>
  );
}

/** How long something took, or has taken until now. */
export function DurationText({ from, until }: { from: string | null | undefined; until?: string | null | undefined }) {
  return until ? <FixedDuration from={from} untilMs={Date.parse(until)} /> : <RunningDuration from={from} />;
}

function RunningDuration({ from }: { from: string | null | undefined }) {
  return <FixedDuration from={from} untilMs={useNow()} />;
}

function FixedDuration({ from, untilMs }: { from: string | null | undefined; untilMs: number }) {
  return from ? <>{durationText(untilMs - Date.parse(from))}</> : <>–</>;
}
