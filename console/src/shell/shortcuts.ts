// Keys that act: each component says which it has while it is shown, and the help lists those that are there.
import { useEffect, useRef, useSyncExternalStore } from "react";
import { currentSettings } from "./settings";

export interface Shortcut {
  /** "x", "mod+k", "g e" (one after the other), "1-9", "Escape". */
  keys: string;
  says: string;
}

interface Known extends Shortcut {
  act: (event: KeyboardEvent) => void;
}

const SEQUENCE_MS = 1_200;
const known: Known[] = [];
const listeners = new Set<() => void>();
let shown: Shortcut[] = [];
let first = "";
let firstAt = 0;

function changed(): void {
  shown = [...known];
  for (const listener of listeners) listener();
}

/** Has a key act while the component is shown. Of several with the same keys, the one that was shown last acts. */
export function useShortcut(keys: string, says: string, act: (event: KeyboardEvent) => void, isOn = true): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    if (!isOn) return;
    const own: Known = { keys, says, act: (event) => latest.current(event) };
    known.push(own);
    changed();
    return () => {
      known.splice(known.indexOf(own), 1);
      changed();
    };
  }, [keys, says, isOn]);
}

/** The keys that act now. */
export function useShortcuts(): Shortcut[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => shown,
  );
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function press(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || event.altKey) return;
  const mod = event.ctrlKey || event.metaKey;
  const single = !mod;
  if (single && (isTyping(event.target) || !currentSettings().singleKeys)) return;
  if (single && event.key !== "Escape" && document.querySelector('[role="dialog"], [role="menu"]')) return;
  const key = mod ? `mod+${event.key.toLowerCase()}` : event.key;
  const sequence = first && Date.now() - firstAt < SEQUENCE_MS ? `${first} ${key}` : "";
  const found = (sequence && find(sequence)) || find(key);
  first = "";
  if (found) {
    event.preventDefault();
    found.act(event);
  } else if (known.some((one) => one.keys.startsWith(`${key} `))) {
    first = key;
    firstAt = Date.now();
  }
}

function find(keys: string): Known | undefined {
  return known.findLast((one) => one.keys === keys || (one.keys === "1-9" && /^[1-9]$/.test(keys)));
}

/** Listens to keys. */
export function startShortcuts(): void {
  addEventListener("keydown", press);
}
