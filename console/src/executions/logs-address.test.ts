import { expect, test } from "vitest";
import { logsAddress } from "./logs-address";

const OF = { tenant: "acme", workflow: "order", id: "o/17 ä", path: "charge#2", from: "2026-11-29T10:00:00Z", to: "2026-11-29T10:01:00Z" };

test("an address has what the template asks for, in the form of addresses", () => {
  expect(logsAddress("https://logs.example.com/?q={tenant}/{workflow}/{id}&step={path}", OF)).toBe("https://logs.example.com/?q=acme/order/o%2F17%20%C3%A4&step=charge%232");
});

test("times have a margin, and what goes on ends now", () => {
  const start = Date.parse(OF.from);
  expect(logsAddress("x?a={from_ms}&b={to_ms}", OF)).toBe(`x?a=${start - 60_000}&b=${start + 120_000}`);
  expect(logsAddress("x?b={to_ms}", { ...OF, to: null }, start + 5_000)).toBe(`x?b=${start + 65_000}`);
});

test("what it does not know stays", () => {
  expect(logsAddress("x/{id}/{other}", { ...OF, id: "1" })).toBe("x/1/{other}");
});
