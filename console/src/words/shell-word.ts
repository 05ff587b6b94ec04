// Quotes a text as one word of a shell.

/** Returns `text` as one word of a POSIX shell: as it is, or in single quotes. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
