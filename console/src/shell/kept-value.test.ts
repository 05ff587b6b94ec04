// @vitest-environment jsdom
import { expect, test } from "vitest";
import { keptValue } from "./kept-value";

const text = (kept: unknown) => (typeof kept === "string" ? kept : "nothing");

test("a value is kept under its name, follows what another tab has kept, and what is no JSON counts as nothing", () => {
  localStorage.setItem("one", "{broken");
  const value = keptValue("one", text);
  const heard: string[] = [];
  const end = value.subscribe(() => heard.push(value.get()));
  expect(value.get()).toBe("nothing");
  value.set("mine");
  expect(localStorage.getItem("one")).toBe('"mine"');
  localStorage.setItem("one", '"theirs"');
  window.dispatchEvent(new StorageEvent("storage", { key: "other" }));
  expect(value.get()).toBe("mine");
  window.dispatchEvent(new StorageEvent("storage", { key: "one" }));
  expect(heard).toEqual(["mine", "theirs"]);
  end();
  value.set("last");
  expect(heard).toHaveLength(2);
});
