// Triggers in sentences: when they start something, what a tick does while an earlier execution is in progress, and how they stand.
import type { Schemas } from "@/api/client";
import { stateWord } from "@/words/states";

export type ScheduleConfig = Schemas["ScheduleConfig"] & { type: "schedule" };
export type WebhookConfig = Schemas["WebhookConfig"] & { type: "webhook" };
export type EventConfig = Schemas["EventConfig"] & { type: "event" };
export type TriggerConfig = ScheduleConfig | WebhookConfig | EventConfig | { type: "manual" };
export type Trigger = Omit<Schemas["TriggerDetails"], "config"> & { config: TriggerConfig };

export const TYPE_NAMES: Record<Trigger["type"], string> = { schedule: "schedule", webhook: "webhook", event: "event", manual: "by hand" };

/** When a trigger starts something: "from Monday to Friday at 02:30, Europe/Berlin". */
export function triggerSentence(trigger: Pick<Trigger, "config" | "webhookUrl" | "sentence">): string {
  const { config } = trigger;
  if (config.type === "schedule") return trigger.sentence;
  if (config.type === "webhook") return `on ${config.method || "POST"} requests to ${trigger.webhookUrl || `…/${config.path}`}`;
  if (config.type === "event") return eventSentence(config);
  return "when somebody runs it";
}

/** What a tick does while an earlier execution of its schedule is in progress, in one line. */
export function overlapSentence(config: Partial<ScheduleConfig>): string {
  const begin = "While an earlier execution is in progress,";
  switch (config.overlap ?? "allow") {
    case "skip":
      return `${begin} a tick starts nothing.`;
    case "queue":
      return `${begin} a tick waits for its turn; up to ${config.queuedMax ?? 10} wait, further ones are skipped.`;
    case "cancel":
      return `${begin} a tick cancels it and starts the next.`;
    default:
      return `${begin} a tick starts another one beside it.`;
  }
}

function eventSentence(config: EventConfig): string {
  const names = config.on.join(", ");
  const conditions = config.where?.length ? `, if ${config.where.length === 1 ? "a condition holds" : `${config.where.length} conditions hold`}` : "";
  return `on ${names}${config.of ? ` of ${config.of}` : ""}${conditions}`;
}

/** What is special about a tick where clocks are changed; empty for most. */
export const TICK_NOTES: Record<string, string> = {
  moved: "the clock skips this time; it is due at the moment of the jump",
  first: "the clock shows this time twice; this is the first",
  second: "the clock shows this time twice; this is the second",
};

/** How a trigger stands: whether it starts anything, and if not, why. */
export function triggerState(trigger: Trigger): { word: "active" | "disabled" | "paused" | "circuit breaker open"; glyph: string; look: "good" | "dim" | "warn" | "bad" } {
  if (!trigger.enabled) return { word: "disabled", glyph: "○", look: "dim" };
  if (trigger.pause?.breaker) return { word: "circuit breaker open", glyph: "✗", look: "bad" };
  if (trigger.pause) return { word: "paused", glyph: stateWord("paused").glyph, look: "warn" };
  return { word: "active", glyph: "✓", look: "good" };
}

/** Where a trigger is changed that belongs to a definition or to code; empty for one that can be changed here. */
export function ownerSentence(trigger: Trigger): string {
  if (trigger.owner === "definition") return `The definition ${trigger.definition} declares it: change it there, and publish. Only its switch and its pause belong to those who operate it.`;
  if (trigger.owner === "code") return "Code declares it: change it there, and start the engine again. Only its switch and its pause belong to those who operate it.";
  return "";
}
