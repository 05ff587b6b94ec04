import { expect, test } from "vitest";
import { overlapSentence, scheduleSentence, type Trigger, triggerState } from "./trigger-words";

test("schedules are said in a sentence with their zone", () => {
  expect(scheduleSentence({ cron: "30 2 * * 1-5", timezone: "America/New_York" })).toBe("on Monday to Friday at 02:30, time of America/New York");
  expect(scheduleSentence({ everySeconds: 900, jitterSeconds: 60 })).toBe("every 15 min, each up to 1 min later");
  expect(scheduleSentence({})).toBe("at no time yet");
});

test("overlap is said in one line", () => {
  expect(overlapSentence({ overlap: "queue", queuedMax: 3 })).toBe("While an earlier execution is in progress, a tick waits for its turn; up to 3 wait, further ones are skipped.");
  expect(overlapSentence({})).toContain("another one beside it");
});

test("a trigger that is disabled is not said to be paused", () => {
  const pause = { at: "", by: "perdure", reason: "", breaker: true };
  const states = [{ enabled: true, pause: null }, { enabled: true, pause }, { enabled: false, pause }, { enabled: true, pause: { ...pause, breaker: false } }];
  expect(states.map((one) => triggerState(one as Trigger).word)).toEqual(["active", "circuit breaker open", "disabled", "paused"]);
});
