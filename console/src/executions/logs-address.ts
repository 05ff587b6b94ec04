// Fills in the template of the address at which logs are read.

/** How much earlier and later than the step itself its logs are looked for: clocks differ. */
const MARGIN_MS = 60_000;

export interface LogsOf {
  tenant?: string;
  workflow: string;
  id: string;
  path: string;
  from: string;
  /** The end; null: it goes on. */
  to: string | null;
}

/** The address of the logs of an execution, or of a step by its path. Placeholders that it does not know stay as they are. */
export function logsAddress(template: string, of: LogsOf, nowMs: number = Date.now()): string {
  const values: Record<string, string> = {
    tenant: of.tenant ?? "",
    workflow: of.workflow,
    id: of.id,
    path: of.path,
    from_ms: String(Date.parse(of.from) - MARGIN_MS),
    to_ms: String((of.to === null ? nowMs : Date.parse(of.to)) + MARGIN_MS),
  };
  return template.replaceAll(/\{(\w+)\}/g, (all, name: string) => (name in values ? encodeURIComponent(values[name]!) : all));
}
