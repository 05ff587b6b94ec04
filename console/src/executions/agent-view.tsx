// The transcript of an agent: each model call and tool call, tokens and cost, choices and their reasons. A fork begins at any turn.
import { Link } from "@tanstack/react-router";
import { useMemo, useSyncExternalStore } from "react";
import { useConnection } from "@/api/use-live";
import { Button } from "@/parts/button";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { StateMark } from "@/parts/state-mark";
import { DurationText } from "@/parts/time-text";
import { ValueView } from "@/parts/value-view";
import { useSettings } from "@/shell/settings";
import { type AgentMessage, type AgentTurn, agentTurns, type ToolUse } from "./agent-transcript";
import { type ExecutionKey, type StepTrace, nameOf, useSteps } from "./execution-reads";
import { useLiveText } from "./live-text";
import { usageSum, usageText } from "./model-usage";
import styles from "./agent-view.module.css";

interface Props {
  steps: StepTrace[];
  changed?: ReadonlySet<string>;
  /** Opens a step; without it, turns have no buttons. */
  onChoose?: (path: string) => void;
  /** Forks from the step of a turn. */
  onFork?: (path: string) => void;
  forkRefusal?: string;
  /** The execution, of which the answer of the running turn is read while it is written; without it, turns have their answers when they have ended. */
  live?: ExecutionKey;
}

/** The transcript of the agent whose steps these are. */
export function AgentView({ steps, changed, onChoose, onFork, forkRefusal = "", live }: Props) {
  const turns = useMemo(() => agentTurns(steps), [steps]);
  const usages = turns.flatMap((one) => (one.usage ? [one.usage] : []));
  const calls = turns.reduce((sum, one) => sum + one.tools.filter((tool) => tool.step).length, 0);
  if (turns.length === 0) return <Empty title="No model has been called yet" />;
  return (
    <div className={styles.transcript}>
      <p className={styles.soft}>
        {turns.length} model call{turns.length === 1 ? "" : "s"}, {calls} tool call{calls === 1 ? "" : "s"}
        {usages.length > 0 && `; ${usageText(usageSum(usages))}`}
      </p>
      <ol className={styles.turns}>
        {turns.map((turn) => (
          <li key={turn.step.path} className={`${styles.turn} ${changed?.has(turn.step.path) ? styles.changed : ""}`}>
            <Turn turn={turn} onChoose={onChoose} onFork={onFork} forkRefusal={forkRefusal} live={live} />
          </li>
        ))}
      </ol>
    </div>
  );
}

/** The transcript of an agent that a step has started, now or as of an event of its own log. */
export function ChildAgent({ of, at }: { of: ExecutionKey; at: number | null }) {
  const steps = useSteps(of, at);
  if (steps.isPending) return <Loading what="the transcript" />;
  if (steps.error) return <ErrorNotice error={steps.error} onRetry={() => void steps.refetch()} />;
  return (
    <>
      <p>
        <Link to="/executions/$workflow/$id" params={{ workflow: of.workflow, id: of.id }} search={{ tab: "agent", ...(at === null ? {} : { at: String(at) }) }}>
          {nameOf(of)}
        </Link>
      </p>
      <AgentView steps={steps.data.steps} />
    </>
  );
}

interface TurnProps extends Omit<Props, "steps" | "changed"> {
  turn: AgentTurn;
}

