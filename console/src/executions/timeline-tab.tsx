// The timeline of an execution: a row a step, with segments for queue, attempts, back-off and waits, on an axis that can be zoomed.
import { type ReactNode, type RefObject, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Button } from "@/parts/button";
import { DataTable } from "@/parts/data-table";
import { Empty } from "@/parts/notice";
import { StateMark } from "@/parts/state-mark";
import { useNow } from "@/parts/time-text";
import { useView } from "@/shell/search";
import { useShortcut } from "@/shell/shortcuts";
import { stateWord } from "@/words/states";
import { durationText } from "@/words/times";
import type { ExecutionRecord, StepTrace } from "./execution-reads";
import { type Axis, placeOf, type Span, ticksOf, timeAt, timeAxis, zoomed } from "./time-axis";
import { attemptsMax, busySpans, type Segment, type TimelineRow, timelineRows, wholeSpan } from "./timeline-rows";
import styles from "./timeline-tab.module.css";

interface Props {
  record: ExecutionRecord;
  steps: StepTrace[];
  /** The time that is shown as the present one; null: the clock's. */
  shownMs: number | null;
  changed: ReadonlySet<string>;
  chosen: string;
  onChoose: (path: string) => void;
}

/** The width of the label of a tick. */
const LABEL_PX = 60;
const BRUSH_MIN_PX = 6;

/** The timeline. It stands still while the pointer is over it. */
export function TimelineTab({ record, steps, shownMs, changed, chosen, onChoose }: Props) {
  const view = useView();
  const [isHeld, hold] = useState(false);
  const nowMs = useHeldNow(isHeld, shownMs ?? (record.completedAt ? Date.parse(record.completedAt) : null));
  const attempt = Number(view.text("attempt")) || 0;
  const attempts = useMemo(() => attemptsMax(steps), [steps]);
  const rows = useMemo(() => timelineRows(steps, nowMs, attempt), [steps, nowMs, attempt]);
  const startedMs = Date.parse(record.startedAt ?? record.createdAt);
  const whole = useMemo(() => wholeSpan(rows, startedMs), [rows, startedMs]);
  const busy = useMemo(() => busySpans(rows), [rows]);
  const shown = readZoom(view.text("zoom"), startedMs, whole);
  const folds = view.text("idle") !== "shown";
  const axis = useMemo(() => timeAxis(busy, shown, folds), [busy, shown.fromMs, shown.toMs, folds]);
  const zoom = (span: Span | null) => view.change({ zoom: span && span.toMs - span.fromMs < whole.toMs - whole.fromMs ? writeZoom(span, startedMs) : "" }, true);
  useShortcut("Escape", "show all of the timeline", () => zoom(null), view.text("zoom") !== "");
  if (steps.length === 0) return <Empty title="No step has begun" />;
  const hasFolded = axis.pieces.some((one) => one.isFolded);
  return (
    <div className={styles.timeline} onPointerEnter={() => hold(true)} onPointerLeave={() => hold(false)}>
      <div className={styles.tools}>
        <Button onClick={() => zoom(zoomed(shown, 0.5, whole))}>Zoom in</Button>
        <Button onClick={() => zoom(zoomed(shown, 2, whole))}>Zoom out</Button>
        <Button refusal={view.text("zoom") ? "" : "All of it is shown"} onClick={() => zoom(null)}>
          Whole
        </Button>
        {(hasFolded || !folds) && (
          <Button aria-pressed={!folds} onClick={() => view.change({ idle: folds ? "shown" : "" }, true)}>
            {folds ? "Show idle time in full" : "Fold idle time"}
          </Button>
        )}
        {attempts > 1 && (
          <label className={styles.choice}>
            Attempt{" "}
            <select value={attempt || ""} onChange={(event) => view.change({ attempt: event.target.value }, true)}>
              <option value="">all</option>
              {Array.from({ length: attempts }, (_, index) => (
                <option key={index} value={index + 1}>
                  {index + 1}
                </option>
              ))}
            </select>
          </label>
        )}
        <Legend />
      </div>
      <DataTable
        label="Timeline of the steps"
        rows={rows}
        keyOf={(row) => row.step.path}
        nameOf={rowName}
        marked={chosen}
        onOpen={(row) => onChoose(row.step.path)}
        columns={[
          {
            id: "step",
            title: "Step",
            width: "var(--step-width)",
            cell: (row) => (
              <span className={styles.step}>
                <StateMark state={row.step.state} short /> <bdi title={row.step.path}>{row.step.path}</bdi>
                {changed.has(row.step.path) && <ChangedMark />}
              </span>
            ),
          },
          { id: "time", title: <Ticks axis={axis} originMs={startedMs} onBrush={zoom} onWhole={() => zoom(null)} />, cell: (row) => <Track axis={axis} row={row} /> },
        ]}
      />
    </div>
  );
}

/** Marks what the shown event has changed. */
export function ChangedMark() {
  return (
    <span className={styles.changed} title="Changed by the event that is shown">
      ● <span>changed here</span>
    </span>
  );
}

function useHeldNow(isHeld: boolean, fixedMs: number | null): number {
  const nowMs = useNow();
  const held = useRef(nowMs);
  if (!isHeld) held.current = nowMs;
  return fixedMs ?? held.current;
}

