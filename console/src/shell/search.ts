// The view of a page in its URL: reads search parameters as text, and changes some of them.
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { Search } from "./routes";

/** The search parameters as text; of several with one name, the first. `list` gives all of a name. */
export interface View {
  text: (name: string) => string;
  list: (name: string) => string[];
  /** Changes some; `undefined` or "" removes one. With `replace`, Back does not return to the view before. */
  change: (changes: Search, replace?: boolean) => void;
}

/** The view that the URL of this page has. */
export function useView(): View {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const list = (name: string) => {
    const value = search[name];
    return value === undefined ? [] : Array.isArray(value) ? value.map(String) : [String(value)];
  };
  return {
    list,
    text: (name) => list(name)[0] ?? "",
    change: (changes, replace = false) => void navigate({ to: ".", search: ((before: Search) => ({ ...before, ...changes })) as never, replace, resetScroll: false }),
  };
}
