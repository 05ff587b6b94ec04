import { expect, test } from "vitest";
import { knownWorkflows } from "./program-names";
import { latencyText, settingName, settingValue } from "./health-words";

test("programs are shown as workflows with their versions, and those of Perdure itself are left out", () => {
  expect(knownWorkflows(["b@", "b@2", "a@1", "a@2", "perdure.definition@1", "perdure.bulk@1", "c"])).toEqual({
    names: [["a", ["1", "2"]], ["b", ["2"]], ["c", []]],
    hasCatalog: true,
  });
});

test("settings are named in words", () => {
  expect(settingName("rateLimitPerSecond")).toBe("Rate limit per second");
  expect(settingName("oidcIssuer")).toBe("OIDC issuer");
  expect([true, [], "", ["a", 1], "x"].map(settingValue)).toEqual(["yes", "none", "not set", "a, 1", "x"]);
  expect([latencyText(0.00012), latencyText(1.5)]).toEqual(["0.12 ms", "1.5 s"]);
});
