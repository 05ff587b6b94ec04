import { expect, test } from "vitest";
import { changeWords } from "./change-words";

test("changes are said by their step and field", () => {
  const said = [
    { kind: "changed", id: "large", pointer: "/steps/0/test/gt", field: "/test/gt", before: 1, after: 2 },
    { kind: "changed", pointer: "/version", field: "/version", after: "1.1.0" },
    { kind: "changed", pointer: "/output", before: "@x" },
    { kind: "added", id: "look", pointer: "/steps/1" },
    { kind: "renamed", id: "look", before: "look", after: "see" },
  ] as const;
  expect(said.map((one) => changeWords(one))).toEqual(["step large: test.gt changed", "version set to", "output removed", "step look added", "step look renamed"]);
});
