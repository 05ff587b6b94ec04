// The states of executions and steps: one word, glyph and style for each, the same as on the command line, from where they are generated.
import states from "@generated/states.json";

export type StateStyle = "good" | "bad" | "warn" | "live" | "dim" | "plain";

export interface StateWord {
  word: string;
  glyph: string;
  style: StateStyle;
}

const STATES = states as Record<string, { glyph: string; style: StateStyle }>;

/** How a state is shown. One that this page does not know is shown by its name. */
export function stateWord(state: string): StateWord {
  const known = STATES[state];
  return { word: state.replaceAll("_", " "), glyph: known?.glyph ?? "·", style: known?.style ?? "plain" };
}

/** The statuses of executions, in the order of filters. */
export const EXECUTION_STATUSES = ["running", "waiting", "waiting_approval", "paused", "needs_attention", "undoing", "failed", "cancelled", "completed"] as const;

const ENDED = new Set(["completed", "failed", "cancelled"]);

/** Whether nothing more happens in an execution by itself. */
export function isEnded(status: string): boolean {
  return ENDED.has(status);
}
