// Turns edits by path into changes of the text that leave every other character, and every comment, in its place.
//
// Each patch is checked: the patched text has to be read as the value that the edit leads to, with all comments that are not part of what was removed. A patch
// that fails the check is not made.
import { AliasValue, isEqual, isMap, isSamePath, isWithin, valueAt, type Path, type Plain, type Scalar } from "./plain-values";
import { EditRefused, editedValue, editsBetween, pathAfterRemoval, refuse, type Edit } from "./plain-edits";
import {
  aliasOn,
  nodeAt,
  parseSource,
  structureOf,
  valueOf,
  walkNodes,
  type SourceDocument,
  type SourceMap,
  type SourceNode,
  type SourcePair,
  type SourceScalar,
  type SourceSeq,
} from "./source-tree";
import { applyChanges, changeBetween, sortedChanges, type ChangeSet, type TextChange } from "./text-change";
import { blockLines, blockText, flowLines, flowText, itemLines, keyText, scalarText, type WritingStyle, type WrittenValue } from "./value-writer";

/** A document after edits, and the changes of the text that lead there, one set after the other. */
export interface Patched {
  document: SourceDocument;
  changes: ChangeSet[];
}

/** Applies edits one after the other; each path is one of the document as the edits before it have left it. */
export function patchDocument(document: SourceDocument, edits: readonly Edit[]): Patched {
  let current = document;
  const changes: ChangeSet[] = [];
  for (const edit of edits) {
    for (const one of primitiveEdits(current, edit)) {
      const patched = patchOnce(current, one);
      changes.push(...patched.changes);
      current = patched.document;
    }
  }
  return { document: current, changes };
}

/** Sets the value at a path so that the least of the text changes. */
function primitiveEdits(document: SourceDocument, edit: Edit): Edit[] {
  if (edit.op !== "set" || edit.before !== undefined) return [edit];
  const old = valueAt(structureOf(document.root), edit.path);
  return old === undefined ? [edit] : editsBetween(edit.path, old, edit.value);
}

function patchOnce(document: SourceDocument, edit: Edit): Patched {
  const shared = aliasOn(document.root, edit.op === "insert" ? edit.path : edit.path.slice(0, -1)) ?? (edit.op === "move" ? aliasOn(document.root, edit.to) : null);
  if (shared !== null) return withoutAliases(document, [shared.path], edit);
  const direct = attempt(document, edit);
  if (direct !== null) return direct;
  const tied = tiedAliases(document, edit.path);
  if (tied.length > 0) return withoutAliases(document, tied, edit);
  return refuse("this part of the text is written in a way that only the text view can edit");
}

/** Writes out what aliases name, at these paths, before the edit. */
function withoutAliases(document: SourceDocument, paths: readonly Path[], edit: Edit): Patched {
  let current = document;
  const changes: ChangeSet[] = [];
  for (const path of paths) {
    const node = nodeAt(current.root, path);
    if (node?.kind !== "alias") continue;
    const value = valueAt(valueOf(current.root), path) ?? null;
    const patched = attempt(current, { op: "set", path, value }) ?? refuse(`what *${node.name} names can't be written out here`);
    changes.push(...patched.changes);
    current = patched.document;
  }
  const rest = patchOnce(current, edit);
  return { document: rest.document, changes: [...changes, ...rest.changes] };
}

/** The aliases that an edit at a path would part from what they name. */
function tiedAliases(document: SourceDocument, path: Path): Path[] {
  const inside = new Set<string>();
  const within: Path[] = [];
  const outside: { path: Path; name: string }[] = [];
  for (const { path: at, node } of walkNodes(document.root)) {
    if (isWithin(at, path)) {
      if (node.anchor !== undefined) inside.add(node.anchor);
      if (node.kind === "alias") within.push(at);
    } else if (node.kind === "alias") outside.push({ path: at, name: node.name });
  }
  return [...outside.filter((one) => inside.has(one.name)).map((one) => one.path), ...within];
}

/** The document after an edit; null if no change of the text does what the edit means. */
function attempt(document: SourceDocument, edit: Edit): Patched | null {
  const expected = editedValue(structureOf(document.root), edit);
  for (const way of [Patch.changesOf, Patch.plainerChangesOf]) {
    const changes = way(document, edit);
    if (changes === null) continue;
    const text = applyChanges(document.text, changes);
    const parsed = parseSource(text);
    if (parsed.document === null || !isEqual(structureOf(parsed.document.root), expected)) continue;
    if (!keepsComments(document, parsed.document, removedPart(document, edit))) continue;
    return { document: parsed.document, changes: [changes] };
  }
  return null;
}

/** The part of the text whose comments go with what an edit removes. */
function removedPart(document: SourceDocument, edit: Edit): { from: number; to: number } {
  if (edit.op !== "remove") return { from: 0, to: 0 };
  const patch = new Patch(document);
  const spot = patch.entry(edit.path);
  return { from: spot.start, to: patch.lineEnd(spot.end) };
}

