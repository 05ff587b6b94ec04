// A form made from a JSON Schema: fields for what it names, and a field of JSON for anything that has no simpler one.
import { useId, useState } from "react";
import { parseExact, writeExact } from "@/api/exact-json";
import styles from "./schema-form.module.css";

export interface JsonSchema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  format?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  multiline?: boolean;
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  anyOf?: JsonSchema[];
}

interface Props {
  schema: JsonSchema;
  value: unknown;
  /** Gets the value, and the problem of a field that can't be read, which is empty when there is none. */
  onChange: (value: unknown, problem: string) => void;
  label: string;
  required?: boolean;
  readOnly?: boolean;
}

/** Edits a value that has to fit a schema. The server checks it again. */
export function SchemaForm({ schema, value, onChange, label, required = true, readOnly = false }: Props) {
  const plain = resolved(schema);
  const kind = kindOf(plain);
  if (kind === "object") return <Fields schema={plain} value={value} onChange={onChange} label={label} readOnly={readOnly} />;
  return <Field schema={plain} kind={kind} value={value} onChange={onChange} label={label} required={required} readOnly={readOnly} />;
}

/** The schema that a reference within the document leads to; of one that also allows null, the other part. */
function resolved(schema: JsonSchema, definitions = schema.$defs, depth = 0): JsonSchema {
  const name = /^#\/\$defs\/(.+)$/.exec(schema.$ref ?? "")?.[1];
  const target = name === undefined ? undefined : definitions?.[decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~")];
  const parts = schema.anyOf?.filter((one) => one.type !== "null");
  const { $ref: _ref, anyOf: _any, ...own } = schema;
  if (target && depth < DEPTH_MAX) return resolved({ ...target, ...own, $defs: definitions }, definitions, depth + 1);
  if (parts?.length === 1 && depth < DEPTH_MAX) return resolved({ ...(parts[0] as JsonSchema), ...own, $defs: definitions }, definitions, depth + 1);
  return { ...schema, $defs: definitions };
}

/** What is still missing in a value that has to fit a schema: the first required field without a value; empty if there is none. */
export function missingField(schema: JsonSchema, value: unknown): string {
  const plain = resolved(schema);
  if (kindOf(plain) !== "object") return value === undefined ? "a value is needed" : "";
  const object = (value ?? {}) as Record<string, unknown>;
  const name = plain.required?.find((one) => object[one] === undefined || object[one] === "");
  return name === undefined ? "" : `${plain.properties?.[name]?.title ?? name} is needed`;
}

/** The value with which a form begins: the defaults of the schema. */
export function initialValue(given: JsonSchema): unknown {
  const schema = resolved(given);
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (kindOf(schema) !== "object") return undefined;
  const found = Object.entries(schema.properties ?? {}).map(([name, one]) => [name, initialValue({ $defs: schema.$defs, ...one })] as const);
  return Object.fromEntries(found.filter(([, one]) => one !== undefined));
}

const DEPTH_MAX = 20; // of references to references

type Kind = "object" | "choice" | "text" | "number" | "boolean" | "json";

function kindOf(schema: JsonSchema): Kind {
  const type = Array.isArray(schema.type) ? schema.type.filter((one) => one !== "null")[0] : schema.type;
  if (schema.enum) return "choice";
  if (type === "object" && schema.properties && Object.keys(schema.properties).length > 0) return "object";
  if (type === "string") return "text";
  if (type === "integer" || type === "number") return "number";
  if (type === "boolean") return "boolean";
  return "json";
}

function Fields({ schema, value, onChange, label, readOnly }: Props) {
  const object = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const [problems, setProblems] = useState<Record<string, string>>({});
  const change = (name: string, one: unknown, problem: string) => {
    const next = { ...object, [name]: one };
    if (one === undefined) delete next[name];
    const all = { ...problems, [name]: problem };
    setProblems(all);
    onChange(next, Object.entries(all).map(([field, said]) => said && `${field}: ${said}`).find(Boolean) ?? "");
  };
  return (
    <fieldset className={styles.fields}>
      <legend className="visually-hidden">{label}</legend>
      {Object.entries(schema.properties ?? {}).map(([name, one]) => (
        <SchemaForm
          key={name}
          schema={{ $defs: schema.$defs, ...one }}
          label={one.title ?? name}
          value={object[name]}
          required={schema.required?.includes(name) ?? false}
          readOnly={readOnly}
          onChange={(next, problem) => change(name, next, problem)}
        />
      ))}
    </fieldset>
  );
}

function Field({ schema, kind, value, onChange, label, required, readOnly }: Props & { kind: Kind }) {
  const id = useId();
  const [text, setText] = useState(() => textOf(kind, value));
  const [problem, setProblem] = useState("");
  const read = (given: string) => {
    setText(given);
    const [next, said] = valueOf(schema, kind, given, required ?? false);
    setProblem(said);
    onChange(next, said);
  };
  const shared = { id, "aria-describedby": `${id}-more`, "aria-invalid": problem !== "" || undefined, required, className: styles.input };
  return (
    <div className={styles.field}>
      {kind !== "boolean" && (
        <label htmlFor={id}>
          {label}
          {required ? <span aria-hidden="true"> *</span> : <span className={styles.soft}> (optional)</span>}
        </label>
      )}
      {kind === "boolean" ? (
        <label className={styles.check}>
          <input type="checkbox" id={id} disabled={readOnly} checked={value === true} onChange={(event) => onChange(event.target.checked, "")} aria-describedby={`${id}-more`} /> {label}
        </label>
      ) : kind === "choice" ? (
        <select {...shared} disabled={readOnly} value={text} onChange={(event) => read(event.target.value)}>
          <option value="">–</option>
          {schema.enum?.map((one) => (
            <option key={writeExact(one)} value={writeExact(one)}>
              {typeof one === "string" ? one : writeExact(one)}
            </option>
          ))}
        </select>
      ) : kind === "json" || schema.multiline || (schema.maxLength ?? 0) > 200 ? (
        <textarea {...shared} readOnly={readOnly} rows={kind === "json" ? 5 : 3} spellCheck={kind !== "json"} className={`${styles.input} ${kind === "json" ? styles.mono : ""}`} value={text} onChange={(event) => read(event.target.value)} />
      ) : (
        <input {...shared} readOnly={readOnly} type={schema.format === "date" ? "date" : "text"} inputMode={kind === "number" ? "decimal" : undefined} value={text} onChange={(event) => read(event.target.value)} />
      )}
      <p id={`${id}-more`} className={problem ? styles.problem : styles.soft}>
        {problem || schema.description}
      </p>
    </div>
  );
}

function textOf(kind: Kind, value: unknown): string {
  if (value === undefined) return "";
  return kind === "text" && typeof value === "string" ? value : kind === "number" ? String(value) : writeExact(value, 2);
}

function valueOf(schema: JsonSchema, kind: Kind, text: string, required: boolean): [unknown, string] {
  if (text === "" && !(kind === "text" && required)) return [undefined, required ? "is needed" : ""];
  if (kind === "text") return [text, textProblem(schema, text)];
  try {
    const value = parseExact(text);
    if (kind === "number") return [value, numberProblem(schema, value)];
    return [value, ""];
  } catch {
    return [undefined, kind === "number" ? "is no number" : "is no JSON; a text stands in \"quotes\""];
  }
}

function textProblem(schema: JsonSchema, text: string): string {
  if (text.length < (schema.minLength ?? 0)) return `needs at least ${schema.minLength} characters`;
  if (text.length > (schema.maxLength ?? Number.POSITIVE_INFINITY)) return `has more than ${schema.maxLength} characters`;
  return "";
}

function numberProblem(schema: JsonSchema, value: unknown): string {
  if (typeof value !== "number" && typeof value !== "bigint") return "is no number";
  if (schema.type === "integer" && typeof value === "number" && !Number.isInteger(value)) return "is no whole number";
  if (value < (schema.minimum ?? Number.NEGATIVE_INFINITY)) return `is less than ${schema.minimum}`;
  if (value > (schema.maximum ?? Number.POSITIVE_INFINITY)) return `is more than ${schema.maximum}`;
  return "";
}
