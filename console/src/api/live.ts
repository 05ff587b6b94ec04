// Follows the changes of executions live, by one stream for all tabs of a browser. The tab that holds a lock reads the stream and passes on what comes.
import { EventSourceParserStream } from "eventsource-parser/stream";
import type { Schemas } from "./client";
import { accessEnd, accessHeaders, endAccess } from "./access";
import { SERVER_URL } from "./base";
import { parseExact } from "./exact-json";
import { retryAfterMs } from "./problem";
import { randomId } from "./random-id";

export type Change = Schemas["ExecutionChange"];
export type Connection = "connecting" | "live" | "lost" | "paused";

/** What tabs say to each other. `lastId` is the id of the event behind which a stream goes on ("": none is known). */
type Shared =
  | { type: "change"; change: Change; lastId: string }
  | { type: "connection"; connection: Connection; lastId: string }
  | { type: "watch"; from: string; watched: string[] }
  | { type: "hello" };

/** Why a stream has ended: the page has asked for another one, the server does not know the page any more, or neither; then at least `waitMs` have to pass. */
type StreamEnd = { why: "asked" } | { why: "signed out" } | { why: "ended"; waitMs: number };

const LOST_AFTER_MS = 40_000; // the server sends a comment every 15 seconds
const WAITS_MS = [500, 1_000, 2_000, 4_000, 8_000];
const STEADY_MS = 20_000; // a stream that was there for so long counts as a connection that was good
const GATHER_MS = 50; // what is watched changes several times when a page is left for another one
const WATCHED_MAX = 50;
const ASKED = "asked"; // the reason of an abort after which the stream is read again at once

/** Reads the stream of a tenant, or what another tab reads of it. There is one of it in a page. */
export class LiveChanges {
  private readonly id = randomId();
  private readonly changeListeners = new Set<(change: Change) => void>();
  private readonly connectionListeners = new Set<() => void>();
  private readonly watched = new Map<string, number>();
  private readonly watchedElsewhere = new Map<string, string[]>();
  private channel: BroadcastChannel | null = null;
  private isReader = false;
  private lastId = "";
  /** Whether changes may have come between two streams: then one that does not go on behind an event is told by a reset. */
  private mayHaveMissed = false;
  private request: AbortController | null = null;
  private asked = "";
  private gathering: ReturnType<typeof setTimeout> | null = null;
  private connection: Connection = "connecting";
  private isPaused = false;

  /** Begins to follow; call it once. */
  start(): void {
    const name = `perdure.live ${SERVER_URL}`;
    this.channel = new BroadcastChannel(name);
    this.channel.onmessage = ({ data }) => this.hear(data as Shared);
    this.tell({ type: "hello" });
    if ("locks" in navigator) void navigator.locks.request(name, () => this.readForAll());
    else void this.readForAll(); // without HTTPS there are no locks: each tab reads for itself
    addEventListener("pagehide", () => this.tell({ type: "watch", from: this.id, watched: [] }));
  }

  /** Calls `listener` for each change; returns what ends it. */
  onChange(listener: (change: Change) => void): () => void {
    this.changeListeners.add(listener);
    return () => this.changeListeners.delete(listener);
  }

  /** Has every new event of an execution be a change, and not only changes of its status; returns what ends it. */
  watch(workflow: string, id: string): () => void {
    const key = watchKey(workflow, id);
    this.watched.set(key, (this.watched.get(key) ?? 0) + 1);
    this.watchedChanged();
    return () => {
      const left = (this.watched.get(key) ?? 1) - 1;
      if (left > 0) this.watched.set(key, left);
      else this.watched.delete(key);
      this.watchedChanged();
    };
  }

  /** Stops following in this tab, or goes on. */
  pause(paused: boolean): void {
    this.isPaused = paused;
    this.notifyConnection();
    if (!paused) this.emit(RESET);
  }

  /** Reads another stream from its begin: another person or tenant uses the page now. */
  restart(): void {
    this.lastId = "";
    this.mayHaveMissed = true;
    this.request?.abort(ASKED);
  }

  readonly state = {
    subscribe: (listener: () => void): (() => void) => {
      this.connectionListeners.add(listener);
      return () => this.connectionListeners.delete(listener);
    },
    get: (): Connection => (this.isPaused ? "paused" : this.connection),
  };

  private hear(told: Shared): void {
    switch (told.type) {
      case "change":
        if (this.isReader) break; // without locks, each tab hears it by itself
        this.lastId = told.lastId;
        this.emit(told.change);
        break;
      case "connection":
        if (this.isReader) break;
        this.lastId = told.lastId;
        this.setConnection(told.connection);
        break;
      case "watch":
        if (told.watched.length) this.watchedElsewhere.set(told.from, told.watched);
        else this.watchedElsewhere.delete(told.from);
        this.askAnew();
        break;
      case "hello":
        if (this.isReader) this.tell({ type: "connection", connection: this.connection, lastId: this.lastId });
        this.tell({ type: "watch", from: this.id, watched: [...this.watched.keys()] });
    }
  }

