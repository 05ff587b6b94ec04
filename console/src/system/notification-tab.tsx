// Notification rules: what people are told of, by which channel, and how often; each can be tried.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, queries, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { CheckField, ChoiceField, TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { useRefusal } from "@/shell/identity";
import { tellEveryone } from "@/shell/told";
import { durationText } from "@/words/times";
import { KIND_NAMES, type NotificationKind } from "./notification-kinds";
import { Refused } from "./refused";

type Rule = Schemas["RuleDetails"];
type RuleFields = Schemas["NotificationRule"];

const CHANNELS = [["webhook", "a signed request (webhook)"], ["smtp", "e-mail"], ["app", "the application"]] as const;
const NEW_RULE: RuleFields = { kinds: ["failure", "needs_attention"], channel: "webhook" };

/** The tab of notification rules. */
export function NotificationTab() {
  const refusal = useRefusal("admin", "notifications.list_rules");
  const [edited, edit] = useState<Rule | "new" | null>(null);
  const [tried, setTried] = useState<Rule | null>(null);
  const [removed, remove] = useState<Rule | null>(null);
  const rules = usePages("/api/notification-rules", {}, (after?: string) => api.GET("/api/notification-rules", { params: { query: { limit: 100, after } } }), { enabled: refusal === "" });
  if (refusal) return <Refused what="Notification rules" why={refusal} />;
  if (rules.error) return <ErrorNotice error={rules.error} onRetry={() => void rules.refetch()} />;
  if (!rules.data) return <Loading what="the rules" />;
  const rows = rules.data.pages.flatMap((one) => one.items);
  return (
    <div className={blocks.stack}>
      <div className={blocks.row}>
        <Button look="main" onClick={() => edit("new")}>
          New rule…
        </Button>
      </div>
      {rows.length === 0 ? (
        <Empty title="Nobody is notified of anything">
          <p>A rule says what people are told of: approvals that wait, executions that fail, triggers that pause themselves.</p>
        </Empty>
      ) : (
        <SimpleTable
          label="Notification rules"
          rows={rows}
          keyOf={(one) => one.name}
          columns={[
            { id: "name", title: "Rule", cell: (one) => one.name },
            { id: "state", title: "State", cell: (one) => (one.rule.enabled === false ? <span className={blocks.warn}>○ off</span> : "✓ on") },
            { id: "kinds", title: "Tells of", cell: (one) => `${one.rule.kinds.map((kind) => KIND_NAMES[kind]).join(", ")}${one.rule.workflow ? ` of ${one.rule.workflow}` : ""}` },
            { id: "channel", title: "By", cell: (one) => `${CHANNELS.find(([channel]) => channel === one.rule.channel)?.[1] ?? one.rule.channel}${one.rule.target ? ` to ${one.rule.target}` : ""}` },
            { id: "often", title: "How often", wideOnly: true, cell: (one) => oftenWords(one.rule) },
            {
              id: "actions",
              title: "Actions",
              cell: (one) => (
                <span className={blocks.actions}>
                  <Button look="quiet" aria-label={`Change ${one.name}`} onClick={() => edit(one)}>
                    Change…
                  </Button>
                  <Button look="quiet" aria-label={`Test ${one.name}`} onClick={() => setTried(one)}>
                    Test…
                  </Button>
                  <Button look="quiet" aria-label={`Remove ${one.name}`} onClick={() => remove(one)}>
                    Remove…
                  </Button>
                </span>
              ),
            },
          ]}
        />
      )}
      {rules.hasNextPage && (
        <div>
          <Button busy={rules.isFetchingNextPage} onClick={() => void rules.fetchNextPage()}>
            More rules
          </Button>
        </div>
      )}
      {edited && <RuleDialog rule={edited === "new" ? undefined : edited} onClose={() => edit(null)} />}
      {tried && <TestDialog rule={tried} onClose={() => setTried(null)} />}
      {removed && (
        <FormDialog
          title={`Remove the rule ${removed.name}`}
          submit="Remove"
          danger
          paths={["/api/notification-rules"]}
          onClose={() => remove(null)}
          onDone={() => (remove(null), tellEveryone(`The rule ${removed.name} is removed`))}
          onSubmit={() => api.DELETE("/api/notification-rules/{rule}", { params: { path: { rule: removed.name }, query: { revision: removed.version } } })}
        >
          <p>Nobody is told by it any more, not even of what it has begun to send.</p>
        </FormDialog>
      )}
    </div>
  );
}

/** How often a rule sends something, in a few words. */
export function oftenWords(rule: RuleFields): string {
  return (
    [
      rule.groupSeconds ? `together within ${durationText(rule.groupSeconds * 1_000)}` : "",
      rule.hourlyMax ? `at most ${rule.hourlyMax} an hour` : "",
      rule.quietFrom && rule.quietUntil ? `not from ${rule.quietFrom} to ${rule.quietUntil}${rule.zone ? `, ${rule.zone}` : ""}` : "",
    ]
      .filter(Boolean)
      .join("; ") || "each at once"
  );
}

