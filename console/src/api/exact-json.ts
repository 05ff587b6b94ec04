// Reads and writes JSON without losing digits: whole numbers beyond 2^53 become BigInt.
import { isInteger, isSafeNumber, parse, stringify } from "lossless-json";

const LONG_NUMBER = /\d{16}/;

/** Parses JSON. The common case, in which no number has 16 digits, takes the parser of the browser. */
export function parseExact(text: string): unknown {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
  return parse(text, null, (digits) => (isInteger(digits) && !isSafeNumber(digits) ? BigInt(digits) : Number.parseFloat(digits)));
}

/** Writes a value as JSON; BigInt as the number that it is. */
export function writeExact(value: unknown, indent?: number): string {
  return stringify(value, null, indent) ?? "null";
}

/** Said of a text that is no JSON. */
export const NO_JSON = 'This is no JSON; texts stand in "quotes"';

/** What is wrong with a text that has to be JSON, or blank; empty if nothing is. */
export function jsonProblem(text: string): string {
  if (!text.trim()) return "";
  try {
    parseExact(text);
    return "";
  } catch {
    return NO_JSON;
  }
}
