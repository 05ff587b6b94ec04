// A strip of the outcomes of the last hours: a bar an hour, and the same as text.
import type { Schemas } from "@/api/client";
import { countText } from "@/words/times";
import { hourBars, outcomeSentence, statusTotals } from "./outcome-counts";
import styles from "./outcome-strip.module.css";

const HEIGHT = 22;
const STEP = 5;
const WIDTH = 4;

interface Props {
  of: Schemas["WorkflowOutcomes"];
  fromAt: string;
  untilAt: string;
  range?: string;
  /** Whether the same stands beside it as a sentence. */
  isSaid?: boolean;
}

/** Shows how the executions that were started in each hour stand now. */
export function OutcomeStrip({ of, fromAt, untilAt, range = "24 h", isSaid = false }: Props) {
  const bars = hourBars(of.hours, Date.parse(fromAt), Date.parse(untilAt));
  const most = Math.max(1, ...bars.map((one) => one.total));
  const sentence = outcomeSentence(of.hours, range, of.isPartial);
  const totals = new Map(statusTotals(of.hours));
  const all = [...totals.values()].reduce((sum, one) => sum + one, 0);
  const failed = (totals.get("failed") ?? 0) + (totals.get("needs_attention") ?? 0);
  return (
    <span className={styles.strip} title={sentence}>
      <svg viewBox={`0 0 ${bars.length * STEP} ${HEIGHT}`} width={bars.length * STEP} height={HEIGHT} role="img" aria-label={sentence} className={styles.bars}>
        {bars.map((bar, index) => {
          let top = HEIGHT;
          if (of.isPartial && bar.atMs + 3_600_000 <= Date.parse(of.countedFromAt)) return <rect key={bar.atMs} x={index * STEP} y={0} width={WIDTH} height={HEIGHT} className={styles.unknown} />;
          return bar.total === 0 ? (
            <rect key={bar.atMs} x={index * STEP} y={HEIGHT - 1} width={WIDTH} height={1} className={styles.none} />
          ) : (
            bar.parts.map((part) => {
              const height = Math.max(2, (part.count / most) * (HEIGHT - 2));
              top -= height;
              return <rect key={`${bar.atMs} ${part.style}`} x={index * STEP} y={Math.max(top, 0)} width={WIDTH} height={height} className={styles[part.style]} />;
            })
          );
        })}
      </svg>
      {!isSaid && <span className={styles.text} aria-hidden="true">
        {all === 0 ? "none" : `${of.isPartial ? "≥ " : ""}${countText(all)}`}
        {failed > 0 && <span className={styles.failed}> ✗ {countText(failed)}</span>}
      </span>}
    </span>
  );
}
