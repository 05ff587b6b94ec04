// The next ticks of a schedule, in its own zone and in that of the viewer; those at which clocks are changed are marked.
import type { Schemas } from "@/api/client";
import blocks from "@/parts/blocks.module.css";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { localTick, viewerTick } from "./tick-times";
import { TICK_NOTES } from "./trigger-words";

/** A table of ticks. */
export function TickList({ preview, label = "The next runs" }: { preview: Schemas["SchedulePreview"]; label?: string }) {
  const viewerZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const isSame = viewerZone === preview.timezone;
  return (
    <>
      <SimpleTable
        label={label}
        rows={preview.ticks}
        keyOf={(one) => one.tickAt}
        empty="There are no further ticks."
        columns={[
          { id: "local", title: preview.timezone, cell: (one) => <time dateTime={one.tickAt}>{localTick(one.local)}</time> },
          ...(isSame ? [] : [{ id: "viewer", title: `${viewerZone} (yours)`, cell: (one: Schemas["PreviewedTick"]) => viewerTick(one.tickAt) }]),
          { id: "in", title: "In", cell: (one) => <TimeText at={one.dueAt} /> },
          { id: "note", title: "Clocks", cell: (one) => (one.note ? <strong className={blocks.warn}>⚠ {TICK_NOTES[one.note] ?? one.note}</strong> : "") },
        ]}
      />
      {isSame && <p className={blocks.soft}>This is your own zone.</p>}
    </>
  );
}
