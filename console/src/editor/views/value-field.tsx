// Fields for single values: they take over what was typed when they are left, or at Enter.
import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import { parse as parseYaml } from "yaml";
import { isMap, type Plain } from "../document/plain-values";
import { blockLines } from "../document/value-writer";
import { typedValue, valueText } from "../model/condition-rows";
import styles from "./fields.module.css";

interface TextProps {
  label: string;
  value: string;
  onCommit: (text: string) => void;
  says?: string;
  readOnly?: boolean;
  multiline?: boolean;
  mono?: boolean;
  hideLabel?: boolean;
  /** The id of a list of texts to choose from. */
  list?: string;
  inputMode?: "numeric" | "decimal";
  /** Why a text can't be taken; empty if it can. */
  check?: (text: string) => string;
  aside?: ReactNode;
}

/** A line or an area of text. Esc gives back what was there. */
export function TextField({ label, value, onCommit, says, readOnly = false, multiline = false, mono = false, hideLabel = false, list, inputMode, check, aside }: TextProps) {
  const id = useId();
  const [text, setText] = useState(value);
  const [problem, setProblem] = useState("");
  const latest = useRef({ text, value });
  latest.current = { text, value };
  useEffect(() => {
    setText(value);
    setProblem("");
  }, [value]);
  const commit = () => {
    const given = latest.current.text;
    if (given === latest.current.value) return setProblem("");
    const why = check?.(given) ?? "";
    setProblem(why);
    if (why === "") onCommit(given);
  };
  const shared = {
    id,
    value: text,
    readOnly,
    "aria-invalid": problem !== "" || undefined,
    "aria-describedby": problem || says ? `${id}-more` : undefined,
    onBlur: commit,
    "data-commits": "",
    spellCheck: !mono,
    className: `${styles.input} ${mono ? styles.mono : ""}`,
  };
  return (
    <div className={styles.field}>
      <label htmlFor={id} className={hideLabel ? "visually-hidden" : styles.label}>
        {label}
      </label>
      <div className={styles.line}>
        {multiline ? (
          <textarea
            {...shared}
            rows={Math.min(14, Math.max(2, text.split("\n").length))}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) commit();
              if (event.key === "Escape") setText(value);
            }}
          />
        ) : (
          <input
            {...shared}
            type="text"
            list={list}
            inputMode={inputMode}
            autoComplete="off"
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter") commit();
              if (event.key === "Escape") setText(value);
            }}
          />
        )}
        {aside}
      </div>
      {(problem || says) && (
        <p id={`${id}-more`} className={problem ? styles.problem : styles.says}>
          {problem || says}
        </p>
      )}
    </div>
  );
}

interface ValueProps {
  label: string;
  value: Plain | undefined;
  onCommit: (value: Plain | undefined) => void;
  says?: string;
  readOnly?: boolean;
  hideLabel?: boolean;
  list?: string;
  aside?: ReactNode;
}

/** Any value: a scalar or a reference on a line, anything else as YAML. */
export function ValueField({ value, onCommit, ...rest }: ValueProps) {
  const isLong = Array.isArray(value) || isMap(value) || (typeof value === "string" && value.includes("\n"));
  if (isLong && typeof value !== "string") {
    return <TextField {...rest} mono multiline value={yamlText(value as Plain)} onCommit={(text) => onCommit(readYaml(text).value)} check={(text) => readYaml(text).problem} />;
  }
  if (isLong) return <TextField {...rest} multiline value={value as string} onCommit={onCommit} />;
  return <TextField {...rest} value={valueText(value)} onCommit={(text) => onCommit(text === "" ? undefined : typedValue(text))} />;
}

export function yamlText(value: Plain): string {
  const isEmpty = Array.isArray(value) ? value.length === 0 : isMap(value) && Object.keys(value).length === 0;
  if (isEmpty) return Array.isArray(value) ? "[]" : "{}";
  return blockLines(value, { language: "yaml", step: 2 }, 0).join("\n");
}

export function readYaml(text: string): { value: Plain | undefined; problem: string } {
  try {
    const value = parseYaml(text, { intAsBigInt: true, prettyErrors: false }) as Plain;
    return { value: text.trim() === "" ? undefined : smallIntegers(value), problem: "" };
  } catch (error) {
    return { value: undefined, problem: `This is not YAML: ${error instanceof Error ? error.message.split("\n")[0] : String(error)}` };
  }
}

function smallIntegers(value: Plain): Plain {
  if (typeof value === "bigint") return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  if (Array.isArray(value)) return value.map(smallIntegers);
  return isMap(value) ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, smallIntegers(one)])) : value;
}

interface ChoiceProps {
  label: string;
  value: string;
  options: readonly { value: string; title: string }[];
  onChange: (value: string) => void;
  says?: string;
  readOnly?: boolean;
  hideLabel?: boolean;
}

export function ChoiceField({ label, value, options, onChange, says, readOnly = false, hideLabel = false }: ChoiceProps) {
  const id = useId();
  return (
    <div className={styles.field}>
      <label htmlFor={id} className={hideLabel ? "visually-hidden" : styles.label}>
        {label}
      </label>
      <select id={id} value={value} disabled={readOnly} aria-describedby={says ? `${id}-more` : undefined} onChange={(event) => onChange(event.target.value)} className={styles.input}>
        {options.map((one) => (
          <option key={one.value} value={one.value}>
            {one.title}
          </option>
        ))}
      </select>
      {says && (
        <p id={`${id}-more`} className={styles.says}>
          {says}
        </p>
      )}
    </div>
  );
}
