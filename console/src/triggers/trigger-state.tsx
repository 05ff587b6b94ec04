// The mark of how a trigger stands.
import { type Trigger, triggerState } from "./trigger-words";
import marks from "@/parts/state-mark.module.css";

/** Shows whether a trigger is active, paused, disabled, or stopped by its circuit breaker. */
export function TriggerState({ trigger }: { trigger: Trigger }) {
  const { word, glyph, look } = triggerState(trigger);
  return (
    <span className={`${marks.mark} ${marks[look]}`} title={trigger.pause ? `by ${trigger.pause.by}: ${trigger.pause.reason || "no reason given"}` : undefined}>
      <span aria-hidden="true">{glyph}</span>
      {word}
    </span>
  );
}
