// The times of ticks as clocks show them.

const WEEKDAY = new Intl.DateTimeFormat("en", { weekday: "short", timeZone: "UTC" });

/** The time of the schedule's own zone, of which the API gives the local time with its offset: "Mon 2026-11-30 02:30 (+01:00)". */
export function localTick(local: string): string {
  const [, date = "", time = "", offset = ""] = /^(\d{4}-\d{2}-\d{2})T([\d:]+?)(?::00)?(?:\.\d+)?(Z|[+-][\d:]+)$/.exec(local) ?? [];
  if (!date) return local;
  return `${WEEKDAY.format(new Date(`${date}T00:00:00Z`))} ${date} ${time} (${offset === "Z" ? "+00:00" : offset})`;
}

/** The same moment as the clock of the viewer shows it. */
export function viewerTick(at: string, zone?: string): string {
  const moment = new Date(at);
  const parts = new Intl.DateTimeFormat("en-GB", { weekday: "short", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: zone, timeZoneName: "longOffset" }).formatToParts(moment);
  const of = (type: string) => parts.find((one) => one.type === type)?.value ?? "";
  const offset = of("timeZoneName").replace("GMT", "") || "+00:00";
  return `${of("weekday")} ${of("year")}-${of("month")}-${of("day")} ${of("hour")}:${of("minute")}${of("second") === "00" ? "" : `:${of("second")}`} (${offset})`;
}

/** A time as a field `datetime-local` has it, in the zone of the viewer; empty for none. */
export function fieldTime(at: string | null | undefined): string {
  if (!at) return "";
  const moment = new Date(at);
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** What a field `datetime-local` has, as the API takes it; null for none. */
export function apiTime(field: string): string | null {
  return field ? new Date(field).toISOString() : null;
}
