// The command by which a request to a webhook can be sent from a shell.
import { shellWord } from "@/words/shell-word";

/** A line with curl. Without a body, the request has none. */
export function curlLine(url: string, method: string, headers: Record<string, string>, body: string): string {
  const parts = ["curl", "-i", ...(method === "POST" && body ? [] : ["-X", method])];
  for (const [name, value] of Object.entries(headers)) parts.push("-H", shellWord(`${name}: ${value}`));
  if (body) parts.push("--data-binary", shellWord(body));
  return [...parts, shellWord(url)].join(" ");
}
