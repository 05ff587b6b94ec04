// One approval: its question with its context, the form, and the answer; then what has become of it.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useLocation, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useAction } from "@/api/action";
import { api, queries, refresh, type Schemas } from "@/api/client";
import { usePolling, usePollingIfThere } from "@/api/polling";
import { Button } from "@/parts/button";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Facts, Page, Section } from "@/parts/page";
import { initialValue, type JsonSchema, missingField, SchemaForm } from "@/parts/schema-form";
import { TimeText } from "@/parts/time-text";
import { ValueView } from "@/parts/value-view";
import { useIdentity, useRefusal } from "@/shell/identity";
import { isAmong, voterName } from "@/shell/own-name";
import { useShortcut } from "@/shell/shortcuts";
import { tellEveryone } from "@/shell/told";
import { isEnded } from "@/words/states";
import { DelegateDialog } from "./delegate-dialog";
import styles from "./approval-page.module.css";

type Approval = Schemas["Approval"];

/** The page of an approval. */
export function ApprovalPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const found = queries.useQuery("get", "/api/approvals/{id}", { params: { path: { id } } }, usePollingIfThere(3));
  if (found.isPending) return <Loading what="the approval" />;
  if (!found.data)
    return (
      <Page title="Approval" name="Approval">
        <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />
      </Page>
    );
  return <Question key={id} approval={found.data} />;
}

function Question({ approval }: { approval: Approval }) {
  const { outcome, isOpen } = useOutcome(approval);
  const asked = approval.requestedBy;
  const next = useNext(approval.id);
  useShortcut("n", "the next approval", () => next.go());
  return (
    <Page
      title={approval.title}
      name={approval.title}
      below={isOpen ? <>Waits for {waitsFor(approval)}</> : outcome}
      actions={
        <Button busy={next.busy} onClick={next.go}>
          Next
        </Button>
      }
    >
      {next.error !== null && <ErrorNotice error={next.error} />}
      <Facts
        of={[
          ["Asked by", asked && <Link to="/executions/$workflow/$id" params={{ workflow: asked.workflow, id: asked.id }} search={{ step: approval.path }}>{`${asked.workflow}/${asked.id}`}</Link>],
          ["Asked", <TimeText key="at" at={approval.requestedAt} />],
          ["Due", approval.dueAt && <TimeText at={approval.dueAt} />],
          ["Times out", approval.timesOutAt && <TimeText at={approval.timesOutAt} />],
          ["Who may decide", approval.assignees.join(", ") || "anybody with the role approver"],
          ["Needs", approval.quorum > 1 ? `${approval.quorum} votes in favour` : ""],
          ["Priority", approval.priority === "normal" ? "" : approval.priority],
          ["About", [approval.resourceType, approval.resourceId].filter(Boolean).join(" ")],
          ["In the application", link(approval)],
        ]}
      />
      {approval.details !== null && approval.details !== undefined && (
        <Section title="Context">
          <ValueView value={approval.details} name="the context" />
        </Section>
      )}
      {isOpen && <Answer approval={approval} />}
      <History approval={approval} />
    </Page>
  );
}

function waitsFor(approval: Approval): string {
  const left = approval.quorum - approval.votes.filter((vote) => vote.approve).length;
  const who = approval.assignees.join(", ") || "anybody";
  return approval.quorum > 1 ? `${left} more ${left === 1 ? "vote" : "votes"} in favour, of ${who}` : `a decision by ${who}`;
}

function link(approval: Approval) {
  if (!approval.deeplink) return approval.routeHint;
  return /^https?:/.test(approval.deeplink) ? (
    <a href={approval.deeplink} rel="noreferrer noopener" target="_blank">
      {approval.routeHint || approval.deeplink}
    </a>
  ) : (
    approval.deeplink
  );
}

/** What the execution of the approval says of its end; an approval that waits has none. */
function useOutcome(approval: Approval) {
  const path = { workflow: approval.workflow, id: approval.id };
  const { data } = useQuery({
    queryKey: ["approval outcome", approval.id, approval.votes.length],
    queryFn: async () => (await api.GET("/api/executions/{workflow}/{id}", { params: { path } })).data,
    ...usePolling(3),
  });
  const isOpen = !isEnded(data?.status ?? "");
  const last = approval.votes.at(-1);
  const outcome = !data
    ? ""
    : data.status === "cancelled"
      ? "It is no longer asked: its execution was cancelled, or goes on without it"
      : last
        ? `Decided: ${last.approve ? "approved" : "rejected"} by ${approval.votes.map((vote) => vote.by).join(", ")}`
        : "Decided by its time-out: nobody has answered in time";
  return { outcome, isOpen };
}

