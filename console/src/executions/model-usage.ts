// The tokens and the cost of a model call, as its output reports them.
import { countText } from "@/words/times";

export interface ModelUsage {
  inputTokens: number;
  outputTokens: number;
  cachedTokens: number;
  costUsd: number;
  isEstimated: boolean;
}

/** The usage in the output of a model call; null if the output is that of something else. */
export function modelUsage(output: unknown): ModelUsage | null {
  const usage = (output as { usage?: unknown } | null | undefined)?.usage;
  if (typeof usage !== "object" || usage === null) return null;
  const read = (...names: string[]) => names.map((name) => (usage as Record<string, unknown>)[name]).find((value) => typeof value === "number") as number | undefined;
  const [input, output_] = [read("input_tokens", "request_tokens", "prompt_tokens"), read("output_tokens", "response_tokens", "completion_tokens")];
  if (input === undefined && output_ === undefined) return null;
  return {
    inputTokens: input ?? 0,
    outputTokens: output_ ?? 0,
    cachedTokens: read("cached_tokens", "cache_read_tokens", "cached_input_tokens") ?? 0,
    costUsd: read("cost_usd") ?? 0,
    isEstimated: (usage as { is_estimated?: unknown }).is_estimated === true,
  };
}

/** The sum of several. */
export function usageSum(all: readonly ModelUsage[]): ModelUsage {
  return all.reduce(
    (sum, one) => ({
      inputTokens: sum.inputTokens + one.inputTokens,
      outputTokens: sum.outputTokens + one.outputTokens,
      cachedTokens: sum.cachedTokens + one.cachedTokens,
      costUsd: sum.costUsd + one.costUsd,
      isEstimated: sum.isEstimated || one.isEstimated,
    }),
    { inputTokens: 0, outputTokens: 0, cachedTokens: 0, costUsd: 0, isEstimated: false },
  );
}

/** As text: "200 tokens in, 20 out, $0.001". */
export function usageText(usage: ModelUsage): string {
  const parts = [`${countText(usage.inputTokens)} tokens in`, `${countText(usage.outputTokens)} out`];
  if (usage.cachedTokens) parts.push(`${countText(usage.cachedTokens)} from the cache`);
  if (usage.costUsd) parts.push(costText(usage.costUsd));
  return parts.join(", ") + (usage.isEstimated ? " (estimated)" : "");
}

/** A cost with as many digits as it needs: "$12.30", "$0.0004". */
export function costText(usd: number): string {
  if (usd >= 1) return `$${usd.toFixed(2)}`;
  return `$${Number(usd.toPrecision(2))}`;
}
