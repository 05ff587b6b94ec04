// Parses YAML and JSON to a tree in which every value has its place in the text, so that edits can replace text and leave everything else alone.
import { Lexer, parseDocument, isAlias, isMap as isYamlMap, isScalar, isSeq, type CST, type Document, type Pair, type ParsedNode, type YAMLMap, type YAMLSeq } from "yaml";
import { AliasValue, emptyMap, type Path, type Plain, type PlainMap, type Scalar } from "./plain-values";

export type ScalarStyle = "plain" | "single" | "double" | "literal" | "folded" | "empty";

/** `start` is where the anchor or tag of a value begins, `body` where it begins itself, `end` where its last character ends. */
interface Place {
  start: number;
  body: number;
  end: number;
  anchor?: string;
}

export interface SourceScalar extends Place {
  kind: "scalar";
  value: Scalar;
  style: ScalarStyle;
}

export interface SourceAlias extends Place {
  kind: "alias";
  name: string;
}

/** An item begins with its dash, in a block. */
export interface SourceItem {
  start: number;
  value: SourceNode;
}

export interface SourceSeq extends Place {
  kind: "seq";
  flow: boolean;
  items: SourceItem[];
}

/** `separator` is the position behind the colon; -1 if there is none. */
export interface SourcePair {
  start: number;
  key: string;
  keyStart: number;
  keyEnd: number;
  keyStyle: ScalarStyle;
  separator: number;
  value: SourceNode;
}

/** `compact`: one pair in a flow list, without braces. */
export interface SourceMap extends Place {
  kind: "map";
  flow: boolean;
  compact: boolean;
  pairs: SourcePair[];
}

export type SourceNode = SourceScalar | SourceAlias | SourceSeq | SourceMap;

/** Why a text can't be read, with its place; line and column count from 1. */
export interface SourceProblem {
  message: string;
  offset: number;
  line: number;
  column: number;
}

export interface Comment {
  from: number;
  to: number;
}

export type Language = "yaml" | "json";

export interface SourceDocument {
  text: string;
  language: Language;
  newline: "\n" | "\r\n";
  root: SourceNode | null;
  comments: Comment[];
}

export type ParsedSource = { document: SourceDocument; problem: null } | { document: null; problem: SourceProblem };

/** What a text is taken for, as by the server: JSON if it is JSON, or looks like it and is not YAML either. */
export function languageOf(text: string): Language {
  const start = text.replace(/^\uFEFF/, "").trimStart();
  if (!start.startsWith("{") && !start.startsWith("[")) return "yaml";
  if (jsonProblem(text) === null) return "json";
  if (parseDocument(text, YAML_OPTIONS).errors.length === 0) return "yaml";
  return /^[[{]\s*("|$|\]|\}|\{|\[)/.test(start) && !/(^|\s)#/.test(start) ? "json" : "yaml";
}

export function newlineOf(text: string): "\n" | "\r\n" {
  return /\r?\n/.exec(text)?.[0] === "\r\n" ? "\r\n" : "\n";
}

const YAML_OPTIONS = { keepSourceTokens: true, intAsBigInt: true, uniqueKeys: false, prettyErrors: false, version: "1.2" } as const;

class Unreadable extends Error {
  constructor(
    message: string,
    readonly offset: number,
  ) {
    super(message);
  }
}

export function parseSource(text: string): ParsedSource {
  const refused = (message: string, offset: number): ParsedSource => ({ document: null, problem: { message, offset, ...lineAndColumn(text, offset) } });
  const language = languageOf(text);
  if (language === "json") {
    const why = jsonProblem(text);
    if (why !== null) return refused(why.message, why.offset);
  }
  const parsed = parseDocument(text, YAML_OPTIONS);
  const error = parsed.errors[0];
  if (error !== undefined) return refused(plainMessage(text, error.message, error.pos[0]), error.pos[0]);
  try {
    const root = new TreeBuilder(text).root(parsed);
    return { document: { text, language, newline: newlineOf(text), root, comments: commentsOf(text) }, problem: null };
  } catch (problem) {
    if (problem instanceof Unreadable) return refused(problem.message, problem.offset);
    throw problem;
  }
}

function jsonProblem(text: string): { message: string; offset: number } | null {
  const start = text.startsWith("\uFEFF") ? 1 : 0;
  try {
    JSON.parse(text.slice(start));
    return null;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const found = /position (\d+)/.exec(message);
    const offset = found === null ? text.length : start + Number(found[1]);
    return { message: `This is not JSON: ${message.replace(/ in JSON at position.*$/s, "").replace(/ at position \d+.*$/s, "")}.`, offset };
  }
}

function plainMessage(text: string, message: string, offset: number): string {
  if (text[offset] === "@" || text[offset] === "`") {
    const value = /^[^\s,\]}]*/.exec(text.slice(offset))?.[0] ?? "";
    return `Quote it: "${value}". YAML reserves a leading ${text[offset]}.`;
  }
  return /[.!?]$/.test(message) ? message : `${message}.`;
}

export function lineAndColumn(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset);
  const lines = before.split("\n");
  const last = lines.at(-1) ?? "";
  return { line: lines.length, column: (lines.length === 1 ? last.replace(/^\uFEFF/, "") : last).length + 1 };
}

