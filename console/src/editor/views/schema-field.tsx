// A field made from the JSON Schema of a part of a definition. What it can't show as a form, it shows as YAML.
import { type ReactNode, useState } from "react";
import { Button } from "@/parts/button";
import { isMap, type Plain, type PlainMap } from "../document/plain-values";
import { alternativeOf, alternatives, type JsonSchema } from "../model/definition-schema";
import { ConditionField } from "./condition-field";
import { ChoiceField, TextField, ValueField } from "./value-field";
import styles from "./fields.module.css";

export interface FieldContext {
  root: JsonSchema;
  /** The id of the list of references. */
  list: string;
  readOnly: boolean;
}

interface Props {
  context: FieldContext;
  schema: JsonSchema;
  name: string;
  value: Plain | undefined;
  onChange: (value: Plain | undefined) => void;
  required?: boolean;
  onRemove?: (() => void) | undefined;
  depth?: number;
}

const LONG_TEXTS = new Set(["prompt", "system", "instructions", "ts", "python", "bash", "command", "code", "query", "execute", "note", "description", "message", "details"]);
const SOURCES = new Set(["ts", "python", "bash", "command", "code", "query", "execute"]);

export function SchemaField(props: Props) {
  const { context, schema, name, value, onChange, onRemove, depth = 0 } = props;
  const ways = alternatives(context.root, schema);
  const [chosen, choose] = useState(-1);
  const found = value === undefined ? (chosen >= 0 ? chosen : 0) : alternativeOf(ways, value);
  const way = ways[found];
  const says = schema.description ?? way?.schema.description ?? "";
  const remove = onRemove && !context.readOnly && (
    <Button look="quiet" aria-label={`Remove ${name}`} title={`Remove ${name}`} onClick={onRemove}>
      ✕
    </Button>
  );
  const body = way === undefined ? <ValueField label={name} value={value} onCommit={onChange} readOnly={context.readOnly} says={says} list={context.list} aside={remove} /> : <Way {...props} way={way} says={says} aside={remove} />;
  const titles = ways.map(wayTitle);
  const isOffered = ways.length > 1 && new Set(titles).size === titles.length && titles.every((one) => one !== "any value") && !context.readOnly && depth < 3;
  if (!isOffered || ways.length === 2 && titles.includes("text") && titles.includes("list of texts") === false && way?.schema.enum !== undefined) return body;
  return (
    <div className={styles.ways}>
      {body}
      <ChoiceField
        label={`How ${name} is written`}
        hideLabel
        value={String(found)}
        options={[...(found < 0 ? [{ value: "-1", title: "as YAML" }] : []), ...titles.map((title, index) => ({ value: String(index), title }))]}
        onChange={(text) => {
          const index = Number(text);
          choose(index);
          const next = ways[index];
          if (next !== undefined && index !== found) onChange(initialOf(next, value));
        }}
      />
    </div>
  );
}

function wayTitle({ schema, kind }: { schema: JsonSchema; kind: string }): string {
  if (kind === "condition") return "condition";
  if (kind === "duration" || kind === "wait") return "duration";
  if (schema.enum !== undefined) return schema.enum.map(String).join(" / ");
  if (schema.type === "array") return schema.items?.type === "string" ? "list of texts" : schema.items?.$ref === "#/$defs/step" ? "steps" : "list";
  if (schema.type === "object") return "fields";
  if (schema.type === "string") return "text";
  if (schema.type === "integer" || schema.type === "number") return "number";
  return schema.type === undefined ? "any value" : String(schema.type);
}

function initialOf({ schema, kind }: { schema: JsonSchema; kind: string }, value: Plain | undefined): Plain {
  if (kind === "condition") return { ref: "@input" };
  if (kind === "duration" || kind === "wait") return "1m";
  if (schema.enum !== undefined) return schema.enum[0] as Plain;
  if (schema.type === "array") return Array.isArray(value) ? value : typeof value === "string" && value !== "" ? [value] : [];
  if (schema.type === "object") {
    const first = schema.required?.[0];
    return first !== undefined && typeof value === "string" ? { [first]: value } : Object.fromEntries((schema.required ?? []).map((one) => [one, ""]));
  }
  if (schema.type === "string") return typeof value === "string" ? value : Array.isArray(value) && typeof value[0] === "string" ? value[0] : "";
  if (schema.type === "boolean") return true;
  return schema.minimum ?? 0;
}

