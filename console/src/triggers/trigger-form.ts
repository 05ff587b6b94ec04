// The form of a trigger as text fields, and the trigger that it makes.
import { parseExact, writeExact } from "@/api/exact-json";
import { apiTime, fieldTime } from "./tick-times";
import type { Trigger } from "./trigger-words";

export interface TriggerForm {
  name: string;
  type: Trigger["type"];
  workflowId: string;
  enabled: boolean;
  /** Inputs with a JSONPath in the payload, a line each: `order = $.id`. */
  mapping: string;
  /** Fixed inputs, as JSON. */
  input: string;
  when: "cron" | "every" | "once";
  cron: string;
  timezone: string;
  every: string;
  unit: string;
  once: string;
  jitter: string;
  startsAt: string;
  endsAt: string;
  catchUp: string;
  overlap: "allow" | "skip" | "queue" | "cancel";
  queuedMax: string;
  breakAfter: string;
  target: "workflow" | "orchestrator";
  prompt: string;
  path: string;
  method: string;
  scheme: string;
  secrets: string;
  header: string;
  prefix: string;
  encoding: "hex" | "base64";
  timestampHeader: string;
  tolerance: string;
  respond: "accepted" | "result";
  respondWithin: string;
  deliveryHeader: string;
  activeMax: string;
  webhookQueuedMax: string;
  headers: string;
  on: string;
  of: string;
  where: string;
}

export const NEW_TRIGGER: TriggerForm = {
  name: "",
  type: "schedule",
  workflowId: "",
  enabled: true,
  mapping: "",
  input: "{}",
  when: "cron",
  cron: "0 9 * * 1-5",
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC",
  every: "10",
  unit: "60",
  once: "",
  jitter: "0",
  startsAt: "",
  endsAt: "",
  catchUp: "0",
  overlap: "allow",
  queuedMax: "10",
  breakAfter: "0",
  target: "workflow",
  prompt: "",
  path: "",
  method: "POST",
  scheme: "standard_webhooks",
  secrets: "",
  header: "",
  prefix: "",
  encoding: "hex",
  timestampHeader: "",
  tolerance: "300",
  respond: "accepted",
  respondWithin: "10",
  deliveryHeader: "",
  activeMax: "0",
  webhookQueuedMax: "10000",
  headers: "{}",
  on: "completed",
  of: "",
  where: "[]",
};

const UNITS = [86_400, 3_600, 60, 1];

/** The form of a trigger that is there. */
export function formOf(trigger: Trigger): TriggerForm {
  const { config } = trigger;
  const form: TriggerForm = {
    ...NEW_TRIGGER,
    name: trigger.name,
    type: trigger.type,
    workflowId: trigger.workflowId,
    enabled: trigger.enabled,
    mapping: Object.entries(trigger.variableMapping).map(([name, path]) => `${name} = ${path}`).join("\n"),
    input: writeExact(trigger.input, 2),
  };
  if (config.type === "schedule") {
    const unit = UNITS.find((one) => (config.everySeconds ?? 60) % one === 0) ?? 1;
    Object.assign(form, {
      when: config.cron ? "cron" : config.everySeconds ? "every" : "once",
      cron: config.cron ?? "",
      timezone: config.timezone || "UTC",
      every: String((config.everySeconds ?? 600) / (config.everySeconds ? unit : 60)),
      unit: String(config.everySeconds ? unit : 60),
      once: (config.once ?? []).join("\n"),
      jitter: String(config.jitterSeconds ?? 0),
      startsAt: fieldTime(config.startsAt),
      endsAt: fieldTime(config.endsAt),
      catchUp: String(config.catchUp ?? 0),
      overlap: config.overlap ?? "allow",
      queuedMax: String(config.queuedMax ?? 10),
      breakAfter: String(config.breakAfter ?? 0),
      target: config.target ?? "workflow",
      prompt: config.prompt ?? "",
    } satisfies Partial<TriggerForm>);
  } else if (config.type === "webhook") {
    Object.assign(form, {
      path: config.path ?? "",
      method: config.method || "POST",
      scheme: config.verify?.scheme ?? "none",
      secrets: (config.verify?.secrets ?? []).join(", "),
      header: config.verify?.header ?? "",
      prefix: config.verify?.prefix ?? "",
      encoding: config.verify?.encoding ?? "hex",
      timestampHeader: config.verify?.timestampHeader ?? "",
      tolerance: String(config.verify?.toleranceSeconds ?? 300),
      respond: config.respond ?? "accepted",
      respondWithin: String(config.respondWithinSeconds ?? 10),
      deliveryHeader: config.deliveryHeader ?? "",
      activeMax: String(config.activeMax ?? 0),
      webhookQueuedMax: String(config.queuedMax ?? 10_000),
      headers: writeExact(config.headers ?? {}),
    } satisfies Partial<TriggerForm>);
  } else if (config.type === "event") {
    Object.assign(form, { on: config.on.join(", "), of: config.of ?? "", where: writeExact(config.where ?? [], 2) } satisfies Partial<TriggerForm>);
  }
  return form;
}

