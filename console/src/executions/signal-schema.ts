// Finds the JSON Schema of a message in the definition of an execution: that of the result of a node that listens for it.
import type { JsonSchema } from "@/parts/schema-form";

/** The schema of the messages called `name`; null if the definition has none. */
export function signalSchema(definition: unknown, name: string): JsonSchema | null {
  if (Array.isArray(definition)) return first(definition, name);
  if (typeof definition !== "object" || definition === null) return null;
  const node = definition as Record<string, unknown>;
  if (listens(node.listen, name) && typeof node.schema === "object" && node.schema !== null) return node.schema as JsonSchema;
  return first(Object.values(node), name);
}

function first(parts: unknown[], name: string): JsonSchema | null {
  for (const part of parts) {
    const found = signalSchema(part, name);
    if (found) return found;
  }
  return null;
}

function listens(listen: unknown, name: string): boolean {
  if (Array.isArray(listen)) return listen.includes(name);
  if (typeof listen === "object" && listen !== null) return (listen as Record<string, unknown>).name === name;
  return listen === name;
}