function Way({ context, name, value, onChange, required, depth = 0, way: { schema, kind }, says, aside }: Props & { way: { schema: JsonSchema; kind: string }; says: string; aside: ReactNode }) {
  const shared = { label: name, says, readOnly: context.readOnly };
  const part = { context, name, onChange, says, aside, depth };
  if (kind === "condition")
    return (
      <Line aside={aside}>
        <ConditionField {...shared} value={value ?? { ref: "@input" }} list={context.list} onChange={onChange} />
      </Line>
    );
  if (schema.enum !== undefined) {
    const unset = schema.default === undefined ? "–" : `${String(schema.default)} (the default)`;
    return <Choice of={schema.enum.map((one) => [one as Plain, String(one)])} unset={unset} value={value} shared={shared} onChange={onChange} aside={aside} />;
  }
  if (schema.type === "boolean") {
    const unset = schema.default === undefined ? "–" : `${schema.default === true ? "yes" : "no"} (the default)`;
    return <Choice of={[[true, "yes"], [false, "no"]]} unset={unset} value={value} shared={shared} onChange={onChange} aside={aside} />;
  }
  if (schema.type === "array") return <ListField {...part} schema={schema} value={Array.isArray(value) ? value : []} />;
  if (schema.type === "object") {
    const map = isMap(value) ? value : {};
    if (schema.properties !== undefined) return <Group {...part} schema={schema} value={map} />;
    if (typeof schema.additionalProperties === "object") return <MapField {...part} item={schema.additionalProperties} value={map} />;
  }
  if (schema.type === "string") {
    const text = typeof value === "string" ? value : "";
    const isLong = text.includes("\n") || LONG_TEXTS.has(name);
    return <TextField {...shared} mono={SOURCES.has(name)} multiline={isLong} list={isLong ? undefined : context.list} value={text} onCommit={(given) => onChange(given === "" && required !== true ? undefined : given)} aside={aside} />;
  }
  if (schema.type === undefined && isMap(value) && depth < 3) return <MapField {...part} item={{}} value={value} />;
  return <ValueField {...shared} list={context.list} value={value} onCommit={onChange} aside={aside} />;
}

/** A field with its buttons beside it. */
function Line({ aside, children }: { aside: ReactNode; children: ReactNode }) {
  return (
    <div className={styles.line}>
      {children}
      {aside}
    </div>
  );
}

interface ChosenProps {
  of: [value: Plain, title: string][];
  /** What stands for no value. */
  unset: string;
  value: Plain | undefined;
  shared: { label: string; says: string; readOnly: boolean };
  onChange: (value: Plain | undefined) => void;
  aside: ReactNode;
}

/** A choice of one of a few values, or of none. */
function Choice({ of, unset, value, shared, onChange, aside }: ChosenProps) {
  const options = [{ value: "", title: unset }, ...of.map(([one, title]) => ({ value: JSON.stringify(one), title }))];
  return (
    <Line aside={aside}>
      <ChoiceField {...shared} value={value === undefined ? "" : JSON.stringify(value)} options={options} onChange={(text) => onChange(text === "" ? undefined : (JSON.parse(text) as Plain))} />
    </Line>
  );
}

interface PartProps {
  context: FieldContext;
  name: string;
  says: string;
  aside: ReactNode;
  depth: number;
  onChange: (value: Plain | undefined) => void;
}

/** The frame around a field that has fields inside. */
function PartFrame({ name, says, aside, children }: Pick<PartProps, "name" | "says" | "aside"> & { children: ReactNode }) {
  return (
    <fieldset className={styles.group}>
      <legend className={styles.label}>
        {name} {aside}
      </legend>
      {says && <p className={styles.says}>{says}</p>}
      {children}
    </fieldset>
  );
}

function Group({ context, schema, name, value, onChange, says, aside, depth }: PartProps & { schema: JsonSchema; value: PlainMap }) {
  return (
    <PartFrame name={name} says={says} aside={aside}>
      <Properties context={context} schema={schema} value={value} onChange={onChange} depth={depth + 1} />
    </PartFrame>
  );
}

