import { expect, test } from "vitest";
import { isAmong, ownName, voterName } from "./own-name";

const ada = { subject: "oidc:ada@example.org" };

test("who has signed in decides by the name that was asked", () => {
  expect(voterName(ada, ["ada@example.org", "carl"])).toBe("ada@example.org");
  expect(voterName(ada, ["oidc:ada@example.org"])).toBe("oidc:ada@example.org");
  expect(voterName(ada, [])).toBe("ada@example.org");
  expect(voterName({ subject: "key:AbC123xy" }, ["ada"])).toBe("key:AbC123xy");
});

test("who has signed in is known by their name and by their subject", () => {
  expect([isAmong(ada, ["ada@example.org"]), isAmong(ada, ["oidc:ada@example.org"]), isAmong(ada, ["ada"])]).toEqual([true, true, false]);
  expect(ownName(ada)).toBe("ada@example.org");
});
