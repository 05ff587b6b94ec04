import { expect, test } from "vitest";
import { cronPhrase } from "./cron-words";

test.each([
  ["30 2 * * 1-5", "on Monday to Friday at 02:30"],
  ["0 9 * * *", "every day at 09:00"],
  ["0 9,17 * * *", "every day at 09:00 and 17:00"],
  ["*/15 * * * *", "every 15 minutes"],
  ["* * * * *", "every minute"],
  ["0 * * * *", "every hour, on the hour"],
  ["5,35 * * * *", "every hour at minute 5 and 35"],
  ["0 */2 * * *", "every 2 hours at minute 0"],
  ["*/30 1 * * *", "every 30 minutes in the hours 01"],
  ["*/10 9-17 * * MON-FRI", "on Monday to Friday every 10 minutes in the hours 09 to 17"],
  ["0 0 13 * 5", "on day 13 of the month, and on Friday, at 00:00"],
  ["0 0 */2 * 5", "on every 2nd day of the month that falls on Friday at 00:00"],
  ["0 4 1 jan,7 *", "on day 1 of the month at 04:00 in January and July"],
  ["0 4 * * 0,7", "on Sunday at 04:00"],
  ["@daily", "every day at 00:00"],
])("%s is said as a phrase", (cron, said) => {
  expect(cronPhrase(cron)).toBe(said);
});

test.each(["", "61 * * * *", "1 2 3", "5-1 * * * *", "L * * * *"])("%s, which is no expression, is shown as it is", (cron) => {
  expect(cronPhrase(cron)).toBe(`by the cron expression ${cron.trim()}`);
});
