import { expect, it } from "vitest";
import { costText, modelUsage, usageSum, usageText } from "./model-usage";

it("reads the usage of a model call, and of nothing else", () => {
  const usage = modelUsage({ text: "hi", usage: { input_tokens: 1200, output_tokens: 20, cost_usd: 0.001 } });
  expect(usage && usageText(usage)).toBe("1,200 tokens in, 20 out, $0.001");
  expect(modelUsage({ usage: "much" })).toBeNull();
  expect(modelUsage(26)).toBeNull();
  expect(modelUsage(null)).toBeNull();
});

it("adds usages up", () => {
  const one = modelUsage({ usage: { input_tokens: 1, output_tokens: 2, cost_usd: 0.5, is_estimated: true } })!;
  expect(usageText(usageSum([one, one]))).toBe("2 tokens in, 4 out, $1.00 (estimated)");
});

it("writes small costs with the digits that count", () => {
  expect(costText(0.000_412)).toBe("$0.00041");
  expect(costText(12.3)).toBe("$12.30");
});
