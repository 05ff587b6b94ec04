// Rows of conditions say what the condition says, and typed values are what they look like.
import { expect, test } from "vitest";
import { conditionForm, conditionOfRow, typedValue, valueText } from "./condition-rows";

test.each([
  [{ ref: "@a.b", gt: 3 }, { form: "row", ref: "@a.b", operator: "gt", value: 3 }],
  ["@a.b", { form: "row", ref: "@a.b", operator: "" }],
  [{ all: [true] }, { form: "group", of: "all", parts: [true] }],
  [{ not: { ref: "@a" } }, { form: "not" }],
  [{ ref: "$.x[*].y", sum: { gt: 1 } }, { form: "other" }],
  [{ expr: "a > 1" }, { form: "expr", text: "a > 1" }],
])("%j", (condition, expected) => {
  expect(conditionForm(condition as never)).toMatchObject(expected);
});

test("an operator that takes another kind of value changes it", () => {
  expect(conditionOfRow("@a", "in", 3)).toEqual({ ref: "@a", in: [3] });
  expect(conditionOfRow("@a", "eq", [1])).toEqual({ ref: "@a", eq: "" });
  expect(conditionOfRow("@a", "", 3)).toEqual({ ref: "@a" });
  expect(conditionOfRow("@a", "exists", 3)).toEqual({ ref: "@a", exists: true });
});

test.each(["x", 12, -1.5, true, null, "12", "true", "@a.b", "[x", { a: 1 }, [1, "2"], 2n ** 70n, ""])("the value %o is typed as its text says", (value) => {
  expect(typedValue(valueText(value as never))).toEqual(value);
});
