import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { placeOf, type Span, ticksOf, timeAt, timeAxis, zoomed } from "./time-axis";

const span = (fromMs: number, toMs: number): Span => ({ fromMs, toMs });

describe("the axis", () => {
  it("is even where nothing is idle for long", () => {
    const axis = timeAxis([span(0, 60), span(50, 100)], span(0, 100));
    expect(axis.pieces).toHaveLength(1);
    expect(placeOf(axis, 25)).toBeCloseTo(0.25);
  });
  it("folds a long idle time to a small width", () => {
    const axis = timeAxis([span(0, 100), span(1_000_000, 1_000_100)], span(0, 1_000_100));
    expect(axis.pieces.map((one) => one.isFolded)).toEqual([false, true, false]);
    expect(placeOf(axis, 100)).toBeCloseTo(0.48);
    expect(placeOf(axis, 1_000_000)).toBeCloseTo(0.52);
  });
  it("folds the time after the last attempt, and none if nothing was done", () => {
    expect(timeAxis([span(0, 10)], span(0, 10_000)).pieces.map((one) => one.isFolded)).toEqual([false, true]);
    expect(timeAxis([], span(0, 10_000)).pieces.map((one) => one.isFolded)).toEqual([false]);
    expect(timeAxis([span(0, 10)], span(0, 10_000), false).pieces.map((one) => one.isFolded)).toEqual([false]);
  });
  it("leaves room for what was done between very many idle times", () => {
    const busy = Array.from({ length: 100 }, (_, index) => span(index * 1_000, index * 1_000 + 1));
    const axis = timeAxis(busy, span(0, 99_001));
    const open = axis.pieces.filter((one) => !one.isFolded).reduce((sum, one) => sum + one.to - one.from, 0);
    expect(open).toBeGreaterThan(0.59);
  });
  it("has a place for a time of no length, and for times outside", () => {
    const axis = timeAxis([], span(5, 5));
    expect(placeOf(axis, 5)).toBe(0);
    expect(placeOf(axis, -100)).toBe(0);
    expect(placeOf(axis, 100)).toBe(1);
  });
});

const spans = fc.array(fc.tuple(fc.integer({ min: 0, max: 1_000_000 }), fc.integer({ min: 0, max: 5_000 })).map(([from, length]) => span(from, from + length)), { maxLength: 30 });

describe("any axis", () => {
  it("runs from 0 to 1 without gaps", () => {
    fc.assert(
      fc.property(spans, (busy) => {
        const { pieces } = timeAxis(busy, span(0, 1_000_000));
        expect(pieces[0]?.from).toBe(0);
        expect(pieces.at(-1)?.to).toBe(1);
        pieces.slice(1).forEach((one, index) => {
          expect(one.from).toBeCloseTo(pieces[index]!.to);
          expect(one.fromMs).toBe(pieces[index]!.toMs);
        });
      }),
    );
  });
  it("keeps the order of times, and finds each again", () => {
    fc.assert(
      fc.property(spans, fc.integer({ min: 0, max: 1_000_000 }), fc.integer({ min: 0, max: 1_000_000 }), (busy, one, other) => {
        const axis = timeAxis(busy, span(0, 1_000_000));
        const [early, late] = one < other ? [one, other] : [other, one];
        expect(placeOf(axis, early)).toBeLessThanOrEqual(placeOf(axis, late) + 1e-9);
        expect(Math.abs(timeAt(axis, placeOf(axis, one)) - one)).toBeLessThan(1);
      }),
    );
  });
});

describe("ticks", () => {
  it("stand at round times since the begin", () => {
    const axis = timeAxis([span(1_000, 11_000)], span(1_000, 11_000));
    expect(ticksOf(axis, 1_000, 0.1).map((one) => one.sinceMs)).toEqual([0, 2_000, 4_000, 6_000, 8_000, 10_000]);
  });
  it("are few, and none is inside of what is folded", () => {
    const axis = timeAxis([span(0, 100), span(86_400_000, 86_400_100)], span(0, 86_400_100));
    const ticks = ticksOf(axis, 0, 0.08);
    expect(ticks.length).toBeLessThanOrEqual(24);
    expect(ticks.every((one) => one.sinceMs <= 100 || one.sinceMs >= 86_400_000)).toBe(true);
  });
  it("have labels that do not overlap, and are within the axis, however narrow it is", () => {
    fc.assert(
      fc.property(spans, fc.double({ min: 0.05, max: 0.9, noNaN: true }), (busy, room) => {
        const axis = timeAxis(busy, span(0, 1_000_000));
        let reached = 0;
        for (const { place, isLate } of ticksOf(axis, 0, room)) {
          const from = isLate ? place - room : place;
          expect(from).toBeGreaterThanOrEqual(reached);
          reached = from + room;
          expect(reached).toBeLessThanOrEqual(1 + 1e-9);
        }
      }),
    );
  });
});

describe("a zoom", () => {
  it("keeps the middle, and stays within the whole", () => {
    expect(zoomed(span(0, 100), 0.5, span(0, 100))).toEqual(span(25, 75));
    expect(zoomed(span(0, 50), 2, span(0, 80))).toEqual(span(0, 80));
    expect(zoomed(span(60, 80), 2, span(0, 80))).toEqual(span(40, 80));
  });
});
