// Texts of the server as sentences.

/** A text with a capital letter at its begin and a full stop at its end. A first word that is a name, such as `order@2`, stays as it is. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  const begun = /^\p{L}+([ ,?!]|: |$)/u.test(trimmed) ? trimmed.charAt(0).toUpperCase() + trimmed.slice(1) : trimmed;
  return begun + (/[.!?…]( \([^()]*\)|["”)])?$/.test(begun) || begun === "" ? "" : ".");
}

/** The begin of a text that is longer than `max` characters, with "…" behind it. */
export function clipped(text: string, max: number): string {
  const characters = [...text];
  return characters.length > max ? `${characters.slice(0, max).join("").trimEnd()}…` : text;
}
