// The line above a graph: the states in it with their counts, which is its legend and its filter, and what moves and changes the view.
import type { ReactNode } from "react";
import { stateWord } from "@/words/states";
import styles from "./graph-toolbar.module.css";

interface Props {
  /** States with their counts, in the order of the legend; empty in a plan. */
  states: readonly [string, number][];
  steps: number;
  chosen: ReadonlySet<string>;
  onStates: (states: ReadonlySet<string>) => void;
  isTree: boolean;
  onTree: (isTree: boolean) => void;
  children?: ReactNode;
}

/** The line above a graph. */
export function GraphToolbar({ states, steps, chosen, onStates, isTree, onTree, children }: Props) {
  const toggle = (state: string) => {
    const next = new Set(chosen);
    if (!next.delete(state)) next.add(state);
    onStates(next);
  };
  return (
    <div className={styles.toolbar} role="toolbar" aria-label="Graph">
      <div className={styles.legend} role="group" aria-label="Show only steps that are">
        {states.map(([state, count]) => {
          const { word, glyph, style } = stateWord(state);
          return (
            <button key={state} type="button" className={`${styles.state} ${styles[style]}`} aria-pressed={chosen.has(state)} title={chosen.has(state) ? `Show all steps again` : `Show only steps that are ${word}`} onClick={() => toggle(state)}>
              <span aria-hidden="true">{glyph}</span> {word} <span className={styles.count}>{count.toLocaleString()}</span>
            </button>
          );
        })}
        {states.length === 0 && <span className={styles.plan}>{`Plan · ${steps.toLocaleString()} ${steps === 1 ? "step" : "steps"}`}</span>}
        {chosen.size > 0 && (
          <button type="button" className={styles.tool} onClick={() => onStates(new Set())}>
            Show all
          </button>
        )}
      </div>
      <div className={styles.tools}>
        {!isTree && children}
        <span className={styles.pair} role="group" aria-label="Show as">
          <Tool label="Graph" isPressed={!isTree} onClick={() => onTree(false)} />
          <Tool label="Tree" isPressed={isTree} onClick={() => onTree(true)} />
        </span>
      </div>
    </div>
  );
}

/** A button of the line. Its text is its label, unless a sign stands for it. */
export function Tool({ label, sign, isPressed, onClick }: { label: string; sign?: string; isPressed?: boolean; onClick: () => void }) {
  return (
    <button type="button" className={styles.tool} aria-label={sign ? label : undefined} title={label} aria-pressed={isPressed} onClick={onClick}>
      {sign ? <span aria-hidden="true">{sign}</span> : label}
    </button>
  );
}
