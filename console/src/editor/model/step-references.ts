// References to steps in a document: where they are, and the edits that rename a step together with all of them.
import type { Edit } from "../document/plain-edits";
import { isMap, type Path, type Plain, type PlainMap } from "../document/plain-values";
import { verbOf } from "./verbs";

const STEP_REFERENCE = /(?<!@)@(\{?)(steps\.)?([\p{L}_][\p{L}\p{N}_-]*)/gu;
const KEYED = /(?<!@)(@\{?steps)\[(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')\]/g;
const CEL =
  /[rRbB]{0,2}(?:'''[\s\S]*?'''|"""[\s\S]*?"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(\bsteps\s*\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\])|(\bsteps\s*\.\s*(\w+))|\.\s*\w+|([A-Za-z_]\w*)(?!\s*\()/g;
const JSON_PATH = /\$(?:\.([\p{L}_][\p{L}\p{N}_-]*)|\[(?:"([^"\\]*)"|'([^'\\]*)')\])/u;

type Rename = (id: string) => string;

/** The fields of a step whose values have no references: texts for people, sources, schemas. */
const WITHOUT = new Set(["id", "name", "note", "ui", "schema", "tool", "retry", "timeout", "grace", "idempotent", "commit", "join", "wait"]);
const SOURCES: Record<string, string> = { ts: "code", python: "code", bash: "command", sql: "query" };
const LISTS = new Set(["then", "else", "do", "race", "on_error"]);

export function renamedText(text: string, rename: Rename): string {
  return text
    .replace(STEP_REFERENCE, (whole: string, brace: string, steps: string | undefined, id: string, at: number) => (brace !== "" || at === 0 ? `@${brace}${steps ?? ""}${rename(id)}` : whole))
    .replace(KEYED, (whole: string, root: string, double: string | undefined, single: string | undefined) => {
      const id = double ?? single ?? "";
      return rename(id) === id ? whole : `${root}[${JSON.stringify(rename(id))}]`;
    });
}

export function renamedCel(source: string, rename: Rename): string {
  const inSteps = (id: string) => `steps[${JSON.stringify(id)}]`;
  return source.replace(CEL, (whole: string, keyed?: string, double?: string, single?: string, dotted?: string, field?: string, name?: string) => {
    const id = keyed !== undefined ? (double ?? single ?? "") : dotted !== undefined ? (field ?? "") : name;
    if (id === undefined || rename(id) === id) return whole;
    if (name === undefined) return inSteps(rename(id));
    return /^[A-Za-z_]\w*$/.test(rename(id)) ? rename(id) : inSteps(rename(id));
  });
}

function renamedJsonPath(path: string, rename: Rename): string {
  return path.replace(JSON_PATH, (whole: string, plain?: string, double?: string, single?: string) => {
    const id = plain ?? double ?? single ?? "";
    return rename(id) === id ? whole : `$[${JSON.stringify(rename(id))}]`;
  });
}

/** Walks over everything in a document that may refer to steps. */
class ReferenceWalk {
  readonly edits: Edit[] = [];

  constructor(private readonly rename: Rename) {}

  document(document: PlainMap): void {
    this.template(document["vars"], ["vars"]);
    this.template(document["output"], ["output"]);
    this.steps(document["steps"], ["steps"]);
  }

  steps(steps: Plain | undefined, path: Path): void {
    if (Array.isArray(steps)) steps.forEach((one, index) => isMap(one) && this.step(one, [...path, index]));
  }

  step(step: PlainMap, path: Path): void {
    const verb = verbOf(step);
    for (const [field, value] of Object.entries(step)) {
      const at = [...path, field];
      if (WITHOUT.has(field)) continue;
      if (LISTS.has(field) || (field === "parallel" && Array.isArray(value))) this.steps(value, at);
      else if (field === "parallel" && isMap(value)) this.steps(value["steps"], [...at, "steps"]);
      else if (field === "when" || field === "if" || field === "test") this.condition(value, at, true);
      else if (field === "needs") this.ids(value, at);
      else if (field === "next") this.next(value, at);
      else if (field === "repeat" && isMap(value)) this.repeat(value, at);
      else if (field === "undo" && isMap(value)) this.template(value["with"], [...at, "with"]);
      else if (field === "each" && isMap(value)) this.template(value["in"], [...at, "in"]);
      else if (field === "transform" && isMap(value) && ("ts" in value || "python" in value)) continue;
      else if (field === verb && field in SOURCES) this.beside(value, at, SOURCES[field]!);
      else if (field === "approve" && isMap(value)) this.beside(value, at, "form");
      else if (field === "llm" || field === "agent") this.beside(value, at, "schema");
      else if (field === "call") continue;
      else this.template(value, at);
    }
  }

  private beside(value: Plain, path: Path, field: string): void {
    if (isMap(value)) for (const [name, inner] of Object.entries(value)) if (name !== field) this.template(inner, [...path, name]);
  }

  private repeat(repeat: PlainMap, path: Path): void {
    for (const [field, value] of Object.entries(repeat)) {
      if (field === "while" || field === "until") this.condition(value, [...path, field], false);
      else if (field === "on_max") this.ids(value, [...path, field]);
      else if (field === "state" || field === "delay") this.template(value, [...path, field]);
    }
  }

  private next(value: Plain | undefined, path: Path): void {
    if (!isMap(value)) {
      if (Array.isArray(value) && value.some(isMap)) value.forEach((one, index) => this.way(one, [...path, index]));
      else this.ids(value, path);
      return;
    }
    if ("choose" in value || "to" in value) this.way(value, path);
    else for (const [port, way] of Object.entries(value)) this.next(way, [...path, port]);
  }

  private way(value: Plain, path: Path): void {
    if (!isMap(value)) return this.ids(value, path);
    for (const [field, inner] of Object.entries(value)) {
      if (field === "when") this.condition(inner, [...path, field], false);
      else if (["to", "on_max", "choose", "default"].includes(field)) this.ids(inner, [...path, field]);
    }
  }

  private ids(value: Plain | undefined, path: Path): void {
    if (Array.isArray(value)) value.forEach((one, index) => this.ids(one, [...path, index]));
    else if (typeof value === "string") this.set(path, value, this.rename(value));
  }

  private condition(value: Plain | undefined, path: Path, dollarIsSteps: boolean): void {
    if (typeof value === "string") return this.set(path, value, renamedText(value, this.rename));
    if (!isMap(value)) return;
    const ref = value["ref"];
    if (typeof ref === "string") {
      for (const [field, inner] of Object.entries(value)) {
        if (field === "ref") this.set([...path, "ref"], ref, ref.startsWith("$") ? (dollarIsSteps ? renamedJsonPath(ref, this.rename) : ref) : renamedText(ref, this.rename));
        else if (field !== "matches") this.template(inner, [...path, field]);
      }
      return;
    }
    if (typeof value["expr"] === "string") return this.set([...path, "expr"], value["expr"], renamedCel(value["expr"], this.rename));
    for (const field of ["all", "any"]) {
      const inner = value[field];
      if (Array.isArray(inner)) inner.forEach((one, index) => this.condition(one, [...path, field, index], dollarIsSteps));
    }
    if ("not" in value) this.condition(value["not"], [...path, "not"], dollarIsSteps);
  }

  private template(value: Plain | undefined, path: Path): void {
    if (typeof value === "string") this.set(path, value, renamedText(value, this.rename));
    else if (Array.isArray(value)) value.forEach((one, index) => this.template(one, [...path, index]));
    else if (isMap(value)) {
      const expression = value["expr"];
      if (typeof expression === "string" && Object.keys(value).length === 1) this.set([...path, "expr"], expression, renamedCel(expression, this.rename));
      else for (const [field, inner] of Object.entries(value)) this.template(inner, [...path, field]);
    }
  }

  private set(path: Path, before: string, after: string): void {
    if (before !== after) this.edits.push({ op: "set", path, value: after });
  }
}

/** The edits that give a new id to all references to a step; not to the step itself. */
export function referenceEdits(document: PlainMap, from: string, to: string): Edit[] {
  const walk = new ReferenceWalk((id) => (id === from ? to : id));
  walk.document(document);
  return walk.edits;
}

/** The ids to which a part of a document refers by values, conditions and `needs`; `path` is where it is a step's. */
export function idsReadBy(step: PlainMap): Set<string> {
  const found = new Set<string>();
  const walk = new ReferenceWalk((id) => {
    found.add(id);
    return id;
  });
  const { next: _, then: _then, else: _else, do: _do, race: _race, parallel: _parallel, on_error: _onError, ...own } = step;
  walk.step(own, []);
  return found;
}
