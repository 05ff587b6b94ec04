// The JSON Schema of definitions, as the server gives it: which fields a step may have, and what stands in each.
import { isMap, type Plain } from "../document/plain-values";
import { isVerb } from "./verbs";

export interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  enum?: unknown[];
  default?: unknown;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  additionalProperties?: JsonSchema | boolean;
  anyOf?: JsonSchema[];
  allOf?: JsonSchema[];
  minimum?: number;
  $defs?: Record<string, JsonSchema>;
  if?: JsonSchema;
  then?: JsonSchema;
}

export interface OfferedField {
  name: string;
  says: string;
  isVerb: boolean;
  schema: JsonSchema;
}

/** A schema with its reference followed; `kind` is the name of what was referred to. */
export function resolved(root: JsonSchema, schema: JsonSchema): { schema: JsonSchema; kind: string } {
  const kind = /^#\/\$defs\/(\w+)$/.exec(schema.$ref ?? "")?.[1] ?? "";
  if (kind === "") return { schema, kind };
  const { $ref: _, ...own } = schema;
  return { schema: { ...root.$defs?.[kind], ...own }, kind };
}

/** The ways in which a value may be written: nested alternatives as one list. */
export function alternatives(root: JsonSchema, schema: JsonSchema): { schema: JsonSchema; kind: string }[] {
  const { schema: found, kind } = resolved(root, schema);
  if (kind !== "" || found.anyOf === undefined) return [{ schema: found, kind }];
  return found.anyOf.flatMap((one) => alternatives(root, one));
}

/** The modifiers that a step may have beside its verb. */
export function fieldsBesideVerb(root: JsonSchema, verb: string, isPorts: boolean): OfferedField[] {
  const step = root.$defs?.["step"];
  if (step?.properties === undefined) return [];
  const refused = new Set<string>();
  for (const rule of step.allOf ?? []) {
    const field = rule.if?.required?.[0];
    const verbs = rule.then?.anyOf?.flatMap((one) => one.required ?? []);
    if (field !== undefined && verbs !== undefined && verb !== "" && !verbs.includes(verb)) refused.add(field);
  }
  const beside: Record<string, string> = { then: "if", else: "if", wait: "call", on_rejected: "approve" };
  return Object.entries(step.properties)
    .filter(([name]) => !isVerb(name) && name !== "id" && name !== "ui" && !refused.has(name) && (beside[name] === undefined || beside[name] === verb) && (name !== "next" || isPorts))
    .map(([name, schema]) => ({ name, says: schema.description ?? "", isVerb: false, schema }));
}

/** The fields that may stand at a place in a document. */
export function fieldsOf(root: JsonSchema, place: { inStep: boolean; keys: string[] }): OfferedField[] {
  let schema: JsonSchema | undefined = place.inStep ? root.$defs?.["step"] : root;
  for (const key of place.keys) {
    if (schema === undefined) return [];
    const ways: JsonSchema[] = alternatives(root, schema).map((one) => one.schema);
    schema = ways.map((one) => one.properties?.[key] ?? one.items?.properties?.[key]).find((one) => one !== undefined);
  }
  if (schema === undefined) return [];
  return alternatives(root, schema).flatMap(({ schema: one }) =>
    Object.entries({ ...one.items?.properties, ...one.properties }).map(([name, inner]) => ({ name, says: inner.description ?? "", isVerb: place.inStep && place.keys.length === 0 && isVerb(name), schema: inner })),
  );
}

/** The alternative that a value is an example of; -1 if it is of none. */
export function alternativeOf(ways: readonly { schema: JsonSchema; kind: string }[], value: Plain | undefined): number {
  return ways.findIndex(({ schema, kind }) => {
    if (kind === "duration" || kind === "wait") return typeof value === "string" || typeof value === "number" || isMap(value);
    if (kind === "condition") return typeof value === "boolean" || isMap(value) || (typeof value === "string" && /^[@$]/.test(value));
    if (schema.enum !== undefined) return schema.enum.includes(value);
    switch (schema.type) {
      case "string":
        return typeof value === "string";
      case "boolean":
        return typeof value === "boolean";
      case "integer":
      case "number":
        return typeof value === "number" || typeof value === "bigint";
      case "array":
        return Array.isArray(value) && (schema.items === undefined || value.length === 0 || alternativeOf([{ schema: schema.items, kind: "" }], value[0]) >= 0);
      case "object":
        return isMap(value) && (schema.properties === undefined || Object.keys(value).every((key) => key in schema.properties! || schema.additionalProperties !== false));
      default:
        return true;
    }
  });
}
