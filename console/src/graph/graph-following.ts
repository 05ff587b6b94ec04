// Where the view moves in follow mode: to what goes on, but only when that is not in view already, so that a graph in which much happens stands still.
import type { Place } from "./graph-layout";

/** What is shown: a point of the graph at the left upper corner of the window, and the zoom. */
export interface Viewport {
  x: number;
  y: number;
  zoom: number;
}

export interface Size {
  width: number;
  height: number;
}

const MARGIN = 0.15;
const ZOOM_MIN = 0.25;
const ZOOM_MAX = 1;
/** The view stays if it is at most so many times as close as it could be, or as far. */
const ZOOM_LEEWAY = 2;

/** The place around all of several. */
export function placeAround(places: readonly Place[]): Place {
  const [x, y] = [Math.min(...places.map((one) => one.x)), Math.min(...places.map((one) => one.y))];
  return { x, y, width: Math.max(...places.map((one) => one.x + one.width)) - x, height: Math.max(...places.map((one) => one.y + one.height)) - y };
}

/** The view that shows a place; null if the present one shows it well enough. */
export function followedViewport(place: Place, now: Viewport, window: Size): Viewport | null {
  const fitting = Math.min((window.width * (1 - 2 * MARGIN)) / Math.max(place.width, 1), (window.height * (1 - 2 * MARGIN)) / Math.max(place.height, 1));
  const zoom = Math.min(Math.max(fitting, ZOOM_MIN), ZOOM_MAX);
  const isLikeIt = now.zoom <= zoom * ZOOM_LEEWAY && now.zoom * ZOOM_LEEWAY >= zoom;
  if (isLikeIt && isShown(place.x * now.zoom + now.x, place.width * now.zoom, window.width) && isShown(place.y * now.zoom + now.y, place.height * now.zoom, window.height)) return null;
  return { x: window.width / 2 - (place.x + place.width / 2) * zoom, y: window.height / 2 - (place.y + place.height / 2) * zoom, zoom };
}

/** Whether a span is within the window, or, if it is longer than that, fills most of it. */
function isShown(from: number, length: number, room: number): boolean {
  if (length <= room) return from >= 0 && from + length <= room;
  return Math.min(from + length, room) - Math.max(from, 0) >= room * (1 - MARGIN);
}
