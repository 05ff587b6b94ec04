// Completion in the text of a definition: fields of the place, verbs, and references after an @.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { OfferedReference } from "../model/references";
import { fieldsOf, type JsonSchema } from "../model/definition-schema";

export interface CompletionSource {
  /** The references that may stand at a position, in a field of the step that is there. */
  references: (position: number, field: string) => Promise<OfferedReference[]>;
  schema: () => JsonSchema | null;
}

/** The indentation of the line, and the keys of the lines above it that hold it, outermost first. */
function keysAround(context: CompletionContext): string[] {
  const line = context.state.doc.lineAt(context.pos);
  let column = /^[\s-]*/.exec(line.text)?.[0].length ?? 0;
  const keys: string[] = [];
  for (let number = line.number - 1; number > 0 && column > 0; number -= 1) {
    const text = context.state.doc.line(number).text;
    const found = /^(\s*(?:- +)*)([\w-]+):(.*)$/.exec(text);
    if (text.trim() === "" || text.trim().startsWith("#") || found === null) continue;
    const own = found[1]!.length;
    if (own >= column) continue;
    keys.unshift(found[2]!);
    column = own;
  }
  return keys;
}

const STEP_LISTS = new Set(["steps", "then", "else", "do", "parallel", "race", "on_error"]);

export function completeDefinition(source: CompletionSource) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const reference = context.matchBefore(/@\{?[\w.[\]-]*/);
    if (reference !== null) {
      const brace = reference.text.startsWith("@{") ? 2 : 1;
      const found = await source.references(context.pos, placeOf(keysAround(context)).keys[0] ?? "with");
      const options: Completion[] = found.map(({ text, says }) => ({ label: text.slice(1), detail: says, type: "variable" }));
      return options.length === 0 ? null : { from: reference.from + brace, options, validFor: /^[\w.[\]-]*$/ };
    }
    const word = context.matchBefore(/^[\s-]*[\w-]*/) ?? context.matchBefore(/[{,]\s*[\w-]*/);
    if (word === null || (!context.explicit && /^[\s-]*$/.test(word.text))) return null;
    const from = word.from + (/[\w-]*$/.exec(word.text.replace(/^[\s-]*(?=\w|$)/, (margin) => " ".repeat(margin.length)))?.index ?? 0);
    const schema = source.schema();
    if (schema === null) return null;
    const keys = keysAround(context);
    const options: Completion[] = fieldsOf(schema, placeOf(keys)).map(({ name, says, isVerb }) => ({ label: name, apply: `${name}: `, detail: says, type: isVerb ? "keyword" : "property", boost: isVerb ? 1 : 0 }));
    return options.length === 0 ? null : { from, options, validFor: /^[\w-]*$/ };
  };
}

/** The keys behind the innermost list of steps; null: in the document itself. */
function placeOf(keys: readonly string[]): { inStep: boolean; keys: string[] } {
  let last = -1;
  keys.forEach((key, index) => {
    if (STEP_LISTS.has(key)) last = index;
  });
  return { inStep: last >= 0, keys: keys.slice(last + 1).filter((key) => !(last >= 0 && key === "id")) };
}
