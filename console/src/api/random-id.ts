// Ids that nobody else makes, such as idempotency keys. Browsers have `randomUUID` over HTTPS only.

/** A new id. */
export function randomId(): string {
  return crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16).padStart(8, "0")).join("-");
}
