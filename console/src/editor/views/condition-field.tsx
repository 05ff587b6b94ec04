// A condition as rows: a reference, an operator and a value, in groups; CEL and Python as text.
import { Button } from "@/parts/button";
import { isMap, type Plain } from "../document/plain-values";
import { conditionForm, conditionOfRow, OPERATORS, typedValue, valueText } from "../model/condition-rows";
import { ChoiceField, TextField, ValueField } from "./value-field";
import styles from "./fields.module.css";

interface Props {
  label: string;
  value: Plain;
  onChange: (value: Plain | undefined) => void;
  list: string;
  readOnly: boolean;
  says?: string;
  depth?: number;
}

const KINDS = [
  { value: "row", title: "a row" },
  { value: "all", title: "all of …" },
  { value: "any", title: "any of …" },
  { value: "not", title: "not …" },
  { value: "expr", title: "an expression (CEL)" },
  { value: "python", title: "Python" },
];

const NEW_ROW: Plain = { ref: "@input" };

export function ConditionField({ label, value, onChange, list, readOnly, says, depth = 0 }: Props) {
  const found = conditionForm(value);
  const kind = found.form === "group" ? found.of : found.form;
  const become = (next: string) => {
    if (next === kind) return;
    if (next === "row") return onChange(found.form === "group" ? (found.parts[0] ?? NEW_ROW) : found.form === "not" ? found.part : NEW_ROW);
    if (next === "expr") return onChange({ expr: "true" });
    if (next === "python") return onChange({ python: "def evaluate(output, context):\n    return True\n" });
    const parts = found.form === "group" ? found.parts : [value];
    onChange(next === "not" ? { not: parts.length === 1 ? parts[0]! : { all: parts } } : { [next]: found.form === "not" ? [found.part] : parts });
  };
  return (
    <fieldset className={styles.condition} data-depth={depth}>
      <legend className={depth === 0 ? styles.label : "visually-hidden"}>{label}</legend>
      {says && <p className={styles.says}>{says}</p>}
      {found.form !== "other" && found.form !== "constant" && <ChoiceField label={`${label}: kind`} hideLabel value={kind} options={KINDS} readOnly={readOnly} onChange={become} />}
      {found.form === "row" && <Row value={value} list={list} readOnly={readOnly} onChange={onChange} />}
      {found.form === "group" && (
        <>
          <ul className={styles.rows}>
            {found.parts.map((part, index) => (
              <li key={index} className={styles.part}>
                <ConditionField
                  label={`${label}, part ${index + 1}`}
                  value={part}
                  list={list}
                  readOnly={readOnly}
                  depth={depth + 1}
                  onChange={(next) => onChange({ [found.of]: next === undefined ? found.parts.filter((_, place) => place !== index) : found.parts.map((one, place) => (place === index ? next : one)) })}
                />
                {!readOnly && found.parts.length > 1 && (
                  <Button look="quiet" aria-label={`Remove part ${index + 1}`} onClick={() => onChange({ [found.of]: found.parts.filter((_, place) => place !== index) })}>
                    ✕
                  </Button>
                )}
              </li>
            ))}
          </ul>
          {!readOnly && (
            <Button look="quiet" onClick={() => onChange({ [found.of]: [...found.parts, NEW_ROW] })}>
              Add a row
            </Button>
          )}
        </>
      )}
      {found.form === "not" && <ConditionField label={`not ${label}`} value={found.part} list={list} readOnly={readOnly} depth={depth + 1} onChange={(next) => onChange(next === undefined ? undefined : { not: next })} />}
      {found.form === "expr" && <TextField label="Expression in CEL" hideLabel mono value={found.text} readOnly={readOnly} onCommit={(text) => onChange({ ...(isMap(value) ? value : {}), expr: text })} />}
      {found.form === "python" && <TextField label="Python" hideLabel mono multiline value={found.text} readOnly={readOnly} onCommit={(text) => onChange({ python: text })} />}
      {(found.form === "other" || found.form === "constant") && <ValueField label={`${label} as text`} hideLabel value={value} readOnly={readOnly} onCommit={onChange} says="Rows can't show this condition. It is edited as YAML." />}
    </fieldset>
  );
}

function Row({ value, list, readOnly, onChange }: { value: Plain; list: string; readOnly: boolean; onChange: (value: Plain) => void }) {
  const row = conditionForm(value);
  if (row.form !== "row") return null;
  const operator = OPERATORS.find((one) => one.name === row.operator)!;
  const given = Array.isArray(row.value) ? row.value.map(valueText).join(", ") : valueText(row.value);
  const read = (text: string): Plain => {
    if (operator.takes === "text") return text;
    if (operator.takes === "list" && !text.trim().startsWith("@") && !text.trim().startsWith("[")) return text.split(",").map((one) => typedValue(one.trim()));
    return typedValue(text);
  };
  return (
    <div className={styles.row}>
      <TextField label="Reference" hideLabel mono list={list} value={row.ref} readOnly={readOnly} onCommit={(ref) => onChange(conditionOfRow(ref, row.operator, row.value))} check={(text) => (/^[@$]/.test(text) ? "" : "A reference begins with @, such as @input.name.")} />
      <ChoiceField label="Operator" hideLabel value={row.operator} readOnly={readOnly} options={OPERATORS.map((one) => ({ value: one.name, title: one.title }))} onChange={(name) => onChange(conditionOfRow(row.ref, name, row.value))} />
      {operator.takes === "flag" && <ChoiceField label="Value" hideLabel value={String(row.value !== false)} readOnly={readOnly} options={[{ value: "true", title: "yes" }, { value: "false", title: "no" }]} onChange={(text) => onChange(conditionOfRow(row.ref, row.operator, text === "true"))} />}
      {(operator.takes === "value" || operator.takes === "list" || operator.takes === "text") && (
        <TextField label="Value" hideLabel mono list={list} value={operator.takes === "text" ? String(row.value ?? "") : given} readOnly={readOnly} onCommit={(text) => onChange(conditionOfRow(row.ref, row.operator, read(text)))} />
      )}
    </div>
  );
}
