// Text that is not saved yet, kept in this tab, so that a reload or the end of a session loses nothing.
import { SERVER_URL } from "@/api/base";

export interface KeptText {
  text: string;
  /** The text with which editing began. */
  base: string;
  revision: number | null;
  atMs: number;
}

const nameOf = (slug: string) => `perdure.editor ${SERVER_URL} ${slug}`;

export function keepText(slug: string, kept: KeptText): void {
  try {
    sessionStorage.setItem(nameOf(slug), JSON.stringify(kept));
  } catch {
    // The storage of the tab is full or switched off. The text is still in the editor, and leaving asks.
  }
}

export function keptText(slug: string): KeptText | null {
  try {
    const found = sessionStorage.getItem(nameOf(slug));
    return found === null ? null : (JSON.parse(found) as KeptText);
  } catch {
    return null;
  }
}

export function forgetText(slug: string): void {
  try {
    sessionStorage.removeItem(nameOf(slug));
  } catch {
    // Without a storage there is nothing to forget.
  }
}
