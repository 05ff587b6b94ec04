// The events of an execution in their order: by type, with their data on demand, and the view of the execution as of each.
import { DataTable } from "@/parts/data-table";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { TimeText } from "@/parts/time-text";
import { useView } from "@/shell/search";
import { useEvents } from "./execution-events";
import type { ExecutionKey } from "./execution-reads";

/** The events of an execution. */
export function EventsTab({ of, at }: { of: ExecutionKey; at: number | null }) {
  const view = useView();
  const events = useEvents(of);
  if (events.isPending) return <Loading what="the events" />;
  if (events.error) return <ErrorNotice error={events.error} onRetry={() => void events.refetch()} />;
  const rows = (events.items ?? []).filter((one) => at === null || one.id <= at);
  if (rows.length === 0) return <Empty title="There are no events yet" />;
  return (
    <DataTable
      label="Events"
      rows={rows}
      keyOf={(one) => `${one.id} ${one.type} ${one.subject}`}
      nameOf={(one) => `event ${one.id}: ${one.type} ${one.subject}`}
      onOpen={(one) => view.change({ at: String(one.id) })}
      columns={[
        { id: "id", title: "Number", width: "5rem", align: "end", cell: (one) => one.id },
        { id: "type", title: "Type", width: "2fr", cell: (one) => one.type },
        { id: "subject", title: "Step", width: "2fr", cell: (one) => <bdi>{one.subject}</bdi> },
        { id: "time", title: "When", width: "7rem", cell: (one) => <TimeText at={one.time} /> },
      ]}
    />
  );
}
