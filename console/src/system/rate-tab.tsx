// How many executions begin and end, and how long things take: the last hours as the server has counted them, and the present while the page is open.
import { useEffect, useMemo, useState } from "react";
import { queries } from "@/api/client";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { ErrorNotice, Loading } from "@/parts/notice";
import { Section } from "@/parts/page";
import { useIdentity } from "@/shell/identity";
import { useView } from "@/shell/search";
import { useListedWorkflows, useOutcomes, useWorkflowNames } from "@/workflows/workflow-data";
import { LineChart } from "./line-chart";
import { hourCounts, type Sample, sampleOf, withSample } from "./rate-samples";

const NO_SAMPLES: readonly Sample[] = [];
const RANGES = [["24", "24 hours"], ["72", "3 days"], ["168", "7 days"]] as const;

/** The samples of a tenant stay while other tabs are looked at. */
let kept: { tenant: string; samples: readonly Sample[] } = { tenant: "", samples: [] };

/** The tab of rates and latencies. */
export function RateTab() {
  return (
    <div className={blocks.sections}>
      <Hours />
      <Present />
    </div>
  );
}

function Hours() {
  const view = useView();
  const hours = Number(view.text("hours") || "24");
  const { hasMore, isRead, error: failed } = useListedWorkflows();
  const names = useWorkflowNames();
  const outcomes = useOutcomes(names, hours, 60);
  const error = failed ?? outcomes.error;
  const items = [...outcomes.byWorkflow.values()];
  const isWhole = isRead && outcomes.isWhole;
  const counts = isWhole && outcomes.fromAt ? hourCounts(items, Date.parse(outcomes.fromAt), Date.parse(outcomes.untilAt)) : [];
  const partial = items.filter((one) => one.isPartial).map((one) => one.workflow);
  return (
    <Section
      title="Executions by the hour in which they were started"
      actions={
        <select aria-label="How far back" className={blocks.choice} value={String(hours)} onChange={(event) => view.change({ hours: event.target.value === "24" ? undefined : event.target.value })}>
          {RANGES.map(([value, shown]) => (
            <option key={value} value={value}>
              {shown}
            </option>
          ))}
        </select>
      }
    >
      {error ? (
        <ErrorNotice error={error} />
      ) : !isWhole ? (
        <Loading what="the counts" />
      ) : (
        <>
          <LineChart
            title="Executions started in each hour, by how they stand now"
            times={counts.map((one) => one.atS)}
            bars
            series={[
              { name: "all", colour: "dim", values: counts.map((one) => one.good + one.bad + one.other || null) },
              { name: "completed or failed", colour: "good", values: counts.map((one) => one.good + one.bad || null) },
              { name: "failed", colour: "bad", values: counts.map((one) => one.bad || null) },
            ]}
          />
          <p className={blocks.soft}>
            Of the {names.length} workflows of this tenant{hasMore ? " that come first by name" : ""}.{partial.length > 0 && ` Of ${partial.join(", ")} there are more than are counted, so the first hours are too low.`}
          </p>
        </>
      )}
    </Section>
  );
}

function Present() {
  const tenant = useIdentity()?.tenantName ?? "";
  const [taken, setTaken] = useState(kept);
  const samples = taken.tenant === tenant ? taken.samples : NO_SAMPLES;
  const system = queries.useQuery("get", "/api/system", {}, usePolling());
  useEffect(() => {
    if (!system.data || !tenant) return;
    kept = { tenant, samples: withSample(kept.tenant === tenant ? kept.samples : NO_SAMPLES, sampleOf(system.data, system.dataUpdatedAt)) };
    setTaken(kept);
  }, [system.data, system.dataUpdatedAt, tenant]);
  const times = useMemo(() => samples.map((one) => one.atS), [samples]);
  const of = (name: keyof Sample) => samples.map((one) => one[name] as number | null);
  if (system.error && samples.length === 0) return <ErrorNotice error={system.error} />;
  return (
    <Section title="While this page is open">
      <p className={blocks.soft}>A point every 5 seconds; rates are over the last 5 minutes. For longer times, let Prometheus read the metrics of the server: --metrics-listen.</p>
      {samples.length < 2 && <p role="status">The first points come within 10 seconds{system.fetchStatus === "paused" ? ", when the server answers again" : ""}.</p>}
      {samples.length > 1 && <div className={blocks.pair}>
        <LineChart
          title="Executions a minute"
          times={times}
          series={[
            { name: "started", colour: "live", values: of("startedPerMinute") },
            { name: "ended", colour: "good", dash: [8, 4], values: of("endedPerMinute") },
            { name: "failed", colour: "bad", dash: [2, 3], values: of("failedPerMinute") },
          ]}
        />
        <LineChart title="How long executions took, on average" unit="ms" times={times} series={[{ name: "from start to end", colour: "live", values: of("durationMs") }]} />
        <LineChart title="How long a read of the database took" unit="ms" times={times} series={[{ name: "latency", colour: "warn", values: of("latencyMs") }]} />
      </div>}
    </Section>
  );
}
