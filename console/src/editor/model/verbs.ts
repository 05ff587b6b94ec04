// The verbs of steps as the palette shows them, with what a new step of each begins with.
import type { Plain, PlainMap } from "../document/plain-values";

export type VerbGroup = "Work" | "People, time and events" | "Control";

export interface Verb {
  name: string;
  title: string;
  group: VerbGroup;
  says: string;
  /** The fields of a new step besides its id. */
  fields: PlainMap;
}

function verb(name: string, title: string, group: VerbGroup, says: string, value: Plain, more: PlainMap = {}): Verb {
  return { name, title, group, says, fields: { [name]: value, ...more } };
}

const PYTHON = "def main(input):\n    return input\n";
const TYPESCRIPT = "export default function (input: unknown) {\n  return input\n}\n";

export const VERBS: readonly Verb[] = [
  verb("tool", "Tool", "Work", "a tool, or a registered step", ""),
  verb("call", "Function or workflow", "Work", "a function, or another workflow", ""),
  verb("http", "HTTP request", "Work", "a request", { url: "" }),
  verb("openapi", "Operation of an API", "Work", "an operation of an API that an OpenAPI document describes", { url: "", operation: "" }),
  verb("bash", "Shell command", "Work", "a shell command", ""),
  verb("python", "Python", "Work", "a function in Python, in a sandbox", PYTHON),
  verb("ts", "TypeScript", "Work", "a function in TypeScript, in a sandbox", TYPESCRIPT),
  verb("sql", "SQL", "Work", "statements on a database of the deployment", { connection: "", query: "" }),
  verb("file", "File", "Work", "a file of the directory that the deployment allows", { read: "" }),
  verb("llm", "Ask a model", "Work", "one request to a model", { prompt: "" }),
  verb("agent", "Agent", "Work", "an agent that decides which tools to use", { prompt: "" }),
  verb("agent_message", "Message to the agent", "Work", "a message to the agent of this execution", { content: "" }),
  verb("pipeline", "Pipeline", "Work", "operations on tables, one after the other", []),
  verb("task", "Work in a queue", "Work", "work of any type, performed by a worker", { type: "" }),
  verb("approve", "Approval", "People, time and events", "people decide", { title: "" }),
  verb("listen", "Wait for a message", "People, time and events", "waits for messages", ""),
  verb("sleep", "Wait", "People, time and events", "waits for a time", "1h"),
  verb("emit", "Send a message", "People, time and events", "sends a message, or adds to this execution's stream", { name: "" }),
  verb("if", "If, then, else", "Control", "steps if a condition holds, and others if it does not", { ref: "@input" }, { then: [], else: [] }),
  verb("parallel", "In parallel", "Control", "steps that begin at once", []),
  verb("race", "Race", "Control", "steps of which the first to succeed wins", []),
  verb("do", "Block", "Control", "steps as one", []),
  verb("test", "Test", "Control", "true or false", { ref: "@input" }),
  verb("loop", "Loop", "Control", "takes a list batch by batch; the head of a cycle", { items: "@input" }),
  verb("set", "Set variables", "Control", "variables, from then on", {}),
  verb("return", "Return", "Control", "ends the execution with a result", null),
  verb("fail", "Fail", "Control", "ends what holds it as failed", ""),
];

const BY_NAME = new Map(VERBS.map((one) => [one.name, one]));

export function verbNamed(name: string): Verb | undefined {
  return BY_NAME.get(name);
}

export function isVerb(name: string): boolean {
  return BY_NAME.has(name);
}

/** The verb of a step, by its fields; empty if it has none. */
export function verbOf(step: PlainMap): string {
  return Object.keys(step).find(isVerb) ?? "";
}

/** A verb for a kind that a package adds: its steps are tasks of that type. */
export function verbOfKind(kind: { name: string; title: string; summary: string }): Verb {
  return { name: kind.name, title: kind.title, group: "Work", says: kind.summary, fields: { task: { type: kind.name, config: {} } } };
}
