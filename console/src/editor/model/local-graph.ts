// The graph of a document as far as its text alone tells it, for the time in which the server has not checked it, or finds it not valid.
import type { components } from "@generated/schema";
import { isMap, type Plain, type PlainMap } from "../document/plain-values";
import { idsReadBy } from "./step-references";
import type { Step, StepList, StepTree } from "./step-tree";
import { conditionForm, OPERATORS, valueText } from "./condition-rows";

export type ShownGraph = components["schemas"]["ShownGraph"];

const TELLING = ["title", "names", "name", "type", "message", "target", "url", "prompt", "model", "command", "read", "write", "until"];
const WORDLESS = new Set(["ts", "python", "do", "race", "parallel", "if"]);

export function localGraph(tree: StepTree): ShownGraph {
  const graph: ShownGraph = { name: String(tree.document["name"] ?? ""), version: "", definition: "", order: tree.root.order, at: 0, nodes: [], edges: [], regions: [] };
  const names = new Map<Step, string>();
  const taken = new Set<string>();
  for (const step of tree.all) {
    let id = step.id;
    for (let number = 2; taken.has(id); number += 1) id = `${step.id} (${number})`;
    taken.add(id);
    names.set(step, id);
  }
  const region = (list: StepList, parent: number): void => {
    const number = graph.regions.length;
    const block = list.owner === null ? "" : names.get(list.owner)!;
    const caption = list.field === "then" || list.field === "else" ? list.field : list.field === "on_error" ? "on error" : "";
    graph.regions.push({ parent, block, isCycle: false, max: 0, caption });
    for (const step of list.steps) {
      graph.nodes.push({
        id: names.get(step)!,
        kind: step.verb || "step",
        name: typeof step.fields["name"] === "string" ? step.fields["name"] : "",
        detail: stepDetail(step),
        modifiers: stepModifiers(step.fields),
        block,
        region: number,
        state: null,
        path: "",
        passages: 0,
        attempts: 0,
        startedAt: null,
        completedAt: null,
      });
      for (const inner of step.lists) region(inner, number);
    }
    graph.edges.push(...edgesOf(list, tree, names));
  };
  region(tree.root, -1);
  return graph;
}

function edgesOf(list: StepList, tree: StepTree, names: ReadonlyMap<Step, string>): ShownGraph["edges"] {
  const edge = (source: Step, target: Step, label = "", isBack = false) => ({ source: names.get(source)!, target: names.get(target)!, label, isBack, isTaken: false });
  if (list.order === "free") return [];
  if (list.order === "listed") return list.steps.slice(1).map((step, index) => edge(list.steps[index]!, step));
  const sibling = (id: string): Step | undefined => {
    let found = tree.byId.get(id);
    while (found !== undefined && found.list !== list) found = found.list.owner ?? undefined;
    return found;
  };
  if (list.order === "refs") {
    return list.steps.flatMap((step) => {
      const sources = new Set<Step>();
      for (const id of idsReadDeep(step)) {
        const source = sibling(id);
        if (source !== undefined && source !== step) sources.add(source);
      }
      return [...sources].map((source) => edge(source, step, "", source.index > step.index));
    });
  }
  return list.steps.flatMap((step) => [
    ...targetsOf(step.fields["next"]).flatMap(([id, label]) => {
      const target = sibling(id);
      return target === undefined ? [] : [edge(step, target, label, target.index <= step.index)];
    }),
    ...needsOf(step.fields["needs"]).flatMap((id) => {
      const source = sibling(id);
      return source === undefined ? [] : [edge(source, step, "", source.index > step.index)];
    }),
  ]);
}

function idsReadDeep(step: Step): Set<string> {
  const found = idsReadBy(step.fields);
  for (const list of step.lists) for (const inner of list.steps) for (const id of idsReadDeep(inner)) found.add(id);
  return found;
}

function needsOf(value: Plain | undefined): string[] {
  return typeof value === "string" ? [value] : Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

function targetsOf(next: Plain | undefined, label = ""): [string, string][] {
  if (typeof next === "string") return [[next, label]];
  if (Array.isArray(next)) return next.flatMap((one) => targetsOf(one, label));
  if (!isMap(next)) return [];
  if ("choose" in next) return [...targetsOf(next["choose"], "chosen"), ...targetsOf(next["default"], "otherwise")];
  if ("to" in next) return targetsOf(next["to"], "when" in next ? conditionText(next["when"]!) : label);
  return Object.entries(next).flatMap(([port, way]) => targetsOf(way, port));
}

export function stepDetail({ verb, fields }: Step): string {
  const value = fields[verb];
  let said = "";
  if (verb === "if" || verb === "test") said = conditionText(value ?? null);
  else if (verb === "set" && isMap(value)) said = Object.keys(value).join(", ");
  else if (WORDLESS.has(verb)) said = "";
  else if (isMap(value)) said = String(TELLING.map((name) => value[name]).find((one) => typeof one === "string") ?? "");
  else if (value !== null && value !== undefined && !Array.isArray(value)) said = valueText(value);
  return oneLine(`${verb} ${said}`.trim(), 40);
}

function stepModifiers(fields: PlainMap): string[] {
  const found: string[] = [];
  if ("when" in fields) found.push(`when ${conditionText(fields["when"]!)}`);
  const each = fields["each"];
  if (isMap(each)) found.push(`each ${valueText(each["in"])}`);
  const repeat = fields["repeat"];
  if (isMap(repeat)) found.push("until" in repeat ? `until ${conditionText(repeat["until"]!)}` : `while ${conditionText(repeat["while"] ?? null)}`);
  if ("join" in fields && fields["join"] !== "all") found.push(`join ${valueText(fields["join"])}`);
  return found.map((one) => oneLine(one, 40));
}

export function conditionText(condition: Plain): string {
  const found = conditionForm(condition);
  switch (found.form) {
    case "row": {
      const operator = OPERATORS.find((one) => one.name === found.operator);
      if (operator === undefined || operator.takes === "nothing") return found.ref;
      return operator.takes === "flag" ? `${found.ref} ${found.value === false ? "not " : ""}${operator.title}` : `${found.ref} ${operator.title} ${valueText(found.value)}`;
    }
    case "group":
      return found.parts.slice(0, 4).map(conditionText).join(found.of === "all" ? " and " : " or ");
    case "not":
      return `not ${conditionText(found.part)}`;
    case "expr":
      return found.text;
    case "python":
      return "Python condition";
    case "constant":
      return String(found.holds);
    case "other":
      return isMap(condition) && typeof condition["ref"] === "string" ? condition["ref"] : "…";
  }
}

function oneLine(text: string, most: number): string {
  const line = text.split(/\s+/).join(" ").trim();
  return line.length <= most ? line : `${line.slice(0, most - 1).trimEnd()}…`;
}
