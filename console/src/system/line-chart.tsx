// A chart of lines or bars over time, with the same numbers as a table for those who don't see it.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "react";
import blocks from "@/parts/blocks.module.css";
import { SimpleTable } from "@/parts/simple-table";
import styles from "./line-chart.module.css";
import { timeLabels } from "./time-labels";

export interface Series {
  name: string;
  /** The name of a colour of `theme.css`. */
  colour: "good" | "bad" | "live" | "warn" | "dim";
  /** How its line is broken, so that colour is not all that tells it apart. */
  dash?: number[];
  values: (number | null)[];
}

interface Props {
  title: string;
  /** Seconds since 1970. */
  times: number[];
  series: Series[];
  unit?: string;
  bars?: boolean;
}

const HEIGHT = 200;
const ROWS_MAX = 48;

/** Draws series over the same times. */
export function LineChart({ title, times, series, unit = "", bars = false }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(null);
  const data = [times, ...series.map((one) => one.values)] as uPlot.AlignedData;
  const latest = useRef(data); // a chart that is made anew for another theme has what came since
  latest.current = data;
  const shape = series.map((one) => `${one.name} ${one.colour}`).join("|");
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const make = () => {
      chart.current?.destroy();
      const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
      const resolved = (name: string) => resolvedColour(element, name) || colour(name);
      const axis = { stroke: resolved("text-soft"), grid: { stroke: resolved("line"), width: 1 }, ticks: { stroke: resolved("line"), width: 1 }, font: "12px system-ui" };
      chart.current = new uPlot(
        {
          width: Math.max(element.clientWidth, 200),
          height: HEIGHT,
          legend: { live: true },
          cursor: { y: false },
          scales: { y: { range: (_, low, high) => [Math.min(low ?? 0, 0), (high || 1) * 1.05] } },
          axes: [{ ...axis, values: (_, all) => timeLabels(all) }, { ...axis, size: unit ? 78 : 56, values: (_, all) => all.map((one) => `${Number(one.toPrecision(4))}${unit && ` ${unit}`}`) }],
          series: [
            { value: (_: uPlot, atS: number | null) => (atS === null ? "–" : new Date(atS * 1_000).toLocaleString("sv-SE")) },
            ...series.map((one) => ({
              label: one.name,
              stroke: resolved(one.colour),
              fill: bars ? resolved(one.colour) : undefined,
              dash: one.dash,
              width: 2,
              spanGaps: false,
              points: { show: !bars && times.length < 3 },
              paths: bars ? uPlot.paths.bars?.({ size: [0.8, 40] }) : undefined,
              value: (_: uPlot, value: number | null) => (value === null ? "–" : `${Number(value.toPrecision(4))}${unit && ` ${unit}`}`),
            })),
          ],
        },
        latest.current,
        element,
      );
    };
    make();
    const resized = new ResizeObserver(() => chart.current?.setSize({ width: Math.max(element.clientWidth, 200), height: HEIGHT }));
    resized.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const themed = new MutationObserver(make);
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    dark.addEventListener("change", make);
    return () => {
      resized.disconnect();
      themed.disconnect();
      dark.removeEventListener("change", make);
      chart.current?.destroy();
      chart.current = null;
    };
  }, [shape, unit, bars]);
  useEffect(() => chart.current?.setData(data), [times, series]);
  const rows = times.map((atS, index) => ({ atS, values: series.map((one) => one.values[index] ?? null) })).slice(-ROWS_MAX);
  return (
    <figure className={styles.chart}>
      <figcaption className={styles.title}>{title}</figcaption>
      <div ref={place} aria-hidden="true" className={styles.place} />
      <details>
        <summary>{title}, as a table</summary>
        <SimpleTable
          label={title}
          rows={rows.toReversed()}
          keyOf={(one) => String(one.atS)}
          empty="No values yet."
          columns={[
            { id: "at", title: "Time", cell: (one) => new Date(one.atS * 1_000).toLocaleString("sv-SE") },
            ...series.map((of, index) => ({ id: of.name, title: of.name, cell: (one: (typeof rows)[number]) => (one.values[index] === null || one.values[index] === undefined ? "–" : `${Number(one.values[index].toPrecision(4))} ${unit}`) })),
          ]}
        />
        {times.length > ROWS_MAX && <p className={blocks.soft}>The last {ROWS_MAX} of {times.length}.</p>}
      </details>
    </figure>
  );
}

/** A colour of the theme as a canvas takes it: `light-dark()` is resolved by an element that has it. */
function resolvedColour(beside: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  beside.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