  private tell(said: Shared): void {
    this.channel?.postMessage(said);
  }

  private emit(change: Change): void {
    if (this.isPaused) return;
    for (const listener of this.changeListeners) listener(change);
  }

  private setConnection(connection: Connection): void {
    if (this.isReader) this.tell({ type: "connection", connection, lastId: this.lastId });
    if (connection === this.connection) return;
    this.connection = connection;
    this.notifyConnection();
  }

  private notifyConnection(): void {
    for (const listener of this.connectionListeners) listener();
  }

  private watchedChanged(): void {
    this.tell({ type: "watch", from: this.id, watched: [...this.watched.keys()] });
    this.askAnew();
  }

  /** Reads a stream that names what is watched now, unless the present one does. */
  private askAnew(): void {
    if (!this.isReader || this.gathering !== null) return;
    this.gathering = setTimeout(() => {
      this.gathering = null;
      if (this.query() !== this.asked) this.request?.abort(ASKED);
    }, GATHER_MS);
  }

  private query(): string {
    const watched = new Set([...this.watched.keys(), ...[...this.watchedElsewhere.values()].flat()]);
    return ["follow=true", ...[...watched].sort().slice(0, WATCHED_MAX).map((key) => `watch=${encodeURIComponent(key)}`)].join("&");
  }

  private async readForAll(): Promise<void> {
    this.isReader = true;
    this.mayHaveMissed = this.connection !== "connecting"; // another tab has read until now
    this.tell({ type: "hello" });
    for (let failures = 0; ; ) {
      const begunAt = Date.now();
      const end = await this.readOnce();
      this.mayHaveMissed = true;
      if (end.why === "asked") continue;
      if (end.why === "signed out") {
        this.setConnection("lost");
        await signedInAgain();
        failures = 0;
        continue;
      }
      failures = Date.now() - begunAt > STEADY_MS ? 1 : failures + 1;
      if (failures > 1) this.setConnection("lost");
      await passed(Math.max(WAITS_MS[Math.min(failures, WAITS_MS.length) - 1] ?? 0, end.waitMs));
    }
  }

  /** Reads a stream until it ends, for whatever reason. */
  private async readOnce(): Promise<StreamEnd> {
    const request = new AbortController();
    this.request = request;
    this.asked = this.query();
    let silent = setTimeout(() => request.abort("silent"), LOST_AFTER_MS);
    try {
      const response = await fetch(`${SERVER_URL}/api/events/stream?${this.asked}`, {
        headers: { accept: "text/event-stream", ...accessHeaders(false), ...(this.lastId ? { "last-event-id": this.lastId } : {}) },
        credentials: "same-origin",
        signal: request.signal,
      });
      if (response.status === 401) {
        endAccess();
        return { why: "signed out" };
      }
      if (!response.ok || !response.body) return { why: "ended", waitMs: retryAfterMs(response.headers) };
      this.setConnection("live");
      if (this.mayHaveMissed && !this.lastId) this.pass(RESET);
      const heard = response.body.pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform(part, controller) {
            clearTimeout(silent);
            silent = setTimeout(() => request.abort("silent"), LOST_AFTER_MS);
            controller.enqueue(part);
          },
        }),
      );
      const events = heard.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).pipeThrough(new EventSourceParserStream());
      for (const reader = events.getReader(); ; ) {
        const { done, value } = await reader.read();
        if (done || value.event === "error") return { why: "ended", waitMs: 0 };
        if (value.id) this.lastId = value.id;
        this.pass(parseExact(value.data) as Change);
      }
    } catch {
      // The connection has failed, or was aborted; the state of the connection tells the viewer.
      return request.signal.reason === ASKED ? { why: "asked" } : { why: "ended", waitMs: 0 };
    } finally {
      clearTimeout(silent);
    }
  }

  /** Passes a change on to all tabs. */
  private pass(change: Change): void {
    this.tell({ type: "change", change, lastId: this.lastId });
    this.emit(change);
  }
}

/** Changes may have been missed, so that everything is read again. */
const RESET = { number: 0, type: "reset" } as unknown as Change;

/** Waits until the server knows the page again. */
function signedInAgain(): Promise<void> {
  return new Promise((resolve) => {
    const end = accessEnd.subscribe(() => {
      if (accessEnd.get()) return;
      end();
      resolve();
    });
  });
}

function passed(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** An execution as the stream names it: its workflow and its id, each encoded as in a path. */
export function watchKey(workflow: string, id: string): string {
  return `${encodeURIComponent(workflow)}/${encodeURIComponent(id)}`;
}

export const live = new LiveChanges();
