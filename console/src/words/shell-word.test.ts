import { expect, it } from "vitest";
import { shellWord } from "./shell-word";

it("quotes what a shell would take apart", () => {
  expect(shellWord("order/o-17")).toBe("order/o-17");
  expect(shellWord("order/a b")).toBe("'order/a b'");
  expect(shellWord("order/it's; rm")).toBe("'order/it'\\''s; rm'");
  expect(shellWord("")).toBe("''");
});
