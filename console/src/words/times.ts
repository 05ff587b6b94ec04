// Times and durations as people read them. The server's clock is the one that counts: an offset corrects that of the browser.

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

const CLOCKS_AGREE_MS = 2_000; // the time of an answer has whole seconds, and answers travel
/** So many of a large unit have to be full, since a part of one says much: 90 days are no 2 months. */
const AT_LEAST: Partial<Record<Intl.RelativeTimeFormatUnit, number>> = { year: 2, month: 4, day: 2 };

let offsetMs = 0;

/** Learns from an answer how far the clock of the server is from this one. */
export function learnServerTime(date: string | null): void {
  const at = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(at)) return;
  const ms = at - Date.now();
  offsetMs = Math.abs(ms) > CLOCKS_AGREE_MS ? ms : 0;
}

/** The time of the server, in milliseconds since 1970. */
export function serverNow(): number {
  return Date.now() + offsetMs;
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });

/** How long ago a time was, or how far it is ahead: "3 min. ago", "in 2 hr.". */
export function relativeTime(atMs: number, nowMs: number): string {
  const seconds = (atMs - nowMs) / 1_000;
  if (Math.abs(seconds) < 1) return "now";
  const [unit, size] = UNITS.find(([name, one]) => Math.abs(seconds) >= one * (AT_LEAST[name] ?? 1)) ?? ["second", 1];
  return relative.format(Math.trunc(seconds / size), unit);
}

/** A duration in its two largest units: "2 h 5 min", "340 ms". One below 0, which clocks that differ can make, is 0. */
export function durationText(ms: number): string {
  const all = Math.max(ms, 0);
  if (all < 1) return "0 ms";
  if (all < 1_000) return `${Math.round(all)} ms`;
  const seconds = all / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1).replace(/\.0$/, "")} s`;
  const parts: [string, number][] = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];
  const rounded = Math.round(seconds);
  const first = parts.findIndex(([, size]) => rounded >= size);
  return parts
    .slice(first, first + 2)
    .map(([name, size], index) => [name, Math.floor((index ? rounded % (parts[first]?.[1] ?? 1) : rounded) / size)] as const)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${name}`)
    .join(" ");
}

const exact = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium", timeZoneName: undefined });

/** A time in the zone of the viewer, with milliseconds and the zone. */
export function exactTime(atMs: number): string {
  const at = new Date(atMs);
  if (Number.isNaN(at.getTime())) return "no valid time";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return `${exact.format(at)}.${String(at.getMilliseconds()).padStart(3, "0")} ${zone}`;
}

/** A count with separators: 12,345. */
export function countText(count: number): string {
  return count.toLocaleString("en");
}
