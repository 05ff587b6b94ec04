// The events of an execution in their order, live at the end: filtered by type, with their data on demand, and the execution as of each.
import { useEffect, useMemo } from "react";
import { Button } from "@/parts/button";
import { DataTable } from "@/parts/data-table";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { TimeText } from "@/parts/time-text";
import { ValueView } from "@/parts/value-view";
import { useView } from "@/shell/search";
import { useShortcut } from "@/shell/shortcuts";
import { countText } from "@/words/times";
import { eventText, typeCounts } from "./event-text";
import { type PublicEvent, useEvents } from "./execution-events";
import type { ExecutionKey } from "./execution-reads";
import styles from "./events-tab.module.css";

interface Props {
  of: ExecutionKey;
  at: number | null;
  onChoose: (path: string) => void;
}

/** The events of an execution, up to the one that is shown. */
export function EventsTab({ of, at, onChoose }: Props) {
  const view = useView();
  const events = useEvents(of);
  const types = view.list("type");
  const isReversed = view.text("order") === "newest";
  const follows = view.text("follow") === "1" && !isReversed;
  const all = useMemo(() => (events.items ?? []).filter((one) => at === null || one.id <= at), [events.items, at]);
  const counts = useMemo(() => typeCounts(all), [all]);
  const rows = useMemo(() => {
    const chosen = types.length === 0 ? all : all.filter((one) => types.includes(one.type));
    return isReversed ? [...chosen].reverse() : chosen;
  }, [all, types.join(" "), isReversed]);
  const follow = () => view.change({ follow: follows ? "" : "1", order: "" }, true);
  useShortcut("f", "follow the end of the events", follow);
  useEffect(() => {
    if (follows) scrollTo({ top: document.documentElement.scrollHeight });
  }, [follows, rows.length]);
  if (events.isPending) return <Loading what="the events" />;
  if (events.error) return <ErrorNotice error={events.error} onRetry={() => void events.refetch()} />;
  if (all.length === 0) return <Empty title="There are no events yet" />;
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
        <Button aria-pressed={isReversed} onClick={() => view.change({ order: isReversed ? "" : "newest", follow: "" }, true)}>
          {isReversed ? "Oldest first" : "Newest first"}
        </Button>
        {at === null && (
          <Button aria-pressed={follows} onClick={follow}>
            Follow
          </Button>
        )}
      </div>
      {rows.length === 0 ? (
        <Empty title="No event has the chosen types" />
      ) : (
        <DataTable
          label="Events"
          rows={rows}
          keyOf={(one) => `${one.id} ${one.type} ${one.subject}`}
          nameOf={(one) => `event ${one.id}: ${one.type} ${one.subject ?? ""}`}
          marked={at === null ? undefined : rows.filter((one) => one.id === at).map((one) => `${one.id} ${one.type} ${one.subject}`)[0]}
          onOpen={(one) => view.change({ at: String(one.id) })}
          columns={[
            { id: "id", title: "Event", width: "4rem", align: "end", cell: (one) => one.id },
            { id: "type", title: "Type", width: "12rem", cell: (one) => one.type },
            { id: "subject", title: "Step", width: "2fr", cell: (one) => <Subject event={one} onChoose={onChoose} /> },
            { id: "data", title: "Data", width: "3fr", wideOnly: true, cell: (one) => <EventData event={one} /> },
            { id: "time", title: "When", width: "6.5rem", wideOnly: true, cell: (one) => <TimeText at={one.time} /> },
          ]}
        />
      )}
    </div>
  );
}

function Subject({ event, onChoose }: { event: PublicEvent; onChoose: (path: string) => void }) {
  const { subject } = event;
  if (!subject) return null;
  return (
    <button type="button" className={styles.step} title={subject} onClick={() => onChoose(subject)}>
      <bdi>{subject}</bdi>
    </button>
  );
}

function EventData({ event }: { event: PublicEvent }) {
  if (!event.data || Object.keys(event.data).length === 0) return null;
  return (
    <details className={styles.data}>
      <summary>{eventText(event)}</summary>
      <ValueView value={event.data} name="the data of the event" />
    </details>
  );
}
