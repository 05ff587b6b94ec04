// Notices: of an error with what to do next, of something to know, of an empty place.
import type { ReactNode } from "react";
import { errorText } from "@/words/failures";
import { Button } from "./button";
import styles from "./notice.module.css";

/** Says what failed, and what to do; with `onRetry`, a button that does it again. */
export function ErrorNotice({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { text, next } = errorText(error);
  return (
    <div role="alert" className={`${styles.notice} ${styles.bad}`}>
      <p>{text}</p>
      {next && <p className={styles.soft}>{next}</p>}
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

/** Says something to know. */
export function Notice({ look = "plain", children }: { look?: "plain" | "warn" | "good"; children: ReactNode }) {
  return (
    <div role={look === "warn" ? "alert" : "status"} className={`${styles.notice} ${styles[look]}`}>
      {children}
    </div>
  );
}

/** Stands where nothing is to be shown, and says why, and what to do. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={styles.empty}>
      <p className={styles.title}>{title}</p>
      {children}
    </div>
  );
}

/** Stands where something is being read. */
export function Loading({ what }: { what: string }) {
  return (
    <p role="status" className={styles.loading}>
      Reading {what} …
    </p>
  );
}
