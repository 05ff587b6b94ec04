// The last executions that a trigger has started, as a strip of states; each leads to its execution.
import { Link } from "@tanstack/react-router";
import { queries } from "@/api/client";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { ErrorNotice, Loading } from "@/parts/notice";
import { stateWord } from "@/words/states";
import { relativeTime, serverNow } from "@/words/times";
import styles from "./run-strip.module.css";

const SHOWN = 20;

/** The condition on attributes that selects the executions of a trigger. */
export function triggerCondition(id: string): string {
  return `trigger=${/^[\w:-]+$/.test(id) ? id : JSON.stringify(id)}`;
}

/** The last 20 runs of a trigger, the latest at the end. */
export function RunStrip({ trigger }: { trigger: string }) {
  const where = triggerCondition(trigger);
  const runs = queries.useQuery("get", "/api/executions", { params: { query: { where, limit: SHOWN } } }, usePolling());
  if (runs.error) return <ErrorNotice error={runs.error} />;
  if (!runs.data) return <Loading what="the last runs" />;
  if (runs.data.items.length === 0) return <p className={blocks.soft}>It has started nothing yet.</p>;
  return (
    <div className={blocks.stack}>
      <ol className={styles.strip} aria-label={`The last ${runs.data.items.length} runs, the latest at the end`}>
        {runs.data.items.toReversed().map((one) => {
          const { word, glyph, style } = stateWord(one.status);
          const said = `${one.workflow}/${one.id}: ${word}, started ${relativeTime(Date.parse(one.createdAt), serverNow())}`;
          return (
            <li key={`${one.workflow}/${one.id}`}>
              <Link to="/executions/$workflow/$id" params={{ workflow: one.workflow, id: one.id }} className={`${styles.run} ${styles[style]}`} title={said} aria-label={said}>
                <span aria-hidden="true">{glyph}</span>
              </Link>
            </li>
          );
        })}
      </ol>
      <p className={blocks.soft}>
        <Link to="/executions" search={{ q: where }}>
          All executions that it has started
        </Link>
      </p>
    </div>
  );
}
