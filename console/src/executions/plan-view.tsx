// Shows what a command would do: one sentence, and the operations behind each number.
import { type ChangePlan, planLists, planSentence } from "./plan-text";
import styles from "./plan-view.module.css";

const SHOWN_MAX = 200;

/** Shows a plan; `isOld` says that another one is being made. */
export function PlanView({ plan, isOld }: { plan: ChangePlan | undefined; isOld: boolean }) {
  return (
    <section aria-label="What would happen" aria-busy={isOld || !plan} className={`${styles.plan} ${plan?.refused?.length || plan?.hasEffect === false ? styles.refused : ""}`}>
      <h3>What would happen</h3>
      <p role="status">{plan ? planSentence(plan) : "The server is asked …"}</p>
      {plan &&
        planLists(plan).map((list) => (
          <details key={list.title} open={list.title.startsWith("Why") || list.title === "Changes"}>
            <summary>
              {list.title} ({list.paths.length.toLocaleString("en")})
            </summary>
            <ul className={styles.paths}>
              {list.paths.slice(0, SHOWN_MAX).map((path) => (
                <li key={path}>{path}</li>
              ))}
            </ul>
            {list.paths.length > SHOWN_MAX && <p>and {(list.paths.length - SHOWN_MAX).toLocaleString("en")} more</p>}
          </details>
        ))}
    </section>
  );
}
