// What a viewer has chosen for this browser: the look, whether payloads are hidden, and whether single keys act. Kept in the browser alone.
import { keptValue, useKeptValue } from "./kept-value";

export interface Settings {
  theme: "system" | "light" | "dark";
  hidesPayloads: boolean;
  singleKeys: boolean;
}

const DEFAULTS: Settings = { theme: "system", hidesPayloads: false, singleKeys: true };
const settings = keptValue<Settings>("perdure.settings", (kept) => ({ ...DEFAULTS, ...(kept as Partial<Settings> | null | undefined) }));

function apply(): void {
  const { theme } = settings.get();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** Changes what the viewer has chosen, in all tabs. */
export function changeSettings(change: Partial<Settings>): void {
  settings.set({ ...settings.get(), ...change });
}

/** What the viewer has chosen. */
export function useSettings(): Settings {
  return useKeptValue(settings);
}

/** What the viewer has chosen, outside of components. */
export function currentSettings(): Settings {
  return settings.get();
}

/** Puts the settings into effect, now and whenever they change. */
export function startSettings(): void {
  apply();
  settings.subscribe(apply);
}
