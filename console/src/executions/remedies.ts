// What a person can do about the state of an execution, in one sentence.
import type { ExecutionRecord } from "./execution-reads";

/** The remedy for a state; empty where nothing is to be done. */
export function remedyOf(record: ExecutionRecord): string {
  switch (record.status) {
    case "failed":
      return "Mend the cause, then retry it: what has succeeded is not performed again.";
    case "needs_attention":
      return "Mend the cause, then resume or retry it; or give the step its result by a preset.";
    case "paused":
      return "Resume it to have it go on.";
    case "waiting_approval":
      return "It goes on when the approval is decided.";
    case "pending":
      return "It begins when an engine that knows its workflow runs.";
    default:
      return "";
  }
}
