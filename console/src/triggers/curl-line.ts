// The command by which a request to a webhook can be sent from a shell.

/** Quotes a text for a POSIX shell. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A line with curl. Without a body, the request has none. */
export function curlLine(url: string, method: string, headers: Record<string, string>, body: string): string {
  const parts = ["curl", "-i", ...(method === "POST" && body ? [] : ["-X", method])];
  for (const [name, value] of Object.entries(headers)) parts.push("-H", shellQuoted(`${name}: ${value}`));
  if (body) parts.push("--data-binary", shellQuoted(body));
  return [...parts, shellQuoted(url)].join(" ");
}
