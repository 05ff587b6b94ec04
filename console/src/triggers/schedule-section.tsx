// What a schedule does: its times in a sentence, its next runs, its last ones, and what went wrong with ticks.
import { queries } from "@/api/client";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Facts, Section } from "@/parts/page";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { countText } from "@/words/times";
import { TickList } from "./tick-list";
import { overlapSentence, type ScheduleConfig, type Trigger } from "./trigger-words";

const INCIDENTS: Record<string, string> = {
  missed: "missed: no engine ran",
  skipped: "skipped: an earlier execution was in progress",
  failed: "nothing could be started",
  broken: "the circuit breaker opened",
};

/** The sections of a schedule. */
export function ScheduleSection({ trigger, config }: { trigger: Trigger; config: ScheduleConfig }) {
  const preview = queries.useQuery("get", "/api/triggers/{trigger}/preview", { params: { path: { trigger: trigger.id }, query: { count: 10 } } }, usePolling(30));
  const isOff = !trigger.enabled || trigger.pause !== null;
  const incidents = trigger.schedule?.incidents ?? [];
  return (
    <>
      <Section title="What it does">
        <p>{overlapSentence(config)}</p>
        <Facts
          of={[
            ["Circuit breaker", config.breakAfter ? `opens after ${config.breakAfter} failures in a row` : "none: it never pauses itself"],
            ["Catch-up", config.catchUp ? `the last ${config.catchUp} missed ticks are started late` : "none: missed ticks are not made up for"],
            ["Started so far", countText(trigger.schedule?.started ?? 0)],
            ["Waiting for their turn", trigger.schedule?.waiting ? countText(trigger.schedule.waiting) : ""],
            ["Hands over the prompt", config.target === "orchestrator" ? config.prompt : ""],
          ]}
        />
      </Section>
      <Section title="The next 10 runs">
        {isOff && <Notice look="warn">It starts nothing now. These are the runs if it were active.</Notice>}
        {preview.error ? <ErrorNotice error={preview.error} /> : preview.data ? <TickList preview={preview.data} /> : <Loading what="the next runs" />}
      </Section>
      {incidents.length > 0 && (
        <Section title="Ticks that started nothing">
          <SimpleTable
            label="Ticks that started nothing"
            rows={incidents}
            keyOf={(one, index) => `${one.tickAt} ${index}`}
            columns={[
              { id: "tick", title: "Tick", cell: (one) => <TimeText at={one.tickAt} /> },
              { id: "kind", title: "What happened", cell: (one) => INCIDENTS[one.kind] ?? one.kind },
              { id: "why", title: "Why", cell: (one) => <span className={blocks.plain}>{one.why}</span> },
            ]}
          />
        </Section>
      )}
    </>
  );
}
