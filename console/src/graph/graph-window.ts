// Which part of a large graph is drawn: that in the window and around it, in tiles, so that a small move draws nothing anew.
import { useStore } from "@xyflow/react";
import type { Place } from "./graph-layout";

const TILE = 1024;

/** The part that is drawn, as "left,top,right,bottom" in units of the graph; empty if all is drawn. */
export function useDrawnWindow(isLarge: boolean): string {
  return useStore((state) => {
    if (!isLarge) return "";
    const [x, y, zoom] = state.transform;
    const size = TILE / 2 ** Math.ceil(Math.log2(zoom));
    const tile = (value: number) => Math.floor(value / size);
    return [(tile(-x / zoom) - 1) * size, (tile(-y / zoom) - 1) * size, (tile((state.width - x) / zoom) + 2) * size, (tile((state.height - y) / zoom) + 2) * size].join();
  });
}

let last: { text: string; bounds: readonly number[] } = { text: "", bounds: [] };

/** Whether a place is in the part that is drawn. */
export function meets(place: Place, window: string): boolean {
  if (last.text !== window) last = { text: window, bounds: window.split(",").map(Number) };
  const [left, top, right, bottom] = last.bounds as [number, number, number, number];
  return place.x < right && place.x + place.width > left && place.y < bottom && place.y + place.height > top;
}
