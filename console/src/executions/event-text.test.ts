import { expect, it } from "vitest";
import { eventText, typeCounts } from "./event-text";
import type { PublicEvent } from "./execution-events";

const event = (type: string, data?: PublicEvent["data"]): PublicEvent => ({ id: 1, type, source: { workflow: "w", id: "i" }, time: "2026-01-01T00:00:00Z", data });

it("writes the data of an event in one line", () => {
  expect(eventText(event("step.retrying", { attempt: 2, error: "ValueError: no" } as never))).toBe("attempt 2, error ValueError: no");
  expect(eventText(event("step.retrying", { due_at_s: 0 } as never))).toMatch(/^due (1970|1969)/);
  expect(eventText(event("execution.stopped"))).toBe("");
});

it("counts the types in the order of their first events", () => {
  expect(typeCounts([event("b"), event("a"), event("b")])).toEqual([["b", 2], ["a", 1]]);
});
