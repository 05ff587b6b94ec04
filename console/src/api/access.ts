// Who this page is for the server: the token of `perdure dev`, which its URL brings, or the session of a browser with its CSRF token.
import type { paths } from "@generated/schema";
import { parseExact } from "./exact-json";
import { SERVER_URL } from "./base";
import { problemOf } from "./problem";

export type Session = paths["/api/session"]["get"]["responses"]["200"]["content"]["application/json"];

const TOKEN_NAME = `perdure.token ${SERVER_URL}`;

let token = "";
let csrf = "";
const listeners = new Set<() => void>();
const newAccessListeners = new Set<() => void>();
let isEnded = false;
let channel: BroadcastChannel | null = null;

/** Takes the token from the fragment of the URL, which no server sees, and removes it from there. Follows what other tabs of the browser do; call it once. */
export function startAccess(): void {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    history.replaceState(history.state, "", location.pathname + location.search);
    localStorage.setItem(TOKEN_NAME, found);
  }
  token = found ?? localStorage.getItem(TOKEN_NAME) ?? "";
  window.addEventListener("storage", (event) => {
    if (event.key !== TOKEN_NAME || !event.newValue) return;
    token = event.newValue;
    setEnded(false);
    announce();
  });
  channel = new BroadcastChannel(`perdure.access ${SERVER_URL}`);
  channel.onmessage = () => {
    // If the session can't be read now, the next request of the page says why.
    void readSession().then((session) => session && announce(), () => undefined);
  };
}

/** Calls `listener` when somebody has signed in again or has gone on in another tenant, in this tab or in another one; returns what ends it. */
export function onNewAccess(listener: () => void): () => void {
  newAccessListeners.add(listener);
  return () => newAccessListeners.delete(listener);
}

/** The headers that prove who sends a request; `changes` says that it changes something. */
export function accessHeaders(changes: boolean): Record<string, string> {
  if (token) return { authorization: `Bearer ${token}` };
  return changes && csrf ? { "x-csrf-token": csrf } : {};
}

/** Whether the page has the token of `perdure dev`, and no session. */
export function hasToken(): boolean {
  return token !== "";
}

/** Tells the page that the server does not know it any more. */
export function endAccess(): void {
  setEnded(true);
}

function setEnded(ended: boolean): void {
  if (isEnded === ended) return;
  isEnded = ended;
  for (const listener of listeners) listener();
}

function announce(): void {
  for (const listener of newAccessListeners) listener();
}

function announceToAll(session: Session): Session {
  channel?.postMessage("session");
  announce();
  return session;
}

/** Whether the server does not know the page any more, for `useSyncExternalStore`. */
export const accessEnd = {
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  get: () => isEnded,
};

/** Reads the session of the browser, and keeps its CSRF token; null if it has none. */
export async function readSession(): Promise<Session | null> {
  if (token) return null;
  const response = await fetch(`${SERVER_URL}/api/session`, { credentials: "same-origin" });
  if (response.status === 401 || response.status === 404) return null;
  if (!response.ok) throw await problemOf(response);
  return keepSession((await response.json()) as Session);
}

/** Goes on with the session that another tab has begun; null if there is none. */
export async function goOnSignedIn(): Promise<Session | null> {
  const session = await readSession();
  return session && announceToAll(session);
}

/** Signs in by a key, without leaving the page. */
export async function signIn(key: string): Promise<Session> {
  const session = await post<Session>("/login", { key });
  token = "";
  localStorage.removeItem(TOKEN_NAME);
  return announceToAll(keepSession(session));
}

/** Goes on in another tenant. */
export async function switchTenant(tenant: string): Promise<Session> {
  return announceToAll(keepSession(await post<Session>("/api/session/tenant", { tenant })));
}

/** Signs out. */
export async function signOut(): Promise<void> {
  await post<null>("/logout", {});
  csrf = "";
}

async function post<T>(path: string, body: unknown): Promise<T> {
  const response = await fetch(SERVER_URL + path, {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json", ...accessHeaders(true) },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw await problemOf(response);
  const text = await response.text();
  return (text ? parseExact(text) : null) as T;
}

function keepSession(session: Session): Session {
  csrf = session.csrf;
  setEnded(false);
  return session;
}