export function offsetOfLine(text: string, line: number, column = 1): number {
  let start = 0;
  for (let number = 1; number < line; number += 1) {
    const next = text.indexOf("\n", start);
    if (next < 0) return text.length;
    start = next + 1;
  }
  const end = text.indexOf("\n", start);
  return Math.min(start + column - 1, end < 0 ? text.length : end);
}

/** All comments of a text. What looks like one inside of a value is none. */
export function commentsOf(text: string): Comment[] {
  const found: Comment[] = [];
  let offset = 0;
  let isScalar = false;
  for (const token of new Lexer().lex(text)) {
    if (token === "\u001f") {
      isScalar = true;
      continue;
    }
    if (token === "\u0002" || token === "\u0018") continue;
    if (!isScalar && token.startsWith("#")) found.push({ from: offset, to: offset + token.replace(/\r$/, "").length });
    isScalar = false;
    offset += token.length;
  }
  return found;
}

const STYLES: Record<string, ScalarStyle> = { PLAIN: "plain", QUOTE_SINGLE: "single", QUOTE_DOUBLE: "double", BLOCK_LITERAL: "literal", BLOCK_FOLDED: "folded" };

type Tokens = readonly CST.SourceToken[] | undefined;

class TreeBuilder {
  private readonly anchors = new Set<string>();

  constructor(private readonly text: string) {}

  root(parsed: Document.Parsed): SourceNode | null {
    const contents = parsed.contents;
    if (contents === null) return null;
    const text = this.text.slice(0, contents.range[0]);
    const props = /(?:[&!][^\s]*\s+)+$/.exec(text);
    const start = props === null || !(contents as { anchor?: string; tag?: string }).anchor ? contents.range[0] : props.index;
    if (isScalar(contents) && contents.source === "" && contents.range[0] === contents.range[1]) return null;
    return this.node(contents, undefined, start);
  }

  private node(node: ParsedNode | null | undefined, tokens: Tokens, from: number): SourceNode {
    if (node === null || node === undefined) return { kind: "scalar", value: null, style: "empty", start: from, body: from, end: from };
    const props = tokens?.filter((token) => token.type === "anchor" || token.type === "tag") ?? [];
    const body = node.range[0];
    const first = props[0]?.offset;
    const place = { start: tokens === undefined ? Math.min(from, body) : (first ?? body), body, end: node.range[1], ...(isAlias(node) || node.anchor === undefined ? {} : { anchor: node.anchor }) };
    if (isAlias(node)) {
      if (!this.anchors.has(node.source)) throw new Unreadable(`*${node.source} is an alias of nothing that is above it.`, body);
      return { ...place, kind: "alias", name: node.source };
    }
    const built = isYamlMap(node)
      ? this.map(node as YAMLMap.Parsed, place)
      : isSeq(node)
        ? this.seq(node as YAMLSeq.Parsed, place)
        : this.scalar(node as ParsedNode & { value: unknown; type?: string; source?: string }, place, props);
    if (built.anchor !== undefined) this.anchors.add(built.anchor);
    return built;
  }

  private scalar(node: { value: unknown; type?: string | null; source?: string }, place: Place, props: readonly CST.SourceToken[]): SourceScalar {
    let style = STYLES[node.type ?? "PLAIN"] ?? "plain";
    let { body, end } = place;
    if (body === end) {
      style = "empty";
      const last = props.at(-1);
      if (last !== undefined) body = end = last.offset + last.source.length;
    }
    if (style === "literal" || style === "folded") {
      if (this.text[end - 1] === "\n") end -= 1;
      if (this.text[end - 1] === "\r") end -= 1;
    }
    return { ...place, body, end, kind: "scalar", value: plainScalar(node.value), style };
  }

  private seq(node: YAMLSeq.Parsed, place: Place): SourceSeq {
    const token = node.srcToken as CST.BlockSequence | CST.FlowCollection | undefined;
    const items: SourceItem[] = [];
    if (node.flow) {
      const sources = (token?.items ?? []).filter((one) => one.key !== undefined || one.sep !== undefined || one.value !== undefined || one.start.some(isProp));
      node.items.forEach((item, index) => {
        const value = this.node(item as ParsedNode, sources[index]?.start, 0);
        items.push({ start: value.start, value });
      });
      return { ...place, kind: "seq", flow: true, items };
    }
    const sources = (token?.items ?? []).filter((one) => one.start.some((part) => part.type === "seq-item-ind"));
    node.items.forEach((item, index) => {
      const start = sources[index]?.start;
      const dash = start?.find((part) => part.type === "seq-item-ind")?.offset ?? place.body;
      items.push({ start: dash, value: this.behind(this.node(item as ParsedNode, start, dash + 1), dash + 1) });
    });
    return { ...place, kind: "seq", flow: false, items, end: items.at(-1)?.value.end ?? place.end };
  }

