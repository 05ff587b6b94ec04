// Labelled fields of forms: texts, choices and switches, each with a hint or its problem.
import { type ReactNode, useId } from "react";
import styles from "./schema-form.module.css";

interface Shared {
  id: string;
  className: string | undefined;
  "aria-describedby": string;
  "aria-invalid": true | undefined;
}

interface Common {
  label: string;
  hint?: ReactNode;
  problem?: string;
}

/** A label, what `children` makes with the given attributes, and a hint or a problem below. */
export function Field({ label, hint, problem = "", children }: Common & { children: (shared: Shared) => ReactNode }) {
  const id = useId();
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{label}</label>
      {children({ id, className: styles.input, "aria-describedby": `${id}-more`, "aria-invalid": problem ? true : undefined })}
      <p id={`${id}-more`} className={problem ? styles.problem : styles.soft}>
        {problem || hint}
      </p>
    </div>
  );
}

interface TextProps extends Common {
  value: string;
  onChange: (value: string) => void;
  type?: "text" | "number" | "search" | "datetime-local" | "time" | "email" | "url" | "password";
  required?: boolean;
  rows?: number;
  mono?: boolean;
  placeholder?: string;
  readOnly?: boolean;
  autoFocus?: boolean;
  /** Values that are offered while typing. */
  offers?: string[];
}

/** A field of one line of text, or of several with `rows`. */
export function TextField({ value, onChange, type = "text", rows = 0, mono = false, offers, label, hint, problem, ...rest }: TextProps) {
  return (
    <Field label={label} hint={hint} problem={problem}>
      {(shared) => {
        const className = `${shared.className} ${mono ? styles.mono : ""}`;
        const all = { ...shared, ...rest, className, value, dir: mono ? undefined : ("auto" as const), spellCheck: mono ? false : undefined, autoComplete: "off" };
        if (rows > 0) return <textarea {...all} rows={rows} onChange={(event) => onChange(event.target.value)} />;
        return (
          <>
            <input {...all} type={type} step={type === "number" ? "any" : undefined} list={offers && `${shared.id}-offers`} onChange={(event) => onChange(event.target.value)} />
            {offers && (
              <datalist id={`${shared.id}-offers`}>
                {offers.map((one) => (
                  <option key={one} value={one} />
                ))}
              </datalist>
            )}
          </>
        );
      }}
    </Field>
  );
}

/** A choice of one of a few values; each is its name and what is shown for it. */
export function ChoiceField({ value, onChange, choices, ...rest }: Common & { value: string; onChange: (value: string) => void; choices: readonly (readonly [value: string, shown: string])[] }) {
  return (
    <Field {...rest}>
      {(shared) => (
        <select {...shared} value={value} onChange={(event) => onChange(event.target.value)}>
          {choices.map(([one, shown]) => (
            <option key={one} value={one}>
              {shown}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** A switch with its label behind it. */
export function CheckField({ label, checked, onChange, hint }: { label: ReactNode; checked: boolean; onChange: (checked: boolean) => void; hint?: ReactNode }) {
  return (
    <div className={styles.field}>
      <label className={styles.check}>
        <input type="checkbox" checked={checked} onChange={(event) => onChange(event.target.checked)} /> <span>{label}</span>
      </label>
      {hint && <p className={styles.soft}>{hint}</p>}
    </div>
  );
}
