// The conditions that a step has judged: row by row, with the values that were compared.
import type { ReactNode } from "react";
import { queries, type Schemas } from "@/api/client";
import { writeExact } from "@/api/exact-json";
import { Problem } from "@/api/problem";
import { OPERATORS } from "@/editor/model/condition-rows";
import { ErrorNotice } from "@/parts/notice";
import { useSettings } from "@/shell/settings";
import { type ExecutionRecord, requestOf } from "./execution-reads";
import styles from "./step-conditions.module.css";

type Condition = Schemas["ShownCondition"];
type Row = Schemas["ConditionRow"];

const CHARACTERS_MAX = 60;

/** The conditions of a step of a definition; nothing if it has judged none. */
export function StepConditions({ record, path, at, title }: { record: ExecutionRecord; path: string; at: number | null; title: (shown: ReactNode) => ReactNode }) {
  const query = at === null ? { path } : { path, at };
  // A node judges before and after its work, so what is known changes with the version of the execution.
  const found = queries.useQuery("get", "/api/executions/{workflow}/{id}/graph/conditions", { params: { ...requestOf(record).params, query } }, { enabled: Boolean(record.definition), retry: false });
  // Operations beside the nodes, such as those of an undo, judge nothing.
  if (found.error instanceof Problem && found.error.status === 422) return null;
  if (found.error) return title(<ErrorNotice error={found.error} onRetry={() => void found.refetch()} />);
  const { items, total } = found.data ?? { items: [], total: 0 };
  if (items.length === 0) return null;
  return title(
    <>
      {total > items.length && (
        <p className={styles.soft}>
          The last {items.length} of {total.toLocaleString("en")}.
        </p>
      )}
      <ul className={styles.conditions}>
        {items.map((one, number) => (
          <li key={number}>
            <ConditionView condition={one} />
          </li>
        ))}
      </ul>
      <p className={styles.soft}>Evaluated again on the values of then.</p>
    </>,
  );
}

function ConditionView({ condition }: { condition: Condition }) {
  const rows = condition.rows;
  return (
    <>
      <p className={styles.said}>
        <Mark holds={condition.holds} /> {saidOf(condition)}
        {condition.isTaken && <b>, taken</b>}
      </p>
      <table className={styles.rows}>
        <tbody>
          {rows.map((row) => (
            <RowView key={row.where} row={row} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function saidOf(condition: Condition): string {
  const turn = /~(\d+)(?:\/[^/]+#1)?\/~again$/.exec(condition.path)?.[1];
  const titles = { when: "Runs when", port: "Asks whether", again: turn === undefined ? "Once more?" : `Once more after turn ${Number(turn) + 1}?`, rule: `Rule ${condition.number}` };
  return titles[condition.role];
}

function RowView({ row }: { row: Row }) {
  const { hidesPayloads } = useSettings();
  const group = row.where.split("/").filter((part) => part !== "" && !/^\d+$/.test(part));
  const isReached = (row.holds ?? null) !== null || Boolean(row.problem);
  const reads = Object.entries(row.reads ?? {});
  const shown = (value: unknown) => (hidesPayloads ? "•••" : shortText(value));
  return (
    <tr className={isReached ? undefined : styles.unreached}>
      <td>{isReached ? <Mark holds={row.holds ?? null} /> : <span title="It was decided before this row">–</span>}</td>
      <td>
        <code className={styles.source}>{sourceText(row.source)}</code>
        {group.includes("not") && <span className={styles.soft}> (under not)</span>}
        {isReached && row.operator !== undefined && isRow(row.source) && (
          <div className={styles.values}>
            <span title={fullText(row.left)}>{shown(row.left)}</span> {operatorText(row.operator)} {row.operator !== "" && <span title={fullText(row.right)}>{shown(row.right)}</span>}
          </div>
        )}
        {isReached &&
          reads.map(([name, value]) => (
            <div key={name} className={styles.values}>
              <code>{name}</code> = <span title={fullText(value)}>{shown(value)}</span>
            </div>
          ))}
        {row.problem && <div className={styles.problem}>{row.problem}</div>}
        {!isReached && <div className={styles.soft}>not reached</div>}
      </td>
    </tr>
  );
}

function Mark({ holds }: { holds: boolean | null }) {
  if (holds === null) return <span title="It can't be told">?</span>;
  return (
    <span className={holds ? styles.holds : styles.fails} role="img" aria-label={holds ? "holds" : "does not hold"}>
      {holds ? "✓" : "✗"}
    </span>
  );
}

const isRow = (source: unknown) => typeof source === "string" || (typeof source === "object" && source !== null && "ref" in source);

function operatorText(operator: string): string {
  if (operator === "") return "is true, not empty, not 0";
  const words = operator.split(" ");
  const last = words.at(-1)!;
  return [...words.slice(0, -1), OPERATORS.find((one) => one.name === last)?.title ?? last].join(" ");
}

function sourceText(source: unknown): string {
  if (typeof source === "string") return source;
  if (typeof source !== "object" || source === null) return shortText(source);
  const given = source as Record<string, unknown>;
  if (typeof given["ref"] === "string") {
    const [operator, right] = Object.entries(given).find(([name]) => name !== "ref") ?? ["", undefined];
    return operator === "" ? given["ref"] : `${given["ref"]} ${operatorText(operator)} ${shortText(right)}`;
  }
  if (typeof given["source"] === "string") return given["source"];
  return String(given["expr"] ?? given["braces"] ?? given["python"] ?? writeExact(source));
}

function fullText(value: unknown): string {
  return writeExact(value ?? null);
}

function shortText(value: unknown): string {
  const text = fullText(value);
  return text.length <= CHARACTERS_MAX ? text : `${text.slice(0, CHARACTERS_MAX - 1)}…`;
}