/** The fields of an object: those that it has and those that it needs; the others can be added. */
export function Properties({ context, schema, value, onChange, depth, hidden }: { context: FieldContext; schema: JsonSchema; value: PlainMap; onChange: (value: PlainMap) => void; depth: number; hidden?: ReadonlySet<string> }) {
  const [added, add] = useState<readonly string[]>([]);
  const known = Object.entries(schema.properties ?? {}).filter(([name]) => !hidden?.has(name));
  const isShown = (name: string) => name in value || added.includes(name) || (schema.required?.includes(name) ?? false) || known.length <= 3;
  const set = (name: string, one: Plain | undefined) => {
    const next = { ...value };
    if (one === undefined) delete next[name];
    else next[name] = one;
    onChange(next);
  };
  const others = Object.keys(value).filter((name) => !(name in (schema.properties ?? {})) && !hidden?.has(name));
  const left = known.filter(([name]) => !isShown(name));
  return (
    <>
      {known
        .filter(([name]) => isShown(name))
        .map(([name, inner]) => {
          const isNeeded = schema.required?.includes(name) ?? false;
          return (
            <SchemaField
              key={name}
              context={context}
              schema={inner}
              name={name}
              value={value[name]}
              required={isNeeded}
              depth={depth}
              onChange={(one) => set(name, one)}
              onRemove={name in value && !isNeeded ? () => (add(added.filter((one) => one !== name)), set(name, undefined)) : undefined}
            />
          );
        })}
      {others.map((name) => (
        <ValueField key={name} label={name} value={value[name]} readOnly={context.readOnly} onCommit={(one) => set(name, one)} says="This field is not known here." />
      ))}
      {!context.readOnly && left.length > 0 && <AddField names={left.map(([name, inner]) => ({ name, says: inner.description ?? "" }))} onAdd={(name) => add([...added, name])} />}
    </>
  );
}

export function AddField({ names, onAdd, label = "Add a field" }: { names: readonly { name: string; says: string }[]; onAdd: (name: string) => void; label?: string }) {
  return <ChoiceField label={label} hideLabel value="" options={[{ value: "", title: `${label} …` }, ...names.map(({ name, says }) => ({ value: name, title: says ? `${name}: ${says.slice(0, 70)}` : name }))]} onChange={(name) => name !== "" && onAdd(name)} />;
}

function ListField({ context, schema, name, value, onChange, says, aside, depth }: PartProps & { schema: JsonSchema; value: Plain[] }) {
  const item = schema.items ?? {};
  if (item.$ref === "#/$defs/step")
    return (
      <p className={styles.says}>
        <b className={styles.label}>{name}</b>: {value.length} {value.length === 1 ? "step" : "steps"}. Choose them on the canvas.
      </p>
    );
  return (
    <PartFrame name={name} says={says} aside={aside}>
      <ul className={styles.rows}>
        {value.map((one, index) => (
          <li key={index}>
            <SchemaField context={context} schema={item} name={`${index + 1}`} value={one} depth={depth + 1} required onChange={(next) => onChange(next === undefined ? value.filter((_, place) => place !== index) : value.map((other, place) => (place === index ? next : other)))} onRemove={() => onChange(value.filter((_, place) => place !== index))} />
          </li>
        ))}
      </ul>
      {!context.readOnly && (
        <Button look="quiet" onClick={() => onChange([...value, initialOf(alternatives(context.root, item)[0] ?? { schema: item, kind: "" }, undefined)])}>
          Add to {name}
        </Button>
      )}
    </PartFrame>
  );
}

function MapField({ context, item, name, value, onChange, says, aside, depth }: PartProps & { item: JsonSchema; value: PlainMap }) {
  const rename = (from: string, to: string) => onChange(Object.fromEntries(Object.entries(value).map(([key, one]) => [key === from ? to : key, one])));
  const check = (from: string) => (to: string) => (to === "" ? "A name is needed." : to !== from && to in value ? `"${to}" is there already.` : "");
  return (
    <PartFrame name={name} says={says} aside={aside}>
      <ul className={styles.rows}>
        {Object.entries(value).map(([key, one], index) => (
          <li key={index} className={Array.isArray(one) || isMap(one) ? styles.stacked : styles.pair}>
            <TextField label={`Name ${index + 1} in ${name}`} hideLabel mono value={key} readOnly={context.readOnly} onCommit={(to) => rename(key, to)} check={check(key)} />
            <div className={styles.pairValue}>
              <SchemaField
                context={context}
                schema={item}
                name={key}
                value={one}
                depth={depth + 1}
                required
                onChange={(next) => onChange({ ...value, [key]: next ?? null })}
                onRemove={() => {
                  const { [key]: _, ...rest } = value;
                  onChange(rest);
                }}
              />
            </div>
          </li>
        ))}
      </ul>
      {!context.readOnly && (
        <Button
          look="quiet"
          onClick={() => {
            let fresh = "name";
            for (let number = 2; fresh in value; number += 1) fresh = `name_${number}`;
            onChange({ ...value, [fresh]: initialOf(alternatives(context.root, item)[0] ?? { schema: item, kind: "" }, undefined) });
          }}
        >
          Add to {name}
        </Button>
      )}
    </PartFrame>
  );
}