function Answer({ approval }: { approval: Approval }) {
  const identity = useIdentity();
  const refusal = useRefusal("approver");
  const schema = approval.form as JsonSchema | null;
  const [value, setValue] = useState<unknown>(() => (schema ? initialValue(schema) : undefined));
  const [said, setSaid] = useState("");
  const problem = said || (schema ? missingField(schema, value) : "");
  const [comment, setComment] = useState("");
  const [isDelegating, setDelegating] = useState(false);
  const [voter, setVoter] = useState("");
  const others = identity?.roles.includes("admin") && !isAmong(identity, approval.assignees) ? approval.assignees : [];
  const decide = useMutation({
    mutationFn: async (approve: boolean) => {
      await api.POST("/api/approvals/{id}/decide", {
        params: { path: { id: approval.id } },
        body: { ...votedAs(voter || others[0] || "", identity, approval.assignees), approve, comment: comment || undefined, ...(approve && schema ? { value: value as never } : {}) },
      });
      return approve;
    },
    onSuccess: (approve) => {
      tellEveryone(approve ? "Approved; the answer is accepted" : "Rejected; the answer is accepted");
      void refresh("/api/approvals", "/api/executions");
    },
  });
  const answer = (approve: boolean) => {
    if (!refusal && !decide.isPending && !(approve && problem)) decide.mutate(approve);
  };
  useShortcut("a", "approve", () => answer(true));
  useShortcut("r", "reject", () => answer(false));
  return (
    <Section title="Your answer">
      <form className={styles.form} onSubmit={(event) => event.preventDefault()}>
        {schema && <SchemaForm schema={schema} value={value} label="Form" onChange={(next, fault) => (setValue(next), setSaid(fault))} />}
        <label className={styles.comment}>
          Comment (optional)
          <textarea rows={2} value={comment} maxLength={10_000} onChange={(event) => setComment(event.target.value)} />
        </label>
        {others.length > 0 && (
          <label className={styles.comment}>
            Decide in the place of
            <select value={voter} onChange={(event) => setVoter(event.target.value)}>
              {others.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
            <span className={styles.soft}>You may not decide yourself, but an admin may record the decision of those who may.</span>
          </label>
        )}
        {approval.refused && <Notice look="warn">The last answer was refused: {approval.refused}</Notice>}
        <div className={styles.buttons}>
          {said && <Notice look="warn">{said}</Notice>}
          {decide.error && <ErrorNotice error={decide.error} />}
          <Button look="main" busy={decide.isPending} refusal={refusal || problem} onClick={() => answer(true)}>
            Approve <kbd>a</kbd>
          </Button>
          <Button look="danger" busy={decide.isPending} refusal={refusal} onClick={() => answer(false)}>
            Reject <kbd>r</kbd>
          </Button>
          <Button refusal={refusal || (approval.assignees.length ? "" : "Anybody may decide, so there is nothing to pass on")} onClick={() => setDelegating(true)}>
            Pass on …
          </Button>
        </div>
      </form>
      {isDelegating && <DelegateDialog approval={approval} onClose={() => setDelegating(false)} />}
    </Section>
  );
}

/** Whose vote it is: that of the viewer, of another person, or of the viewer as a member of a group. */
function votedAs(other: string, identity: Schemas["CallerDetails"] | undefined, asked: readonly string[]): { by: string; groups?: string[] } {
  const group = /^group:(.+)$/.exec(other)?.[1];
  if (group) return { by: voterName(identity, asked), groups: [group] };
  return other ? { by: other } : { by: voterName(identity, asked), groups: identity?.groups };
}

function History({ approval }: { approval: Approval }) {
  const said = [
    ...(approval.delegations ?? []).map((one) => ({ at: one.at ?? null, text: `${one.by} has passed it on to ${one.to}${one.isAbsent ? ", being out of office" : ""}${one.note ? `: ${one.note}` : ""}`, value: undefined as unknown })),
    ...approval.votes.map((one) => ({ at: null as string | null, text: `${one.by} has ${one.approve ? "approved" : "rejected"} it${one.comment ? `: ${one.comment}` : ""}`, value: one.value as unknown })),
  ];
  if (said.length === 0) return null;
  return (
    <Section title="What has happened">
      <ol className={styles.history}>
        {said.map((one, index) => (
          <li key={index}>
            <p dir="auto">
              {one.text} {one.at && <TimeText at={one.at} />}
            </p>
            {one.value !== undefined && one.value !== null && <ValueView value={one.value} name="what was filled in" />}
          </li>
        ))}
      </ol>
    </Section>
  );
}

/** Goes to the approval that follows in the list from which one came, or else to the first that waits. */
function useNext(id: string): { go: () => void; busy: boolean; error: unknown } {
  const navigate = useNavigate();
  const list = (useLocation().state as { list?: string[] }).list ?? [];
  const following = list[list.indexOf(id) + 1];
  const look = useAction(
    async () => (await api.GET("/api/approvals", { params: { query: { limit: 20 } } })).data?.items.find((one) => one.id !== id),
    [],
    (other) => {
      if (!other) tellEveryone("No other approval waits");
      void (other ? navigate({ to: "/approvals/$id", params: { id: other.id } }) : navigate({ to: "/approvals" }));
    },
  );
  return { go: () => (following ? void navigate({ to: "/approvals/$id", params: { id: following }, state: { list } as never }) : look.run()), busy: look.busy, error: look.error };
}
