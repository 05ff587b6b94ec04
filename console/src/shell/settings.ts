// What a viewer has chosen for this browser: the look, whether payloads are hidden, and whether single keys act. Kept in the browser alone.
import { useSyncExternalStore } from "react";

export interface Settings {
  theme: "system" | "light" | "dark";
  hidesPayloads: boolean;
  singleKeys: boolean;
}

const NAME = "perdure.settings";
const DEFAULTS: Settings = { theme: "system", hidesPayloads: false, singleKeys: true };
const listeners = new Set<() => void>();
let settings = load();

function load(): Settings {
  try {
    return { ...DEFAULTS, ...(JSON.parse(localStorage.getItem(NAME) ?? "{}") as Partial<Settings>) };
  } catch {
    return DEFAULTS; // what is kept there is no JSON: another program has written it
  }
}

function apply(): void {
  if (settings.theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = settings.theme;
}

/** Changes what the viewer has chosen, in all tabs. */
export function changeSettings(change: Partial<Settings>): void {
  settings = { ...settings, ...change };
  localStorage.setItem(NAME, JSON.stringify(settings));
  apply();
  for (const listener of listeners) listener();
}

/** What the viewer has chosen. */
export function useSettings(): Settings {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => settings,
  );
}

/** What the viewer has chosen, outside of components. */
export function currentSettings(): Settings {
  return settings;
}

/** Puts the settings into effect, and follows the other tabs. */
export function startSettings(): void {
  apply();
  window.addEventListener("storage", (event) => {
    if (event.key !== NAME) return;
    settings = load();
    apply();
    for (const listener of listeners) listener();
  });
}
