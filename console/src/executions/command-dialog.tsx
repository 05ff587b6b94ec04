// The dialog of a command: what it asks for, what would happen as the server plans it, and its answer.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useId, useRef, useState } from "react";
import { queries, refresh } from "@/api/client";
import { writeExact } from "@/api/exact-json";
import { Problem } from "@/api/problem";
import { randomId } from "@/api/random-id";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ErrorNotice, Notice } from "@/parts/notice";
import { SchemaForm, initialValue } from "@/parts/schema-form";
import { tellEveryone } from "@/shell/told";
import { type Command, type Fields, commandBody, giveCommand, planCommand, versionSeen } from "./commands";
import { type ExecutionRecord, type StepTrace, nameOf } from "./execution-reads";
import { PlanView } from "./plan-view";
import { useSettledValue } from "@/parts/settled-value";

interface Props {
  command: Command;
  record: ExecutionRecord;
  steps: StepTrace[];
  /** What is filled in when it opens. */
  given?: Fields;
  onClose: () => void;
}

/** Asks for the fields of a command, shows what would happen, and gives it. */
export function CommandDialog({ command, record, steps, given = {}, onClose }: Props) {
  const form = useId();
  const navigate = useNavigate();
  const versions = useVersions(record.workflow);
  const [schema] = useState(() => command.fields({ record, steps, versions }));
  const [fields, setFields] = useState<Fields>(() => ({ ...(initialValue(schema) as Fields), ...given }));
  const [problem, setProblem] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isSending, setSending] = useState(false);
  const sent = useRef({ text: "", key: "" });
  const [seen, setSeen] = useState(() => versionSeen(record));
  const body = commandBody(command.verb, fields, record);
  const missing = (schema.required ?? []).filter((name) => body[name] === undefined);
  const isReady = problem === "" && missing.length === 0;
  const asked = useSettledValue(writeExact(body), 250);
  const plan = useQuery({
    queryKey: ["plan", command.verb, record.workflow, record.id, record.version, asked],
    queryFn: ({ signal }) => planCommand(command.verb, record, body, signal),
    enabled: isReady && asked === writeExact(body),
    placeholderData: (before) => before,
    retry: false,
    gcTime: 0,
  });
  const isPlanned = isReady && plan.data !== undefined && !plan.isPlaceholderData && !plan.isError;
  const refusal = problem || (missing.length ? `Fill in ${missing.join(" and ")}` : plan.isError ? "The server would refuse it, for the reason above" : !isPlanned ? "The server has not said yet what would happen" : plan.data.refused?.length ? "An engine would refuse it, for the reasons above" : plan.data.hasEffect === false ? "It would have no effect" : "");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (refusal || isSending) return;
    const text = writeExact(body);
    if (sent.current.text !== text) sent.current = { text, key: randomId() };
    setSending(true);
    setError(null);
    try {
      const answer = await giveCommand(command.verb, { of: record, body, seen, idempotencyKey: sent.current.key });
      const made = command.verb === "fork" || command.verb === "rerun" ? (answer as { workflow: string; id: string }) : null;
      onClose();
      tellEveryone(made ? `${nameOf(made)} is started, from ${nameOf(record)}.` : command.done(record));
      await refresh("/api/executions");
      if (made) await navigate({ to: "/executions/$workflow/$id", params: made, search: {} });
    } catch (failure) {
      setError(failure);
      if (!(failure instanceof Problem) || failure.status !== 0) sent.current = { text: "", key: "" };
      if (failure instanceof Problem && failure.status === 412) await refresh("/api/executions");
    } finally {
      setSending(false);
    }
  };
  const isStale = seen !== null && record.version !== seen;
  return (
    <Dialog
      title={`${command.title.replace(" …", "")} ${nameOf(record)}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" form={form} look={command.danger ? "danger" : "main"} refusal={isStale ? "Look at the new plan first" : refusal} busy={isSending}>
            {isSending ? "The server is asked …" : (command.confirm ?? command.title.replace(" …", ""))}
          </Button>
        </>
      }
    >
      <p>{command.says}</p>
      <form id={form} onSubmit={submit}>
        <SchemaForm
          schema={schema}
          label={command.title}
          value={fields}
          onChange={(value, said) => {
            setFields(value as Fields);
            setProblem(said);
          }}
        />
      </form>
      {isReady && (plan.data || plan.isPending) && !plan.isError && <PlanView plan={plan.data} isOld={plan.isPlaceholderData} />}
      {isReady && plan.isError && <ErrorNotice error={plan.error} onRetry={() => void plan.refetch()} />}
      {error !== null && <ErrorNotice error={error} />}
      {isStale && (
        <Notice look="warn">
          <p>The execution has changed since this dialog opened: it is {record.status.replaceAll("_", " ")} now. What would happen, above, is planned anew.</p>
          <Button
            onClick={() => {
              setSeen(record.version);
              setError(null);
            }}
          >
            Go on with the new plan
          </Button>
        </Notice>
      )}
    </Dialog>
  );
}

/** The versions of a workflow of code that running engines know. */
function useVersions(workflow: string): number[] {
  const { data } = queries.useQuery("get", "/api/workflows", { params: { query: { text: workflow, kind: "code", limit: 100 } } }, { staleTime: 60_000 });
  return (data?.code ?? []).filter((one) => one.slug === workflow).map((one) => one.version);
}
