// The commands that a person can give an execution: what each asks for, when it can be given, and how it is sent.
import { api } from "@/api/client";
import { writeExact } from "@/api/exact-json";
import type { JsonSchema } from "@/parts/schema-form";
import type { Role } from "@/shell/identity";
import { isEnded } from "@/words/states";
import { type ExecutionKey, type ExecutionRecord, type StepTrace, isReceiving, isStill, nameOf } from "./execution-reads";
import type { ChangePlan, PlannedVerb } from "./plan-text";

export type Verb = PlannedVerb;
export type Fields = Record<string, unknown>;

/** What a command is about: the execution, its steps, and what was chosen before its dialog opened. */
export interface CommandContext {
  record: ExecutionRecord;
  steps: StepTrace[];
  versions: number[];
}

export interface Command {
  verb: Verb;
  title: string;
  /** What the button says that gives the command; its title if nothing is given. */
  confirm?: string;
  /** One sentence: what it is for. */
  says: string;
  role: Role;
  danger?: boolean;
  /** Why it can't be given to this execution now; empty if it can. */
  refusal: (record: ExecutionRecord) => string;
  fields: (context: CommandContext) => JsonSchema;
  /** What has happened when the server has answered. */
  done: (record: ExecutionRecord) => string;
}

const REASON: JsonSchema = { type: "string", title: "Reason", description: "It is kept in the log." };
const STEP_CHOICES_MAX = 400;

const ended = (record: ExecutionRecord) => (isEnded(record.status) ? `It has ended (${record.status}); nothing is left to stop` : "");
const needsEnd = (record: ExecutionRecord) => (isEnded(record.status) ? "" : "It has not ended; cancel it to have its steps undone");
const notBegun = (record: ExecutionRecord) => (record.version === 0 ? "It has not begun" : "");

export const COMMANDS: Command[] = [
  {
    verb: "retry",
    title: "Retry",
    says: "Continues the same execution from what failed, or from the step that you choose.",
    role: "operator",
    refusal: (record) => notBegun(record) || (record.status === "failed" || record.status === "needs_attention" ? "" : isEnded(record.status) ? `It is ${record.status}, not failed; fork or rerun it` : "It has not failed"),
    fields: ({ steps }) => ({ properties: { fromStep: stepField("From step", "Its result, and those after it, are made again. Without one, what failed runs again.", settled(steps)), reason: REASON }, type: "object" }),
    done: (record) => `${nameOf(record)} is retried.`,
  },
  {
    verb: "resume",
    title: "Resume",
    says: "Continues an execution that is paused or needs attention.",
    role: "operator",
    refusal: (record) => (record.status === "paused" || record.status === "needs_attention" ? "" : "It is not paused"),
    fields: () => ({ properties: { reason: REASON }, type: "object" }),
    done: (record) => `${nameOf(record)} goes on.`,
  },
  {
    verb: "pause",
    title: "Pause",
    says: "The execution begins nothing more until it is resumed. What is in flight ends.",
    role: "operator",
    refusal: (record) => ended(record) || (record.status === "paused" ? "It is paused already" : ""),
    fields: () => ({ properties: { reason: REASON }, type: "object" }),
    done: (record) => `${nameOf(record)} is paused.`,
  },
  {
    verb: "fork",
    title: "Fork …",
    says: "Starts a new execution with results of this one. This one stays as it is.",
    role: "operator",
    refusal: notBegun,
    fields: ({ record, steps, versions }) => ({
      properties: {
        fromStep: stepField("From step", "Results from before this step are reused. Without one, all are.", settled(steps)),
        input: { title: "Input", description: "JSON; the arguments of the new execution.", default: record.variables ?? undefined },
        version: versionField(versions),
        newId: { type: "string", title: "New id", description: "Without one, the server chooses a random id." },
      },
      type: "object",
    }),
    done: (record) => `${nameOf(record)} is forked.`,
  },
  {
    verb: "rerun",
    title: "Rerun …",
    says: "Starts a new execution with the same input and none of the results.",
    role: "operator",
    refusal: () => "",
    fields: ({ versions }) => ({ properties: { version: versionField(versions), newId: { type: "string", title: "New id", description: "Without one, the server chooses a random id." } }, type: "object" }),
    done: (record) => `${nameOf(record)} is run again.`,
  },
  {
    verb: "preset",
    title: "Preset …",
    says: "Gives a step its result, so that it is not performed. The step is open, still to come, or failed with the execution.",
    role: "operator",
    refusal: (record) => notBegun(record) || (isEnded(record.status) && record.status !== "failed" ? `It is ${record.status}; no step takes a result any more` : ""),
    fields: ({ steps }) => ({
      properties: {
        step: { type: "string", title: "Step", description: `The path of the step.${suggested(steps)}` },
        value: { title: "Result", description: "JSON; a text stands in \"quotes\"." },
      },
      required: ["step", "value"],
      type: "object",
    }),
    done: (record) => `The result is given to ${nameOf(record)}.`,
  },
  {
    verb: "patch",
    title: "Patch …",
    says: "Changes the definition by which this execution goes on. Other executions keep theirs.",
    role: "author",
    refusal: (record) => ended(record) || notBegun(record) || (record.definition ? "" : "It runs code; only definitions can be patched"),
    fields: () => ({
      properties: {
        change: { title: "Change", description: "JSON: a JSON Patch of the definition, or {\"operations\": [{\"op\": \"add_node\", …}], \"description\": \"…\"}." },
        reason: REASON,
      },
      required: ["change"],
      type: "object",
    }),
    done: (record) => `The patch of ${nameOf(record)} applies.`,
  },
  {
    verb: "cancel",
    title: "Cancel",
    confirm: "Cancel the execution",
    says: "The execution unwinds: open steps stop, completed ones are undone, and it ends as cancelled.",
    role: "operator",
    danger: true,
    refusal: ended,
    fields: () => ({ properties: { undo: { type: "boolean", title: "Undo what has completed", default: true }, reason: REASON }, type: "object" }),
    done: (record) => `The server has taken the cancel of ${nameOf(record)}; it is cancelled when its state says so.`,
  },
  {
    verb: "undo",
    title: "Undo",
    says: "Undoes the completed steps of an execution that has ended, the last first.",
    role: "operator",
    danger: true,
    refusal: needsEnd,
    fields: () => ({ properties: { reason: REASON }, type: "object" }),
    done: (record) => `${nameOf(record)} is being undone.`,
  },
  {
    verb: "terminate",
    title: "Terminate",
    says: "Ends the execution as cancelled at once. Nothing is undone, and what is in flight is left to itself.",
    role: "operator",
    danger: true,
    refusal: ended,
    fields: () => ({ properties: { reason: REASON }, type: "object" }),
    done: (record) => `${nameOf(record)} is terminated.`,
  },
];

