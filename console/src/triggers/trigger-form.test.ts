import { expect, test } from "vitest";
import { configOf, fieldsOf, formOf, NEW_TRIGGER } from "./trigger-form";
import type { Trigger } from "./trigger-words";

const SCHEDULE = { type: "schedule", cron: "", timezone: "UTC", everySeconds: 7200, once: [], jitterSeconds: 5, startsAt: null, endsAt: null, catchUp: 2, overlap: "queue", queuedMax: 3, breakAfter: 4, target: "workflow", prompt: "" };
const TRIGGER = { name: "t", type: "schedule", workflowId: "w", enabled: false, variableMapping: { a: "$.b" }, input: { c: 12345678901234567890n }, config: SCHEDULE } as unknown as Trigger;

test("a trigger that goes through its form unchanged is the same", () => {
  expect(fieldsOf(formOf(TRIGGER), TRIGGER.config)).toEqual({ name: "t", workflowId: "w", enabled: false, variableMapping: { a: "$.b" }, input: { c: 12345678901234567890n }, config: SCHEDULE });
});

test("a webhook keeps its verification", () => {
  const config = { type: "webhook", path: "p", method: "POST", secret: "", headers: { "x-a": "1" }, verify: { scheme: "generic", secrets: ["A", "B"], header: "X-S", prefix: "v1=", encoding: "base64", timestampHeader: "X-T", toleranceSeconds: 60 }, respond: "result", respondWithinSeconds: 7, deliveryHeader: "X-D", activeMax: 2, queuedMax: 9 };
  const trigger = { ...TRIGGER, type: "webhook", config } as unknown as Trigger;
  expect(configOf(formOf(trigger), trigger.config)).toEqual(config);
});

test("an interval is shown in its largest unit", () => {
  expect([formOf(TRIGGER).every, formOf(TRIGGER).unit]).toEqual(["2", "3600"]);
});

test("what can't be read is said with its field", () => {
  expect(() => configOf({ ...NEW_TRIGGER, jitter: "x" })).toThrow("Jitter: “x” is no number from 0 on");
  expect(() => fieldsOf({ ...NEW_TRIGGER, input: "[1]" })).toThrow("Fixed input: this has to be an object");
  expect(() => fieldsOf({ ...NEW_TRIGGER, input: "{a" })).toThrow("Fixed input: this is no JSON");
  expect(() => fieldsOf({ ...NEW_TRIGGER, mapping: "order" })).toThrow("order = $.id");
});
