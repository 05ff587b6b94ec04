// Queues: how much of their limits is in use, what waits, and a dialog that changes the limits.
import { useState } from "react";
import { api, queries } from "@/api/client";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { DurationText } from "@/parts/time-text";
import { useRefusal } from "@/shell/identity";
import { tellEveryone } from "@/shell/told";
import { countText } from "@/words/times";
import { limitChanges, limitForm, limitWords } from "./queue-limits";
import { Refused } from "./refused";
import styles from "./queue-tab.module.css";

interface Chosen {
  name: string;
  tenant: string | null;
}

/** The tab of queues and limits. */
export function QueueTab() {
  const refusal = useRefusal("viewer", "queues.statuses");
  const changeRefusal = useRefusal("admin", "queues.change");
  const [chosen, choose] = useState<Chosen | null>(null);
  const queues = queries.useQuery("get", "/api/queues", {}, { ...usePolling(), enabled: refusal === "" });
  if (refusal) return <Refused what="Queues" why={refusal} />;
  if (queues.error && !queues.data) return <ErrorNotice error={queues.error} onRetry={() => void queues.refetch()} />;
  if (!queues.data) return <Loading what="the queues" />;
  const rows = queues.data.items;
  return (
    <div className={blocks.stack}>
      {rows.length === 0 ? (
        <Empty title="There are no queues">
          <p>A queue is there when code declares it, when it has limits, or when something waits in it.</p>
        </Empty>
      ) : (
        <SimpleTable
          label="Queues"
          rows={rows}
          keyOf={(one) => `${one.name} ${(one as { tenant?: string | null }).tenant ?? ""}`}
          columns={[
            { id: "name", title: "Queue", cell: (one) => <>{one.name} {tenantOf(one) && <span className={blocks.chip}>only {tenantOf(one)}</span>}</> },
            { id: "work", title: "Tasks in progress", cell: (one) => <Use name={`Tasks of ${one.name}`} now={one.work ?? 0} most={one.limits.concurrency ?? null} /> },
            { id: "waiting", title: "Tasks waiting", align: "end", cell: (one) => <Waiting count={one.workWaiting ?? 0} since={one.oldestTaskAt ?? null} /> },
            { id: "executions", title: "Executions in progress", cell: (one) => <Use name={`Executions of ${one.name}`} now={one.executions ?? 0} most={one.limits.concurrency ?? null} /> },
            { id: "executionsWaiting", title: "Executions waiting", align: "end", cell: (one) => countText(one.executionsWaiting ?? 0) },
            { id: "limits", title: "Limits", cell: (one) => limitWords(one.limits) || <span className={blocks.soft}>none</span> },
            {
              id: "change",
              title: "Change",
              cell: (one) => (
                <Button refusal={changeRefusal} aria-label={`Change the limits of ${one.name}`} onClick={() => choose({ name: one.name, tenant: tenantOf(one) })}>
                  Change…
                </Button>
              ),
            },
          ]}
        />
      )}
      {chosen && <LimitDialog queue={chosen} onClose={() => choose(null)} />}
    </div>
  );
}

/** How many tasks wait, and how long the longest of them has waited. */
function Waiting({ count, since }: { count: number; since: string | null }) {
  return (
    <>
      {countText(count)}
      {since !== null && (
        <span className={blocks.soft}>
          , the longest for <DurationText from={since} />
        </span>
      )}
    </>
  );
}

function tenantOf(queue: object): string | null {
  return (queue as { tenant?: string | null }).tenant ?? null;
}

/** How much of a limit is in use: a bar with its number, or the number alone where there is no limit. */
function Use({ name, now, most }: { name: string; now: number; most: number | null }) {
  if (most === null) return <>{countText(now)}</>;
  return (
    <span className={styles.use}>
      <meter className={styles.meter} min={0} max={most} value={Math.min(now, most)} aria-label={`${name}: ${now} of ${most}`} />
      <span aria-hidden="true">
        {countText(now)} of {countText(most)}
        {now >= most && " (full)"}
      </span>
    </span>
  );
}

function LimitDialog({ queue, onClose }: { queue: Chosen; onClose: () => void }) {
  const read = queries.useQuery("get", "/api/queues/{queue}", { params: { path: { queue: queue.name }, query: { onlyTenant: queue.tenant ?? undefined } } });
  if (!read.data)
    return (
      <FormDialog title={`Limits of ${queue.name}`} submit="Save" refusal="They are not read yet" onSubmit={async () => undefined} onClose={onClose}>
        {read.error ? <ErrorNotice error={read.error} /> : <Loading what="the limits" />}
      </FormDialog>
    );
  return <LimitForm queue={queue} limits={read.data.limits} revision={read.data.revision} onClose={onClose} />;
}

function LimitForm({ queue, limits, revision, onClose }: { queue: Chosen; limits: Parameters<typeof limitForm>[0]; revision: number; onClose: () => void }) {
  const [form, setForm] = useState(() => limitForm(limits));
  const changes = limitChanges(form);
  const set = (name: keyof typeof form) => (value: string) => setForm({ ...form, [name]: value });
  return (
    <FormDialog
      title={`Limits of ${queue.name}${queue.tenant ? ` for ${queue.tenant}` : ""}`}
      submit="Save"
      refusal={typeof changes === "string" ? changes : ""}
      paths={["/api/queues"]}
      onClose={onClose}
      onDone={() => (onClose(), tellEveryone(`The limits of ${queue.name} are changed`))}
      onSubmit={() => api.PATCH("/api/queues/{queue}", { params: { path: { queue: queue.name } }, body: { ...(changes as object), onlyTenant: queue.tenant ?? undefined, revision } as never })}
    >
      <p>Workers keep to the new limits at once; tasks that they hold go on. They hold until code declares other ones. An empty field is no limit.</p>
      <div className={blocks.pair}>
        <TextField label="At a time" type="number" value={form.concurrency} onChange={set("concurrency")} hint="Tasks, and separately executions, in progress." />
        <TextField label="In each lane" type="number" value={form.perLane} onChange={set("perLane")} />
        <TextField label="Time between two, in seconds" type="number" value={form.interval} onChange={set("interval")} hint="A rate: 0.1 is ten a second." />
        <TextField label="At once" type="number" value={form.burst} onChange={set("burst")} hint="How many of a rate may begin at once." />
      </div>
      <p className={blocks.soft}>Now: {limitWords(limits) || "no limits"}.</p>
    </FormDialog>
  );
}
