// The mark of a state: its glyph and its word, in its colour.
import { stateWord } from "@/words/states";
import styles from "./state-mark.module.css";

/** Shows a state. With `short`, the glyph alone, and the word for those who hear it. */
export function StateMark({ state, short = false }: { state: string; short?: boolean }) {
  const { word, glyph, style } = stateWord(state);
  return (
    <span className={`${styles.mark} ${styles[style]} ${short ? styles.short : ""}`} title={word}>
      <span aria-hidden="true">{glyph}</span>
      <span className={short ? "visually-hidden" : ""}>{word}</span>
    </span>
  );
}
