// The chosen step, or the definition itself, as a form. Each change patches the text.
import { useId, useState } from "react";
import { Button } from "@/parts/button";
import { isMap, type Plain } from "../document/plain-values";
import type { ReadText } from "../document/definition-store";
import { fieldsBesideVerb, type JsonSchema } from "../model/definition-schema";
import { renameStep, setValue, type Action } from "../model/step-edits";
import { idProblem, type Step } from "../model/step-tree";
import { isVerb, verbNamed, VERBS } from "../model/verbs";
import { useOfferedReferences } from "../offered-references";
import { AddField, Properties, SchemaField, type FieldContext } from "./schema-field";
import { ChoiceField, TextField, ValueField } from "./value-field";
import styles from "./form-view.module.css";

interface Props {
  read: ReadText;
  text: string;
  /** Whether the text can't be read, so that `read` is what it said before. */
  isBroken: boolean;
  schema: JsonSchema;
  /** Schemas of the configs of kinds that packages add, by name. */
  configs: ReadonlyMap<string, JsonSchema>;
  selected: string;
  onSelect: (id: string) => void;
  onAct: (action: Action) => void;
  readOnly: boolean;
}

export function FormView({ read, text, isBroken, schema, configs, selected, onSelect, onAct, readOnly }: Props) {
  const list = useId();
  const step = read.tree.byId.get(selected);
  const references = useOfferedReferences(text, read.tree, step, isBroken);
  const context: FieldContext = { root: schema, list, readOnly };
  if (!read.isNative) return <p className={styles.note}>This document is in another format than Perdure's own. Edit it as text; the canvas shows it.</p>;
  return (
    <div className={styles.form}>
      <datalist id={list}>
        {references.map(({ text, says }) => (
          <option key={text} value={text}>
            {says}
          </option>
        ))}
      </datalist>
      {step === undefined ? <DocumentForm read={read} context={context} onAct={onAct} /> : <StepForm key={step.id} read={read} step={step} context={context} configs={configs} onAct={onAct} onSelect={onSelect} />}
    </div>
  );
}

const HIDDEN_IN_DOCUMENT = new Set(["steps", "perdure", "ui", "dialect"]);

function DocumentForm({ read, context, onAct }: { read: ReadText; context: FieldContext; onAct: (action: Action) => void }) {
  const document = isMap(read.value) ? read.value : {};
  return (
    <>
      <h2>The definition</h2>
      <Properties context={context} schema={context.root} value={document} depth={0} hidden={HIDDEN_IN_DOCUMENT} onChange={(next) => onAct(changeOf("Change the definition", [], document, next))} />
    </>
  );
}

/** The least that changes: one field set or removed. */
function changeOf(label: string, path: readonly (string | number)[], before: Record<string, Plain>, after: Record<string, Plain>): Action {
  const edits: Action["edits"] = [];
  for (const [name, value] of Object.entries(after)) if (before[name] !== value) edits.push({ op: "set", path: [...path, name], value });
  for (const name of Object.keys(before)) if (!(name in after)) edits.push({ op: "remove", path: [...path, name] });
  return { label, edits };
}

const GROUPS: readonly [title: string, fields: readonly string[]][] = [
  ["Input and result", ["with", "env", "wait", "transform", "schema"]],
  ["When and how often", ["when", "needs", "join", "each", "repeat"]],
  ["When it fails", ["retry", "timeout", "grace", "idempotent", "undo", "commit", "on_error", "on_rejected"]],
  ["What follows", ["next"]],
];

interface StepFormProps {
  read: ReadText;
  step: Step;
  context: FieldContext;
  configs: ReadonlyMap<string, JsonSchema>;
  onAct: (action: Action) => void;
  onSelect: (id: string) => void;
}

