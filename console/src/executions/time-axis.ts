// The axis of a timeline: places for times between 0 and 1, in which long idle times are folded to a small width.

/** A span of time in milliseconds since 1970. */
export interface Span {
  fromMs: number;
  toMs: number;
}

/** A part of the axis: a span, its place, and whether it is an idle time that is folded. */
export interface Piece extends Span {
  from: number;
  to: number;
  isFolded: boolean;
}

/** The pieces of an axis in order, without gaps. */
export interface Axis extends Span {
  pieces: Piece[];
}

/** A mark on the axis: its place, its time since the begin, and whether its label is before it, since behind it there is no room. */
export interface Tick {
  place: number;
  sinceMs: number;
  isLate: boolean;
}

/** An idle time is folded if it is longer than this share of all busy time together. */
const FOLDED_ABOVE = 0.5;
const FOLDED_WIDTH = 0.04;
const FOLDED_WIDTH_ALL = 0.4;
const NICE_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000];
const DAY_MS = 86_400_000;
const TICKS_MAX = 6;

/** Builds the axis of what is shown: `busy` are the spans in which something was done, in any order. */
export function timeAxis(busy: readonly Span[], shown: Span, folds = true): Axis {
  const fromMs = shown.fromMs;
  const toMs = Math.max(shown.toMs, fromMs + 1);
  const spans = mergedSpans(busy, { fromMs, toMs });
  const busyMs = spans.reduce((sum, one) => sum + one.toMs - one.fromMs, 0);
  const longMs = folds && busyMs > 0 ? busyMs * FOLDED_ABOVE : Number.POSITIVE_INFINITY;
  const parts = partsOf(spans, { fromMs, toMs }, longMs);
  const folded = parts.filter((one) => one.isFolded).length;
  const foldedWidth = Math.min(FOLDED_WIDTH, FOLDED_WIDTH_ALL / Math.max(folded, 1));
  const openMs = parts.reduce((sum, one) => sum + (one.isFolded ? 0 : one.toMs - one.fromMs), 0);
  const scale = openMs > 0 ? (1 - folded * foldedWidth) / openMs : 0;
  const pieces: Piece[] = [];
  let place = 0;
  for (const part of parts) {
    const width = part.isFolded ? foldedWidth : (part.toMs - part.fromMs) * scale;
    pieces.push({ ...part, from: place, to: place + width });
    place += width;
  }
  const last = pieces.at(-1);
  if (last) last.to = 1;
  return { fromMs, toMs, pieces };
}

/** The spans that overlap `within`, cut to it, in order, without overlaps. */
function mergedSpans(busy: readonly Span[], within: Span): Span[] {
  const cut = busy
    .filter((one) => one.toMs >= within.fromMs && one.fromMs <= within.toMs)
    .map((one) => ({ fromMs: Math.max(one.fromMs, within.fromMs), toMs: Math.min(Math.max(one.toMs, one.fromMs), within.toMs) }))
    .sort((one, other) => one.fromMs - other.fromMs);
  const merged: Span[] = [];
  for (const span of cut) {
    const last = merged.at(-1);
    if (last && span.fromMs <= last.toMs) last.toMs = Math.max(last.toMs, span.toMs);
    else merged.push(span);
  }
  return merged;
}

type Part = Span & { isFolded: boolean };

function partsOf(spans: Span[], shown: Span, longMs: number): Part[] {
  const parts: Part[] = [];
  const add = (fromMs: number, toMs: number, isFolded: boolean) => {
    if (toMs <= fromMs) return;
    const last = parts.at(-1);
    if (last && !last.isFolded && !isFolded) last.toMs = toMs;
    else parts.push({ fromMs, toMs, isFolded });
  };
  let reached = shown.fromMs;
  for (const span of spans) {
    add(reached, span.fromMs, span.fromMs - reached > longMs);
    add(span.fromMs, span.toMs, false);
    reached = Math.max(reached, span.toMs);
  }
  add(reached, shown.toMs, shown.toMs - reached > longMs);
  return parts;
}

/** The place of a time, from 0 to 1. What is outside of the axis is at its end. */
export function placeOf(axis: Axis, ms: number): number {
  const piece = axis.pieces.find((one) => ms <= one.toMs) ?? axis.pieces.at(-1);
  if (!piece) return 0;
  const share = (ms - piece.fromMs) / (piece.toMs - piece.fromMs);
  return piece.from + (piece.to - piece.from) * Math.min(Math.max(share, 0), 1);
}

/** The time at a place. */
export function timeAt(axis: Axis, place: number): number {
  const piece = axis.pieces.find((one) => place <= one.to) ?? axis.pieces.at(-1);
  if (!piece) return axis.fromMs;
  const share = piece.to > piece.from ? (place - piece.from) / (piece.to - piece.from) : 0;
  return piece.fromMs + (piece.toMs - piece.fromMs) * Math.min(Math.max(share, 0), 1);
}

/** Marks at round times since `originMs`, none inside of what is folded. `room` is the width of a label as a share of the axis; labels overlap neither each other nor what is folded. */
export function ticksOf(axis: Axis, originMs: number, room: number): Tick[] {
  const open = axis.pieces.filter((one) => !one.isFolded);
  const openMs = open.reduce((sum, one) => sum + one.toMs - one.fromMs, 0);
  const wanted = Math.min(Math.max(Math.floor(1 / (1.5 * room)), 2), TICKS_MAX);
  const stepMs = niceStep(openMs / wanted);
  const ticks: Tick[] = [];
  let reached = 0;
  for (const piece of open) {
    for (let since = Math.ceil((piece.fromMs - originMs) / stepMs) * stepMs; since + originMs <= piece.toMs && ticks.length < 4 * wanted; since += stepMs) {
      const place = placeOf(axis, since + originMs);
      const isLate = place + room > 1;
      const [from, to] = isLate ? [place - room, place] : [place, place + room];
      if (from < reached || !isFree(axis, from, to)) continue;
      ticks.push({ place, sinceMs: since, isLate });
      reached = to;
    }
  }
  return ticks;
}

/** Whether nothing is folded between two places. */
function isFree(axis: Axis, from: number, to: number): boolean {
  return !axis.pieces.some((one) => one.isFolded && one.from < to && one.to > from);
}

function niceStep(ms: number): number {
  return NICE_MS.find((one) => one >= ms) ?? Math.ceil(ms / DAY_MS) * DAY_MS;
}

/** The span around its middle (or `aroundMs`), `factor` times as long, within `whole`. */
export function zoomed(span: Span, factor: number, whole: Span, aroundMs = (span.fromMs + span.toMs) / 2): Span {
  const length = Math.min(Math.max((span.toMs - span.fromMs) * factor, 1), whole.toMs - whole.fromMs);
  const share = (aroundMs - span.fromMs) / Math.max(span.toMs - span.fromMs, 1);
  const fromMs = Math.min(Math.max(aroundMs - share * length, whole.fromMs), whole.toMs - length);
  return { fromMs, toMs: fromMs + length };
}
