// The API of the server, with the types of its OpenAPI document. Each request carries the proof of who sends it; each error is a `Problem`.
import { QueryClient } from "@tanstack/react-query";
import type { components, paths } from "@generated/schema";
import createClient, { type Middleware } from "openapi-fetch";
import createQueries from "openapi-react-query";
import { accessHeaders, endAccess } from "./access";
import { SERVER_URL } from "./base";
import { parseExact, writeExact } from "./exact-json";
import { Problem, problemOf, unreachable } from "./problem";
import { learnServerTime } from "@/words/times";

export type Schemas = components["schemas"];

const READING = new Set(["GET", "HEAD"]);
const RETRIED = new Set([0, 429, 503]); // no answer, too many requests, not now

const access: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(accessHeaders(!READING.has(request.method)))) request.headers.set(name, value);
    return request;
  },
  async onResponse({ response }) {
    learnServerTime(response.headers.get("date"));
    if (!response.ok) {
      const problem = await problemOf(response);
      if (problem.status === 401) endAccess();
      throw problem;
    }
    if (response.status === 204 || response.headers.get("content-type")?.startsWith("text/event-stream")) return response;
    const text = await response.text();
    const headers = new Headers(response.headers);
    headers.set("content-length", String(text.length));
    const exact = new Response(text, { status: response.status, headers });
    exact.json = async () => parseExact(text);
    return exact;
  },
  onError({ error, request }) {
    return error instanceof DOMException && error.name === "AbortError" ? (error as Error) : unreachable(error, !READING.has(request.method));
  },
};

/** Sends requests: `await api.POST("/api/executions", { body })`. */
export const api = createClient<paths>({ baseUrl: SERVER_URL, credentials: "same-origin", bodySerializer: (body) => writeExact(body) });
api.use(access);

/** Queries and mutations for React: `queries.useQuery("get", "/api/executions", { params })`. Keys are `[method, path, init]`. */
export const queries = createQueries(api);

/** What the page knows of the server. What was read is shown while it is read again; a request without an answer, or that came at a bad time, is sent again. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      refetchOnWindowFocus: true,
      retry: (count, error) => error instanceof Problem && RETRIED.has(error.status) && count < 5,
      retryDelay: (count, error) => Math.max(Math.min(500 * 2 ** count, 8_000), error instanceof Problem ? error.retryAfterMs : 0),
    },
    mutations: { retry: false },
  },
});

/** Has everything that was read from a path, and the paths below it, be read again. */
export function refresh(...pathStarts: string[]): Promise<void> {
  return queryClient.invalidateQueries({
    predicate: ({ queryKey }) => pathStarts.some((start) => String(queryKey[1]).startsWith(start)),
  });
}
