// Words for recordings: their states as those of executions, what is sure about a suggestion, and where in the arguments it is.
import type { Schemas } from "@/api/client";

/** The state of a recording, as that of the execution that it is. */
export function recordingState(one: { open: boolean; idle?: boolean }): string {
  return one.open ? (one.idle ? "waiting" : "running") : "completed";
}

/** The state of calls, as that of steps: one that was refused, or of which it is not known whether it has done its work, has failed. */
export function shownState(state: string): string {
  return state === "refused" || state === "in_doubt" ? "failed" : state;
}

/** The state of a call, as that of a step: one without a state runs. */
export function callState(call: Schemas["RecordedCall"]): string {
  return shownState(call.state ?? "running");
}

/** How sure a suggestion is, in words. */
export function sureness(one: { confidence: number; found: boolean }): string {
  return `${one.found ? "likely" : "possible"}, ${Math.round(one.confidence * 100)} %`;
}

/** A place in arguments as people write it: "items[0].id" for "/items/0/id". */
export function placeText(pointer: string): string {
  return pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((text, key) => (/^\d+$/.test(key) ? `${text}[${key}]` : text ? `${text}.${key}` : key), "");
}

/** The accepted keys without `key` if it is one of them, and with it as the last one if it is not: a loop then takes the place of those that it covers. */
export function switched(accepted: string[], key: string, covers: string[] = []): string[] {
  return accepted.includes(key) ? accepted.filter((one) => one !== key) : [...accepted.filter((one) => !covers.includes(one)), key];
}
