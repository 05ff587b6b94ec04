// Creates or changes a trigger by a form; of a schedule, the next runs are shown while it is typed.
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { api, type Schemas } from "@/api/client";
import blocks from "@/parts/blocks.module.css";
import { CheckField, ChoiceField, TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { tellEveryone } from "@/shell/told";
import { errorText } from "@/words/failures";
import { useWorkflowNames } from "@/workflows/workflow-data";
import { TickList } from "./tick-list";
import { configOf, fieldsOf, formOf, NEW_TRIGGER, type TriggerForm } from "./trigger-form";
import { overlapSentence, type Trigger, TYPE_NAMES } from "./trigger-words";

type Change = (fields: Partial<TriggerForm>) => void;

const SCHEMES = [
  ["standard_webhooks", "Standard Webhooks"],
  ["github", "GitHub"],
  ["stripe", "Stripe"],
  ["slack", "Slack"],
  ["generic", "an HMAC-SHA256 in a header"],
  ["bearer", "a bearer token"],
  ["none", "nothing: whoever knows the URL may send"],
] as const;

/** A dialog with the form of a trigger; without `trigger`, of a new one. */
export function TriggerFormDialog({ trigger, workflow = "", onClose, onSaved }: { trigger?: Trigger; workflow?: string; onClose: () => void; onSaved?: (saved: Trigger) => void }) {
  const [form, setForm] = useState<TriggerForm>(() => (trigger ? formOf(trigger) : { ...NEW_TRIGGER, workflowId: workflow }));
  const change: Change = (fields) => setForm((before) => ({ ...before, ...fields }));
  const problem = problemOf(form, trigger);
  const names = useWorkflowNames();
  const needsWorkflow = !(form.type === "schedule" && form.target === "orchestrator");
  return (
    <FormDialog
      title={trigger ? `Change ${trigger.name}` : "New trigger"}
      submit={trigger ? "Save" : "Create"}
      wide
      refusal={problem}
      paths={["/api/triggers"]}
      onClose={onClose}
      onSubmit={async () => {
        const fields = fieldsOf(form, trigger?.config);
        const answer = trigger
          ? await api.PATCH("/api/triggers/{trigger}", { params: { path: { trigger: trigger.id } }, body: { ...fields, revision: trigger.revision } as never })
          : await api.POST("/api/triggers", { body: fields as never });
        tellEveryone(trigger ? `${form.name} is saved` : `${form.name} is created`);
        onSaved?.(answer.data as Trigger);
      }}
    >
      <div className={blocks.pair}>
        <TextField label="Name" value={form.name} onChange={(name) => change({ name })} required />
        {!trigger && <ChoiceField label="It starts something" value={form.type} onChange={(type) => change({ type: type as Trigger["type"] })} choices={[["schedule", "at times (a schedule)"], ["webhook", "on requests (a webhook)"], ["event", "on events"], ["manual", "by hand"]]} />}
        {needsWorkflow && <TextField label="Workflow" value={form.workflowId} onChange={(workflowId) => change({ workflowId })} offers={names} mono hint="The slug of a definition, or a reference such as billing:production, or the name of code." />}
      </div>
      {form.type === "schedule" && <ScheduleFields form={form} change={change} before={trigger} />}
      {form.type === "webhook" && <WebhookFields form={form} change={change} isNew={!trigger} />}
      {form.type === "event" && <EventFields form={form} change={change} />}
      {needsWorkflow && (
        <div className={blocks.pair}>
          {form.type !== "schedule" && <TextField label="Inputs from the payload" value={form.mapping} onChange={(mapping) => change({ mapping })} rows={3} mono placeholder="order = $.data.id" hint="A line for each input: its name, and a JSONPath in the payload." />}
          <TextField label="Fixed input, as JSON" value={form.input} onChange={(input) => change({ input })} rows={3} mono hint='May read @trigger, such as {"tick": "@trigger.about.tick"}.' />
        </div>
      )}
      {!trigger && <CheckField label="Enabled at once" checked={form.enabled} onChange={(enabled) => change({ enabled })} />}
      <p className={blocks.soft}>{TYPE_NAMES[form.type]} · {trigger ? "an edit takes effect at once; a tick that was due before it is still started" : "people with the role operator can pause and disable it"}</p>
    </FormDialog>
  );
}

function problemOf(form: TriggerForm, trigger?: Trigger): string {
  if (!form.name.trim()) return "Give it a name";
  try {
    fieldsOf(form, trigger?.config);
    return "";
  } catch (error) {
    return errorText(error).text;
  }
}

function ScheduleFields({ form, change, before }: { form: TriggerForm; change: Change; before?: Trigger }) {
  let config: Record<string, unknown> | null = null;
  try {
    const { type: _, ...schedule } = configOf(form, before?.config);
    config = schedule;
  } catch {
    config = null; // the form says which field can't be read
  }
  const asked = useDeferredValue(JSON.stringify(config));
  const preview = useQuery({
    queryKey: ["post", "/api/triggers/preview", asked],
    queryFn: async () => (await api.POST("/api/triggers/preview", { body: { ...(JSON.parse(asked) as object), count: 10 } as never })).data as Schemas["SchedulePreview"],
    enabled: config !== null,
    retry: false,
    staleTime: 30_000,
    placeholderData: (shown: Schemas["SchedulePreview"] | undefined) => shown,
  });
  const zones = Intl.supportedValuesOf("timeZone");
  return (
    <>
      <div className={blocks.pair}>
        <ChoiceField label="Times" value={form.when} onChange={(when) => change({ when: when as TriggerForm["when"] })} choices={[["cron", "by a cron expression"], ["every", "at intervals"], ["once", "at these times"]]} />
        {form.when === "cron" && <TextField label="Cron expression" value={form.cron} onChange={(cron) => change({ cron })} mono hint="Minute, hour, day of the month, month, day of the week." />}
        {form.when === "cron" && <TextField label="Time zone" value={form.timezone} onChange={(timezone) => change({ timezone })} offers={["UTC", ...zones]} />}
        {form.when === "every" && <TextField label="Every" type="number" value={form.every} onChange={(every) => change({ every })} />}
        {form.when === "every" && <ChoiceField label="Unit" value={form.unit} onChange={(unit) => change({ unit })} choices={[["1", "seconds"], ["60", "minutes"], ["3600", "hours"], ["86400", "days"]]} />}
        {form.when === "once" && <TextField label="Times, one a line" value={form.once} onChange={(once) => change({ once })} rows={3} mono placeholder="2027-01-01T09:00:00Z" />}
      </div>
      <div className={blocks.pair}>
        <ChoiceField
          label="While an earlier execution is in progress, a tick"
          value={form.overlap}
          onChange={(overlap) => change({ overlap: overlap as TriggerForm["overlap"] })}
          choices={[["allow", "starts another one beside it"], ["skip", "starts nothing"], ["queue", "waits for its turn"], ["cancel", "cancels it and starts the next"]]}
        />
        {form.overlap === "queue" && <TextField label="Waiting at most" type="number" value={form.queuedMax} onChange={(queuedMax) => change({ queuedMax })} />}
        <TextField label="Circuit breaker" type="number" value={form.breakAfter} onChange={(breakAfter) => change({ breakAfter })} hint="After so many failures in a row it pauses itself; 0: never." />
        <TextField label="Catch-up" type="number" value={form.catchUp} onChange={(catchUp) => change({ catchUp })} hint="How many missed ticks are started late." />
        <TextField label="Jitter, in seconds" type="number" value={form.jitter} onChange={(jitter) => change({ jitter })} hint="Each run starts up to so much later." />
        <TextField label="Not before" type="datetime-local" value={form.startsAt} onChange={(startsAt) => change({ startsAt })} hint="In your time zone." />
        <TextField label="Not from this time on" type="datetime-local" value={form.endsAt} onChange={(endsAt) => change({ endsAt })} hint="In your time zone." />
        <ChoiceField label="A tick" value={form.target} onChange={(target) => change({ target: target as TriggerForm["target"] })} choices={[["workflow", "starts a workflow"], ["orchestrator", "hands a prompt to the application"]]} />
      </div>
      {form.target === "orchestrator" && <TextField label="Prompt" value={form.prompt} onChange={(prompt) => change({ prompt })} rows={3} />}
      <div className={blocks.stack} role="status">
        {preview.data && !preview.error && <p>It runs {preview.data.sentence}. {config && overlapSentence(config)}</p>}
        {preview.error && <p className={blocks.bad}>✗ {errorText(preview.error).text}</p>}
        {preview.data && !preview.error && <TickList preview={preview.data} label="The next runs of this schedule" />}
      </div>
    </>
  );
}

function WebhookFields({ form, change, isNew }: { form: TriggerForm; change: Change; isNew: boolean }) {
  const isOpen = form.scheme === "none" || form.scheme === "bearer";
  return (
    <>
      <div className={blocks.pair}>
        <TextField label="Path" value={form.path} onChange={(path) => change({ path })} mono placeholder="stripe/paid" hint={isOpen && isNew ? "128 random bits are added to it, since nothing signs the body." : "Behind /webhooks/."} />
        <TextField label="Method" value={form.method} onChange={(method) => change({ method })} mono offers={["POST", "PUT", "GET"]} />
        <ChoiceField label="What is verified" value={form.scheme} onChange={(scheme) => change({ scheme })} choices={SCHEMES} />
        {form.scheme !== "none" && <TextField label="Names of secrets" value={form.secrets} onChange={(secrets) => change({ secrets })} mono placeholder="STRIPE_HOOK" hint="Two, separated by a comma, while a secret is rotated: the new one first." />}
        {(form.scheme === "generic" || form.scheme === "bearer") && <TextField label="Header" value={form.header} onChange={(header) => change({ header })} mono placeholder={form.scheme === "generic" ? "X-Signature" : "Authorization"} />}
        {form.scheme === "generic" && (
          <>
            <TextField label="Prefix" value={form.prefix} onChange={(prefix) => change({ prefix })} mono />
            <ChoiceField label="Encoding" value={form.encoding} onChange={(encoding) => change({ encoding: encoding as "hex" })} choices={[["hex", "hex"], ["base64", "base64"]]} />
            <TextField label="Header with the time" value={form.timestampHeader} onChange={(timestampHeader) => change({ timestampHeader })} mono hint="Without one, a recorded request can be sent again." />
          </>
        )}
        <ChoiceField label="The answer" value={form.respond} onChange={(respond) => change({ respond: respond as "accepted" })} choices={[["accepted", "202 at once, with the execution"], ["result", "the result of the execution"]]} />
        {form.respond === "result" && <TextField label="Answer within, in seconds" type="number" value={form.respondWithin} onChange={(respondWithin) => change({ respondWithin })} />}
      </div>
      <details>
        <summary>Limits and headers</summary>
        <div className={blocks.pair}>
          <TextField label="Header with the id of a delivery" value={form.deliveryHeader} onChange={(deliveryHeader) => change({ deliveryHeader })} mono placeholder="that of the scheme" />
          <TextField label="At a time" type="number" value={form.activeMax} onChange={(activeMax) => change({ activeMax })} hint="Executions that work at a time; 0: any number." />
          <TextField label="Waiting at most" type="number" value={form.webhookQueuedMax} onChange={(webhookQueuedMax) => change({ webhookQueuedMax })} />
          <TextField label="Required headers, as JSON" value={form.headers} onChange={(headers) => change({ headers })} mono />
        </div>
      </details>
    </>
  );
}

function EventFields({ form, change }: { form: TriggerForm; change: Change }) {
  return (
    <div className={blocks.pair}>
      <TextField label="Events" value={form.on} onChange={(on) => change({ on })} mono offers={["completed", "failed", "cancelled", "needs_attention"]} hint="Separated by commas: completed, failed, cancelled, needs_attention, a name that code emits, or the type of a CloudEvent." />
      <TextField label="Of the workflow" value={form.of} onChange={(of) => change({ of })} mono hint="Empty: of any." />
      <TextField label="Conditions, as JSON" value={form.where} onChange={(where) => change({ where })} rows={3} mono hint='All have to hold: [{"ref": "@self.value.cents", "gt": 100}]' />
    </div>
  );
}
