// @vitest-environment jsdom
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { accessEnd, endAccess, readSession } from "./access";
import { type Change, LiveChanges } from "./live";

/** What a request for a stream was, and how it is answered. */
interface Asked {
  url: string;
  lastId: string;
  /** Sends the headers of a stream that goes on. */
  begin: () => void;
  answer: (response: Response) => void;
  send: (text: string) => void;
  end: () => void;
}

const channels = new Map<string, Set<TestChannel>>();
let asked: Asked[] = [];
let ends: (() => void)[] = [];
let holders: Promise<void> = Promise.resolve();

/** A channel whose messages arrive at once. */
class TestChannel {
  onmessage: ((event: { data: unknown }) => void) | null = null;
  constructor(private readonly name: string) {
    channels.set(name, (channels.get(name) ?? new Set()).add(this));
  }
  postMessage(data: unknown): void {
    for (const other of channels.get(this.name) ?? []) if (other !== this) other.onmessage?.({ data: structuredClone(data) });
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  ends = [];
  channels.clear();
  holders = Promise.resolve();
  vi.stubGlobal("BroadcastChannel", TestChannel);
  Object.defineProperty(navigator, "locks", {
    configurable: true,
    value: {
      request: (_: string, work: () => Promise<void>) => {
        const before = holders;
        holders = new Promise((resolve) => ends.push(resolve));
        return before.then(work);
      },
    },
  });
  vi.stubGlobal("fetch", stream);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function stream(url: string, init: { headers: Record<string, string>; signal?: AbortSignal }): Promise<Response> {
  if (url.endsWith("/api/session")) return Promise.resolve(new Response(JSON.stringify({ csrf: "c" })));
  return new Promise((resolve, reject) => {
    let controller!: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (one) => void (controller = one) });
    init.signal?.addEventListener("abort", () => {
      reject(new DOMException("aborted", "AbortError"));
      try {
        controller.error(new DOMException("aborted", "AbortError"));
      } catch {
        // It has ended before.
      }
    });
    asked.push({
      url,
      lastId: init.headers["last-event-id"] ?? "",
      begin: () => resolve(new Response(body)),
      answer: resolve,
      send: (text) => controller.enqueue(new TextEncoder().encode(text)),
      end: () => controller.close(),
    });
  });
}

const settle = (ms = 0) => vi.advanceTimersByTimeAsync(ms);
const change = (number: number) => `id: ${number}\nevent: changed\ndata: ${JSON.stringify({ number, type: "changed", execution: null })}\n\n`;

async function started(): Promise<{ tab: LiveChanges; heard: (string | number)[] }> {
  const tab = new LiveChanges();
  const heard: (string | number)[] = [];
  tab.onChange((one: Change) => heard.push(one.type === "reset" ? "reset" : one.number));
  tab.start();
  await settle();
  return { tab, heard };
}

test("a stream that ends at once, again and again, is asked for less and less often", async () => {
  let count = 0;
  vi.stubGlobal("fetch", async () => {
    count += 1;
    return new Response(new ReadableStream({ start: (one) => one.close() }));
  });
  const { tab } = await started();
  await settle(60_000);
  expect(count).toBeGreaterThan(5);
  expect(count).toBeLessThan(15);
  expect(tab.state.get()).toBe("lost");
});

test("a server that asks to wait is not asked before", async () => {
  await started();
  asked[0]!.answer(new Response("", { status: 429, headers: { "retry-after": "30" } }));
  await settle(29_000);
  expect(asked).toHaveLength(1);
  await settle(1_500);
  expect(asked).toHaveLength(2);
});

test("a page that the server does not know asks for nothing until it is signed in again, and goes on behind the last change", async () => {
  const { tab, heard } = await started();
  asked[0]!.begin();
  await settle();
  asked[0]!.send(change(7));
  await settle();
  asked[0]!.end();
  await settle(1_000);
  asked[1]!.answer(new Response("", { status: 401 }));
  await settle(600_000);
  expect(asked).toHaveLength(2);
  expect(accessEnd.get()).toBe(true);
  expect(tab.state.get()).toBe("lost");
  await readSession();
  await settle();
  expect(asked).toHaveLength(3);
  expect(asked[2]!.lastId).toBe("7");
  asked[2]!.begin();
  await settle();
  expect(tab.state.get()).toBe("live");
  expect(heard).toEqual([7]);
});

test("when the tab that reads is closed, the next one goes on behind the last change, so that none is lost", async () => {
  const first = await started();
  const second = await started();
  expect(asked).toHaveLength(1);
  asked[0]!.begin();
  await settle();
  asked[0]!.send(change(3));
  await settle();
  expect([first.heard, second.heard]).toEqual([[3], [3]]);
  ends[0]!(); // the lock of the first tab is free
  await settle(100);
  expect(asked).toHaveLength(2);
  expect(asked[1]!.lastId).toBe("3");
});

test("a tab that takes over without having heard of a change tells its page to read everything again", async () => {
  await started();
  asked[0]!.begin();
  await settle();
  const second = await started();
  ends[0]!();
  await settle(100);
  asked[1]!.begin();
  await settle();
  expect(second.heard).toEqual(["reset"]);
});

test("a new tab, and a page that watches the same as before, leave the stream as it is", async () => {
  const { tab } = await started();
  asked[0]!.begin();
  await settle();
  await started();
  await settle(100);
  tab.watch("order", "o-1")();
  await settle(100);
  expect(asked).toHaveLength(1);
  tab.watch("order", "o-1");
  await settle(100);
  expect(asked).toHaveLength(2);
  expect(asked[1]!.url).toContain("watch=order%2Fo-1");
});

test("a tab that is paused does not pause the others", async () => {
  const first = await started();
  asked[0]!.begin();
  await settle();
  first.tab.pause(true);
  const second = await started();
  expect([first.tab.state.get(), second.tab.state.get()]).toEqual(["paused", "live"]);
  asked[0]!.send(change(1));
  await settle();
  expect([first.heard, second.heard]).toEqual([[], [1]]);
  first.tab.pause(false);
  expect(first.tab.state.get()).toBe("live");
  expect(first.heard).toEqual(["reset"]);
});

test("another tenant begins with a stream of its own, and everything is read again", async () => {
  const { tab, heard } = await started();
  asked[0]!.begin();
  await settle();
  asked[0]!.send(change(9));
  await settle();
  tab.restart();
  await settle(100);
  expect(asked[1]!.lastId).toBe("");
  asked[1]!.begin();
  await settle();
  expect(heard).toEqual([9, "reset"]);
  endAccess();
  await readSession();
});