  private map(node: YAMLMap.Parsed, place: Place): SourceMap {
    const pairs: SourcePair[] = [];
    const names = new Map<string, number>();
    const compact = !node.flow && node.srcToken === undefined;
    for (const pair of node.items as Pair<ParsedNode, ParsedNode | null>[]) {
      const key = pair.key;
      if (key === null || !isScalar(key)) throw new Unreadable("A key is a text here; this one is a mapping, a list or an alias.", key?.range?.[0] ?? place.body);
      const style = STYLES[key.type ?? "PLAIN"] ?? "plain";
      const name = style === "plain" ? (key.source ?? String(key.value)) : String(key.value);
      if (names.has(name)) throw new Unreadable(`"${name}" occurs twice in one mapping; keep one of them.`, key.range![0]);
      names.set(name, pairs.length);
      const source = (pair as { srcToken?: CST.CollectionItem }).srcToken;
      const colon = source?.sep?.find((part) => part.type === "map-value-ind");
      const separator = colon === undefined ? -1 : colon.offset + 1;
      const mark = source?.start.find((part) => part.type === "explicit-key-ind" || isProp(part));
      const value = this.node(pair.value, source?.sep, separator < 0 ? key.range![1] : separator);
      pairs.push({ start: mark?.offset ?? key.range![0], key: name, keyStart: key.range![0], keyEnd: key.range![1], keyStyle: style, separator, value: this.behind(value, separator) });
    }
    const last = pairs.at(-1);
    const end = node.flow ? place.end : Math.max(last?.value.end ?? 0, last?.keyEnd ?? 0, last?.separator ?? 0);
    return { ...place, kind: "map", flow: node.flow === true || compact, compact, pairs, end };
  }

  /** An empty value is directly behind its colon or dash, whatever comments follow. */
  private behind(value: SourceNode, at: number): SourceNode {
    const isBare = value.kind === "scalar" && value.style === "empty" && value.start === value.end && at >= 0;
    return isBare ? { ...value, start: at, body: at, end: at } : value;
  }
}

function isProp(token: CST.SourceToken): boolean {
  return token.type === "anchor" || token.type === "tag";
}

function plainScalar(value: unknown): Scalar {
  if (typeof value === "bigint") return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  if (value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value;
  return String(value);
}

/** The node at a path; undefined if there is none, or if an alias is in the way. */
export function nodeAt(root: SourceNode | null, path: Path): SourceNode | undefined {
  let found: SourceNode | undefined = root ?? undefined;
  for (const key of path) {
    if (found?.kind === "seq" && typeof key === "number") found = found.items[key]?.value;
    else if (found?.kind === "map") found = found.pairs.find((pair) => pair.key === key)?.value;
    else return undefined;
  }
  return found;
}

/** The value of a node in which aliases stay aliases. */
export function structureOf(node: SourceNode | null): Plain {
  if (node === null) return null;
  switch (node.kind) {
    case "scalar":
      return node.value;
    case "alias":
      return new AliasValue(node.name);
    case "seq":
      return node.items.map((item) => structureOf(item.value));
    case "map": {
      const found = emptyMap();
      for (const pair of node.pairs) found[pair.key] = structureOf(pair.value);
      return found;
    }
  }
}

/** The value of a node with aliases replaced by what they name. */
export function valueOf(root: SourceNode | null, node: SourceNode | null = root): Plain {
  const anchors = new Map<string, Plain>();
  const visit = (one: SourceNode): Plain => {
    const found = build(one);
    if (one.anchor !== undefined) anchors.set(one.anchor, found);
    return found;
  };
  const build = (one: SourceNode): Plain => {
    switch (one.kind) {
      case "scalar":
        return one.value;
      case "alias":
        return anchors.get(one.name) ?? null;
      case "seq":
        return one.items.map((item) => visit(item.value));
      case "map": {
        const found: PlainMap = emptyMap();
        for (const pair of one.pairs) found[pair.key] = visit(pair.value);
        return found;
      }
    }
  };
  if (root === null || node === null) return null;
  const whole = visit(root);
  return node === root ? whole : build(node);
}

/** Whether a path leads through or to an alias, and the path of that. */
export function aliasOn(root: SourceNode | null, path: Path): { path: Path; alias: SourceAlias } | null {
  for (let length = 0; length <= path.length; length += 1) {
    const node = nodeAt(root, path.slice(0, length));
    if (node?.kind === "alias") return { path: path.slice(0, length), alias: node };
  }
  return null;
}

/** Every node below a node with its path, the node itself first. */
export function* walkNodes(node: SourceNode | null, path: Path = []): Generator<{ path: Path; node: SourceNode }> {
  if (node === null) return;
  yield { path, node };
  if (node.kind === "seq") for (const [index, item] of node.items.entries()) yield* walkNodes(item.value, [...path, index]);
  if (node.kind === "map") for (const pair of node.pairs) yield* walkNodes(pair.value, [...path, pair.key]);
}
