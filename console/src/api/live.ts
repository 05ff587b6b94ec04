// Follows the changes of executions live, by one stream for all tabs of a browser. The tab that holds a lock reads the stream and passes on what comes.
import { EventSourceParserStream } from "eventsource-parser/stream";
import type { Schemas } from "./client";
import { accessHeaders, endAccess, hasToken } from "./access";
import { SERVER_URL } from "./base";
import { parseExact } from "./exact-json";

export type Change = Schemas["ExecutionChange"];
export type Connection = "connecting" | "live" | "lost" | "paused";

interface Shared {
  type: "change" | "connection" | "watch" | "hello";
  change?: Change;
  connection?: Connection;
  from?: string;
  watched?: string[];
}

const LOST_AFTER_MS = 40_000; // the server sends a comment every 15 seconds
const WAITS_MS = [500, 1_000, 2_000, 4_000, 8_000];
const WATCHED_MAX = 50;

/** Reads the stream of a tenant, or what another tab reads of it. There is one of it in a page. */
class LiveChanges {
  private readonly id = crypto.randomUUID?.() ?? String(Math.random());
  private readonly changeListeners = new Set<(change: Change) => void>();
  private readonly connectionListeners = new Set<() => void>();
  private readonly watched = new Map<string, number>();
  private readonly watchedElsewhere = new Map<string, string[]>();
  private channel: BroadcastChannel | null = null;
  private isReader = false;
  private lastId = "";
  private request: AbortController | null = null;
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
    this.setConnection(paused ? "paused" : this.isReader && this.request ? "live" : "connecting");
    if (!paused) {
      this.emit({ number: 0, type: "reset" } as unknown as Change);
      this.tell({ type: "hello" });
    }
  }

  readonly state = {
    subscribe: (listener: () => void): (() => void) => {
      this.connectionListeners.add(listener);
      return () => this.connectionListeners.delete(listener);
    },
    get: (): Connection => this.connection,
  };

  private hear(told: Shared): void {
    if (told.type === "change" && told.change) this.emit(told.change);
    else if (told.type === "connection" && told.connection && !this.isReader) this.setConnection(told.connection);
    else if (told.type === "watch" && told.from) {
      if (told.watched?.length) this.watchedElsewhere.set(told.from, told.watched);
      else this.watchedElsewhere.delete(told.from);
      if (this.isReader) this.reconnect();
    } else if (told.type === "hello") {
      if (this.isReader) this.tell({ type: "connection", connection: this.connection });
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
    const shown = this.isPaused ? "paused" : connection;
    if (this.isReader) this.tell({ type: "connection", connection });
    if (shown === this.connection) return;
    this.connection = shown;
    for (const listener of this.connectionListeners) listener();
  }

  private watchedChanged(): void {
    this.tell({ type: "watch", from: this.id, watched: [...this.watched.keys()] });
    if (this.isReader) this.reconnect();
  }

  private reconnect(): void {
    this.request?.abort("watch");
  }

  private async readForAll(): Promise<void> {
    this.isReader = true;
    this.tell({ type: "hello" });
    for (let failures = 0; ; ) {
      const begunAt = Date.now();
      try {
        await this.readOnce();
        failures = 0;
      } catch (error) {
        if (this.request?.signal.reason === "watch") continue;
        failures = Date.now() - begunAt > 20_000 ? 1 : failures + 1;
        if (failures > 1) this.setConnection("lost");
        await new Promise((resolve) => setTimeout(resolve, WAITS_MS[Math.min(failures, WAITS_MS.length) - 1] ?? 8_000));
        if (error instanceof AccessEnded && hasToken()) this.setConnection("lost");
      }
    }
  }

  private async readOnce(): Promise<void> {
    const request = new AbortController();
    this.request = request;
    let silent = setTimeout(() => request.abort("silent"), LOST_AFTER_MS);
    const watched = new Set([...this.watched.keys(), ...[...this.watchedElsewhere.values()].flat()]);
    const query = [...watched].slice(0, WATCHED_MAX).map((key) => `watch=${encodeURIComponent(key)}`);
    try {
      const response = await fetch(`${SERVER_URL}/api/events/stream?${["follow=true", ...query].join("&")}`, {
        headers: { accept: "text/event-stream", ...accessHeaders(false), ...(this.lastId ? { "last-event-id": this.lastId } : {}) },
        credentials: "same-origin",
        signal: request.signal,
      });
      if (response.status === 401) {
        endAccess();
        throw new AccessEnded();
      }
      if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
      this.setConnection("live");
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
        if (done) return;
        if (value.event === "error") throw new Error(value.data);
        if (value.id) this.lastId = value.id;
        const change = parseExact(value.data) as Change;
        this.tell({ type: "change", change });
        this.emit(change);
      }
    } finally {
      clearTimeout(silent);
    }
  }
}

class AccessEnded extends Error {}

/** An execution as the stream names it: its workflow and its id, each encoded as in a path. */
export function watchKey(workflow: string, id: string): string {
  return `${encodeURIComponent(workflow)}/${encodeURIComponent(id)}`;
}

export const live = new LiveChanges();
