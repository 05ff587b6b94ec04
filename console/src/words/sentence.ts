// Texts of the server as sentences.

/** A text with a capital letter at its begin and a full stop at its end. A first word that is a name, such as `order@2`, stays as it is. */
export function sentence(text: string): string {
  const begun = /^\p{L}+([ ,:?!]|$)/u.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return begun + (/[.!?…]["”)]?$/.test(begun) || begun === "" ? "" : ".");
}
