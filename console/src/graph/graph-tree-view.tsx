// The graph as a tree: the same steps, states and choices for those who use a keyboard or a screen reader.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { StateMark } from "@/parts/state-mark";
import type { FoldChoices } from "./graph-folding";
import type { GraphModel, ShownGraph } from "./graph-model";
import type { StateCounts } from "./graph-states";
import { nodeFacts } from "./graph-states";
import { boxDetail, boxTitle, countsText } from "./graph-texts";
import { treeRows, treeStep, type TreeRow } from "./graph-tree";
import styles from "./graph-tree-view.module.css";

const ROW_HEIGHT = 34;
/** With more rows than this, only those in the window are drawn. */
const ALL_DRAWN_MAX = 200;

interface Props {
  graph: ShownGraph;
  model: GraphModel;
  counts: ReadonlyMap<string, StateCounts>;
  folds: FoldChoices;
  isLarge: boolean;
  states: ReadonlySet<string>;
  selected: string;
  label: string;
  onFold: (id: string, isFolded: boolean) => void;
  onSelect: (id: string) => void;
}

/** The tree. */
export function GraphTreeView({ graph, model, counts, folds, isLarge, states, selected, label, onFold, onSelect }: Props) {
  const rows = useMemo(() => treeRows(model, folds, isLarge), [model, folds, isLarge]);
  const [current, setCurrent] = useState(selected);
  const frame = useRef<HTMLDivElement>(null);
  const wanted = useRef("");
  const list = useVirtualizer({ count: rows.length, getScrollElement: () => frame.current, estimateSize: () => ROW_HEIGHT, overscan: 12, getItemKey: (at) => rows[at]!.id });
  const stop = rows.some((row) => row.id === current) ? current : (rows[0]?.id ?? "");
  const seen = rows.length > ALL_DRAWN_MAX ? list.getVirtualItems() : rows.map((_, index) => ({ index, start: index * ROW_HEIGHT }));
  useEffect(() => {
    if (wanted.current === "") return;
    const element = frame.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(wanted.current)}"]`);
    if (!element) return;
    element.focus({ preventScroll: true });
    wanted.current = "";
  });
  const go = (id: string) => {
    setCurrent(id);
    wanted.current = id;
    list.scrollToIndex(rows.findIndex((row) => row.id === id));
  };
  const press = (event: KeyboardEvent<HTMLDivElement>) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(rows.find((row) => row.id === stop));
      return;
    }
    const step = treeStep(rows, stop, event.key);
    if (!step) return;
    event.preventDefault();
    if ("focus" in step) go(step.focus);
    else onFold(step.id, step.isFolded);
  };
  const choose = (row: TreeRow | undefined) => {
    if (!row) return;
    setCurrent(row.id);
    if (row.box.node >= 0) onSelect(row.id);
    else if (row.isOpen !== null) onFold(row.id, row.isOpen);
  };
  return (
    <div ref={frame} className={styles.frame} role="tree" aria-label={label} onKeyDown={press}>
      <div className={styles.rows} role="presentation" style={{ height: list.getTotalSize() }}>
        {seen.map(({ index, start }) => {
          const row = rows[index]!;
          const node = graph.nodes[row.box.node];
          const isDim = states.size > 0 && !(node?.state && states.has(node.state));
          return (
            <div
              key={row.id}
              role="treeitem"
              data-row={row.id}
              className={styles.row}
              style={{ transform: `translateY(${start}px)`, paddingInlineStart: `${(row.depth - 1) * 1.25}rem` }}
              aria-level={row.depth}
              aria-posinset={row.position}
              aria-setsize={row.count}
              aria-expanded={row.isOpen ?? undefined}
              aria-selected={row.id === selected}
              data-dim={isDim || undefined}
              tabIndex={row.id === stop ? 0 : -1}
              onClick={() => choose(row)}
              onFocus={() => setCurrent(row.id)}
            >
              <span
                className={styles.toggle}
                aria-hidden="true"
                onClick={(event) => {
                  event.stopPropagation();
                  if (row.isOpen !== null) onFold(row.id, row.isOpen);
                }}
              >
                {row.isOpen === null ? "" : row.isOpen ? "▾" : "▸"}
              </span>
              {node?.state ? <StateMark state={node.state} /> : null}
              <bdi className={styles.title} title={boxTitle(row.box, node)}>
                {boxTitle(row.box, node)}
              </bdi>
              <bdi className={styles.detail}>{[boxDetail(row.box, node), ...(node ? nodeFacts(node) : []), row.box.form === "items" ? countsText(counts.get(row.id) ?? {}) : ""].filter((part) => part !== "").join(" · ")}</bdi>
            </div>
          );
        })}
      </div>
      {rows.length === 0 && <p className={styles.empty}>There are no steps yet.</p>}
    </div>
  );
}
