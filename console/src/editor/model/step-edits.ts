// What people do with steps, as edits of the document: insert, remove, move, rename, and what that means for steps that lead to them.
import { pathAfterRemoval, type Edit } from "../document/plain-edits";
import { isMap, type Plain, type PlainMap } from "../document/plain-values";
import { referenceEdits } from "./step-references";
import { freshId, type Step, type StepList, type StepTree } from "./step-tree";
import type { Verb } from "./verbs";

/** What is done, in a few words for undo, with its edits; `select` is the step to look at afterwards. */
export interface Action {
  label: string;
  edits: Edit[];
  select?: string;
}

/** Inserts a new step of a verb into a list. Where `next` orders the steps, the one before leads to it, and it leads on. */
export function insertStep(tree: StepTree, list: StepList, index: number, verb: Verb): Action {
  const id = freshId(tree, verb.name);
  const step: PlainMap = { id, ...verb.fields };
  const edits: Edit[] = [];
  const before = list.steps[index - 1];
  if (list.order === "ports" && before !== undefined) {
    const next = before.fields["next"];
    if (next === undefined || typeof next === "string" || (Array.isArray(next) && next.every((one) => typeof one === "string"))) {
      if (next !== undefined) step["next"] = next;
      edits.push({ op: "set", path: [...before.path, "next"], value: id });
    }
  }
  edits.push(list.isMissing || list.steps.length === 0 ? { op: "set", path: list.path, value: [step] } : { op: "insert", path: list.path, index, value: step });
  return { label: `Insert ${id}`, edits, select: id };
}

/** Removes a step. Steps that led to it lead to where it led, if that is one step. */
export function removeStep(tree: StepTree, step: Step): Action {
  const next = step.fields["next"];
  const onward = typeof next === "string" ? next : null;
  const edits: Edit[] = [];
  for (const other of tree.all) {
    if (other === step) continue;
    if ("next" in other.fields) edits.push(...withoutTarget(other.fields["next"], [...other.path, "next"], step.id, onward));
    if ("needs" in other.fields) edits.push(...withoutTarget(other.fields["needs"], [...other.path, "needs"], step.id, null));
  }
  edits.push({ op: "remove", path: step.path });
  const beside = step.list.steps[step.index + 1] ?? step.list.steps[step.index - 1] ?? step.list.owner;
  return { label: `Remove ${step.id}`, edits, ...(beside ? { select: beside.id } : {}) };
}

function withoutTarget(value: Plain | undefined, path: readonly (string | number)[], id: string, onward: string | null): Edit[] {
  if (value === id) return [onward === null ? { op: "remove", path } : { op: "set", path, value: onward }];
  if (Array.isArray(value) && value.includes(id)) {
    const left = value.filter((one) => one !== id);
    if (onward !== null && !left.includes(onward)) left.push(onward);
    return [left.length === 0 ? { op: "remove", path } : { op: "set", path, value: left }];
  }
  if (isMap(value)) return Object.entries(value).flatMap(([port, way]) => (port === "when" ? [] : withoutTarget(way, [...path, port], id, onward)));
  return [];
}

/** Moves a step within its list; nothing if it is at the end. */
export function moveStep(step: Step, by: -1 | 1): Action | null {
  const index = step.index + by;
  if (index < 0 || index >= step.list.steps.length) return null;
  return { label: `Move ${step.id}`, edits: [{ op: "move", path: step.path, to: step.list.path, index }], select: step.id };
}

/** Moves a step to a place in another list, or in its own. */
export function moveStepTo(step: Step, list: StepList, index: number): Action | null {
  const isInside = list.path.length > step.path.length && step.path.every((key, at) => key === list.path[at]);
  if (isInside) return null;
  if (list.isMissing || list.steps.length === 0) {
    // A step in the empty list shows where to move to, with the comments of what moves, and goes again.
    const edits: Edit[] = [
      { op: "set", path: list.path, value: [{ id: "moves_here" }] },
      { op: "move", path: step.path, to: list.path, index: 0 },
      { op: "remove", path: [...pathAfterRemoval(list.path, step.path), 1] },
    ];
    return { label: `Move ${step.id}`, edits, select: step.id };
  }
  const isSame = list === step.list;
  const place = isSame && index > step.index ? index - 1 : index;
  if (isSame && place === step.index) return null;
  return { label: `Move ${step.id}`, edits: [{ op: "move", path: step.path, to: list.path, index: place }], select: step.id };
}

/** Moves a step out of its block, behind that. */
export function moveStepOut(step: Step): Action | null {
  const owner = step.list.owner;
  return owner === null ? null : moveStepTo(step, owner.list, owner.index + 1);
}

/** Moves a step into the block before it. */
export function moveStepIn(step: Step): Action | null {
  const before = step.list.steps[step.index - 1];
  const list = before?.lists.at(0);
  return list === undefined ? null : moveStepTo(step, list, list.steps.length);
}

/** Gives a step another id, and all references to it. */
export function renameStep(tree: StepTree, step: Step, id: string): Action {
  const own: Edit = step.hasId ? { op: "set", path: [...step.path, "id"], value: id } : { op: "set", path: [...step.path, "id"], value: id, before: Object.keys(step.fields)[0] ?? "" };
  const references = step.hasId ? referenceEdits(tree.document, step.id, id) : [];
  return { label: `Rename ${step.id} to ${id}`, edits: [...references, own], select: id };
}

/** Sets a field of a step or of the document, or removes it. */
export function setValue(label: string, path: readonly (string | number)[], value: Plain | undefined, exists: boolean): Action {
  if (value === undefined) return { label, edits: exists ? [{ op: "remove", path }] : [] };
  return { label, edits: [{ op: "set", path, value }] };
}

/** A copy of a step right behind it. */
export function duplicateStep(tree: StepTree, step: Step): Action {
  const id = freshId(tree, step.id.replace(/_\d+$/, ""));
  const copy: PlainMap = { ...step.fields, id };
  return { label: `Duplicate ${step.id}`, edits: [{ op: "insert", path: step.list.path, index: step.index + 1, value: copy }], select: id };
}

/** Adds a transition to another step, where `next` orders the steps. */
export function connectSteps(step: Step, target: string, port = ""): Action | null {
  const next = step.fields["next"];
  const path = [...step.path, "next"];
  const label = `Lead ${step.id} to ${target}`;
  if (port !== "") {
    const ports: PlainMap = isMap(next) && !("choose" in next) && !("to" in next) ? next : next === undefined ? {} : { success: next };
    return { label, edits: [{ op: "set", path, value: { ...ports, [port]: target } }] };
  }
  if (next === undefined) return { label, edits: [{ op: "set", path, value: target }] };
  if (typeof next === "string") return next === target ? null : { label, edits: [{ op: "set", path, value: [next, target] }] };
  if (Array.isArray(next) && next.every((one) => typeof one === "string")) return next.includes(target) ? null : { label, edits: [{ op: "set", path, value: [...next, target] }] };
  return null;
}
