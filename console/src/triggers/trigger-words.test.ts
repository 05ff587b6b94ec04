import { expect, test } from "vitest";
import { overlapSentence, type Trigger, triggerSentence, triggerState } from "./trigger-words";

test("overlap is said in one line", () => {
  expect(overlapSentence({ overlap: "queue", queuedMax: 3 })).toBe("While an earlier execution is in progress, a tick waits for its turn; up to 3 wait, further ones are skipped.");
  expect(overlapSentence({})).toContain("another one beside it");
});

test("a trigger that is disabled is not said to be paused", () => {
  const pause = { at: "", by: "perdure", reason: "", breaker: true };
  const states = [{ enabled: true, pause: null }, { enabled: true, pause }, { enabled: false, pause }, { enabled: true, pause: { ...pause, breaker: false } }];
  expect(states.map((one) => triggerState(one as Trigger).word)).toEqual(["active", "circuit breaker open", "disabled", "paused"]);
});

test("a trigger says when it starts something", () => {
  const said = [
    { config: { type: "schedule" }, sentence: "every hour", webhookUrl: "" },
    { config: { type: "webhook", path: "a", method: "PUT" }, sentence: "", webhookUrl: "/webhooks/a" },
    { config: { type: "event", on: ["paid", "sent"], of: "order", where: [{}] }, sentence: "", webhookUrl: "" },
    { config: { type: "manual" }, sentence: "", webhookUrl: "" },
  ];
  expect(said.map((one) => triggerSentence(one as unknown as Trigger))).toEqual(["every hour", "on PUT requests to /webhooks/a", "on paid, sent of order, if a condition holds", "when somebody runs it"]);
});
