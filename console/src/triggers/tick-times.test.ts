import { expect, test } from "vitest";
import { apiTime, fieldTime, localTick, viewerTick } from "./tick-times";

test("a tick is shown with the offset of its zone", () => {
  expect(localTick("2036-03-30T02:00:00+01:00")).toBe("Sun 2036-03-30 02:00 (+01:00)");
  expect(localTick("2026-11-30T02:30:15Z")).toBe("Mon 2026-11-30 02:30:15 (+00:00)");
});

test("the same moment is shown in the zone of the viewer", () => {
  expect(viewerTick("2026-07-01T00:30:00.000000Z", "America/New_York")).toBe("Tue 2026-06-30 20:30 (-04:00)");
  expect(viewerTick("2026-07-01T00:30:07Z", "UTC")).toBe("Wed 2026-07-01 00:30:07 (+00:00)");
});

test("times go into fields and back", () => {
  expect(apiTime(fieldTime("2026-07-01T00:30:00.000Z"))).toBe("2026-07-01T00:30:00.000Z");
  expect([fieldTime(null), apiTime("")]).toEqual(["", null]);
});
