// A cron expression as a phrase: "at 02:30 on Monday to Friday". One that it can't say is shown as it is.

const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const NAMED: Record<string, string> = {
  "@hourly": "every hour, on the hour",
  "@daily": "every day at 00:00",
  "@midnight": "every day at 00:00",
  "@weekly": "on Sunday at 00:00",
  "@monthly": "on day 1 of each month at 00:00",
  "@yearly": "on 1 January at 00:00",
  "@annually": "on 1 January at 00:00",
};
const TIMES_MAX = 8;

/** One part of a field: a range with a step; a single value is a range of one. */
interface Part {
  from: number;
  until: number;
  step: number;
}

type Field = "*" | { nth: number } | Part[];

/** Says when a cron expression is due. */
export function cronPhrase(cron: string): string {
  const text = cron.trim();
  const named = NAMED[text.toLowerCase()];
  if (named) return named;
  const fields = text.split(/\s+/);
  const [minute, hour, date, month, day] = [
    parseField(fields[0], 0, 59, []),
    parseField(fields[1], 0, 23, []),
    parseField(fields[2], 1, 31, []),
    parseField(fields[3], 1, 12, MONTHS),
    parseField(fields[4], 0, 7, DAYS),
  ];
  if (fields.length !== 5 || !minute || !hour || !date || !month || !day) return `by the cron expression ${text}`;
  const time = timePhrase(minute, hour);
  const days = dayPhrase(date, day, (fields[2] ?? "").startsWith("*") || (fields[4] ?? "").startsWith("*"));
  const months = month === "*" ? "" : "nth" in month ? ` in every ${ordinal(month.nth)} month` : ` in ${listPhrase(month, (one) => MONTHS[one - 1] ?? "")}`;
  if (!days && !months) return time.startsWith("at ") && values(hour) ? `every day ${time}` : time;
  return `${days ? `${days} ` : ""}${time}${months}`;
}

function timePhrase(minute: Field, hour: Field): string {
  const [minutes, hours] = [values(minute), values(hour)];
  if (minutes && hours && minutes.length * hours.length <= TIMES_MAX) return `at ${series(hours.flatMap((one) => minutes.map((other) => `${two(one)}:${two(other)}`)))}`;
  const within = hourPhrase(hour);
  if (minute === "*") return `every minute${within}`;
  if ("nth" in minute) return `every ${minute.nth === 1 ? "minute" : `${minute.nth} minutes`}${within}`;
  const at = listPhrase(minute, String);
  if (hour === "*") return at === "0" ? "every hour, on the hour" : `every hour at minute ${at}`;
  if ("nth" in hour) return `every ${hour.nth} hours at minute ${at}`;
  return `at minute ${at}${within}`;
}

function hourPhrase(hour: Field): string {
  if (hour === "*") return "";
  if ("nth" in hour) return ` in every ${ordinal(hour.nth)} hour`;
  return ` in the hours ${listPhrase(hour, two)}`;
}

function dayPhrase(date: Field, day: Field, isAnd: boolean): string {
  const dates = date === "*" ? "" : "nth" in date ? `on every ${ordinal(date.nth)} day of the month` : `on day ${listPhrase(date, String)} of the month`;
  const days = day === "*" ? "" : "nth" in day ? `on every ${ordinal(day.nth)} day of the week` : `on ${listPhrase(day, (one) => DAYS[one % 7] ?? "")}`;
  if (dates && days) return isAnd ? `${dates} that falls ${days}` : `${dates}, and ${days},`;
  return dates || days;
}

function parseField(text: string | undefined, least: number, most: number, names: string[]): Field | null {
  if (text === "*") return "*";
  const every = /^\*\/(\d+)$/.exec(text ?? "");
  if (every) return { nth: Number(every[1]) };
  const parts: Part[] = [];
  for (const one of (text ?? "").split(",")) {
    const [, first, last, step] = /^(\w+)(?:-(\w+))?(?:\/(\d+))?$/.exec(one) ?? [];
    const from = valueOf(first, names, least);
    const until = last === undefined ? (step === undefined ? from : most) : valueOf(last, names, least);
    if (from < least || until > most || Number.isNaN(from) || Number.isNaN(until) || from > until) return null;
    parts.push({ from, until, step: Number(step ?? 1) });
  }
  return parts;
}

function valueOf(text: string | undefined, names: string[], least: number): number {
  const place = names.findIndex((one) => one.slice(0, 3).toLowerCase() === text?.toLowerCase());
  return place >= 0 ? place + (least === 1 ? 1 : 0) : Number(text);
}

function values(field: Field): number[] | null {
  if (field === "*" || "nth" in field || field.some((one) => one.until !== one.from)) return null;
  return field.map((one) => one.from);
}

function listPhrase(parts: Part[], nameOf: (value: number) => string): string {
  return series(
    parts.map((one) => {
      if (one.from === one.until) return nameOf(one.from);
      const range = `${nameOf(one.from)} to ${nameOf(one.until)}`;
      return one.step > 1 ? `every ${ordinal(one.step)} of ${range}` : range;
    }),
  );
}

function series(all: string[]): string {
  const texts = [...new Set(all)];
  return texts.length < 2 ? (texts[0] ?? "") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

function ordinal(value: number): string {
  const last = value % 10;
  const isTeen = Math.floor((value % 100) / 10) === 1;
  return `${value}${isTeen ? "th" : last === 1 ? "st" : last === 2 ? "nd" : last === 3 ? "rd" : "th"}`;
}
