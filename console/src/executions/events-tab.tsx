// The events of a log, read page by page, live at their end: filtered by type, with their payloads on demand, and the execution as of each.
import { useEffect, useMemo, useState } from "react";
import { Button } from "@/parts/button";
import { DataTable } from "@/parts/data-table";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { TimeText } from "@/parts/time-text";
import { ValueView } from "@/parts/value-view";
import { useView } from "@/shell/search";
import { useShortcut } from "@/shell/shortcuts";
import { countText } from "@/words/times";
import { type LoggedEvent, useEventPayload, useLog } from "./execution-log";
import type { ExecutionKey } from "./execution-reads";
import { typeCounts } from "./log-parts";
import styles from "./events-tab.module.css";

interface Props {
  of: ExecutionKey;
  at: number | null;
  /** The number of the last event. */
  last: number;
  changed: ReadonlySet<string>;
  onChoose: (path: string) => void;
}

/** The events of a log, the newest first if nothing else is chosen. */
export function EventsTab({ of, at, last, changed, onChoose }: Props) {
  const view = useView();
  const order = view.text("order") === "oldest" ? "oldest" : "newest";
  const types = view.list("type");
  const follows = view.text("follow") === "1" && at === null;
  const log = useLog(of, order, at ?? last);
  const counts = useMemo(() => typeCounts(log.items), [log.items]);
  const rows = useMemo(() => {
    const chosen = types.length === 0 ? log.items : log.items.filter((one) => types.includes(one.type));
    return order === "newest" ? [...chosen].reverse() : chosen;
  }, [log.items, types.join(" "), order]);
  const follow = () => view.change({ follow: follows ? "" : "1", order: "" }, true);
  useShortcut("f", "follow the newest events", follow, at === null);
  useEffect(() => {
    if (follows && log.added > 0) log.readAdded();
    // Not when reading ends: after a failure, it is the next event that has it read again.
  }, [follows, log.added, log.items.length]);
  if (last === 0) return <Empty title="There are no events yet" />;
  if (log.error && log.items.length === 0) return <ErrorNotice error={log.error} onRetry={log.retry} />;
  if (log.isReading && log.items.length === 0) return <Loading what="the events" />;
  const toggle = (type: string) => view.change({ type: types.includes(type) ? types.filter((one) => one !== type) : [...types, type] }, true);
  return (
    <div className={styles.events}>
      <div className={styles.tools}>
        <ul className={styles.types} aria-label="Types of events">
          {counts.map(([type, count]) => (
            <li key={type}>
              <button type="button" aria-pressed={types.includes(type)} className={styles.type} onClick={() => toggle(type)}>
                {type} <span className={styles.soft}>{countText(count)}</span>
              </button>
            </li>
          ))}
        </ul>
        {types.length > 0 && (
          <Button look="quiet" onClick={() => view.change({ type: [] }, true)}>
            All types
          </Button>
        )}
        <Button onClick={() => view.change({ order: order === "newest" ? "oldest" : "", follow: "" }, true)}>{order === "newest" ? "Oldest first" : "Newest first"}</Button>
        {at === null && (
          <Button aria-pressed={follows} onClick={follow}>
            Follow
          </Button>
        )}
      </div>
      {log.added > 0 && !follows && (
        <Button onClick={log.readAdded}>
          Show {countText(log.added)} new event{log.added === 1 ? "" : "s"}
        </Button>
      )}
      {rows.length === 0 ? (
        <Empty title="None of the events that are read has the chosen types" />
      ) : (
        <DataTable
          label="Events"
          rows={rows}
          keyOf={(one) => String(one.number)}
          nameOf={(one) => `event ${one.number}: ${one.text || one.type}${one.path ? ` at ${one.path}` : ""}`}
          marked={at === null ? undefined : String(at)}
          onOpen={(one) => view.change({ at: String(one.number) })}
          onEnd={() => log.hasMore && log.readMore()}
          columns={[
            { id: "number", title: "Event", width: "4rem", align: "end", cell: (one) => countText(one.number) },
            { id: "text", title: "What happened", width: "3fr", cell: (one) => <What event={one} of={of} /> },
            { id: "path", title: "Step", width: "2fr", cell: (one) => <Step path={one.path} isChanged={changed.has(one.path)} onChoose={onChoose} /> },
            { id: "type", title: "Type", width: "8rem", wideOnly: true, cell: (one) => one.type },
            { id: "time", title: "When", width: "6.5rem", wideOnly: true, cell: (one) => <TimeText at={one.at} /> },
          ]}
        />
      )}
      {log.error ? (
        <ErrorNotice error={log.error} onRetry={follows && log.added > 0 ? log.readAdded : log.readMore} />
      ) : (
        log.hasMore && (
          <Button busy={log.isReading} onClick={log.readMore}>
            {log.isReading ? "Reading more …" : order === "newest" ? "Earlier events" : "Later events"}
          </Button>
        )
      )}
    </div>
  );
}

function Step({ path, isChanged, onChoose }: { path: string; isChanged: boolean; onChoose: (path: string) => void }) {
  if (!path) return null;
  return (
    <button type="button" className={`${styles.step} ${isChanged ? styles.changed : ""}`} title={path} onClick={() => onChoose(path)}>
      <bdi>{path}</bdi>
    </button>
  );
}

function What({ event, of }: { event: LoggedEvent; of: ExecutionKey }) {
  const [isOpen, open] = useState(false);
  const payload = useEventPayload(of, event.number, isOpen);
  return (
    <details className={styles.data} onClick={(event) => event.stopPropagation()} onToggle={(toggled) => open(toggled.currentTarget.open)}>
      <summary>{event.text || event.type}</summary>
      {isOpen && payload.isPending && <Loading what="the payload" />}
      {payload.error && <ErrorNotice error={payload.error} />}
      {payload.isSuccess && (payload.data === null ? <p className={styles.soft}>This event carries no value.</p> : <ValueView value={payload.data} name="the payload" />)}
    </details>
  );
}
