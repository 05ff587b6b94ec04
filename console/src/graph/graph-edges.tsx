// All edges of a graph in one drawing below the steps: what was taken is solid, what was not is dashed, and what leads back has a sign.
import { memo, useMemo } from "react";
import type { VisibleEdge } from "./graph-folding";
import type { Place, Point } from "./graph-layout";
import { meets } from "./graph-window";
import styles from "./graph-edges.module.css";

/** So many edges are drawn anew together. */
const CHUNK = 250;
/** With more edges than this, they are left out from afar, where they only make everything grey. */
export const FAR_EDGES_MAX = 4_000;

interface Way {
  points: Point[];
  label: Point | null;
}

interface Props {
  edges: readonly VisibleEdge[];
  ways: readonly Way[];
  /** By the number of the edge in sight: whether one of its edges was taken. */
  taken: readonly boolean[];
  /** Whether states are shown: in a plan nothing is taken, and nothing is dashed. */
  isPlan: boolean;
  /** The box whose edges are marked. */
  marked: string;
  /** Whether the filter leaves steps out: edges are in the background then. */
  isDim: boolean;
  /** The part that is drawn. */
  window: string;
}

interface DrawnEdge {
  edge: VisibleEdge;
  path: string;
  bounds: Place;
  label: Point | null;
}

/** The edges. */
export const EdgeLayer = memo(function EdgeLayer({ edges, ways, taken, isPlan, marked, isDim, window }: Props) {
  const drawn = useMemo(() => chunksOf(ways.map((way, number) => ({ edge: edges[number]!, path: edgePath(way.points), bounds: boundsOf(way.points), label: way.label }))), [edges, ways]);
  return (
    <svg className={`${styles.edges} ${isDim ? styles.dim : ""}`} aria-hidden="true" focusable="false">
      {drawn.map((chunk, number) => (
        <EdgeChunk key={number} chunk={chunk} taken={takenText(taken, number)} isPlan={isPlan} window={window} />
      ))}
      {marked !== "" && <MarkedEdges drawn={drawn} taken={taken} isPlan={isPlan} marked={marked} />}
    </svg>
  );
});

function chunksOf<T>(items: T[]): T[][] {
  return Array.from({ length: Math.ceil(items.length / CHUNK) }, (_, number) => items.slice(number * CHUNK, (number + 1) * CHUNK));
}

/** Which edges of a chunk were taken, as text, so that equal chunks are drawn once. */
function takenText(taken: readonly boolean[], chunk: number): string {
  let text = "";
  for (let at = chunk * CHUNK; at < Math.min((chunk + 1) * CHUNK, taken.length); at += 1) text += taken[at] ? "1" : "0";
  return text;
}

const EdgeChunk = memo(function EdgeChunk({ chunk, taken, isPlan, window }: { chunk: readonly DrawnEdge[]; taken: string; isPlan: boolean; window: string }) {
  return chunk.map(({ edge, path, bounds, label }, number) => {
    if (window !== "" && !meets(bounds, window)) return null;
    return <EdgePath key={edge.id} path={path} className={`${lookOf(taken[number] === "1", isPlan)} ${edge.isBack ? styles.back : ""}`} label={edge.label} isBack={edge.isBack} at={label} />;
  });
});

function lookOf(isTaken: boolean, isPlan: boolean): string | undefined {
  return isTaken ? styles.taken : isPlan ? styles.plan : styles.ghost;
}

/** The edges of the chosen box, once more above the others. */
function MarkedEdges({ drawn, taken, isPlan, marked }: { drawn: readonly (readonly DrawnEdge[])[]; taken: readonly boolean[]; isPlan: boolean; marked: string }) {
  const found = drawn.flat().flatMap(({ edge, path }, number) => (edge.source === marked || edge.target === marked ? [{ id: edge.id, path, isTaken: taken[number] ?? false }] : []));
  return (
    <g className={styles.marked}>
      {found.map(({ id, path, isTaken }) => (
        <g key={id} className={lookOf(isTaken, isPlan)}>
          <path d={path} />
        </g>
      ))}
    </g>
  );
}

const EdgePath = memo(function EdgePath({ path, className, label, isBack, at }: { path: string; className: string; label: string; isBack: boolean; at: Point | null }) {
  return (
    <g className={className}>
      <path d={path} />
      {at && label !== "" && (
        <text x={at.x} y={at.y}>
          {isBack ? `↺ ${label}` : label}
        </text>
      )}
    </g>
  );
});

function boundsOf(points: readonly Point[]): Place {
  const [xs, ys] = [points.map((one) => one.x), points.map((one) => one.y)];
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
}

/** A smooth line through points, which runs downwards or upwards at each, with an arrow at its end. */
export function edgePath(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first || rest.length === 0) return "";
  const isLoop = points.length === 4 && points[1]!.x === points[2]!.x && points[0]!.x === points[3]!.x;
  const line = isLoop ? `C${points.slice(1).map((one) => `${one.x},${one.y}`).join(" ")}` : bends(first, rest);
  return `M${first.x},${first.y}${line}${arrow(points, isLoop)}`;
}

function bends(first: Point, rest: readonly Point[]): string {
  let from = first;
  return rest
    .map((to) => {
      const middle = (from.y + to.y) / 2;
      const bend = `C${from.x},${middle} ${to.x},${middle} ${to.x},${to.y}`;
      from = to;
      return bend;
    })
    .join("");
}

function arrow(points: readonly Point[], isLoop: boolean): string {
  const [end, before] = [points[points.length - 1]!, points[points.length - 2]!];
  if (isLoop) return `M${end.x + 7},${end.y - 5}L${end.x},${end.y}L${end.x + 7},${end.y + 5}`;
  const tail = end.y >= before.y ? -7 : 7;
  return `M${end.x - 4.5},${end.y + tail}L${end.x},${end.y}L${end.x + 4.5},${end.y + tail}`;
}
