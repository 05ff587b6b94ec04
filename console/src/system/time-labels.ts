// The labels of a time axis: as short as they can be told apart.

/** Labels for times in seconds since 1970: with seconds where they are close, with the date at the first one of each day. */
export function timeLabels(times: readonly number[], zone?: string): string[] {
  const step = times.length > 1 ? (times[1] ?? 0) - (times[0] ?? 0) : 0;
  const time = new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", second: step > 0 && step < 60 ? "2-digit" : undefined, timeZone: zone });
  const date = new Intl.DateTimeFormat("sv-SE", { month: "2-digit", day: "2-digit", timeZone: zone });
  let before = "";
  return times.map((atS, index) => {
    const day = date.format(atS * 1_000);
    const isNew = day !== before && (index > 0 || step >= 3_600);
    before = day;
    return isNew ? `${time.format(atS * 1_000)}\n${day}` : time.format(atS * 1_000);
  });
}
