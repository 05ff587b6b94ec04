// The numbers above the list: each is a link to the executions that it counts.
import { Link } from "@tanstack/react-router";
import { queries, type Schemas } from "@/api/client";
import { usePolling } from "@/api/polling";
import { countText } from "@/words/times";
import styles from "./number-strip.module.css";

/** How many executions run, wait for people, have failed in a day, and are dead letters. */
export function NumberStrip() {
  const { data } = queries.useQuery("get", "/api/execution-counts", {}, usePolling(10));
  const shown = (count: Schemas["BoundedCount"] | undefined) => (count ? `${countText(count.count)}${count.isMore ? "+" : ""}` : "–");
  return (
    <nav aria-label="Numbers" className={styles.strip}>
      <Link to="/executions" search={{ status: "running" }} className={styles.number}>
        <b>{shown(data?.running)}</b> running
      </Link>
      <Link to="/approvals" className={styles.number}>
        <b>{shown(data?.waitingForPeople)}</b> waiting for people
      </Link>
      <Link to="/executions" search={{ status: "failed", failedSince: "24h" }} className={styles.number}>
        <b>{shown(data?.failed)}</b> failed in 24 h
      </Link>
      <Link to="/executions" search={{ status: "needs_attention" }} className={styles.number}>
        <b>{shown(data?.needsAttention)}</b> need attention
      </Link>
      <Link to="/dead-letters" className={styles.number}>
        <b>{shown(data?.deadLetters)}</b> dead letters
      </Link>
    </nav>
  );
}
