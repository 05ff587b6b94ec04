// A value that the browser keeps for the viewer, the same in all tabs.
import { useSyncExternalStore } from "react";

export interface KeptValue<T> {
  get: () => T;
  set: (value: T) => void;
  /** Calls `listener` after each change, of another tab too; returns what ends it. */
  subscribe: (listener: () => void) => () => void;
}

/** A value under a name of the browser's storage. `read` makes it of what is kept there, which other programs may have written; `undefined`: nothing is. */
export function keptValue<T>(name: string, read: (kept: unknown) => T): KeptValue<T> {
  const listeners = new Set<() => void>();
  const load = () => read(parsed(localStorage.getItem(name)));
  let value = load();
  const changed = () => {
    for (const listener of listeners) listener();
  };
  window.addEventListener("storage", (event) => {
    if (event.key !== name) return;
    value = load();
    changed();
  });
  return {
    get: () => value,
    set: (next) => {
      value = next;
      localStorage.setItem(name, JSON.stringify(next));
      changed();
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The value, for components. */
export function useKeptValue<T>(kept: KeptValue<T>): T {
  return useSyncExternalStore(kept.subscribe, kept.get);
}

function parsed(text: string | null): unknown {
  try {
    return text === null ? undefined : JSON.parse(text);
  } catch {
    return undefined; // it is no JSON: another program has written it
  }
}
