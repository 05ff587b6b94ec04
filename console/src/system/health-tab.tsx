// How the process that answers and its database are, and with what settings it runs.
import { Link } from "@tanstack/react-router";
import { queries, type Schemas } from "@/api/client";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Facts, Section } from "@/parts/page";
import { useIdentity, useRefusal } from "@/shell/identity";
import { countText, durationText, exactTime } from "@/words/times";
import { latencyText, settingName, settingValue } from "./health-words";

const CLOCK_APART_S = 1;

/** The tab of health and version. */
export function HealthTab() {
  const system = queries.useQuery("get", "/api/system", {}, usePolling());
  const enginesRefusal = useRefusal("viewer", "queues.processes");
  const engines = queries.useQuery("get", "/api/engines", {}, { ...usePolling(), enabled: enginesRefusal === "" });
  const identity = useIdentity();
  if (system.error && !system.data) return <ErrorNotice error={system.error} onRetry={() => void system.refetch()} />;
  if (!system.data) return <Loading what="the state of the system" />;
  const { store, rates, settings } = system.data;
  const alive = engines.data?.items.filter((one) => one.alive && one.kind === "engine").length;
  const apart = Math.abs(store.clockAheadSeconds) > Math.max(CLOCK_APART_S, store.latencySeconds);
  return (
    <div className={blocks.sections}>
      {system.error && <ErrorNotice error={system.error} />}
      {apart && (
        <Notice look="warn">
          <p>The clock of {system.data.host} is {durationText(Math.abs(store.clockAheadSeconds) * 1_000)} {store.clockAheadSeconds > 0 ? "ahead of" : "behind"} that of the database. Executions go by the database's; set the clock of the machine.</p>
        </Notice>
      )}
      {alive === 0 && (
        <Notice look="warn">
          <p>No engine is alive: what is started waits. Start one with perdure serve, perdure worker, or an App.</p>
        </Notice>
      )}
      <Section title="The process that answers">
        <Facts
          of={[
            ["Version", system.data.version || "not installed as a package"],
            ["Running", system.data.uptimeSeconds === null ? "" : <span key="up" title={system.data.startedAt ? exactTime(Date.parse(system.data.startedAt)) : undefined}>for {durationText(system.data.uptimeSeconds * 1_000)}</span>],
            ["Host", system.data.host],
            ["Python", system.data.python],
            ["Parts", system.data.roles.join(", ")],
            ["Engines alive", alive === undefined ? "" : <Link key="engines" to="/system" search={{ tab: "engines" }}>{countText(alive)}</Link>],
          ]}
        />
      </Section>
      <Section title="The database">
        <Facts
          of={[
            ["Kind", store.kind],
            ["A read took", latencyText(store.latencySeconds)],
            ["Clock of the process", apart ? "" : "agrees with the database"],
            ["Epoch", `${store.epoch}${store.epoch > 1 ? ": it was restored from a copy" : ""}`],
          ]}
        />
      </Section>
      <Section title={`Executions of ${identity?.tenantName ?? "the tenant"}`}>
        <RateFacts rates={rates} />
      </Section>
      {settings && Object.keys(settings).length > 0 && (
        <Section title="Settings">
          <Facts of={Object.entries(settings).map(([name, value]) => [settingName(name), settingValue(value)])} />
        </Section>
      )}
    </div>
  );
}

function RateFacts({ rates }: { rates: Schemas["ExecutionRates"] }) {
  const over = durationText(rates.overSeconds * 1_000);
  return (
    <>
      <Facts
        of={[
          [`Started in ${over}`, countText(rates.started)],
          [`Ended in ${over}`, countText(rates.ended)],
          ["Of these failed", rates.failed ? <span key="failed" className={blocks.bad}>✗ {countText(rates.failed)}</span> : "none"],
          ["They took, on average", rates.durationSeconds === null ? "none has ended" : durationText(rates.durationSeconds * 1_000)],
        ]}
      />
      <p className={blocks.soft}>
        Of executions that were started within {durationText(rates.lookedBackSeconds * 1_000)}{rates.isPartial && "; there are more than are looked at, so these are too low"}.
      </p>
    </>
  );
}
