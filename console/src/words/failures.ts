// An error as the page shows it: what failed, and what to do.
import { Problem } from "@/api/problem";
import { sentence } from "./sentence";

/** Returns the sentence of an error, and what to do next, which may be empty. */
export function errorText(error: unknown): { text: string; next: string } {
  if (error instanceof Problem) return { text: sentence(error.message), next: sentence(error.next) };
  return { text: sentence(error instanceof Error ? error.message : String(error)), next: "" };
}
