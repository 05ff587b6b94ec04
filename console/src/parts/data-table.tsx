// A table of many rows: only those in view are in the page; keys walk through it; rows are named for those who hear them.
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useShortcut } from "@/shell/shortcuts";
import styles from "./data-table.module.css";

export interface Column<Row> {
  id: string;
  title: ReactNode;
  cell: (row: Row) => ReactNode;
  /** Its share of the width, as in `grid-template-columns`: "2fr", "8rem". */
  width?: string;
  /** Its share where the page is narrow; `width` if none is given. */
  narrowWidth?: string;
  align?: "end";
  /** Whether it is left out where the page is narrow. */
  wideOnly?: boolean;
}

interface Props<Row> {
  label: string;
  rows: Row[];
  columns: Column<Row>[];
  keyOf: (row: Row) => string;
  /** The name of a row for those who hear it: "order/o-17: failed". */
  nameOf: (row: Row) => string;
  /** What Enter and a click do. */
  onOpen?: (row: Row) => void;
  /** The keys of the chosen rows, and what changes them; without it, nothing can be chosen. */
  chosen?: ReadonlySet<string>;
  onChoose?: (chosen: Set<string>) => void;
  /** Called once when the last rows come into view. */
  onEnd?: () => void;
  /** Which row is marked, such as the one that is shown beside the table. */
  marked?: string;
}

const ROW_PX = 41;

/** Rows under headers. `j`, `k`, Enter and `x` walk, open and choose. */
export function DataTable<Row>({ label, rows, columns, keyOf, nameOf, onOpen, chosen, onChoose, onEnd, marked }: Props<Row>) {
  const frame = useRef<HTMLDivElement>(null);
  const [present, setPresent] = useState(-1);
  const [top, setTop] = useState(0);
  useEffect(() => setTop(frame.current ? frame.current.getBoundingClientRect().top + scrollY : 0), [rows.length > 0]);
  const view = useWindowVirtualizer({ count: rows.length, estimateSize: () => ROW_PX, overscan: 12, scrollMargin: top, scrollPaddingStart: ROW_PX, getItemKey: (index) => keyOf(rows[index] as Row) });
  const items = view.getVirtualItems();
  const lastIndex = items.at(-1)?.index ?? -1;
  const atEnd = useRef(onEnd);
  atEnd.current = onEnd;
  useEffect(() => {
    if (lastIndex >= 0 && lastIndex >= rows.length - 5) atEnd.current?.();
    // Once for each row that comes into view: reading that fails is not begun anew by the drawing of its failure.
  }, [lastIndex, rows.length]);
  const walk = (step: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, present + step));
    setPresent(next);
    view.scrollToIndex(next, { align: "auto" });
    requestAnimationFrame(() => frame.current?.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus());
  };
  const toggle = (row: Row) => {
    if (!chosen || !onChoose) return;
    const next = new Set(chosen);
    if (!next.delete(keyOf(row))) next.add(keyOf(row));
    onChoose(next);
  };
  useShortcut("j", "the next row", () => walk(1));
  useShortcut("k", "the row before", () => walk(-1));
  useShortcut("Enter", "open the row", () => rows[present] && onOpen?.(rows[present]), Boolean(onOpen) && present >= 0);
  useShortcut("x", "choose the row", () => rows[present] && toggle(rows[present]), Boolean(onChoose));
  const widths = `${onChoose ? "2.2rem " : ""}${columns.map((one) => `minmax(0, ${one.width ?? "1fr"})`).join(" ")}`;
  const narrow = `${onChoose ? "2.2rem " : ""}${columns.filter((one) => !one.wideOnly).map((one) => `minmax(0, ${one.narrowWidth ?? one.width ?? "1fr"})`).join(" ")}`;
  return (
    <div role="table" aria-label={label} aria-rowcount={rows.length + 1} className={styles.table} ref={(element) => setWidths(element, widths, narrow)}>
      <div role="rowgroup" className={styles.top}>
        <div role="row" className={`${styles.row} ${styles.head}`}>
          {onChoose && (
            <span role="columnheader">
              <span className="visually-hidden">Chosen</span>
            </span>
          )}
          {columns.map((one) => (
            <span role="columnheader" key={one.id} className={`${one.wideOnly ? styles.wide : ""} ${one.align ? styles.end : ""}`}>
              {one.title}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" ref={frame} className={styles.body}>
        <Spacer height={(items[0]?.start ?? top) - top} />
        {items.map((item) => {
          const row = rows[item.index] as Row;
          const key = keyOf(row);
          return (
            <div
              key={key}
              ref={view.measureElement}
              role="row"
              aria-rowindex={item.index + 2}
              aria-label={nameOf(row)}
              aria-selected={chosen?.has(key)}
              data-index={item.index}
              tabIndex={item.index === Math.max(present, 0) ? 0 : -1}
              className={`${styles.row} ${onOpen ? styles.opens : ""} ${marked === key ? styles.marked : ""}`}
              onFocus={() => setPresent(item.index)}
              onKeyDown={(event) => {
                if (event.key !== "Enter" || event.target !== event.currentTarget) return;
                event.preventDefault(); // the key is not for the page then
                onOpen?.(row);
              }}
              onClick={(event) => !isControl(event.target) && !getSelection()?.toString() && onOpen?.(row)}
            >
              {onChoose && (
                <span role="cell">
                  <input type="checkbox" aria-label={`Choose ${nameOf(row)}`} checked={chosen?.has(key) ?? false} onChange={() => toggle(row)} />
                </span>
              )}
              {columns.map((one) => (
                <span role="cell" key={one.id} className={`${styles.cell} ${one.wideOnly ? styles.wide : ""} ${one.align ? styles.end : ""}`}>
                  {one.cell(row)}
                </span>
              ))}
            </div>
          );
        })}
        <Spacer height={view.getTotalSize() - ((items.at(-1)?.end ?? top) - top)} />
      </div>
    </div>
  );
}

function Spacer({ height }: { height: number }) {
  return <div role="presentation" ref={(element) => void (element && (element.style.height = `${Math.max(height, 0)}px`))} />;
}

function setWidths(element: HTMLDivElement | null, widths: string, narrow: string): void {
  element?.style.setProperty("--widths", widths);
  element?.style.setProperty("--narrow-widths", narrow);
}

function isControl(target: EventTarget): boolean {
  return target instanceof Element && target.closest("a, button, input, select, label, summary") !== null;
}
