// Short messages of what has happened, which go away by themselves and are read aloud politely.
import { useSyncExternalStore } from "react";

export interface ToldMessage {
  number: number;
  text: string;
  look: "good" | "bad";
}

const SHOWN_MS = { good: 5_000, bad: 12_000 };
const listeners = new Set<() => void>();
let told: ToldMessage[] = [];
let last = 0;

function change(next: ToldMessage[]): void {
  told = next;
  for (const listener of listeners) listener();
}

/** Shows a message at the edge of the page for some seconds. Say only what the server has confirmed. */
export function tellEveryone(text: string, look: "good" | "bad" = "good"): void {
  const number = ++last;
  change([...told.slice(-3), { number, text, look }]);
  setTimeout(() => change(told.filter((one) => one.number !== number)), SHOWN_MS[look]);
}

/** The messages that are shown now. */
export function useTold(): ToldMessage[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => told,
  );
}
