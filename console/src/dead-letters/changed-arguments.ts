// The arguments that a person has changed in an input: by their names, or by their places, counted from 1.
import { writeExact } from "@/api/exact-json";

/** Returns the arguments of `after` that are not those of `before`. Throws an error that says what is wrong if they can't be edits. */
export function changedArguments(before: unknown, after: unknown): Record<string, unknown> {
  if (typeof after !== "object" || after === null) throw new Error("The input is an object of arguments by name, or a list of them by position.");
  if (Array.isArray(after) !== Array.isArray(before)) throw new Error(`The arguments were given ${Array.isArray(before) ? "by position: keep the list" : "by name: keep the object"}.`);
  const known = entries(before);
  const wanted = entries(after);
  const removed = [...known.keys()].filter((name) => !wanted.has(name));
  if (removed.length) throw new Error(`An argument can be changed and not removed: ${removed.join(", ")}.`);
  return Object.fromEntries([...wanted].filter(([name, value]) => writeExact(value) !== writeExact(known.get(name))));
}

function entries(input: unknown): Map<string, unknown> {
  if (Array.isArray(input)) return new Map(input.map((one, index) => [String(index + 1), one]));
  return new Map(Object.entries((input ?? {}) as object));
}