function rowName(row: TimelineRow): string {
  const says = row.segments.filter((one) => one.kind !== "queue").map((one) => one.says);
  return `${row.step.path}: ${stateWord(row.step.state).word}${says.length ? `; ${says.slice(-6).join("; ")}` : ""}`;
}

function Track({ axis, row }: { axis: Axis; row: TimelineRow }) {
  return (
    <span className={styles.track} aria-hidden="true">
      {axis.pieces.filter((one) => one.isFolded).map((one) => <span key={one.fromMs} className={styles.fold} style={placed(one.from, one.to)} />)}
      {row.segments.filter((one) => one.toMs >= axis.fromMs && one.fromMs <= axis.toMs).map((one, index) => (
        <Bar key={index} axis={axis} segment={one} />
      ))}
    </span>
  );
}

function Bar({ axis, segment }: { axis: Axis; segment: Segment }) {
  const look = segment.kind === "attempt" ? `${styles.attempt} ${styles[stateWord(segment.state).style]}` : segment.kind === "wait" ? `${styles.wait} ${segment.state === "waiting_approval" ? styles.asks : ""}` : styles[segment.kind];
  return (
    <span className={`${styles.bar} ${look}`} style={placed(placeOf(axis, segment.fromMs), placeOf(axis, segment.toMs))} title={segment.says}>
      {segment.kind === "attempt" && <span className={styles.glyph}>{stateWord(segment.state).glyph}</span>}
    </span>
  );
}

function placed(from: number, to: number) {
  return { insetInlineStart: `${from * 100}%`, width: `${Math.max(to - from, 0) * 100}%` };
}

/** The ticks of the axis. A span of it that is drawn over with the pointer is zoomed to; a double click shows all again, and Esc ends the drawing. */
function Ticks({ axis, originMs, onBrush, onWhole }: { axis: Axis; originMs: number; onBrush: (span: Span) => void; onWhole: () => void }) {
  const [brush, setBrush] = useState<[number, number] | null>(null);
  const frame = useRef<HTMLSpanElement>(null);
  useShortcut("Escape", "draw over no part of the timeline", () => setBrush(null), brush !== null);
  const widthPx = useWidth(frame);
  const placeAt = useCallback((clientX: number) => {
    const box = frame.current?.getBoundingClientRect();
    return box ? Math.min(Math.max((clientX - box.left) / box.width, 0), 1) : 0;
  }, []);
  const end = () => {
    const width = frame.current?.getBoundingClientRect().width ?? 0;
    if (brush && Math.abs(brush[1] - brush[0]) * width > BRUSH_MIN_PX) onBrush({ fromMs: timeAt(axis, Math.min(...brush)), toMs: timeAt(axis, Math.max(...brush)) });
    setBrush(null);
  };
  return (
    <span
      ref={frame}
      className={styles.axis}
      title="Draw over a part to zoom to it; a double click shows all again"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setBrush([placeAt(event.clientX), placeAt(event.clientX)]);
      }}
      onPointerMove={(event) => brush && setBrush([brush[0], placeAt(event.clientX)])}
      onPointerUp={end}
      onPointerCancel={() => setBrush(null)}
      onDoubleClick={onWhole}
    >
      <span className="visually-hidden">Time since the begin</span>
      {ticksOf(axis, originMs, LABEL_PX / Math.max(widthPx, LABEL_PX)).map((one) => (
        <span key={one.sinceMs} className={`${styles.tick} ${one.isLate ? styles.late : ""}`} style={{ insetInlineStart: `${one.place * 100}%` }}>
          {one.sinceMs === 0 ? "0" : durationText(one.sinceMs)}
        </span>
      ))}
      {axis.pieces
        .filter((one) => one.isFolded)
        .map((one) => (
          <span key={one.fromMs} className={styles.foldMark} style={placed(one.from, one.to)} title={`Idle for ${durationText(one.toMs - one.fromMs)}`}>
            ⋯
          </span>
        ))}
      {brush && <span className={styles.brush} style={placed(Math.min(...brush), Math.max(...brush))} />}
    </span>
  );
}

/** The width of an element, also after it has changed. */
function useWidth(element: RefObject<HTMLElement | null>): number {
  const [widthPx, setWidth] = useState(0);
  useEffect(() => {
    if (!element.current) return;
    const observer = new ResizeObserver(([entry]) => entry && setWidth(entry.contentRect.width));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [element]);
  return widthPx;
}

function Legend(): ReactNode {
  return (
    <ul className={styles.legend} aria-label="Segments">
      <li><span className={`${styles.sample} ${styles.attempt} ${styles.good}`} /> attempt</li>
      <li><span className={`${styles.sample} ${styles.queue}`} /> queue</li>
      <li><span className={`${styles.sample} ${styles.backoff}`} /> back-off</li>
      <li><span className={`${styles.sample} ${styles.wait}`} /> wait</li>
      <li><span className={styles.foldSample}>⋯</span> idle, folded</li>
    </ul>
  );
}

function readZoom(text: string, originMs: number, whole: Span): Span {
  const found = /^(-?\d+)-(\d+)$/.exec(text);
  if (!found) return whole;
  const fromMs = Math.max(originMs + Number(found[1]), whole.fromMs);
  const toMs = Math.min(originMs + Number(found[2]), whole.toMs);
  return toMs > fromMs ? { fromMs, toMs } : whole;
}

function writeZoom(span: Span, originMs: number): string {
  return `${Math.floor(span.fromMs - originMs)}-${Math.ceil(span.toMs - originMs)}`;
}
