// How arrow keys walk through the graph: down and up along its edges, into open boxes and out of them; left and right to what stands beside.
import type { VisibleGraph } from "./graph-folding";
import type { Place } from "./graph-layout";

/** The box that a key leads to from a box; empty if it leads nowhere. */
export function walkedTo(visible: VisibleGraph, places: ReadonlyMap<string, Place>, from: string, key: string): string {
  switch (key) {
    case "ArrowDown":
      return downFrom(visible, places, from);
    case "ArrowUp":
      return upFrom(visible, places, from);
    case "ArrowLeft":
      return beside(visible, places, from, -1);
    case "ArrowRight":
      return beside(visible, places, from, 1);
    case "Home":
      return startOf(visible, visible.top);
    case "End":
      return endOf(visible, visible.top);
    default:
      return "";
  }
}

function downFrom(visible: VisibleGraph, places: ReadonlyMap<string, Place>, from: string): string {
  const box = visible.boxes.get(from);
  if (!box) return startOf(visible, visible.top);
  const inside = box.children.length > 0 ? startOf(visible, box.children) : "";
  if (inside) return inside;
  for (let at = from; at !== ""; at = visible.boxes.get(at)?.parent ?? "") {
    const next = nearest(places, at, linked(visible, at, "source", "target"));
    if (next) return walkable(visible, next);
  }
  return "";
}

function upFrom(visible: VisibleGraph, places: ReadonlyMap<string, Place>, from: string): string {
  const before = nearest(places, from, linked(visible, from, "target", "source"));
  if (before) return lastOf(visible, before);
  for (let at = visible.boxes.get(from)?.parent ?? ""; at !== ""; at = visible.boxes.get(at)?.parent ?? "") {
    if (isWalkable(visible, at)) return at;
    const earlier = nearest(places, at, linked(visible, at, "target", "source"));
    if (earlier) return lastOf(visible, earlier);
  }
  return "";
}

/** A list with a caption and a cycle are not walked to themselves: they are no steps. */
function isWalkable(visible: VisibleGraph, id: string): boolean {
  const form = visible.boxes.get(id)?.box.form;
  return form !== "list" && form !== "cycle" && form !== undefined;
}

function walkable(visible: VisibleGraph, id: string): string {
  return isWalkable(visible, id) ? id : startOf(visible, visible.boxes.get(id)?.children ?? []);
}

/** The last box inside an open one, from which down leads on; else itself. */
function lastOf(visible: VisibleGraph, id: string): string {
  const children = visible.boxes.get(id)?.children ?? [];
  return children.length > 0 ? endOf(visible, children) || id : walkable(visible, id);
}

function startOf(visible: VisibleGraph, ids: readonly string[]): string {
  const entered = new Set(visible.edges.filter((edge) => !edge.isBack).map((edge) => edge.target));
  const first = ids.find((id) => !entered.has(id)) ?? ids[0];
  return first === undefined ? "" : walkable(visible, first);
}

function endOf(visible: VisibleGraph, ids: readonly string[]): string {
  const left = new Set(visible.edges.filter((edge) => !edge.isBack).map((edge) => edge.source));
  const last = [...ids].reverse().find((id) => !left.has(id)) ?? ids[ids.length - 1];
  return last === undefined ? "" : lastOf(visible, last);
}

function linked(visible: VisibleGraph, from: string, near: "source" | "target", far: "source" | "target"): string[] {
  return visible.edges.filter((edge) => edge[near] === from && !edge.isBack && edge[far] !== from).map((edge) => edge[far]);
}

function nearest(places: ReadonlyMap<string, Place>, from: string, ids: readonly string[]): string {
  const own = places.get(from);
  const distance = (id: string) => Math.abs(center(places.get(id)) - center(own));
  return [...ids].sort((a, b) => distance(a) - distance(b))[0] ?? "";
}

function center(place: Place | undefined): number {
  return place ? place.x + place.width / 2 : 0;
}

/** The next box to the left or right in the same list whose height overlaps; else that of the box around. */
function beside(visible: VisibleGraph, places: ReadonlyMap<string, Place>, from: string, direction: 1 | -1): string {
  for (let at = from; at !== ""; at = visible.boxes.get(at)?.parent ?? "") {
    const own = places.get(at);
    const parent = visible.boxes.get(at)?.parent ?? "";
    const siblings = parent === "" ? visible.top : (visible.boxes.get(parent)?.children ?? []);
    const found = siblings.filter((id) => {
      const place = places.get(id);
      return own && place && id !== at && place.y < own.y + own.height && own.y < place.y + place.height && (center(place) - center(own)) * direction > 0;
    });
    const next = nearest(places, at, found);
    if (next) return walkable(visible, next);
  }
  return "";
}
