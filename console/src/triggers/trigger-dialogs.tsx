// Dialogs on a trigger: run it now, pause it, delete it, and start what it missed.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { jsonProblem, parseExact } from "@/api/exact-json";
import { randomId } from "@/api/random-id";
import { useAction } from "@/api/action";
import { ActionError } from "@/parts/action-error";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { Facts } from "@/parts/page";
import { StartedDialog } from "@/parts/started-dialog";
import { tellEveryone } from "@/shell/told";
import { countText, exactTime } from "@/words/times";
import { apiTime } from "./tick-times";
import type { Trigger } from "./trigger-words";

interface Props {
  trigger: Trigger;
  onClose: () => void;
}

const pathOf = (trigger: Trigger) => ({ path: { trigger: trigger.id } });
const PATHS = ["/api/triggers", "/api/executions"];

/** Pauses a trigger, with a reason that people see. */
export function PauseDialog({ trigger, onClose }: Props) {
  const [reason, setReason] = useState("");
  return (
    <FormDialog
      title={`Pause ${trigger.name}`}
      submit="Pause"
      paths={PATHS}
      onClose={onClose}
      onDone={() => (onClose(), tellEveryone(`${trigger.name} is paused`))}
      onSubmit={() => api.POST("/api/triggers/{trigger}/pause", { params: pathOf(trigger), body: { reason, revision: trigger.revision } as never })}
    >
      <p>It starts nothing until somebody resumes it. What it misses meanwhile is not made up for by itself; a backfill starts the ticks of the past.</p>
      <TextField label="Reason" value={reason} onChange={setReason} hint="Everybody who looks at the trigger sees it." />
    </FormDialog>
  );
}

/** Deletes a trigger. */
export function DeleteTriggerDialog({ trigger, onClose }: Props) {
  const navigate = useNavigate();
  return (
    <FormDialog
      title={`Delete ${trigger.name}`}
      submit="Delete"
      danger
      onClose={onClose}
      onDone={() => {
        onClose();
        tellEveryone(`${trigger.name} is deleted`);
        void navigate({ to: "/triggers" });
      }}
      onSubmit={() => api.DELETE("/api/triggers/{trigger}", { params: { ...pathOf(trigger), query: { revision: trigger.revision } } })}
    >
      <p>What goes: the trigger{trigger.webhookUrl && `, and its URL ${trigger.webhookUrl}: requests to it are answered with 404`}. What stays: the executions that it has started; those in progress go on.</p>
    </FormDialog>
  );
}

/** Starts an execution by a trigger now, and shows which. */
export function RunTriggerDialog({ trigger, onClose }: Props) {
  const takesPayload = trigger.type === "webhook" || trigger.type === "event" || trigger.type === "manual";
  const [payload, setPayload] = useState("");
  const [ran, setRan] = useState<Schemas["TriggeredRun"]>();
  const [requestId] = useState(randomId);
  const problem = jsonProblem(payload);
  if (ran) return <StartedDialog of={ran} onClose={onClose} />;
  return (
    <FormDialog
      title={`Run ${trigger.name} now`}
      submit="Run now"
      refusal={problem}
      paths={PATHS}
      onClose={onClose}
      onDone={setRan}
      onSubmit={async () => {
        const body = { clientRequestId: requestId, ...(payload.trim() ? { payload: parseExact(payload) } : {}) };
        return (await api.POST("/api/triggers/{trigger}/run", { params: pathOf(trigger), body: body as never })).data as Schemas["TriggeredRun"];
      }}
    >
      <p>
        This starts one execution of {trigger.workflowId || "the prompt"}, {trigger.enabled && !trigger.pause ? "beside what the trigger starts by itself." : "also though the trigger starts nothing by itself now."}
      </p>
      {takesPayload && <TextField label="Payload, as JSON" value={payload} onChange={setPayload} rows={6} mono problem={problem} hint="What the trigger would receive. Empty: none." />}
    </FormDialog>
  );
}

const exactText = (at: string | null | undefined) => at && exactTime(Date.parse(at));

/** Starts executions for the ticks of the past: first it counts them, then it starts exactly those. */
export function BackfillDialog({ trigger, onClose }: Props) {
  const [from, setFrom] = useState("");
  const [until, setUntil] = useState("");
  const [counted, setCounted] = useState<Schemas["Backfill"]>();
  const [done, setDone] = useState<Schemas["Backfill"]>();
  const send = async (expect?: number) =>
    (await api.POST("/api/triggers/{trigger}/backfill", { params: pathOf(trigger), body: { fromAt: apiTime(from), untilAt: apiTime(until), expect } as never })).data as Schemas["Backfill"];
  const count = useAction(() => send(), [], setCounted);
  const start = useAction(
    (expect: number) => send(expect),
    PATHS,
    (result) => {
      setDone(result);
      tellEveryone(`${countText(result.started)} executions were started`);
    },
  );
  const missing = !from || !until ? "Say from when until when" : from >= until ? "The end is not after the beginning" : "";
  const fresh = counted ? counted.total - counted.existing : 0;
  const change = (set: (value: string) => void) => (value: string) => {
    set(value);
    setCounted(undefined);
    start.clear();
  };
  return (
    <Dialog
      title={`Backfill ${trigger.name}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          {!done && (
            <Button busy={count.busy} refusal={missing} onClick={() => count.run()}>
              Count
            </Button>
          )}
          {!done && (
            <Button look="main" busy={start.busy} refusal={counted ? (fresh === 0 ? "There is nothing to start" : "") : "Count first"} onClick={() => counted && start.run(counted.total)}>
              {counted ? `Start ${countText(fresh)}` : "Start"}
            </Button>
          )}
        </>
      }
    >
      <p>Starts an execution for each tick from one time up to another, whether or not the trigger is active. A tick that has started an execution already is not started again.</p>
      <div className={blocks.pair}>
        <TextField label="From" type="datetime-local" value={from} onChange={change(setFrom)} hint="In your time zone." readOnly={done !== undefined} />
        <TextField label="Up to, but not including" type="datetime-local" value={until} onChange={change(setUntil)} hint="In your time zone." readOnly={done !== undefined} />
      </div>
      {count.error !== null && <ActionError error={count.error} />}
      {start.error !== null && <ActionError error={start.error} />}
      <div role="status">
        {from && until && missing && <p>{missing}.</p>}
        {(done ?? counted) && (
          <Facts
            of={[
              ["Ticks in this time", countText((done ?? counted)?.total ?? 0)],
              ["Have run already", countText((done ?? counted)?.existing ?? 0)],
              [done ? "Started" : "Would be started", countText(done ? done.started : fresh)],
              ["The first", exactText((done ?? counted)?.firstAt)],
              ["The last", exactText((done ?? counted)?.lastAt)],
            ]}
          />
        )}
      </div>
    </Dialog>
  );
}

/** Enables, disables or resumes a trigger, without a question. */
export function useSwitch(trigger: Trigger) {
  return useAction(
    async (to: "enable" | "disable" | "resume") => {
      const given = { params: pathOf(trigger), body: { revision: trigger.revision } as never };
      if (to === "enable") await api.POST("/api/triggers/{trigger}/enable", given);
      else if (to === "disable") await api.POST("/api/triggers/{trigger}/disable", given);
      else await api.POST("/api/triggers/{trigger}/resume", given);
    },
    ["/api/triggers"],
    (_, to) => tellEveryone({ enable: `${trigger.name} is enabled`, disable: `${trigger.name} is disabled`, resume: `${trigger.name} is resumed` }[to]),
  );
}
