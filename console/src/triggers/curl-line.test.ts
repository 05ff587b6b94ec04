import { expect, test } from "vitest";
import { curlLine } from "./curl-line";

test("a line for a shell quotes what the shell would change", () => {
  expect(curlLine("http://h/webhooks/a?b=1&c", "POST", { "content-type": "application/json" }, `{"a": "it's"}`)).toBe(
    `curl -i -H 'content-type: application/json' --data-binary '{"a": "it'\\''s"}' 'http://h/webhooks/a?b=1&c'`,
  );
  expect(curlLine("http://h/w", "PUT", {}, "")).toBe("curl -i -X PUT http://h/w");
});
