// Latencies and the names of settings in words.
import { writeExact } from "@/api/exact-json";
import { durationText } from "@/words/times";

/** A latency, of which also parts of a millisecond count. */
export function latencyText(seconds: number): string {
  return seconds < 0.01 ? `${(seconds * 1_000).toFixed(2)} ms` : durationText(seconds * 1_000);
}

/** A setting's name in words: `rateLimitPerSecond` is "Rate limit per second". */
export function settingName(name: string): string {
  const words = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase().replace(/\b(url|oidc|cors)\b/g, (one) => one.toUpperCase());
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The value of a setting as people read it. */
export function settingValue(value: unknown): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value === null || value === "") return "not set";
  if (value === 0) return "no limit"; // all numbers among the settings are limits
  if (Array.isArray(value)) return value.length ? value.map(settingValue).join(", ") : "none";
  return typeof value === "string" ? value : writeExact(value);
}