function Turn({ turn, onChoose, onFork, forkRefusal, live }: TurnProps) {
  const isShown = usePageIsShown();
  const isPaused = useConnection() === "paused";
  return (
    <article aria-label={`Turn ${turn.number}`} className={styles.parts}>
      <header className={styles.head}>
        <h2 className={styles.number}>Turn {turn.number}</h2>
        <StateMark state={turn.step.state} />
        <span className={styles.soft}>
          {turn.model && `${turn.model}, `}
          <DurationText from={turn.step.startedAt} until={turn.step.completedAt} />
          {turn.usage && `, ${usageText(turn.usage)}`}
        </span>
        <span className={styles.buttons}>
          {onChoose && (
            <Button look="quiet" onClick={() => onChoose(turn.step.path)}>
              Details
            </Button>
          )}
          {onFork && (
            <Button look="quiet" refusal={forkRefusal || (turn.step.completedAt ? "" : "This turn has not ended")} onClick={() => onFork(turn.step.path)}>
              Fork from here …
            </Button>
          )}
        </span>
      </header>
      {turn.asked.map((message, index) => (
        <Message key={index} message={message} />
      ))}
      {turn.step.error && (
        <p className={styles.wrong}>
          {turn.step.error.code}: {turn.step.error.message}
        </p>
      )}
      {live && turn.step.completedAt === null && isShown && !isPaused && <RunningAnswer of={live} path={turn.step.path} />}
      {turn.text && <Said by="model" text={turn.text} />}
      {turn.chosen.length > 0 && (
        <p>
          Chose <strong>{turn.chosen.join(", ")}</strong>
          {turn.reasoning && (
            <>
              : <bdi>{turn.reasoning}</bdi>
            </>
          )}
        </p>
      )}
      {turn.chosen.length === 0 && turn.reasoning && <Said by="reasoning" text={turn.reasoning} />}
      {turn.data !== undefined && turn.data !== null && <ValueView value={turn.data} name="the answer" />}
      {turn.tools.length > 0 && (
        <ul className={styles.tools} aria-label="Tool calls">
          {turn.tools.map((tool, index) => (
            <Tool key={index} tool={tool} onChoose={onChoose} />
          ))}
        </ul>
      )}
      {turn.wrong && <p className={styles.wrong}>The answer can't be used: {turn.wrong}</p>}
    </article>
  );
}

/** What the model has answered so far. It is shown only while the turn runs, so that its stream ends with the turn. */
function RunningAnswer({ of, path }: { of: ExecutionKey; path: string }) {
  const found = useLiveText(of);
  const text = found.data?.[path];
  return (
    <>
      {found.error && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
      {text && (
        <div className={styles.running}>
          <p className={styles.soft}>The model writes this answer now. It is not durable yet: if the attempt is lost, the model is asked again.</p>
          <Said by="model, so far" text={text} />
        </div>
      )}
    </>
  );
}

/** Whether the page is shown: a stream takes one of the few connections of a browser, so a hidden page has none. */
function usePageIsShown(): boolean {
  return useSyncExternalStore(
    (changed) => {
      document.addEventListener("visibilitychange", changed);
      return () => document.removeEventListener("visibilitychange", changed);
    },
    () => document.visibilityState === "visible",
  );
}

function Message({ message }: { message: AgentMessage }) {
  return <Said by={message.tool ? `answer of ${message.tool}` : message.role} text={message.text} isFolded={message.tool !== "" || message.text.length > FOLDED_ABOVE} />;
}

const FOLDED_ABOVE = 600;

function Said({ by, text, isFolded = false }: { by: string; text: string; isFolded?: boolean }) {
  const { hidesPayloads } = useSettings();
  if (!isFolded && !hidesPayloads)
    return (
      <div className={styles.said}>
        <p className={styles.by}>{by}</p>
        <p dir="auto" className={styles.text}>
          {text}
        </p>
      </div>
    );
  return (
    <details className={styles.said}>
      <summary className={styles.by}>
        {by} <span dir="auto">{hidesPayloads ? "" : text.slice(0, 80)}</span>
      </summary>
      <p dir="auto" className={styles.text}>
        {text}
      </p>
    </details>
  );
}

function Tool({ tool, onChoose }: { tool: ToolUse; onChoose?: (path: string) => void }) {
  const { step } = tool;
  return (
    <li className={styles.tool}>
      <p className={styles.head}>
        {step && onChoose ? (
          <Button look="quiet" onClick={() => onChoose(step.path)}>
            <code>{tool.name}</code>
          </Button>
        ) : (
          <code>{tool.name}</code>
        )}
        {step && <StateMark state={step.state} />}
        {step && (
          <span className={styles.soft}>
            <DurationText from={step.startedAt} until={step.completedAt} />
          </span>
        )}
      </p>
      <ValueView value={tool.args ?? {}} name="the arguments" />
      {tool.refused && <p className={styles.wrong}>It was not called: {tool.refused}</p>}
      {step?.error && (
        <p className={styles.wrong}>
          {step.error.code}: {step.error.message.split("\n")[0]}
        </p>
      )}
      {step && step.completedAt !== null && !step.error && <ValueView value={step.output} name="its answer" />}
    </li>
  );
}