function keepsComments(before: SourceDocument, after: SourceDocument, removed: { from: number; to: number }): boolean {
  const counts = new Map<string, number>();
  for (const { from, to } of after.comments) {
    const text = after.text.slice(from, to).trimEnd();
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return before.comments.every(({ from, to }) => {
    if (from >= removed.from && to <= removed.to) return true;
    const text = before.text.slice(from, to).trimEnd();
    const left = counts.get(text) ?? 0;
    counts.set(text, left - 1);
    return left > 0;
  });
}

/** An item or pair with its place, in the list or mapping that holds it. */
interface Entry {
  holder: SourceSeq | SourceMap;
  index: number;
  start: number;
  end: number;
  value: SourceNode;
}

class Patch {
  private readonly text: string;
  private readonly newline: string;
  private readonly style: WritingStyle;

  constructor(private readonly document: SourceDocument) {
    this.text = document.text;
    this.newline = document.newline;
    this.style = { language: document.language, ...indentationOf(document) };
  }

  static changesOf(document: SourceDocument, edit: Edit): ChangeSet | null {
    return new Patch(document).tried(edit, false);
  }

  /** Writes what is moved or replaced anew, with its comments above it. */
  static plainerChangesOf(document: SourceDocument, edit: Edit): ChangeSet | null {
    return new Patch(document).tried(edit, true);
  }

  private tried(edit: Edit, isPlainer: boolean): ChangeSet | null {
    try {
      return sortedChanges(isPlainer ? this.plainer(edit) : this.changes(edit));
    } catch (error) {
      if (error instanceof EditRefused) return null;
      if (error instanceof Error && error.message.startsWith("changes overlap")) return null;
      throw error;
    }
  }

  private changes(edit: Edit): TextChange[] {
    switch (edit.op) {
      case "set":
        return this.set(edit.path, edit.value, edit.before);
      case "remove":
        return this.remove(edit.path);
      case "insert":
        return this.insertItem(this.list(edit.path), edit.index, edit.value);
      case "move":
        return this.move(edit.path, edit.to, edit.index);
      case "rename":
        return this.rename(edit.path, edit.key);
    }
  }

  private plainer(edit: Edit): TextChange[] {
    if (edit.op === "move") return this.moveAnew(edit.path, edit.to, edit.index);
    const path = edit.op === "insert" ? edit.path : edit.path.slice(0, -1);
    const holder = nodeAt(this.document.root, path);
    if (holder === undefined || edit.op === "rename") return refuse("it can't be written anew");
    // The holder is written anew as a whole, if that is small: a list without brackets in a flow, for instance.
    const whole = editedValue(structureOf(holder), { ...edit, path: edit.path.slice(path.length) } as Edit);
    return this.replace(path, whole);
  }

  // Places

  entry(path: Path): Entry {
    const holder = nodeAt(this.document.root, path.slice(0, -1));
    const key = path.at(-1);
    if (holder?.kind === "seq" && typeof key === "number") {
      const item = holder.items[key];
      if (item !== undefined) return { holder, index: key, start: item.start, end: Math.max(item.value.end, holder.flow ? 0 : item.start + 1), value: item.value };
    }
    if (holder?.kind === "map") {
      const index = holder.pairs.findIndex((pair) => pair.key === key);
      const pair = holder.pairs[index];
      if (pair !== undefined) return { holder, index, start: pair.start, end: endOfPair(pair), value: pair.value };
    }
    return refuse(`there is nothing at ${path.join("/")}`);
  }

  private list(path: Path): SourceSeq {
    const found = nodeAt(this.document.root, path);
    return found?.kind === "seq" ? found : refuse("there is no list");
  }

  private lineStart(position: number): number {
    const start = this.text.lastIndexOf("\n", position - 1) + 1;
    return start === 0 && this.text.startsWith("\uFEFF") ? 1 : start;
  }

  lineEnd(position: number): number {
    const end = this.text.indexOf("\n", position);
    if (end < 0) return this.text.length;
    return this.text[end - 1] === "\r" && end > position ? end - 1 : end;
  }

  private column(position: number): number {
    return position - this.lineStart(position);
  }

  /** The position behind the end of a line, with its line break. */
  private behindLine(lineEnd: number): number {
    if (this.text.startsWith("\r\n", lineEnd)) return lineEnd + 2;
    return this.text[lineEnd] === "\n" ? lineEnd + 1 : lineEnd;
  }

  private isFirstOnLine(position: number): boolean {
    return this.text.slice(this.lineStart(position), position).trim() === "";
  }

  /** The column at which the line of a position begins to have text. */
  private lineIndent(position: number): number {
    const line = this.text.slice(this.lineStart(position), this.lineEnd(position));
    return line.length - line.trimStart().length;
  }

  private isInFlow(path: Path): boolean {
    for (let length = 0; length < path.length; length += 1) {
      const node = nodeAt(this.document.root, path.slice(0, length));
      if ((node?.kind === "map" || node?.kind === "seq") && node.flow) return true;
    }
    return false;
  }

  private commentsIn(from: number, to: number): { from: number; to: number; text: string }[] {
    return this.document.comments.filter((one) => one.from >= from && one.to <= to).map((one) => ({ ...one, text: this.text.slice(one.from, one.to).trimEnd() }));
  }

  private isCommentLine(lineStart: number): boolean {
    const line = this.text.slice(lineStart, this.lineEnd(lineStart));
    const at = lineStart + line.length - line.trimStart().length;
    return this.document.comments.some((one) => one.from === at);
  }

  /** Where the comment lines begin that stand directly above an entry, at its column. */
  private withLeadingComments(start: number): number {
    if (!this.isFirstOnLine(start)) return start;
    let from = this.lineStart(start);
    const column = this.column(start);
    while (from > 0) {
      const above = this.lineStart(from - 1);
      if (above === from || !this.isCommentLine(above) || this.lineIndent(above) !== column) break;
      from = above;
    }
    return from;
  }

  /** Where the last line of an entry ends, with the comment lines below it that are indented deeper than it. */
  private withTrailingComments(start: number, end: number): number {
    let last = this.lineEnd(end);
    const column = this.column(start);
    let line = this.behindLine(last);
    while (line > last && line < this.text.length) {
      const stop = this.lineEnd(line);
      if (this.isCommentLine(line) && this.lineIndent(line) > column) last = stop;
      else if (this.text.slice(line, stop).trim() !== "") break;
      const next = this.behindLine(stop);
      if (next === stop) break;
      line = next;
    }
    return last;
  }

  // Values

  private set(path: Path, value: Plain, before?: string): TextChange[] {
    if (nodeAt(this.document.root, path) !== undefined) return this.replace(path, value);
    const key = path.at(-1);
    if (path.length === 0) return this.insertRoot(value);
    const holder = nodeAt(this.document.root, path.slice(0, -1));
    if (holder?.kind !== "map" || typeof key !== "string") {
      if (holder?.kind === "scalar" && holder.value === null && typeof key === "string") return this.replace(path.slice(0, -1), { [key]: value });
      return refuse(`there is no mapping at ${path.slice(0, -1).join("/")}`);
    }
    const at = before === undefined ? -1 : holder.pairs.findIndex((pair) => pair.key === before);
    return this.insertPair(path.slice(0, -1), holder, at < 0 ? holder.pairs.length : at, key, value);
  }

  private insertRoot(value: Plain): TextChange[] {
    const lines = this.style.language === "json" ? flowLines(value, this.style, 0) : blockRoot(value, this.style);
    const isBroken = this.text === "" || this.text === "\uFEFF" || this.text.endsWith("\n");
    return [{ from: this.text.length, to: this.text.length, insert: (isBroken ? "" : this.newline) + lines.join(this.newline) + this.newline }];
  }

  private replace(path: Path, value: Plain): TextChange[] {
    const node = nodeAt(this.document.root, path);
    if (node === undefined) return this.insertRoot(value);
    if (node.kind === "scalar" && !(value instanceof AliasValue) && typeof value !== "object" && node.style !== "empty") {
      const near = this.nearChange(node, value as Scalar);
      if (near !== null) return near;
    }
    return this.isInFlow(path) || this.style.language === "json" ? this.replaceInFlow(path, node, value) : this.replaceInBlock(path, node, value);
  }

  /** Changes only the part of a text that differs, where it can be found in the source of it. */
  private nearChange(node: SourceScalar, value: Scalar): TextChange[] | null {
    if (typeof value !== "string" || typeof node.value !== "string") return null;
    const source = this.text.slice(node.body, node.end);
    if (!source.includes("\n") && source.length < 60) return null;
    const [change] = changeBetween(node.value, value);
    if (change === undefined || /[\n\r]/.test(change.insert)) return null;
    let { from, to } = change;
    for (let wider = 0; wider < 60; wider += 1) {
      const old = node.value.slice(from, to);
      if (old.includes("\n")) return null;
      const first = old === "" ? -1 : source.indexOf(old);
      if (first >= 0 && source.indexOf(old, first + 1) < 0) {
        const fresh = node.value.slice(from, change.from) + change.insert + node.value.slice(change.to, to);
        const changes = [{ from: node.body + first, to: node.body + first + old.length, insert: fresh }];
        const parsed = parseSource(applyChanges(this.text, changes));
        const expected = structureOf(this.document.root);
        const path = this.pathOf(node);
        return parsed.document !== null && path !== null && isEqual(structureOf(parsed.document.root), editedValue(expected, { op: "set", path, value })) ? changes : null;
      }
      if (from > 0 && (wider % 2 === 0 || to === node.value.length)) from -= 1;
      else if (to < node.value.length) to += 1;
      else return null;
    }
    return null;
  }

  private pathOf(node: SourceNode): Path | null {
    for (const one of walkNodes(this.document.root)) if (one.node === node) return one.path;
    return null;
  }

  private replaceInFlow(path: Path, node: SourceNode, value: Plain): TextChange[] {
    const quote = node.kind === "scalar" ? node.style : undefined;
    const isPretty = this.text.slice(0, node.body).trimEnd().includes("\n") && this.style.language === "json";
    const style = { ...this.style, quote };
    const lines = isPretty ? flowLines(value, style, this.lineIndent(node.body)) : [flowText(value, style)];
    const insert = lines.join(this.newline);
    const alias = value instanceof AliasValue ? " " : "";
    if (node.kind === "scalar" && node.style === "empty") {
      const pair = path.length > 0 ? this.pairAt(path) : null;
      if (pair !== null && pair.separator < 0) return [{ from: pair.keyEnd, to: pair.keyEnd, insert: `: ${insert}${alias}` }];
      return [{ from: node.end, to: node.end, insert: ` ${insert}${alias}` }];
    }
    const from = node.kind === "map" && node.compact ? node.start : node.body;
    const kept = this.keptComments(path, from, node.end);
    return [...kept, { from, to: node.end, insert: insert + alias }];
  }

  /** Lifts the comments of a part of a flow above the line on which the outermost flow begins. */
  private keptComments(path: Path, from: number, to: number): TextChange[] {
    const comments = this.commentsIn(from, to);
    if (comments.length === 0) return [];
    let outermost: SourceNode | undefined;
    for (let length = 0; length <= path.length && outermost === undefined; length += 1) {
      const node = nodeAt(this.document.root, path.slice(0, length));
      if ((node?.kind === "map" || node?.kind === "seq") && node.flow) outermost = node;
    }
    return [this.commentsAbove(outermost?.start ?? from, comments.map((one) => one.text))];
  }

  private commentsAbove(position: number, comments: string[]): TextChange {
    const at = this.lineStart(position);
    const margin = " ".repeat(this.lineIndent(position));
    return { from: at, to: at, insert: comments.map((one) => margin + one + this.newline).join("") };
  }

  private pairAt(path: Path): SourcePair | null {
    const holder = nodeAt(this.document.root, path.slice(0, -1));
    return holder?.kind === "map" ? (holder.pairs.find((pair) => pair.key === path.at(-1)) ?? null) : null;
  }

  private replaceInBlock(path: Path, node: SourceNode, value: Plain): TextChange[] {
    const pair = path.length > 0 ? this.pairAt(path) : null;
    const written = this.written(path, node, value);
    const isSimple = !(node.kind === "map" || node.kind === "seq") || node.flow;
    if (isSimple && written.body.length === 0 && node.start !== node.end && !(node.kind === "scalar" && (node.style === "literal" || node.style === "folded"))) {
      if (node.kind !== "scalar" || node.style !== "empty") return [...this.keptComments(path, node.body, node.end), { from: node.body, to: node.end, insert: written.head }];
    }
    if (pair !== null && pair.separator < 0) return refuse("a key without a colon has no place for a value");
    return [this.replaceRegion(path, node, written)];
  }

  /** Replaces everything behind the colon or dash of an entry. Its comments stay, on their own lines if need be. */
  private replaceRegion(path: Path, node: SourceNode, { head, body }: WrittenValue): TextChange {
    const entry = path.length > 0 ? this.entry(path) : null;
    const base = entry === null ? 0 : this.column(entry.start);
    const from = this.anchorPoint(path, node);
    const isOnSameLine = (position: number) => position <= this.lineEnd(from);
    const trailing = this.lineEnd(node.end);
    let to = node.end;
    const inner = this.commentsIn(from, trailing);
    if (body.length > 0 || inner.some((one) => one.from < node.end)) to = trailing;
    const comments = inner.filter((one) => one.to <= to);
    const same = comments.filter((one) => isOnSameLine(one.from)).map((one) => one.text);
    const others = comments.filter((one) => !isOnSameLine(one.from)).map((one) => one.text);
    const isRoot = entry === null && from === node.start && this.isFirstOnLine(from);
    const first = `${head === "" || isRoot ? "" : " "}${head}${same.length > 0 ? ` ${same.join(" ")}` : ""}`;
    const rest = [...body, ...others.map((one) => " ".repeat(base) + one)];
    // Text of a root block begins on the line itself.
    if (isRoot && first === "") return { from, to, insert: rest.join(this.newline) };
    return { from, to, insert: [first, ...rest].join(this.newline) };
  }

  /** The position behind the colon or dash of an entry, and behind the anchor of its value. */
  private anchorPoint(path: Path, node: SourceNode): number {
    if (node.start < node.body) {
      const props = this.text.slice(node.start, node.body);
      return node.start + props.replace(/\s+(#[^\n]*\s*)*$/, "").length;
    }
    if (path.length === 0) return node.start;
    const pair = this.pairAt(path);
    if (pair !== null) return pair.separator;
    return this.entry(path).start + 1;
  }

  private written(path: Path, node: SourceNode, value: Plain): WrittenValue {
    const quote = node.kind === "scalar" ? node.style : undefined;
    const style = { ...this.style, quote };
    if (path.length === 0) {
      const isBlock = Array.isArray(value) ? value.length > 0 : isMap(value) && Object.keys(value).length > 0;
      if (isBlock) return { head: "", body: blockLines(value, this.style, 0) };
      return { head: typeof value === "string" ? scalarText(value, style, false) : flowText(value, style), body: [] };
    }
    const entry = this.entry(path);
    const column = this.column(entry.start);
    if (entry.holder.kind === "seq") {
      const [first = "", ...rest] = itemLines(value, style, column);
      return { head: first.slice(column + 2), body: rest };
    }
    const key = path.at(-1);
    const isSteps = Array.isArray(value) && value.some((one) => isMap(one) && "id" in one) && typeof key === "string";
    return blockText(value, style, column, isSteps ? "block" : "auto");
  }

  // Insertion

  private insertPair(path: Path, map: SourceMap, index: number, key: string, value: Plain): TextChange[] {
    if (map.flow) {
      if (map.compact || (map.pairs.length === 0 && !this.isInFlow(path) && this.style.language === "yaml" && path.length > 0)) return this.replace(path, { ...(structureOf(map) as object), [key]: value });
      const margin = this.flowMargin(map);
      const lines = margin < 0 ? [flowText(value, this.style)] : flowLines(value, this.style, margin);
      return this.insertInFlow(map, map.pairs.map((pair) => ({ start: pair.start, end: endOfPair(pair) })), index, `${keyText(key, this.style, true)}: ${lines.join(this.newline)}${value instanceof AliasValue ? " " : ""}`);
    }
    const column = this.column(map.pairs[0]!.start);
    const isSteps = Array.isArray(value) && value.some((one) => isMap(one) && "id" in one);
    const { head, body } = blockText(value, this.style, column, isSteps ? "block" : "auto");
    const lines = [`${keyText(key, this.style, false)}:${head === "" ? "" : ` ${head}`}`, ...body];
    return [this.insertInBlock(map.pairs.map((pair) => ({ start: pair.start, end: endOfPair(pair) })), index, lines, column)];
  }

  private insertItem(seq: SourceSeq, index: number, value: Plain, raw?: string): TextChange[] {
    if (seq.flow) {
      const path = this.pathOf(seq) ?? [];
      if (seq.items.length === 0 && !this.isInFlow(path) && this.style.language === "yaml" && path.length > 0) return this.replace(path, [value]);
      const margin = this.flowMargin(seq);
      const lines = margin < 0 ? [flowText(value, this.style)] : flowLines(value, this.style, margin);
      return this.insertInFlow(seq, seq.items.map((item) => ({ start: item.value.start, end: item.value.end })), index, (raw ?? lines.join(this.newline)) + (value instanceof AliasValue ? " " : ""));
    }
    const column = this.column(seq.items[0]!.start);
    const near = (seq.items[index - 1] ?? seq.items[index])?.value;
    const isFlow = near?.kind === "map" && near.flow && isMap(value) && flowText(value, this.style).length <= 150;
    const lines = raw === undefined ? itemLines(value, this.style, column, isFlow ? "flow" : "auto") : raw.split(/\r?\n/);
    const [first = "", ...rest] = lines;
    return [this.insertInBlock(seq.items.map((item) => ({ start: item.start, end: Math.max(item.value.end, item.start + 1) })), index, [first.slice(raw === undefined ? column : 0), ...rest], column)];
  }

  /** Inserts lines, the first without its margin, before entry `index` of a block. */
  private insertInBlock(entries: readonly { start: number; end: number }[], index: number, lines: readonly string[], column: number): TextChange {
    const margin = " ".repeat(column);
    const before = entries[index - 1];
    if (before !== undefined) {
      const at = this.withTrailingComments(before.start, before.end);
      return { from: at, to: at, insert: this.newline + margin + lines.join(this.newline) };
    }
    const next = entries[0]!;
    const at = this.withLeadingComments(next.start);
    if (!this.isFirstOnLine(next.start)) return { from: at, to: at, insert: lines.join(this.newline) + this.newline + margin };
    return { from: at, to: at, insert: margin + lines.join(this.newline) + this.newline };
  }

  /** The column of the entries of a flow that has each on a line of its own; -1 if it has not. */
  private flowMargin(flow: SourceMap | SourceSeq): number {
    const entries = flow.kind === "map" ? flow.pairs.map((pair) => pair.start) : flow.items.map((item) => item.value.start);
    const first = entries[0];
    if (first !== undefined) return this.isFirstOnLine(first) ? this.column(first) : -1;
    return this.style.language === "json" && this.text.includes("\n") ? this.lineIndent(flow.body) + this.style.step : -1;
  }

  private insertInFlow(flow: SourceMap | SourceSeq, entries: readonly { start: number; end: number }[], index: number, text: string): TextChange[] {
    const margin = this.flowMargin(flow);
    const before = entries[index - 1];
    const next = entries[index];
    const tab = this.marginText(entries[0]?.start ?? flow.body, margin);
    if (entries.length === 0) {
      const inside = this.commentsIn(flow.body, flow.end);
      const open = flow.body + 1;
      if (margin < 0 || inside.length > 0) return [{ from: open, to: open, insert: margin < 0 ? text : this.newline + tab + text }];
      const closing = this.marginText(flow.body, this.lineIndent(flow.body));
      return [{ from: open, to: flow.end - 1, insert: this.newline + tab + text + this.newline + closing }];
    }
    if (before === undefined) {
      if (margin < 0) return [{ from: next!.start, to: next!.start, insert: `${text}, ` }];
      const at = this.lineStart(next!.start);
      return [{ from: at, to: at, insert: `${tab}${text},${this.newline}` }];
    }
    const comma = this.commaBehind(before.end);
    const isLineOfItsOwn = margin >= 0 && this.isFirstOnLine(before.start);
    const behind = comma < 0 ? before.end : comma + 1;
    if (!isLineOfItsOwn) {
      if (comma < 0) return [{ from: before.end, to: before.end, insert: `, ${text}` }];
      return [{ from: behind, to: behind, insert: ` ${text}${next === undefined ? "" : ","}` }];
    }
    // On a line of its own, behind what else is on the line of the entry before.
    const isShared = next !== undefined && next.start < this.lineEnd(behind);
    const closes = next === undefined && flow.end <= this.lineEnd(behind) + 1 && this.text.slice(behind, flow.end - 1).trim() === "";
    const at = isShared || closes ? behind : this.lineEnd(behind);
    const isLast = next === undefined;
    const changes: TextChange[] = comma < 0 ? [{ from: before.end, to: before.end, insert: "," }] : [];
    const insert = this.newline + tab + text + (isLast && comma < 0 ? "" : ",") + (isShared ? this.newline + tab : "");
    if (changes[0] !== undefined && changes[0].from === at) return [{ from: at, to: at, insert: `,${insert}` }];
    return [...changes, { from: at, to: at, insert }];
  }

  /** The blanks of a margin, made of tabs if the line of a position is indented by them. */
  private marginText(position: number, columns: number): string {
    const line = this.text.slice(this.lineStart(position), this.lineEnd(position));
    const own = /^[ \t]*/.exec(line)?.[0] ?? "";
    if (own.length === columns) return own;
    const isTabbed = own.includes("\t") || /\n\t/.test(this.text);
    return (isTabbed && this.style.language === "json" ? "\t" : " ").repeat(Math.max(0, columns));
  }

  /** The position of the comma behind an entry of a flow; -1 if none is there. */
  private commaBehind(position: number): number {
    for (let at = position; at < this.text.length; at += 1) {
      const comment = this.document.comments.find((one) => one.from === at);
      if (comment !== undefined) at = comment.to;
      if (this.text[at] === ",") return at;
      if (!/\s/.test(this.text[at] ?? "x")) return -1;
    }
    return -1;
  }

  // Removal

  private remove(path: Path): TextChange[] {
    const { holder, index, start, end } = this.entry(path);
    const holderPath = path.slice(0, -1);
    const count = holder.kind === "map" ? holder.pairs.length : holder.items.length;
    if (holder.flow) return holder.kind === "map" && holder.compact ? this.replace(holderPath, {}) : this.removeInFlow(holder, index);
    if (count === 1) return this.emptied(holderPath, holder, start, end);
    if (this.isFirstOnLine(start)) return this.removeLines(start, end);
    const next = holder.kind === "map" ? holder.pairs[1]!.start : holder.items[1]!.start;
    const last = this.lineEnd(end);
    // The first entry stands behind the dash of an item: the next one takes its place, unless a comment stands between them.
    const between = this.commentsIn(last, next);
    return [{ from: start, to: between.length > 0 ? last : next, insert: "" }];
  }

  private emptied(path: Path, holder: SourceSeq | SourceMap, start: number, end: number): TextChange[] {
    const text = holder.kind === "map" ? "{}" : "[]";
    if (path.length === 0) {
      const from = this.isFirstOnLine(start) ? start : holder.body;
      return [{ from, to: this.lineEnd(end), insert: text }];
    }
    const at = this.anchorPoint(path, holder);
    if (!this.isFirstOnLine(start) || start < this.lineEnd(at)) return [{ from: at, to: this.lineEnd(end), insert: ` ${text}` }];
    return [{ from: at, to: at, insert: ` ${text}` }, ...this.removeLines(start, end)];
  }

  private removeLines(start: number, end: number): TextChange[] {
    const from = this.lineStart(start);
    const last = this.lineEnd(end);
    const to = this.behindLine(last);
    const column = this.column(start);
    const changes: TextChange[] = [];
    if (to === last && from > 0 && from === this.lineStart(from)) {
      // The last line of a text without a line break at its end: the one before it goes.
      const broken = this.text.slice(0, from).endsWith("\r\n") ? 2 : this.text[from - 1] === "\n" ? 1 : 0;
      changes.push({ from: from - broken, to, insert: "" });
    } else changes.push({ from, to, insert: "" });
    // Comment lines of what is gone are not to become text of a block that stands above.
    for (let line = to; line < this.text.length && line > last; ) {
      const stop = this.lineEnd(line);
      const indent = this.lineIndent(line);
      if (this.isCommentLine(line)) {
        if (indent > column) changes.push({ from: line, to: line + indent, insert: " ".repeat(column) });
      } else if (this.text.slice(line, stop).trim() !== "") break;
      const next = this.behindLine(stop);
      if (next === stop) break;
      line = next;
    }
    return changes;
  }

  private removeInFlow(flow: SourceMap | SourceSeq, index: number): TextChange[] {
    const entries = flow.kind === "map" ? flow.pairs.map((pair) => ({ start: pair.start, end: endOfPair(pair) })) : flow.items.map((item) => ({ start: item.value.start, end: item.value.end }));
    const { start, end } = entries[index]!;
    const comma = this.commaBehind(end);
    const before = entries[index - 1];
    const until = comma < 0 ? end : comma + 1;
    const isAlone = this.isFirstOnLine(start) && this.isRestOfLineEmpty(until);
    const changes: TextChange[] = [];
    if (comma < 0 && before !== undefined) {
      const previous = this.commaBehind(before.end);
      if (previous >= 0) changes.push({ from: previous, to: previous + 1, insert: "" });
    }
    if (comma >= 0 && this.commentsIn(end, comma).length > 0) changes.push({ from: comma, to: comma + 1, insert: "" }, { from: start, to: end, insert: "" });
    else if (isAlone) {
      const last = this.lineEnd(until);
      const isComment = this.commentsIn(until, last).length > 0 && index < 0;
      changes.push({ from: this.lineStart(start), to: isComment ? until : this.behindLine(last), insert: "" });
    } else {
      const blanks = /^[ \t]*/.exec(this.text.slice(until))?.[0].length ?? 0;
      const leading = /[ \t]*$/.exec(this.text.slice(0, start))?.[0].length ?? 0;
      const isLast = index === entries.length - 1;
      const eatsBefore = isLast && before !== undefined && comma < 0 && !this.isFirstOnLine(start);
      changes.push({ from: eatsBefore ? start - leading : start, to: comma >= 0 && !isLast && !/[#]/.test(this.text[until + blanks] ?? "") ? until + blanks : until, insert: "" });
    }
    return changes;
  }

  private isRestOfLineEmpty(position: number): boolean {
    return /^\s*(#.*)?$/.test(this.text.slice(position, this.lineEnd(position)));
  }

  // Moves

  private move(path: Path, to: Path, index: number): TextChange[] {
    if (isWithin(to, path)) return refuse("a step can't be moved into itself");
    const { holder, start, end, index: own } = this.entry(path);
    const target = this.list(to);
    if (holder.kind !== "seq") return refuse("only an item of a list can be moved");
    if (holder.flow || target.flow || !this.isFirstOnLine(start)) return this.moveAnew(path, to, index);
    const isSame = isSamePath(path.slice(0, -1), to);
    if (isSame && index === own) return [];
    const others = target.items.filter((_, place) => !isSame || place !== own).map((item) => ({ start: item.start, end: Math.max(item.value.end, item.start + 1) }));
    const from = this.withLeadingComments(start);
    const last = this.withTrailingComments(start, end);
    const lines = this.text.slice(from, last).split(/\r?\n/);
    const column = this.column(target.items[0]!.start);
    const shifted = shiftLines(lines, column - this.column(start));
    const [head = "", ...rest] = shifted;
    const leading = head.slice(Math.min(column, head.length - head.trimStart().length));
    const cut = holder.items.length === 1 ? this.emptiedBy(path.slice(0, -1), holder, from, last) : [this.cutLines(from, last)];
    const inserted = this.insertInBlock(others, index, [leading, ...rest], column);
    const cutting = cut.at(-1)!;
    if (inserted.from < cutting.from || inserted.from > cutting.to) return [...cut, inserted];
    // It is the last part of the entry behind which it moves, so it stays where it is in the text.
    const text = [" ".repeat(column) + leading, ...rest].join(this.newline);
    const isCutAtEnd = cutting.from < from;
    return [...cut.slice(0, -1), { ...cutting, insert: isCutAtEnd ? this.newline + text : text + this.newline }];
  }

  private cutLines(from: number, last: number): TextChange {
    const to = this.behindLine(last);
    if (to > last || from === 0) return { from, to, insert: "" };
    const broken = this.text.slice(0, from).endsWith("\r\n") ? 2 : 1;
    return { from: from - broken, to, insert: "" };
  }

  private emptiedBy(path: Path, holder: SourceSeq, from: number, last: number): TextChange[] {
    const at = this.anchorPoint(path, holder);
    if (from <= at) return refuse("the list begins on the line of its key");
    return [{ from: at, to: at, insert: " []" }, this.cutLines(from, last)];
  }

  /** Writes the item anew at its new place, with its comments above the line there. */
  private moveAnew(path: Path, to: Path, index: number): TextChange[] {
    if (isWithin(to, path)) return refuse("a step can't be moved into itself");
    const { holder, start, end, value, index: own } = this.entry(path);
    if (holder.kind !== "seq") return refuse("only an item of a list can be moved");
    const target = this.list(to);
    const isSame = isSamePath(path.slice(0, -1), to);
    if (isSame && index === own) return [];
    const place = isSame && index > own ? index + 1 : index;
    const isBothFlow = holder.flow && target.flow;
    let raw: string | undefined;
    const comments = this.commentsIn(start, holder.flow ? end : this.lineEnd(end)).map((one) => one.text);
    if (isBothFlow && comments.length === 0) {
      const lines = this.text.slice(value.start, value.end).split(/\r?\n/);
      const margin = this.flowMargin(target);
      raw = margin < 0 && lines.length > 1 ? undefined : shiftLines(lines, margin < 0 ? 0 : margin - this.lineIndent(value.start), 1).join(this.newline);
    }
    // Done as two patches, because both may change the same line.
    const inserted = applyChanges(this.text, sortedChanges(this.insertItem(target, place, structureOf(value), raw)));
    const second = parseSource(inserted);
    if (second.document === null) return refuse("the item can't be written there");
    const patch = new Patch(second.document);
    const old = isSame ? (place <= own ? [...path.slice(0, -1), own + 1] : path) : pathAfterInsertion(path, to, place);
    const removed = applyChanges(second.document.text, sortedChanges(patch.remove(old)));
    if (comments.length === 0) return [...changeBetween(this.text, removed)];
    const third = parseSource(removed);
    if (third.document === null) return refuse("the item can't be taken from its place");
    const last = new Patch(third.document);
    const fresh = nodeAt(third.document.root, [...pathAfterRemoval(to, path), index]);
    if (fresh === undefined) return refuse("the item is not at its new place");
    const above = last.commentsAbove(last.lineOfOutermostFlow([...pathAfterRemoval(to, path), index]), comments);
    return [...changeBetween(this.text, applyChanges(removed, [above]))];
  }

  private lineOfOutermostFlow(path: Path): number {
    for (let length = 0; length <= path.length; length += 1) {
      const node = nodeAt(this.document.root, path.slice(0, length));
      if ((node?.kind === "map" || node?.kind === "seq") && node.flow) return node.start;
    }
    return this.entry(path).start;
  }

  // Names

  private rename(path: Path, key: string): TextChange[] {
    const pair = this.pairAt(path) ?? refuse("there is no such key");
    const style = { ...this.style, quote: pair.keyStyle };
    const inFlow = this.isInFlow(path);
    const isQuoted = pair.keyStyle === "single" || pair.keyStyle === "double";
    const insert = isQuoted ? scalarText(key, style, inFlow) : keyText(key, this.style, inFlow);
    return [{ from: pair.keyStart, to: pair.keyEnd, insert }];
  }
}

function pathAfterInsertion(path: Path, list: Path, index: number): Path {
  const own = path[list.length];
  if (!isWithin(path, list) || typeof own !== "number" || own < index) return path;
  return [...list, own + 1, ...path.slice(list.length + 1)];
}

function endOfPair(pair: SourcePair): number {
  return Math.max(pair.keyEnd, pair.separator, pair.value.end);
}

function blockRoot(value: Plain, style: WritingStyle): string[] {
  const isBlock = (Array.isArray(value) && value.length > 0) || (isMap(value) && Object.keys(value).length > 0);
  if (isBlock) return blockLines(value, style, 0);
  return [typeof value === "string" ? scalarText(value, style, false) : flowText(value, style)];
}

/** Moves lines by columns; those from `first` on. Empty lines stay empty. */
function shiftLines(lines: readonly string[], columns: number, first = 0): string[] {
  return lines.map((line, index) => {
    if (index < first || line.trim() === "" || columns === 0) return line;
    if (columns > 0) return (line.startsWith("\t") ? "\t" : " ").repeat(columns) + line;
    const own = line.length - line.trimStart().length;
    return line.slice(Math.min(own, -columns));
  });
}

/** The width of a level, and whether lists are flush with the keys that hold them, as the document has it. */
function indentationOf(document: SourceDocument): { step: number; flushLists: boolean } {
  const { text, root } = document;
  if (document.language === "json") {
    const found = /\n([ \t]+)\S/.exec(text)?.[1];
    return { step: found === undefined ? 2 : found.length, flushLists: false };
  }
  let step = 0;
  let flushLists = false;
  const columnOf = (position: number) => position - (text.lastIndexOf("\n", position - 1) + 1);
  for (const { node } of walkNodes(root)) {
    if (node.kind !== "map" || node.flow) continue;
    for (const pair of node.pairs) {
      const inner = pair.value;
      if ((inner.kind !== "map" && inner.kind !== "seq") || inner.flow) continue;
      const first = inner.kind === "map" ? inner.pairs[0]?.start : inner.items[0]?.start;
      if (first === undefined) continue;
      const deeper = columnOf(first) - columnOf(pair.start);
      if (inner.kind === "seq" && deeper === 0) flushLists = true;
      else if (deeper > 0 && step === 0) step = Math.min(deeper, 8);
    }
  }
  return { step: step === 0 ? 2 : step, flushLists };
}
