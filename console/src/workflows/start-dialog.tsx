// Starts an execution of a workflow by a form from its input schema; what was started last can be taken as the input.
import { type ReactNode, useState } from "react";
import { api, queries, type Schemas } from "@/api/client";
import { NO_JSON, parseExact, writeExact } from "@/api/exact-json";
import { ChoiceField, TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { initialValue, type JsonSchema, SchemaForm } from "@/parts/schema-form";
import { useSettledValue } from "@/parts/settled-value";
import { StartedDialog } from "@/parts/started-dialog";
import { stateWord } from "@/words/states";
import { relativeTime, serverNow } from "@/words/times";
import { isDefinition, useListedWorkflows, useWorkflowNames } from "./workflow-data";

const TYPED_MS = 300;

/** What is started: a workflow, and of a definition which version of it, such as "billing@1.2.0". */
export interface Startable {
  reference: string;
  workflow: string;
  isCode: boolean;
  /** That of its input; null if it is not known. */
  schema: JsonSchema | null;
}

interface Given {
  input: unknown;
  /** What is wrong with it; empty if nothing is. */
  problem: string;
}

/** A dialog that starts an execution of a workflow. When the server has answered, it shows which. */
export function StartDialog({ start, onClose }: { start: Startable; onClose: () => void }) {
  return <AnyStartDialog start={start} title={`Start ${start.reference}`} onClose={onClose} />;
}

/** The same, which asks for the workflow first. */
export function StartSomethingDialog({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const start = useStartable(name.trim());
  const names = useWorkflowNames();
  return (
    <AnyStartDialog start={start} title="Start an execution" refusal={start.workflow ? "" : "Name a workflow"} onClose={onClose}>
      <TextField label="Workflow" value={name} onChange={setName} mono required autoFocus offers={names} />
    </AnyStartDialog>
  );
}

/** The workflow of a name: the current version of a definition, or code. One that is not listed may still be known to an engine. */
function useStartable(name: string): Startable {
  const found = useListedWorkflows().items.find((one) => one.slug === name);
  const reference = found && isDefinition(found) && found.version ? `${found.slug}@${found.version}` : "";
  const version = queries.useQuery("get", "/api/workflow-versions/{reference}", { params: { path: { reference } } }, { enabled: reference !== "", staleTime: 60_000 });
  if (reference) return { reference, workflow: name, isCode: false, schema: (version.data?.inputSchema ?? null) as JsonSchema | null };
  return { reference: name, workflow: name, isCode: true, schema: (found && !isDefinition(found) ? found.inputSchema : null) as JsonSchema | null };
}

interface AnyProps {
  start: Startable;
  title: string;
  /** Why it can't be started, besides its input. */
  refusal?: string;
  children?: ReactNode;
  onClose: () => void;
}

function AnyStartDialog({ start, title, refusal = "", children, onClose }: AnyProps) {
  const { reference, workflow, isCode, schema } = start;
  const [given, setGiven] = useState<Given>(() => firstInput(schema));
  const [id, setId] = useState("");
  const [started, setStarted] = useState<Schemas["StartedExecution"]>();
  const known = `${reference} ${schema === null ? "" : "with a schema"}`;
  const [shown, setShown] = useState(known);
  if (shown !== known) {
    setShown(known); // another workflow takes another input
    setGiven(firstInput(schema));
  }
  if (started) return <StartedDialog of={started} isNew={started.created} onClose={onClose} />;
  return (
    <FormDialog
      title={title}
      submit="Start"
      refusal={refusal || given.problem}
      paths={["/api/workflow-", "/api/executions"]}
      onClose={onClose}
      onDone={setStarted}
      onSubmit={async () => {
        const body = { input: given.input as never, id: id.trim() || undefined };
        const answer = isCode ? await api.POST("/api/executions", { body: { ...body, workflow } as never }) : await api.POST("/api/workflow-versions/{reference}/executions", { params: { path: { reference } }, body: body as never });
        return answer.data as Schemas["StartedExecution"];
      }}
    >
      {children}
      <InputFields key={known} start={start} given={given} onChange={setGiven} />
      <TextField label="Id" value={id} onChange={setId} mono placeholder="a random one" hint="A second start with the same id finds the first one." />
    </FormDialog>
  );
}

function firstInput(schema: JsonSchema | null): Given {
  return { input: schema ? (initialValue(schema) ?? {}) : {}, problem: "" };
}

/** The input as a form or as JSON, or that of an earlier execution. */
function InputFields({ start: { workflow, schema }, given: { input, problem }, onChange }: { start: Startable; given: Given; onChange: (given: Given) => void }) {
  const hasForm = schema !== null && Object.keys(schema.properties ?? {}).length > 0;
  const [json, setJson] = useState("{}");
  const [look, setLook] = useState(hasForm ? "form" : "json");
  const [form, setForm] = useState(0);
  const named = useSettledValue(workflow, TYPED_MS);
  const recent = queries.useQuery("get", "/api/workflow-inputs", { params: { query: { workflow: named, limit: 20 } } }, { enabled: named !== "" }).data?.items.filter((one) => one.input !== null) ?? [];
  const take = (index: string) => {
    const found = recent[Number(index)]?.input;
    if (index === "" || found === undefined) return;
    onChange({ input: found, problem: "" });
    setJson(writeExact(found, 2));
    if (Array.isArray(found)) setLook("json");
    setForm((before) => before + 1);
  };
  const type = (next: string) => {
    setJson(next);
    try {
      const value = parseExact(next || "{}");
      onChange({ input: value, problem: typeof value === "object" && value !== null ? "" : "The input is an object of arguments by name, or a list of them by position" });
    } catch {
      onChange({ input, problem: NO_JSON });
    }
  };
  return (
    <>
      {recent.length > 0 && (
        <ChoiceField
          label="Begin with the input of an earlier execution"
          value=""
          onChange={take}
          choices={[["", "– choose one of the last –"], ...recent.map((one, index) => [String(index), `${relativeTime(Date.parse(one.createdAt), serverNow())}, ${stateWord(one.status).word}: ${short(one.input)}`] as const)]}
        />
      )}
      {hasForm && (
        <ChoiceField label="Enter the input as" value={look} onChange={(next) => (setLook(next), setJson(writeExact(input, 2)), setForm((before) => before + 1))} choices={[["form", "a form"], ["json", "JSON"]]} />
      )}
      {look === "form" && schema ? (
        <SchemaForm key={form} schema={schema} value={input} label="Input" onChange={(value, said) => onChange({ input: value, problem: said })} />
      ) : (
        <TextField label="Input, as JSON" value={json} onChange={type} rows={8} mono problem={problem} hint={schema ? "The server checks it before anything starts." : "The workflow says nothing about its input; a wrong one fails the execution."} />
      )}
    </>
  );
}

function short(input: unknown): string {
  const text = writeExact(input);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
