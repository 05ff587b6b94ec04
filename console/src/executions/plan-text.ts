// Says in sentences what a command would do to an execution, from the plan that the server has made of it.
import type { Schemas } from "@/api/client";
import { countText } from "@/words/times";

export type ChangePlan = Schemas["ChangePlan"];
export type PlannedVerb = ChangePlan["verb"];

/** A list of a plan: what happens to the operations in it. */
export interface PlanList {
  title: string;
  paths: string[];
}

/** The consequences in one sentence: "It reuses 4 results, runs 3 steps again, and undoes nothing." */
export function planSentence(plan: ChangePlan): string {
  if (plan.refused?.length) return "An engine would refuse it.";
  if (plan.hasEffect === false) return `It would have no effect now: the execution is ${plan.status.replaceAll("_", " ")}.`;
  const clauses = clausesOf(plan);
  return `It ${joined(clauses)}.`;
}

function clausesOf(plan: ChangePlan): string[] {
  const { reused = [], repeated = [], given = [], undone = [], stopped = [], continued = [], children = [], changes = [] } = plan;
  const clauses: string[] = [];
  if (plan.verb === "rerun" || plan.verb === "fork") clauses.push("starts a new execution");
  if (plan.verb === "pause") clauses.push("begins nothing more until it is resumed");
  if (plan.verb === "resume") clauses.push("goes on");
  if (reused.length) clauses.push(`reuses ${counted(reused.length, "result")}`);
  else if (plan.verb === "fork" || plan.verb === "rerun") clauses.push("reuses no results");
  if (given.length) clauses.push(`takes your value as the result of ${given.length === 1 ? given[0] : counted(given.length, "step")}`);
  if (repeated.length) clauses.push(`runs ${counted(repeated.length, "step")} again`);
  if (continued.length) clauses.push(plan.verb === "pause" ? `lets ${counted(continued.length, "step")} in flight end` : `continues ${counted(continued.length, "open step")}`);
  if (stopped.length) clauses.push(`stops ${counted(stopped.length, "open step")}`);
  if (changes.length) clauses.push(`makes ${counted(changes.length, "change")} to the definition`);
  for (const effect of new Set(children.map((one) => one.effect))) clauses.push(childClause(effect, children.filter((one) => one.effect === effect).length));
  if (plan.verb === "terminate") clauses.push("ends the execution at once");
  if (undone.length) clauses.push(`undoes ${counted(undone.length, "step")}`);
  else if (plan.verb !== "resume" && plan.verb !== "pause" && plan.verb !== "preset") clauses.push("undoes nothing");
  return clauses;
}

function childClause(effect: string, count: number): string {
  const children = count === 1 ? "1 child" : `${countText(count)} children`;
  if (effect === "left to itself") return `leaves ${children} to ${count === 1 ? "itself" : "themselves"}`;
  if (effect === "undone") return `has ${children} undone`;
  if (effect === "started") return `starts ${children}`;
  return `has ${children} ${effect}`;
}

function counted(count: number, noun: string): string {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function joined(clauses: string[]): string {
  if (clauses.length === 0) return "changes nothing else";
  if (clauses.length < 3) return clauses.join(" and ");
  return `${clauses.slice(0, -1).join(", ")}, and ${clauses.at(-1)}`;
}

/** The operations that a plan concerns, by what happens to them; without lists that are empty. */
export function planLists(plan: ChangePlan): PlanList[] {
  const lists: PlanList[] = [
    { title: "Results that are reused", paths: plan.reused ?? [] },
    { title: "Given by you", paths: plan.given ?? [] },
    { title: "Run again", paths: plan.repeated ?? [] },
    { title: "Go on", paths: plan.continued ?? [] },
    { title: "Stopped", paths: plan.stopped ?? [] },
    { title: "Undone, in this order", paths: plan.undone ?? [] },
    { title: "Children", paths: (plan.children ?? []).map((one) => `${one.workflow}/${one.id}: ${one.effect}`) },
    { title: "Changes", paths: plan.changes ?? [] },
    { title: "Why it would be refused", paths: plan.refused ?? [] },
  ];
  return lists.filter((one) => one.paths.length > 0);
}
