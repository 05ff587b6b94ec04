// Shows an error: its type, its message, and its stack, which is folded.
import { CopyButton } from "@/parts/copy-button";
import styles from "./error-view.module.css";

/** The error of a step or an execution. A message of several lines has a stack below its first one. */
export function ErrorView({ error, path }: { error: { code: string; message: string }; path?: string }) {
  const [first = "", ...rest] = error.message.split("\n");
  const stack = rest.join("\n").trim();
  return (
    <div className={styles.error}>
      <p>
        <strong>{error.code}</strong> {path && <span className={styles.soft}>at {path}</span>}
      </p>
      <p dir="auto" className={styles.message}>
        {first}
      </p>
      {stack && (
        <details>
          <summary>More of the message ({rest.length} lines)</summary>
          <pre className={styles.stack}>{stack}</pre>
        </details>
      )}
      <CopyButton text={`${error.code}: ${error.message}`} label="Copy the error" />
    </div>
  );
}
