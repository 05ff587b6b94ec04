// Conditions as rows that a form shows: a reference, an operator and a value, in groups of all, any and not, with an expression as the way out.
import { isMap, type Plain } from "../document/plain-values";

export interface Operator {
  name: string;
  title: string;
  /** Whether a value stands beside it; `flag` has only true and false. */
  takes: "value" | "list" | "text" | "nothing" | "flag";
}

export const OPERATORS: readonly Operator[] = [
  { name: "", title: "holds (is true, not empty, not 0)", takes: "nothing" },
  { name: "eq", title: "=", takes: "value" },
  { name: "neq", title: "≠", takes: "value" },
  { name: "gt", title: ">", takes: "value" },
  { name: "gte", title: "≥", takes: "value" },
  { name: "lt", title: "<", takes: "value" },
  { name: "lte", title: "≤", takes: "value" },
  { name: "in", title: "is one of", takes: "list" },
  { name: "contains", title: "contains", takes: "value" },
  { name: "starts_with", title: "starts with", takes: "text" },
  { name: "ends_with", title: "ends with", takes: "text" },
  { name: "exists", title: "exists", takes: "flag" },
  { name: "empty", title: "is empty", takes: "flag" },
  { name: "matches_re", title: "matches the pattern", takes: "text" },
];

/** What a condition is: `other` is one that rows can't show, which stays as it is. */
export type ConditionForm =
  | { form: "row"; ref: string; operator: string; value: Plain | undefined }
  | { form: "group"; of: "all" | "any"; parts: Plain[] }
  | { form: "not"; part: Plain }
  | { form: "expr"; text: string }
  | { form: "python"; text: string }
  | { form: "constant"; holds: boolean }
  | { form: "other" };

export function conditionForm(condition: Plain): ConditionForm {
  if (typeof condition === "boolean") return { form: "constant", holds: condition };
  if (typeof condition === "string") return condition.startsWith("@") || condition.startsWith("$") ? { form: "row", ref: condition, operator: "", value: undefined } : { form: "other" };
  if (!isMap(condition)) return { form: "other" };
  const keys = Object.keys(condition);
  if (typeof condition["ref"] === "string") {
    const rest = keys.filter((key) => key !== "ref");
    if (rest.length === 0) return { form: "row", ref: condition["ref"], operator: "", value: undefined };
    const operator = rest[0]!;
    if (rest.length > 1 || !OPERATORS.some((one) => one.name === operator)) return { form: "other" };
    return { form: "row", ref: condition["ref"], operator, value: condition[operator] };
  }
  if (keys.length !== 1 && !(keys.length === 2 && "expr" in condition)) return { form: "other" };
  if (Array.isArray(condition["all"])) return { form: "group", of: "all", parts: condition["all"] };
  if (Array.isArray(condition["any"])) return { form: "group", of: "any", parts: condition["any"] };
  if ("not" in condition) return { form: "not", part: condition["not"]! };
  if (typeof condition["expr"] === "string") return { form: "expr", text: condition["expr"] };
  if (typeof condition["python"] === "string") return { form: "python", text: condition["python"] };
  return { form: "other" };
}

/** A row as a condition. A value is kept where an operator takes one. */
export function conditionOfRow(ref: string, operator: string, value: Plain | undefined): Plain {
  const takes = OPERATORS.find((one) => one.name === operator)?.takes ?? "nothing";
  if (takes === "nothing") return { ref };
  if (takes === "flag") return { ref, [operator]: value === false ? false : true };
  if (takes === "list") return { ref, [operator]: Array.isArray(value) || (typeof value === "string" && value.startsWith("@")) ? value : value === undefined || value === "" ? [] : [value] };
  if (takes === "text") return { ref, [operator]: typeof value === "string" ? value : value === undefined ? "" : String(value) };
  return { ref, [operator]: value === undefined || Array.isArray(value) ? "" : value };
}

/** A value as somebody types it: a number, true, false, null, JSON, a reference or text. Quotes make text of anything. */
export function typedValue(text: string): Plain {
  const trimmed = text.trim();
  if (/^-?(0|[1-9]\d*)$/.test(trimmed)) return Number.isSafeInteger(Number(trimmed)) ? Number(trimmed) : BigInt(trimmed);
  if (/^(true|false|null)$|^-?\d|^["[{]/.test(trimmed)) {
    try {
      return JSON.parse(trimmed) as Plain;
    } catch {
      return text;
    }
  }
  return text;
}

/** The text with which a value is typed. */
export function valueText(value: Plain | undefined): string {
  if (value === undefined) return "";
  if (typeof value === "string") return typedValue(value) === value ? value : JSON.stringify(value);
  if (typeof value === "bigint") return String(value);
  return JSON.stringify(value, (_, one: unknown) => (typeof one === "bigint" ? Number(one) : one));
}
