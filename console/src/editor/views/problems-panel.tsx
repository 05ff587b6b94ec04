// What was found in the definition; a click goes there.
import { Button } from "@/parts/button";
import type { Finding } from "../findings";
import styles from "./problems-panel.module.css";

interface Props {
  findings: readonly Finding[];
  isChecking: boolean;
  /** Why the server could not be asked; empty if it was. */
  failure: string;
  onGo: (finding: Finding) => void;
  onFix: ((finding: Finding) => void) | null;
}

export function ProblemsPanel({ findings, isChecking, failure, onGo, onFix }: Props) {
  const errors = findings.filter((one) => one.severity === "error").length;
  const warnings = findings.length - errors;
  const said = failure !== "" ? `Not checked: ${failure}` : isChecking ? "Checking …" : findings.length === 0 ? "No problems found" : [errors > 0 ? count(errors, "error") : "", warnings > 0 ? count(warnings, "warning") : ""].filter(Boolean).join(", ");
  return (
    <section className={styles.panel} aria-label="Problems">
      <h2 className={styles.title}>
        Problems <span role="status">{said}</span>
      </h2>
      {findings.length > 0 && (
        <ul className={styles.list}>
          {findings.map((one, index) => (
            <li key={index} className={styles.row}>
              <button type="button" className={styles.finding} onClick={() => onGo(one)}>
                <span className={one.severity === "error" ? styles.error : styles.warning}>
                  <span aria-hidden="true">{one.severity === "error" ? "✗" : "!"}</span> {one.severity}
                </span>
                <span>{one.message}</span>
                {one.line > 0 && <span className={styles.line}>line {one.line}</span>}
              </button>
              {onFix && one.fix.length > 0 && (
                <Button look="quiet" onClick={() => onFix(one)}>
                  Mend
                </Button>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function count(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}
