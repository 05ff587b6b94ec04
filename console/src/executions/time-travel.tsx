// Time travel: a slider over the events of a log that moves every view of the execution, and what the shown event has changed.
import { type ReactNode, useEffect, useState } from "react";
import { Button } from "@/parts/button";
import { ErrorNotice } from "@/parts/notice";
import { TimeText } from "@/parts/time-text";
import { useView } from "@/shell/search";
import type { ShownEvent } from "./execution-log";
import { useSettledValue } from "@/parts/settled-value";
import styles from "./time-travel.module.css";

interface Props {
  /** The number of the event that is shown; null: the present state. */
  at: number | null;
  /** The numbers of the first event that the log has, and of the last one. */
  first: number;
  last: number;
  shown: ShownEvent | null;
  error: unknown;
  /** Further buttons in its line. */
  tools: ReactNode;
}

const SETTLED_MS = 150;

/** The slider. The URL follows when it stays at a number for a moment. */
export function TimeTravel({ at, first, last, shown, error, tools }: Props) {
  const view = useView();
  const number = at ?? last;
  const [moved, setMoved] = useState<number | null>(null);
  const settled = useSettledValue(moved, SETTLED_MS);
  const go = (to: number) => view.change({ at: to >= last ? "" : String(Math.max(to, first)) }, true);
  useEffect(() => {
    if (settled === null) return;
    go(settled);
    setMoved(null);
    // The number alone decides: the view changes with it.
  }, [settled]);
  const value = moved ?? number;
  if (last < 1) return null;
  return (
    <section aria-label="Time travel" className={`${styles.travel} ${at === null ? "" : styles.past}`}>
      <div className={styles.line}>
        <Button aria-label="The event before" refusal={value > first ? "" : first > 1 ? `Events before ${first} are gone: the log was compacted` : "This is the first event"} onClick={() => go(number - 1)}>
          ◂
        </Button>
        <input
          type="range"
          className={styles.slider}
          aria-label="Event of the log"
          aria-valuetext={at === null && moved === null ? `now, event ${last}` : `event ${value} of ${last}`}
          min={first}
          max={last}
          value={Math.min(Math.max(value, first), last)}
          onChange={(event) => setMoved(Number(event.target.value))}
        />
        <Button aria-label="The next event" refusal={at === null ? "This is now" : ""} onClick={() => go(number + 1)}>
          ▸
        </Button>
        <span className={styles.number}>
          {at === null && moved === null ? "now" : `event ${value.toLocaleString("en")}`} <span className={styles.soft}>of {last.toLocaleString("en")}</span>
        </span>
        {at !== null && (
          <Button look="main" onClick={() => view.change({ at: "" })}>
            Back to now
          </Button>
        )}
        {tools}
      </div>
      {at !== null && !error && (
        <p className={styles.soft} role="status">
          As of event {at.toLocaleString("en")}
          {shown && (
            <>
              , <TimeText at={shown.event.at} />: <strong>{shown.event.text || shown.event.type}</strong> {shown.event.path && <bdi>({shown.event.path})</bdi>}
            </>
          )}
          . Live updates are off.
        </p>
      )}
      {at !== null && Boolean(error) && <ErrorNotice error={error} />}
      {first > 1 && <p className={styles.soft}>The log begins at event {first.toLocaleString("en")}: what was before is forgotten, and can't be shown.</p>}
    </section>
  );
}
