import { expect, test } from "vitest";
import { initialValue, missingField } from "./schema-form";

const SHIPPING = {
  $ref: "#/$defs/Shipping",
  $defs: {
    Shipping: { type: "object", properties: { carrier: { type: "string" }, insured: { type: "boolean", default: false }, to: { $ref: "#/$defs/Place" } }, required: ["carrier"] },
    Place: { type: "object", properties: { city: { type: "string", default: "Rome" } } },
  },
};

test("a form begins with the defaults that references lead to", () => {
  expect(initialValue(SHIPPING)).toEqual({ insured: false, to: { city: "Rome" } });
});

test("a required field without a value is missing", () => {
  expect(missingField(SHIPPING, { insured: false })).toBe("carrier is needed");
  expect(missingField(SHIPPING, { carrier: "dhl" })).toBe("");
});

test("a reference to itself ends", () => {
  expect(initialValue({ $ref: "#/$defs/A", $defs: { A: { $ref: "#/$defs/A" } } })).toBeUndefined();
});
