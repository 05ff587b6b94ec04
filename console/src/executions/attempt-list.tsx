// The attempts of a step as one list, with their times, who made them, and their errors.
import { StateMark } from "@/parts/state-mark";
import { DurationText, TimeText } from "@/parts/time-text";
import { useView } from "@/shell/search";
import { ErrorView } from "./error-view";
import type { StepAttempt } from "./execution-reads";
import styles from "./attempt-list.module.css";

const ERROR_MAX = 160;

/** The attempts, the last first. The one that the URL names is marked. */
export function AttemptList({ attempts }: { attempts: StepAttempt[] }) {
  const chosen = Number(useView().text("attempt"));
  const hasSeveral = attempts.length > 1;
  return (
    <ol className={styles.list} reversed>
      {[...attempts].reverse().map((one) => (
        <li key={one.number} className={one.number === chosen ? styles.chosen : ""} aria-current={one.number === chosen || undefined}>
          <p className={styles.line}>
            <strong>{one.number}</strong> <StateMark state={one.state} /> <TimeText at={one.startedAt} />
            <span className={styles.soft}>
              <DurationText from={one.startedAt} until={one.completedAt} />
            </span>
          </p>
          {one.by && <p className={styles.soft}>by {one.by}</p>}
          {one.error && hasSeveral && (
            <details>
              <summary className={styles.error} dir="auto">
                {one.error.code}: {one.error.message.split("\n")[0]?.slice(0, ERROR_MAX)}
              </summary>
              <ErrorView error={one.error} />
            </details>
          )}
          {one.nextAt && (
            <p className={styles.soft}>
              next attempt <TimeText at={one.nextAt} />
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}
