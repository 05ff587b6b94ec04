// Starts an execution of a workflow by a form from its input schema; what was started last can be taken as the input.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, queries, type Schemas } from "@/api/client";
import { parseExact, writeExact } from "@/api/exact-json";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ChoiceField, TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { initialValue, type JsonSchema, SchemaForm } from "@/parts/schema-form";
import { stateWord } from "@/words/states";
import { relativeTime, serverNow } from "@/words/times";

interface Props {
  /** The workflow, or a version of a definition: "billing@1.2.0". */
  reference: string;
  workflow: string;
  isCode: boolean;
  schema: JsonSchema | null;
  onClose: () => void;
}

/** A dialog that starts an execution. When the server has answered, it shows which. */
export function StartDialog({ reference, workflow, isCode, schema, onClose }: Props) {
  const hasForm = schema !== null && Object.keys(schema.properties ?? {}).length > 0;
  const [input, setInput] = useState<unknown>(() => (schema ? (initialValue(schema) ?? {}) : {}));
  const [problem, setProblem] = useState("");
  const [json, setJson] = useState(hasForm ? "" : "{}");
  const [look, setLook] = useState(hasForm ? "form" : "json");
  const [form, setForm] = useState(0);
  const [id, setId] = useState("");
  const [started, setStarted] = useState<Schemas["StartedExecution"]>();
  const recent = queries.useQuery("get", "/api/workflow-inputs", { params: { query: { workflow, limit: 20 } } }).data?.items.filter((one) => one.input !== null) ?? [];
  const take = (index: string) => {
    const found = recent[Number(index)]?.input;
    if (index === "" || found === undefined) return;
    setInput(found);
    setProblem("");
    setJson(writeExact(found, 2));
    if (Array.isArray(found)) setLook("json");
    setForm((before) => before + 1);
  };
  const change = (next: string) => {
    setJson(next);
    try {
      const value = parseExact(next || "{}");
      setProblem(typeof value === "object" && value !== null ? "" : "The input is an object of arguments by name, or a list of them by position");
      setInput(value);
    } catch {
      setProblem('This is no JSON; texts stand in "quotes"');
    }
  };
  if (started)
    return (
      <Dialog title={started.created ? "Started" : "It was there already"} onClose={onClose} actions={<Button onClick={onClose}>Close</Button>}>
        <p>
          {started.created ? "The server has started " : "An execution of this id was there, and nothing was started: "}
          <Link to="/executions/$workflow/$id" params={{ workflow: started.workflow, id: started.id }} autoFocus>
            {started.workflow}/{started.id}
          </Link>
        </p>
      </Dialog>
    );
  return (
    <FormDialog
      title={`Start ${reference}`}
      submit="Start"
      refusal={problem}
      paths={["/api/workflow-", "/api/executions"]}
      onClose={onClose}
      onDone={() => undefined}
      onSubmit={async () => {
        const body = { input: input as never, id: id || undefined };
        const answer = isCode ? await api.POST("/api/executions", { body: { ...body, workflow } as never }) : await api.POST("/api/workflow-versions/{reference}/executions", { params: { path: { reference } }, body: body as never });
        setStarted(answer.data as Schemas["StartedExecution"]);
      }}
    >
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
        <SchemaForm key={form} schema={schema} value={input} label="Input" onChange={(value, said) => (setInput(value), setProblem(said))} />
      ) : (
        <TextField label="Input, as JSON" value={json} onChange={change} rows={8} mono problem={problem} hint={schema ? "The server checks it before anything starts." : "The workflow says nothing about its input; a wrong one fails the execution."} />
      )}
      {schema && !hasForm && look === "form" && <p className={blocks.soft}>It takes no input.</p>}
      <TextField label="Id" value={id} onChange={setId} mono placeholder="a random one" hint="A second start with the same id finds the first one." />
    </FormDialog>
  );
}

function short(input: unknown): string {
  const text = writeExact(input);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
