import { expect, test } from "vitest";
import { durationText, learnServerTime, relativeTime, serverNow } from "./times";

test("durations have their two largest units", () => {
  expect([0, 340, 1_000, 2_500, 61_000, 3_600_000, 7_500_000, 90_061_000, -5].map(durationText)).toEqual(
    ["0 ms", "340 ms", "1 s", "2.5 s", "1 min 1 s", "1 h", "2 h 5 min", "1 d 1 h", "0 ms"],
  );
});

test("a time is told by how far it is", () => {
  expect(relativeTime(0, 180_000)).toBe("3 min. ago");
  expect(relativeTime(7_200_000, 0)).toBe("in 2 hr.");
  expect([29, 47, 49, 24 * 90].map((hours) => relativeTime(hours * 3_600_000 + 1, 0))).toEqual(["in 29 hr.", "in 47 hr.", "in 2 days", "in 90 days"]);
  expect(relativeTime(500, 0)).toBe("now");
});

test("the clock of the server counts, until that of the browser is right again", () => {
  learnServerTime(new Date(Date.now() - 3_600_000).toUTCString());
  expect(Math.abs(serverNow() - (Date.now() - 3_600_000))).toBeLessThan(2_000);
  learnServerTime(new Date(Date.now()).toUTCString());
  expect(Math.abs(serverNow() - Date.now())).toBeLessThan(10);
  learnServerTime(null);
});
