// All edges of a graph in one drawing below the steps: what was taken is solid, what was not is dashed, and what leads back has a sign.
import { memo, useMemo } from "react";
import type { VisibleEdge } from "./graph-folding";
import type { Place, Point } from "./graph-layout";
import { meets } from "./graph-window";
import styles from "./graph-edges.module.css";

interface Props {
  edges: readonly VisibleEdge[];
  ways: readonly { points: Point[]; label: Point | null }[];
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

/** The edges. */
export const EdgeLayer = memo(function EdgeLayer({ edges, ways, taken, isPlan, marked, isDim, window }: Props) {
  const drawn = useMemo(() => ways.map((way) => ({ path: edgePath(way.points), bounds: boundsOf(way.points) })), [ways]);
  return (
    <svg className={`${styles.edges} ${isDim ? styles.dim : ""}`} aria-hidden="true" focusable="false">
      {edges.map((edge, number) => {
        const one = drawn[number];
        if (!one || (window !== "" && !meets(one.bounds, window))) return null;
        const look = taken[number] ? styles.taken : isPlan ? styles.plan : styles.ghost;
        const isMarked = marked !== "" && (edge.source === marked || edge.target === marked);
        return <EdgePath key={edge.id} path={one.path} className={`${look} ${edge.isBack ? styles.back : ""} ${isMarked ? styles.marked : ""}`} label={edge.label} isBack={edge.isBack} at={ways[number]!.label} />;
      })}
    </svg>
  );
});

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
