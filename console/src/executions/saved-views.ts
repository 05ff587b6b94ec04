// Views of the list that a person has saved in this browser: a name, and the search parameters of the page.
import { useSyncExternalStore } from "react";

export interface SavedView {
  name: string;
  search: string;
}

const NAME = "perdure.views";
const listeners = new Set<() => void>();
let views = load();

function load(): SavedView[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(NAME) ?? "[]");
    return Array.isArray(found) ? found.filter((one): one is SavedView => typeof one?.name === "string" && typeof one?.search === "string") : [];
  } catch {
    return []; // what is kept there is no JSON: another program has written it
  }
}

/** Replaces the saved views. */
export function saveViews(next: SavedView[]): void {
  views = next;
  localStorage.setItem(NAME, JSON.stringify(next));
  for (const listener of listeners) listener();
}

/** The saved views. */
export function useSavedViews(): SavedView[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => views,
  );
}