function RuleDialog({ rule, onClose }: { rule?: Rule; onClose: () => void }) {
  const [name, setName] = useState(rule?.name ?? "");
  const [fields, setFields] = useState<RuleFields>(rule?.rule ?? NEW_RULE);
  const set = (change: Partial<RuleFields>) => setFields((before) => ({ ...before, ...change }));
  const number = (field: "groupSeconds" | "hourlyMax" | "surgeAbove" | "surgeSeconds") => (text: string) => set({ [field]: text === "" ? undefined : Number(text) });
  const hasSurge = fields.kinds.includes("dead_letter_surge");
  const live = queries.useQuery("get", "/api/notification-rules/{rule}", { params: { path: { rule: name } } }, { enabled: rule !== undefined });
  return (
    <FormDialog
      title={rule ? `Change ${rule.name}` : "New rule"}
      submit="Save"
      wide
      refusal={!name.trim() ? "Give it a name" : fields.kinds.length === 0 ? "Choose what it tells of" : ""}
      paths={["/api/notification-rules"]}
      onClose={onClose}
      onDone={() => (onClose(), tellEveryone(`The rule ${name} is saved`))}
      onSubmit={() => api.PUT("/api/notification-rules/{rule}", { params: { path: { rule: name.trim() } }, body: { ...fields, revision: rule ? (live.data?.version ?? rule.version) : 0 } as never })}
    >
      <div className={blocks.pair}>
        <TextField label="Name" value={name} onChange={setName} readOnly={rule !== undefined} />
        <TextField label="Only of the workflow" value={fields.workflow ?? ""} onChange={(workflow) => set({ workflow })} mono hint="Empty: of any." />
      </div>
      <fieldset className={blocks.pair}>
        <legend>It tells of</legend>
        {(Object.entries(KIND_NAMES) as [NotificationKind, string][]).map(([kind, says]) => (
          <CheckField key={kind} label={says} checked={fields.kinds.includes(kind)} onChange={(on) => set({ kinds: on ? [...fields.kinds, kind] : fields.kinds.filter((one) => one !== kind) })} />
        ))}
      </fieldset>
      <div className={blocks.pair}>
        <ChoiceField label="By" value={fields.channel} onChange={(channel) => set({ channel: channel as RuleFields["channel"] })} choices={CHANNELS} />
        {fields.channel !== "app" && <TextField label={fields.channel === "smtp" ? "Addresses" : "URL"} value={fields.target ?? ""} onChange={(target) => set({ target })} mono hint={fields.channel === "smtp" ? "Separated by commas. Empty: each assignee of an approval, at their own address." : "A POST of JSON."} />}
        {fields.channel === "webhook" && <TextField label="Name of the secret that signs" value={fields.secret ?? ""} onChange={(secret) => set({ secret })} mono />}
      </div>
      <TextField label="Title" value={fields.title ?? ""} onChange={(title) => set({ title })} mono hint="A template, such as @{event.title}. Empty: that of Perdure." />
      <TextField label="Text" value={fields.body ?? ""} onChange={(body) => set({ body })} rows={3} mono hint="May read @{event.text}, @{event.link}, @{count} and others." />
      <div className={blocks.pair}>
        <TextField label="Together within, in seconds" type="number" value={String(fields.groupSeconds ?? "")} onChange={number("groupSeconds")} />
        <TextField label="At most in an hour" type="number" value={String(fields.hourlyMax ?? "")} onChange={number("hourlyMax")} />
        <TextField label="Quiet from" type="time" value={fields.quietFrom ?? ""} onChange={(quietFrom) => set({ quietFrom })} />
        <TextField label="Quiet until" type="time" value={fields.quietUntil ?? ""} onChange={(quietUntil) => set({ quietUntil })} />
        <TextField label="Time zone of these" value={fields.zone ?? ""} onChange={(zone) => set({ zone })} offers={["UTC", ...Intl.supportedValuesOf("timeZone")]} />
        {hasSurge && <TextField label="A surge is more than" type="number" value={String(fields.surgeAbove ?? "")} onChange={number("surgeAbove")} hint="Dead letters." />}
        {hasSurge && <TextField label="Within, in seconds" type="number" value={String(fields.surgeSeconds ?? "")} onChange={number("surgeSeconds")} />}
      </div>
      <CheckField label="On" checked={fields.enabled !== false} onChange={(enabled) => set({ enabled })} />
    </FormDialog>
  );
}

function TestDialog({ rule, onClose }: { rule: Rule; onClose: () => void }) {
  const [to, setTo] = useState("");
  const [trial, setTrial] = useState<Schemas["RuleTrial"]>();
  return (
    <FormDialog
      title={`Test ${rule.name}`}
      submit={trial ? "Send another one" : "Send a sample"}
      onClose={onClose}
      onDone={() => undefined}
      paths={["/api/executions"]}
      onSubmit={async () => setTrial((await api.POST("/api/notification-rules/{rule}/test", { params: { path: { rule: rule.name } }, body: { to: to || undefined } as never })).data)}
    >
      <p>Sends a sample at once, also if the rule is off. An engine has to run; it is attempted once.</p>
      {rule.rule.channel === "smtp" && <TextField label="To" value={to} onChange={setTo} type="email" hint="Empty: to the addresses of the rule." />}
      {trial && (
        <p role="status">
          The sample is being sent by{" "}
          <Link to="/executions/$workflow/$id" params={{ workflow: trial.workflow, id: trial.id }}>
            {trial.workflow}/{trial.id}
          </Link>
          , which says whether it arrived.
        </p>
      )}
    </FormDialog>
  );
}