function StepForm({ read, step, context, configs, onAct, onSelect }: StepFormProps) {
  const [added, add] = useState<readonly string[]>([]);
  const { tree } = read;
  const { fields, verb, path } = step;
  const beside = fieldsBesideVerb(context.root, verb, step.list.order === "ports");
  const properties = context.root.$defs?.["step"]?.properties ?? {};
  const set = (name: string, value: Plain | undefined) => onAct(setValue(`Change ${name} of ${step.id}`, [...path, name], value, name in fields));
  const shown = (name: string) => name in fields || added.includes(name);
  const verbSchema = { ...verbSchemaOf(properties[verb] ?? {}, verb, fields[verb], configs), description: "" };
  const others = Object.keys(fields).filter((name) => !(name in properties));
  const becomes = (name: string) => {
    const next = verbNamed(name);
    if (next === undefined || name === verb) return;
    const edits: Action["edits"] = [];
    if (verb !== "") edits.push({ op: "rename", path: [...path, verb], key: name });
    for (const [field, value] of Object.entries(next.fields)) edits.push({ op: "set", path: [...path, field], value });
    for (const field of Object.keys(verbNamed(verb)?.fields ?? {})) if (field !== verb && field in fields && !(field in next.fields)) edits.push({ op: "remove", path: [...path, field] });
    onAct({ label: `Make ${step.id} a step of ${name}`, edits });
  };
  return (
    <>
      <header className={styles.header}>
        <h2>{step.id}</h2>
        <Button look="quiet" onClick={() => onSelect("")}>
          The definition …
        </Button>
      </header>
      <TextField label="id" mono value={step.hasId ? step.id : ""} readOnly={context.readOnly} check={(id) => idProblem(tree, id, step.id)} onCommit={(id) => onAct(renameStep(tree, step, id))} says="References to the step follow when it gets another id." />
      <TextField label="name" value={typeof fields["name"] === "string" ? fields["name"] : ""} readOnly={context.readOnly} onCommit={(name) => set("name", name === "" ? undefined : name)} says="for people" />
      <section className={styles.section} aria-label="What it does">
        <h3>What it does</h3>
        <ChoiceField label="verb" value={verb} readOnly={context.readOnly} options={[...(verb === "" ? [{ value: "", title: "–" }] : []), ...VERBS.map((one) => ({ value: one.name, title: `${one.name}: ${one.title}` }))]} onChange={becomes} says={verbNamed(verb)?.says} />
        {verb !== "" && <SchemaField key={verb} context={context} schema={verbSchema} name={verb} value={fields[verb]} required onChange={(value) => set(verb, value ?? (verb === "return" ? null : ""))} />}
      </section>
      {GROUPS.map(([title, names]) => {
        const known = beside.filter((one) => names.includes(one.name));
        if (known.length === 0) return null;
        const left = known.filter((one) => !shown(one.name));
        return (
          <section key={title} className={styles.section} aria-label={title}>
            <h3>{title}</h3>
            {known
              .filter((one) => shown(one.name))
              .map((one) => (
                <SchemaField
                  key={one.name}
                  context={context}
                  schema={one.schema}
                  name={one.name}
                  value={fields[one.name] ?? (one.name === "with" || one.name === "env" ? {} : undefined)}
                  onChange={(value) => set(one.name, value)}
                  onRemove={() => {
                    add(added.filter((name) => name !== one.name));
                    if (one.name in fields) set(one.name, undefined);
                  }}
                />
              ))}
            {!context.readOnly && left.length > 0 && <AddField label={`Add to "${title}"`} names={left} onAdd={(name) => add([...added, name])} />}
          </section>
        );
      })}
      <section className={styles.section} aria-label="Notes">
        <TextField label="note" multiline value={typeof fields["note"] === "string" ? fields["note"] : ""} readOnly={context.readOnly} onCommit={(note) => set("note", note === "" ? undefined : note)} says="for people" />
      </section>
      {others.map((name) => (
        <ValueField key={name} label={name} value={fields[name]} readOnly={context.readOnly} onCommit={(value) => set(name, value)} says="This field is not known here." />
      ))}
      {Object.keys(fields).filter(isVerb).length > 1 && <p className={styles.note}>A step does exactly one thing; this one has several verbs.</p>}
    </>
  );
}

/** The schema of a verb's value; of a task of a package's kind, with the config that the kind takes. */
function verbSchemaOf(schema: JsonSchema, verb: string, value: Plain | undefined, configs: ReadonlyMap<string, JsonSchema>): JsonSchema {
  const type = verb === "task" && isMap(value) ? value["type"] : undefined;
  const config = typeof type === "string" ? configs.get(type) : undefined;
  if (config === undefined) return schema;
  const withConfig = (one: JsonSchema): JsonSchema => (one.properties?.["config"] ? { ...one, properties: { ...one.properties, config } } : { ...one, ...(one.anyOf ? { anyOf: one.anyOf.map(withConfig) } : {}) });
  return withConfig(schema);
}
