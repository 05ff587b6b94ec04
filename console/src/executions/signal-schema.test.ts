import { expect, it } from "vitest";
import { signalSchema } from "./signal-schema";

const schema = { type: "object", properties: { cents: { type: "integer" } } };

it("finds the schema of a node that listens, at any depth", () => {
  const definition = { steps: [{ id: "a", tool: "x" }, { id: "b", parallel: { branches: [[{ id: "c", listen: "paid", schema }]] } }] };
  expect(signalSchema(definition, "paid")).toEqual(schema);
  expect(signalSchema(definition, "other")).toBeNull();
});

it("finds none where nothing listens or there is no definition", () => {
  expect(signalSchema(null, "paid")).toBeNull();
  expect(signalSchema({ steps: [{ listen: "paid" }] }, "paid")).toBeNull();
});
