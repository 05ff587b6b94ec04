// Views of the list that a person has saved in this browser: a name, and the search parameters of the page.
import { keptValue, useKeptValue } from "@/shell/kept-value";

export interface SavedView {
  name: string;
  search: string;
}

const views = keptValue<SavedView[]>("perdure.views", (kept) => (Array.isArray(kept) ? kept.filter((one): one is SavedView => typeof one?.name === "string" && typeof one?.search === "string") : []));

/** Replaces the saved views. */
export function saveViews(next: SavedView[]): void {
  views.set(next);
}

/** The saved views. */
export function useSavedViews(): SavedView[] {
  return useKeptValue(views);
}