/** The config that a form makes. What the form has no field for is taken from `before`.
 *
 * Throws an error with a sentence for a field that can't be read. */
export function configOf(form: TriggerForm, before?: Trigger["config"]): Record<string, unknown> {
  const kept = before?.type === form.type ? before : {};
  if (form.type === "manual") return { type: "manual" };
  if (form.type === "event") return { ...kept, type: "event", on: listed(form.on), of: form.of, where: readJson(form.where || "[]", "Conditions", Array.isArray) };
  if (form.type === "webhook") {
    const takesSecret = form.scheme !== "none";
    const isGeneric = form.scheme === "generic";
    const verify = {
      scheme: form.scheme,
      secrets: takesSecret ? listed(form.secrets) : [],
      header: isGeneric || form.scheme === "bearer" ? form.header : "",
      prefix: isGeneric ? form.prefix : "",
      encoding: isGeneric ? form.encoding : "hex",
      timestampHeader: isGeneric ? form.timestampHeader : "",
      toleranceSeconds: numberOf(form.tolerance, "Tolerance"),
    };
    return {
      ...kept,
      type: "webhook",
      path: form.path,
      method: form.method,
      verify,
      respond: form.respond,
      respondWithinSeconds: numberOf(form.respondWithin, "Answer within"),
      deliveryHeader: form.deliveryHeader,
      activeMax: numberOf(form.activeMax, "At a time"),
      queuedMax: numberOf(form.webhookQueuedMax, "Waiting at most"),
      headers: readJson(form.headers || "{}", "Required headers", isObject),
    };
  }
  return {
    ...kept,
    type: "schedule",
    cron: form.when === "cron" ? form.cron.trim() : "",
    timezone: form.timezone.trim() || "UTC",
    everySeconds: form.when === "every" ? numberOf(form.every, "Every") * Number(form.unit) : null,
    once: form.when === "once" ? form.once.split(/[\n,]+/).map((one) => one.trim()).filter(Boolean) : [],
    jitterSeconds: numberOf(form.jitter, "Jitter"),
    startsAt: apiTime(form.startsAt),
    endsAt: apiTime(form.endsAt),
    catchUp: numberOf(form.catchUp, "Catch-up"),
    overlap: form.overlap,
    queuedMax: numberOf(form.queuedMax, "Waiting at most"),
    breakAfter: numberOf(form.breakAfter, "Circuit breaker"),
    target: form.target,
    prompt: form.target === "orchestrator" ? form.prompt : "",
  };
}

/** All fields of the trigger that a form makes, as the API takes them. Throws as `configOf` does. */
export function fieldsOf(form: TriggerForm, before?: Trigger["config"]): Record<string, unknown> {
  return {
    name: form.name,
    config: configOf(form, before),
    workflowId: form.type === "schedule" && form.target === "orchestrator" ? "" : form.workflowId,
    variableMapping: mappingOf(form.mapping),
    input: readJson(form.input || "{}", "Fixed input", isObject),
    enabled: form.enabled,
  };
}

function mappingOf(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const [, name, path] = /^\s*([^=\s]+)\s*=\s*(.+?)\s*$/.exec(line) ?? [];
    if (!name || !path) throw new Error(`Inputs from the payload: a line is like “order = $.id”, and not “${line.trim()}”`);
    found[name] = path;
  }
  return found;
}

function listed(text: string): string[] {
  return text.split(",").map((one) => one.trim()).filter(Boolean);
}

function numberOf(text: string, name: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0) throw new Error(`${name}: “${text}” is no number from 0 on`);
  return value;
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function readJson(text: string, name: string, fits: (value: unknown) => boolean): unknown {
  let value: unknown;
  try {
    value = parseExact(text);
  } catch {
    throw new Error(`${name}: this is no JSON; texts stand in "quotes"`);
  }
  if (!fits(value)) throw new Error(`${name}: ${fits === isObject ? 'this has to be an object, like {"name": 1}' : "this has to be a list, like []"}`);
  return value;
}
