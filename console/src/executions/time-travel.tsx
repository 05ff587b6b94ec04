// Time travel: a slider over the events of a log that moves every view of the execution, and what the shown event has changed.
import { type ReactNode, useEffect, useState } from "react";
import { Button } from "@/parts/button";
import { ErrorNotice } from "@/parts/notice";
import { TimeText } from "@/parts/time-text";
import { useView } from "@/shell/search";
import type { PublicEvent } from "./execution-events";
import { useSettledValue } from "./settled-value";
import styles from "./time-travel.module.css";

interface Props {
  /** The number of the event that is shown; null: the present state. */
  at: number | null;
  last: number;
  events: PublicEvent[];
  error: unknown;
  /** Further buttons in its line. */
  tools: ReactNode;
}

const SETTLED_MS = 150;

/** The slider. The URL follows when it stays at a number for a moment. */
export function TimeTravel({ at, last, events, error, tools }: Props) {
  const view = useView();
  const shown = at ?? last;
  const [moved, setMoved] = useState<number | null>(null);
  const settled = useSettledValue(moved, SETTLED_MS);
  const go = (number: number) => view.change({ at: number >= last ? "" : String(Math.max(number, 1)) }, true);
  useEffect(() => {
    if (settled === null) return;
    go(settled);
    setMoved(null);
    // The number alone decides: the view changes with it.
  }, [settled]);
  const value = moved ?? shown;
  if (last < 1) return null;
  return (
    <section aria-label="Time travel" className={`${styles.travel} ${at === null ? "" : styles.past}`}>
      <div className={styles.line}>
        <Button aria-label="The event before" refusal={value <= 1 ? "This is the first event" : ""} onClick={() => go(shown - 1)}>
          ◂
        </Button>
        <input
          type="range"
          className={styles.slider}
          aria-label="Event of the log"
          aria-valuetext={at === null && moved === null ? `now, event ${last}` : `event ${value} of ${last}`}
          min={1}
          max={last}
          value={Math.min(value, last)}
          onChange={(event) => setMoved(Number(event.target.value))}
        />
        <Button aria-label="The next event" refusal={at === null ? "This is now" : ""} onClick={() => go(shown + 1)}>
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
          {events.length > 0 && (
            <>
              , <TimeText at={events[0]?.time} />:{" "}
              {events.map((one, index) => (
                <span key={index}>
                  {index > 0 && "; "}
                  <strong>{one.type}</strong> <bdi>{one.subject}</bdi>
                </span>
              ))}
            </>
          )}
          . Live updates are off.
        </p>
      )}
      {at !== null && Boolean(error) && <ErrorNotice error={error} />}
    </section>
  );
}
