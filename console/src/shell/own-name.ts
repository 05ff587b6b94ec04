// The name of a person in approvals and in what is known of people. Somebody who has signed in has a subject such as "oidc:ada@example.org", and the name behind it.
import type { Schemas } from "@/api/client";

type Identity = Pick<Schemas["CallerDetails"], "subject">;

/** The name of who uses the page. */
export function ownName({ subject }: Identity): string {
  return subject.replace(/^oidc:/, "");
}

/** Whether who uses the page is among names, by their name or by their subject. */
export function isAmong(identity: Identity, names: readonly string[]): boolean {
  return names.includes(identity.subject) || names.includes(ownName(identity));
}

/** The name in which they decide, as those have it who were asked. */
export function voterName(identity: Identity | undefined, asked: readonly string[]): string {
  if (!identity) return "";
  return asked.includes(identity.subject) ? identity.subject : ownName(identity);
}
