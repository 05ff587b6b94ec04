// The transcript of an agent, read from the steps of its execution: each turn with what was asked, what the model answered, and the tools that it called.
import { type ModelUsage, modelUsage } from "./model-usage";
import type { StepTrace } from "./execution-reads";

export interface AgentMessage {
  role: string;
  text: string;
  /** The tool whose answer it is. */
  tool: string;
}

export interface ToolUse {
  name: string;
  args: unknown;
  /** The step that has performed it; null if it was not performed. */
  step: StepTrace | null;
  /** Why it was not performed, such as arguments that do not fit. */
  refused: string;
}

export interface AgentTurn {
  number: number;
  /** The step of the model call. */
  step: StepTrace;
  /** What is new in the request. */
  asked: AgentMessage[];
  text: string;
  /** An answer that is data, without its reason. */
  data: unknown;
  /** What an agent of a definition has chosen to go on with, and why. */
  chosen: string[];
  reasoning: string;
  tools: ToolUse[];
  /** Why the answer could not be used. */
  wrong: string;
  model: string;
  usage: ModelUsage | null;
}

const MODEL_PATH = /^model(?:#(\d+))?$/;

type Fields = Record<string, unknown>;

/** The turns of an agent; none if the execution is not one. */
export function agentTurns(steps: readonly StepTrace[]): AgentTurn[] {
  const byPath = new Map(steps.map((one) => [one.path, one]));
  return steps.flatMap((step) => {
    const found = MODEL_PATH.exec(step.path);
    if (!found || step.target !== "model") return [];
    return [turnOf(Number(found[1] ?? 1), step, steps, fields(byPath.get(`checked ${Number(found[1] ?? 1)}`)?.output))];
  });
}

function turnOf(number: number, step: StepTrace, steps: readonly StepTrace[], judged: Fields): AgentTurn {
  const answer = fields(step.output);
  const verdicts = list(judged.calls).map(fields);
  const data = typeof answer.data === "object" && answer.data !== null && !Array.isArray(answer.data) ? (answer.data as Fields) : null;
  const hasChoice = data !== null && "next" in data && "reasoning" in data;
  const { next, reasoning, ...rest } = data ?? {};
  return {
    number,
    step,
    asked: list(list(step.input)[0]).map(messageOf),
    text: text(answer.text),
    data: hasChoice ? (Object.keys(rest).length ? rest : undefined) : answer.data,
    chosen: hasChoice ? list(next).map(String) : [],
    reasoning: hasChoice ? text(reasoning) : text(answer.reasoning),
    tools: list(answer.calls).map((one, index) => toolUse(fields(one), verdicts[index] ?? {}, toolStep(steps, number, index))),
    wrong: text(fields(judged.wrong).why),
    model: text(answer.model),
    usage: modelUsage(step.output),
  };
}

function toolUse(call: Fields, verdict: Fields, step: StepTrace | null): ToolUse {
  return { name: text(call.name), args: call.args, step, refused: text(verdict.why) };
}

/** The step that has performed the call at `index` of a turn. */
function toolStep(steps: readonly StepTrace[], turn: number, index: number): StepTrace | null {
  const branch = `turn ${turn}/call${index === 0 ? "" : `#${index + 1}`}/`;
  return steps.filter((one) => one.path.startsWith(branch)).at(-1) ?? null;
}

function messageOf(message: unknown): AgentMessage {
  const { role, text: said, name } = fields(message);
  return { role: text(role), text: text(said), tool: text(name) };
}

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
