// Writes values as YAML or JSON text, in the style of what is around them.
import { parseDocument } from "yaml";
import { AliasValue, isMap, type Plain, type Scalar } from "./plain-values";
import type { Language, ScalarStyle } from "./source-tree";

/** A written value: `head` goes behind the colon or dash, the lines of `body` below, already indented. */
export interface WrittenValue {
  head: string;
  body: string[];
}

export interface WritingStyle {
  language: Language;
  /** Columns of one level. */
  step: number;
  /** Whether the lists of a mapping begin at the column of its keys. */
  flushLists?: boolean;
  quote?: ScalarStyle;
}

const FLOW_MAX = 72;
const INDICATORS = new Set("-?:,[]{}#&*!|>'\"%@`");
const OLD_WORDS = /^(y|n|yes|no|on|off|true|false|null|~)$/i;

/** Whether a text can stand without quotes and is read as the same text, by YAML 1.1 as well. */
export function canBePlain(text: string, inFlow: boolean): boolean {
  if (text === "" || text !== text.trim() || OLD_WORDS.test(text)) return false;
  const first = text[0]!;
  if (INDICATORS.has(first) && !(/[-?:]/.test(first) && /^.[\p{L}\p{N}_]/u.test(text) && !inFlow)) return false;
  if (/[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufeff\ud800-\udfff]/.test(text)) return false;
  if (/:(\s|$)|\s#/.test(text) || /^(---|\.\.\.)/.test(text)) return false;
  if (inFlow && (/[,[\]{}?]/.test(text) || /:([^\p{L}\p{N}_/]|$)/u.test(text))) return false;
  return readsAs(text, text);
}

/** Whether a scalar, on a line of its own, is read as this value. */
export function readsAs(source: string, value: Scalar): boolean {
  const parsed = parseDocument(`- ${source}\n`, { prettyErrors: false, version: "1.2", intAsBigInt: false });
  if (parsed.errors.length > 0) return false;
  const found: unknown = parsed.toJS();
  return Array.isArray(found) && found.length === 1 && found[0] === value;
}

/** What JSON writes as it is and YAML does not allow, or not everywhere. A surrogate that stands alone is escaped by JSON already. */
const UNPRINTABLE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;

export function doubleQuoted(text: string): string {
  return JSON.stringify(text).replace(UNPRINTABLE, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function scalarText(value: Scalar, style: WritingStyle, inFlow: boolean): string {
  if (typeof value === "string") {
    if (style.language === "json") return JSON.stringify(value);
    if (style.quote === "single" && !/[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufeff\ud800-\udfff]/.test(value)) return `'${value.replaceAll("'", "''")}'`;
    if (style.quote !== "double" && canBePlain(value, inFlow)) return value;
    return doubleQuoted(value);
  }
  if (typeof value === "number" && !Number.isFinite(value)) throw new RangeError("JSON has no NaN and no infinite numbers");
  // Beyond 2^53 a float prints digits that it has not; as a whole number it is written with those that it has.
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21) return String(BigInt(value));
  return Object.is(value, -0) ? "0" : String(value);
}

export function keyText(key: string, style: WritingStyle, inFlow: boolean): string {
  if (style.language === "json") return JSON.stringify(key);
  if (key === "" || key.length > 120) return doubleQuoted(key);
  const isNumber = /^[-+.]?\d/.test(key);
  return !isNumber && canBePlain(key, inFlow) && canBePlain(key, true) ? key : doubleQuoted(key);
}

/** The value on one line. */
export function flowText(value: Plain, style: WritingStyle): string {
  const plain = { ...style, quote: undefined };
  if (value instanceof AliasValue) return `*${value.name}`;
  if (Array.isArray(value)) return `[${value.map((item) => flowText(item, plain)).join(", ")}]`;
  if (isMap(value)) {
    const pairs = Object.entries(value).map(([key, item]) => `${keyText(key, style, true)}: ${flowText(item, plain)}${item instanceof AliasValue ? " " : ""}`);
    return `{${pairs.join(", ")}}`;
  }
  return scalarText(value, style, true);
}

/** The value in brackets and braces, on several lines if it is long; the first line stands at column `indent`. */
export function flowLines(value: Plain, style: WritingStyle, indent: number, most = FLOW_MAX): string[] {
  const one = flowText(value, style);
  const isCollection = Array.isArray(value) || isMap(value);
  if (!isCollection || one.length <= most || one.length <= 2) return [one];
  const inner = " ".repeat(indent + style.step);
  const entries: [string, Plain][] = Array.isArray(value) ? value.map((item) => ["", item]) : Object.entries(value).map(([key, item]) => [`${keyText(key, style, true)}: `, item]);
  const lines = [Array.isArray(value) ? "[" : "{"];
  entries.forEach(([name, item], index) => {
    const [first, ...rest] = flowLines(item, { ...style, quote: undefined }, indent + style.step, most);
    lines.push(`${inner}${name}${first ?? ""}`, ...rest);
    if (index < entries.length - 1) lines[lines.length - 1] += item instanceof AliasValue ? " ," : ",";
  });
  lines.push(`${" ".repeat(indent)}${Array.isArray(value) ? "]" : "}"}`);
  return lines;
}

/** Whether a text can be written as a literal block (`|`). */
export function canBeLiteral(text: string): boolean {
  return text !== "" && !/^[\s]/.test(text) && !/(^|\n)[ \t]+(\n|$)/.test(text) && !/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff\ud800-\udfff]/.test(text.replace(/[\ud800-\udbff][\udc00-\udfff]/g, ""));
}

export function literalBlock(text: string, indent: number): WrittenValue {
  const content = text.replace(/\n+$/, "");
  const ends = text.length - content.length;
  const lines = content.split("\n").map((line) => (line === "" ? "" : " ".repeat(indent) + line));
  return { head: ends === 0 ? "|-" : ends === 1 ? "|" : "|+", body: [...lines, ...Array<string>(Math.max(0, ends - 1)).fill("")] };
}

function hasLines(value: Plain): boolean {
  if (typeof value === "string") return value.includes("\n");
  if (Array.isArray(value)) return value.some(hasLines);
  return isMap(value) && Object.values(value).some(hasLines);
}

function depthOf(value: Plain): number {
  if (Array.isArray(value)) return 1 + Math.max(0, ...value.map(depthOf));
  return isMap(value) ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
}

/** Whether a collection is short enough to stand on one line. */
function isShort(value: Plain, style: WritingStyle): boolean {
  return !hasLines(value) && depthOf(value) <= 2 && flowText(value, style).length <= FLOW_MAX;
}

export type BlockForm = "auto" | "flow" | "block";

/** The value as it stands behind the colon of a key, or the dash of an item, at column `indent`. */
export function blockText(value: Plain, style: WritingStyle, indent: number, form: BlockForm = "auto"): WrittenValue {
  if (value instanceof AliasValue) return { head: `*${value.name}`, body: [] };
  if (Array.isArray(value) || isMap(value)) {
    const isEmpty = (Array.isArray(value) ? value : Object.keys(value)).length === 0;
    const isFlow = form === "flow" ? !hasLines(value) : form === "auto" && isShort(value, style);
    if (isEmpty || isFlow) return { head: flowText(value, style), body: [] };
    const column = Array.isArray(value) && style.flushLists ? indent : indent + style.step;
    return { head: "", body: blockLines(value, { ...style, quote: undefined }, column) };
  }
  if (typeof value === "string" && (value.includes("\n") || style.quote === "literal" || style.quote === "folded") && canBeLiteral(value)) {
    return literalBlock(value, indent + style.step);
  }
  return { head: scalarText(value, style, false), body: [] };
}

/** The lines of a collection whose items or keys begin at column `indent`. */
export function blockLines(value: Plain, style: WritingStyle, indent: number): string[] {
  const margin = " ".repeat(indent);
  if (Array.isArray(value)) return value.flatMap((item) => itemLines(item, style, indent));
  if (!isMap(value)) throw new TypeError("only a collection has lines");
  return Object.entries(value).flatMap(([key, item]) => {
    const { head, body } = blockText(item, style, indent, isListOfSteps(key, item) ? "block" : "auto");
    return [`${margin}${keyText(key, style, false)}:${head === "" ? "" : ` ${head}`}`, ...body];
  });
}

/** The lines of an item of a list, with its dash at column `indent`. A mapping begins behind the dash. */
export function itemLines(item: Plain, style: WritingStyle, indent: number, form: BlockForm = "auto"): string[] {
  const margin = " ".repeat(indent);
  const { head, body } = blockText(item, { ...style, step: 2, flushLists: false }, indent, form === "auto" && isMap(item) && "id" in item ? "block" : form);
  if (head !== "" || body.length === 0) return [`${margin}- ${head}`, ...body];
  const lines = blockLines(item, style, indent + 2);
  const [first = "", ...rest] = lines;
  return [`${margin}- ${first.slice(indent + 2)}`, ...rest];
}

function isListOfSteps(key: string, value: Plain): boolean {
  return Array.isArray(value) && ["steps", "then", "else", "do", "parallel", "race", "on_error"].includes(key) && value.some(isMap);
}
