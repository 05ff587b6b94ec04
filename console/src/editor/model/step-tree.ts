// The steps of a document as a tree with the paths of everything, for the canvas and the forms. Whatever is not understood is left as it is.
import { isMap, type Path, type Plain, type PlainMap } from "../document/plain-values";
import { verbOf } from "./verbs";

export type ListField = "steps" | "then" | "else" | "do" | "parallel" | "race" | "on_error";
export type Order = "refs" | "listed" | "ports" | "free";

/** A list of steps; `owner` is the step that holds it (null: the document). A list that is not there yet has `isMissing`. */
export interface StepList {
  field: ListField;
  path: Path;
  order: Order;
  owner: Step | null;
  steps: Step[];
  isMissing: boolean;
}

export interface Step {
  /** Its id, or one like that which the server gives it. */
  id: string;
  hasId: boolean;
  path: Path;
  verb: string;
  fields: PlainMap;
  list: StepList;
  index: number;
  lists: StepList[];
}

export interface StepTree {
  document: PlainMap;
  root: StepList;
  /** All steps, a block before its steps. */
  all: Step[];
  byId: ReadonlyMap<string, Step>;
}

/** Whether a document is in the format whose steps this reads. Other dialects are edited as text. */
export function isNativeFormat(value: Plain): boolean {
  return isMap(value) && ("perdure" in value || (Array.isArray(value["steps"]) && value["steps"].every((one) => isMap(one) && (verbOf(one) !== "" || Object.keys(one).length <= 1))));
}

export function stepTree(value: Plain): StepTree {
  const document = isMap(value) ? value : {};
  const order: Order = document["order"] === "listed" || document["order"] === "ports" ? document["order"] : "refs";
  const all: Step[] = [];
  const byId = new Map<string, Step>();
  const listed = (field: ListField, path: Path, found: Plain | undefined, owner: Step | null): StepList => {
    const own: Order = owner === null ? order : field === "parallel" || field === "race" ? "free" : order === "refs" ? "refs" : "listed";
    const list: StepList = { field, path, order: own, owner, steps: [], isMissing: !Array.isArray(found) };
    if (!Array.isArray(found)) return list;
    found.forEach((one, index) => {
      const fields = isMap(one) ? one : {};
      const verb = verbOf(fields);
      const id = fields["id"];
      const hasId = typeof id === "string" && id !== "";
      const step: Step = { id: hasId ? id : `${verb || "step"}_${all.length + 1}`, hasId, path: [...path, index], verb, fields, list, index, lists: [] };
      all.push(step);
      if (!byId.has(step.id)) byId.set(step.id, step);
      list.steps.push(step);
      step.lists = nestedLists(step).map(([name, at, inner]) => listed(name, [...step.path, ...at], inner, step));
    });
    return list;
  };
  const root = listed("steps", ["steps"], document["steps"], null);
  return { document, root, all, byId };
}

function nestedLists({ fields, verb }: Step): [ListField, Path, Plain | undefined][] {
  const found: [ListField, Path, Plain | undefined][] = [];
  if (verb === "if") found.push(["then", ["then"], fields["then"]], ["else", ["else"], fields["else"]]);
  for (const name of ["do", "race"] as const) if (name in fields) found.push([name, [name], fields[name]]);
  const parallel = fields["parallel"];
  if (isMap(parallel)) found.push(["parallel", ["parallel", "steps"], parallel["steps"]]);
  else if ("parallel" in fields) found.push(["parallel", ["parallel"], parallel]);
  if (Array.isArray(fields["on_error"])) found.push(["on_error", ["on_error"], fields["on_error"]]);
  return found;
}

/** The step to which a path leads, or in which it ends. */
export function stepAt(tree: StepTree, path: Path): Step | undefined {
  let found: Step | undefined;
  for (const step of tree.all) {
    const isAround = step.path.length <= path.length && step.path.every((key, index) => key === path[index]);
    if (isAround && (found === undefined || step.path.length > found.path.length)) found = step;
  }
  return found;
}

/** An id that no step has, made of a word. */
export function freshId(tree: StepTree, word: string): string {
  const base = word.replace(/[^\p{L}\p{N}_-]/gu, "_").replace(/^[^\p{L}_]+/u, "") || "step";
  const isFree = (id: string) => !tree.byId.has(id) && !ROOTS.has(id);
  if (isFree(base)) return base;
  let number = 2;
  while (!isFree(`${base}_${number}`)) number += 1;
  return `${base}_${number}`;
}

/** The roots of references besides steps; no step may have such an id. */
export const ROOTS = new Set(["input", "vars", "secrets", "execution", "trigger", "item", "index", "loop", "last", "self", "error", "steps", "state", "last_turn"]);

/** Why a text can't be the id of a step; empty if it can. */
export function idProblem(tree: StepTree, id: string, own?: string): string {
  if (!/^[^\W\d][\w-]*$/u.test(id) && !/^[\p{L}_][\p{L}\p{N}_-]*$/u.test(id)) return "An id begins with a letter or _, and has letters, digits, _ and -.";
  if (ROOTS.has(id)) return `"${id}" is the name of a root of references; choose another id.`;
  if (id !== own && tree.byId.has(id)) return `Another step has the id "${id}".`;
  return "";
}
