// Changes of a definition in words.
import type { Schemas } from "@/api/client";

/** The beginning of the sentence of a change: "step large: test.gt changed". */
export function changeWords(change: Schemas["DefinitionChange"]): string {
  const field = (change.field ?? "").replace(/^\//, "").replaceAll("/", ".");
  const what = change.id ? `step ${change.id}` : (change.pointer ?? "").replace(/^\//, "").replaceAll("/", ".") || "the definition";
  if (change.kind === "renamed") return `${what} renamed`;
  const isThere = (value: unknown) => value !== undefined && value !== null;
  const verb = !isThere(change.before) && isThere(change.after) ? "set to" : isThere(change.before) && !isThere(change.after) ? "removed" : "changed";
  if (change.kind === "changed") return `${what}${field && field !== what ? `: ${field}` : ""} ${verb}`;
  return `${what}${field && field !== what ? `: ${field}` : ""} ${change.kind}`;
}
