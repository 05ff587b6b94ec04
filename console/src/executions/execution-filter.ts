// The filter of a list of executions: as search parameters of the page, as text that people type, and as parameters of the API.
import type { Search } from "@/shell/routes";
import type { View } from "@/shell/search";

export interface ExecutionFilter {
  status: string[];
  workflow: string;
  since: string;
  failedSince: string;
  id: string;
  error: string;
  fingerprint: string;
  /** Conditions on attributes, as `perdure ls --where` takes them; all have to hold. */
  q: string[];
  text: string;
  order: string;
}

export type FilterName = keyof ExecutionFilter;

/** The fields that are typed as `name=value`, with what each means. All other words are conditions on attributes. */
export const FIELDS: Record<Exclude<FilterName, "q" | "order">, string> = {
  status: "a status: failed, running, …",
  workflow: "the name of the workflow",
  since: "started since: 24h, 7d, 2026-11-01",
  failedSince: "failed since: 24h, 7d",
  id: "the beginning of the id",
  error: "the type of the error: ValueError",
  fingerprint: "the fingerprint of the failure",
  text: "text in the id, the error or the attributes",
};

/** Reads the filter that a URL has. */
export function filterOf(view: Pick<View, "text" | "list">): ExecutionFilter {
  const one = (name: string) => view.text(name);
  return { status: view.list("status"), workflow: one("workflow"), since: one("since"), failedSince: one("failedSince"), id: one("id"), error: one("error"), fingerprint: one("fingerprint"), q: view.list("q"), text: one("text"), order: one("order") };
}

/** The search parameters of a filter. */
export function searchOf(filter: ExecutionFilter): Search {
  return Object.fromEntries(Object.entries(filter).map(([name, value]) => [name, value.length ? value : undefined]));
}

/** The parameters by which the API selects the same executions. `order` is the name of an attribute, with "-" before it for the greatest first. */
export function apiFilter(filter: ExecutionFilter) {
  return {
    workflow: filter.workflow || undefined,
    status: filter.status.length ? filter.status : undefined,
    idPrefix: filter.id || undefined,
    since: filter.since || undefined,
    failedSince: filter.failedSince || undefined,
    errorType: filter.error || undefined,
    fingerprint: filter.fingerprint || undefined,
    where: (filter.q.length ? filter.q : undefined) as string | undefined, // several are sent one by one
    orderBy: filter.order.replace(/^-/, "") || undefined,
    descending: filter.order ? filter.order.startsWith("-") : undefined,
  };
}

/** Reads what people type: `status=failed workflow=order cents>500 text="card declined"`. Words without a name are conditions on attributes. */
export function parseFilter(typed: string, order = ""): ExecutionFilter {
  const found: ExecutionFilter = { status: [], workflow: "", since: "", failedSince: "", id: "", error: "", fingerprint: "", q: [], text: "", order };
  const conditions = found.q;
  let isAlternative = false;
  for (const word of words(typed)) {
    const [, name, value] = /^(\w+)[=:](.*)$/s.exec(word) ?? [];
    if (name === "status") found.status.push(...unquoted(value ?? "").split(",").filter(Boolean));
    else if (name !== undefined && name in FIELDS) found[name as "workflow"] = unquoted(value ?? "");
    else if (word.startsWith('"')) found.text = unquoted(word);
    else if (word === "||" && conditions.length) isAlternative = true;
    else if (isAlternative) {
      conditions.push(`${conditions.pop()} || ${word}`);
      isAlternative = false;
    } else conditions.push(word);
  }
  return found;
}

/** The conditions that are the name of an attribute alone, as somebody types who looks for a text. */
export function bareWords(filter: ExecutionFilter): string[] {
  return filter.q.filter((one) => /^[^\s=<>!|"]+$/.test(one));
}

/** Writes a filter as it can be typed. */
export function filterText(filter: ExecutionFilter): string {
  const named = (Object.keys(FIELDS) as (keyof typeof FIELDS)[]).flatMap((name) => {
    const value = filter[name];
    return (Array.isArray(value) ? value : [value]).filter(Boolean).map((one) => `${name}=${quoted(one)}`);
  });
  return [...named, ...filter.q].join(" ");
}

function words(text: string): string[] {
  return text.match(/(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+/g) ?? [];
}

function quoted(value: string): string {
  return /[\s",]/.test(value) ? JSON.stringify(value) : value;
}

function unquoted(value: string): string {
  if (!value.startsWith('"')) return value;
  try {
    return String(JSON.parse(value.endsWith('"') && value.length > 1 ? value : `${value}"`));
  } catch {
    return value.replace(/^"|"$/g, "");
  }
}