function settled(steps: StepTrace[]): string[] {
  return steps.filter((one) => one.completedAt !== null && one.kind !== "keep").map((one) => one.path);
}

function stepField(title: string, description: string, paths: string[]): JsonSchema {
  return paths.length > STEP_CHOICES_MAX ? { type: "string", title, description: `${description} Write its path.` } : { title, description, enum: paths };
}

function versionField(versions: number[]): JsonSchema {
  const description = "Without one, the version stays.";
  return versions.length > 1 ? { title: "Version of the workflow", description, enum: versions } : { type: "integer", title: "Version of the workflow", description };
}

function suggested(steps: StepTrace[]): string {
  const open = steps.filter((one) => one.kind !== "keep" && !isReceiving(one) && (one.completedAt === null || one.state === "failed")).slice(-5);
  return open.length ? ` Such as ${open.map((one) => one.path).join(", ")}.` : "";
}

/** The body of a request: fields that are empty, or as they were before, are left out. */
export function commandBody(verb: Verb, fields: Fields, record: ExecutionRecord): Fields {
  const body = Object.fromEntries(Object.entries(fields).filter(([name, value]) => value !== undefined && (value !== "" || name === "value")));
  if (verb === "fork" && writeExact(body.input ?? null) === writeExact(record.variables ?? null)) delete body.input;
  return body;
}

/** The names of messages for which an execution waits. */
export function awaitedMessages(record: ExecutionRecord): string[] {
  return [...new Set((record.awaits ?? []).flatMap((one) => one.names))];
}

/** The schema of a message that the execution waits for, as an engine that runs its code tells it; null if none does. */
export function awaitedSchema(record: ExecutionRecord, name: string): JsonSchema | null {
  for (const one of record.awaits ?? []) {
    const found = (one.schemas as Record<string, JsonSchema> | undefined)?.[name];
    if (found) return found;
  }
  return null;
}

interface Sent {
  of: ExecutionKey;
  body: Fields;
  /** The version that the sender has seen, if the command is for that alone. */
  seen: number | null;
  /** The same for each repetition of one request. */
  idempotencyKey: string;
}

// All of these have the same parameters, and each checks its body on the server.
type CommandPath = "/api/executions/{workflow}/{id}/retry";
const pathOf = (verb: string) => `/api/executions/{workflow}/{id}/${verb}` as CommandPath;

/** Has the server say what a command would do. */
export async function planCommand(verb: Verb, of: ExecutionKey, body: Fields, signal?: AbortSignal): Promise<ChangePlan> {
  const { data } = await api.POST(pathOf(verb), { params: { path: { workflow: of.workflow, id: of.id } }, body: { ...body, dryRun: true }, signal });
  return data as ChangePlan;
}

/** Gives a command; returns the answer of the server. */
export async function giveCommand(verb: Verb, { of, body, seen, idempotencyKey }: Sent): Promise<unknown> {
  const header = { "Idempotency-Key": idempotencyKey, ...(seen === null ? {} : { "If-Match": `"${seen}"` }) };
  const { data } = await api.POST(pathOf(verb), { params: { path: { workflow: of.workflow, id: of.id }, header }, body });
  return data;
}

/** Sends a message. */
export async function sendMessage(of: ExecutionKey, body: { name: string; body?: unknown; messageKey?: string }, idempotencyKey: string): Promise<void> {

  await api.POST("/api/executions/{workflow}/{id}/messages", { params: { path: { workflow: of.workflow, id: of.id }, header: { "Idempotency-Key": idempotencyKey } }, body: body as never });
}

/** The version that a command is for: of an execution that stands still, the one that was seen; others go on meanwhile. */
export function versionSeen(record: ExecutionRecord): number | null {
  return isStill(record.status) ? record.version : null;
}
