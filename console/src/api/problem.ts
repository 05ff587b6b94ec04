// An answer of the API that is an error: RFC 9457 problem details, as an exception.
import type { components } from "@generated/schema";
import { parseExact } from "./exact-json";

export type ProblemDetails = components["schemas"]["Problem"];

/** What went wrong with a request. `status` 0 means that no server has answered; `retryAfterMs`, that the server asks to wait so long. */
export class Problem extends Error {
  readonly details: ProblemDetails;
  readonly retryAfterMs: number;

  constructor(details: ProblemDetails, retryAfterMs = 0) {
    super(details.detail);
    this.name = "Problem";
    this.details = details;
    this.retryAfterMs = retryAfterMs;
  }

  get status(): number {
    return this.details.status;
  }

  get code(): string {
    return this.details.code;
  }

  /** What to do next; empty if the answer does not say it. */
  get next(): string {
    return this.details.next ?? "";
  }
}

/** Returns the problem of an answer, also of one that a proxy has written. */
export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  try {
    const found = parseExact(text) as ProblemDetails;
    if (typeof found.detail === "string" && typeof found.code === "string") return new Problem({ ...found, status: response.status }, retryAfterMs(response.headers));
  } catch {
    // It is no JSON: a proxy has answered in place of the server, and the status says what is known.
  }
  return new Problem(
    {
      type: "about:blank",
      title: response.statusText || `status ${response.status}`,
      status: response.status,
      code: "not_from_perdure",
      detail: `The server answered with status ${response.status}, and not in the form of Perdure's API.`,
      next: "Look whether a proxy stands before the server, and whether it reaches it.",
    },
    retryAfterMs(response.headers),
  );
}

/** Returns the problem of a request that got no answer. One that `changes` something may have reached the server, and is not sent again by itself. */
export function unreachable(error: unknown, changes: boolean): Problem {
  const next = changes ? "It is not known whether the request has reached it. Look at what is there when it answers again, before you repeat it." : "The page asks again by itself.";
  return new Problem({
    type: "about:blank",
    title: "no connection",
    status: 0,
    code: "unreachable",
    detail: "The server does not answer.",
    next: error instanceof Error && error.message ? `${next} (${error.message})` : next,
  });
}

/** How long an answer asks to wait before the next request, in seconds or as a date; 0 if it does not. */
export function retryAfterMs(headers: Headers): number {
  const text = headers.get("retry-after") ?? "";
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.now();
  return Number.isFinite(ms) ? Math.max(ms, 0) : 0;
}
