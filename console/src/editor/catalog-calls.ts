// Requests of the editor: what it loads, checks, saves and publishes. Definitions travel as text, so that comments are kept.
import { api, type Schemas } from "@/api/client";
import { Problem } from "@/api/problem";
import { writeExact } from "@/api/exact-json";

export type Definition = Schemas["CatalogDefinition"];

/** A definition as it is opened: its text, and what that is. */
export interface OpenedText {
  slug: string;
  definition: Definition | null;
  text: string;
  kind: "draft" | "version" | "new";
  by: string;
  at: string;
  /** The revision on the condition of which it is saved; null: there is no definition yet. */
  revision: number | null;
}

export function newText(slug: string): string {
  return `perdure: 1\nname: ${slug}\norder: listed\ninput: {}\nsteps: []\n`;
}

export async function openText(slug: string): Promise<OpenedText> {
  const definition = await found(async () => (await api.GET("/api/workflows/{definition}", { params: { path: { definition: slug } } })).data!);
  if (definition === null) return { slug, definition, text: newText(slug), kind: "new", by: "", at: "", revision: null };
  const opened = { slug, definition, revision: Number(definition.revision) };
  if (definition.hasDraft) {
    const draft = await found(async () => (await api.GET("/api/workflows/{definition}/draft", { params: { path: { definition: slug } } })).data!);
    if (draft !== null) return { ...opened, text: documentText(draft.document), kind: "draft", by: draft.by, at: draft.at, revision: Number(draft.revision) };
  }
  if (!definition.version) return { ...opened, text: newText(slug), kind: "new", by: "", at: "" };
  const version = (await api.GET("/api/workflow-versions/{reference}", { params: { path: { reference: `${slug}@${definition.version}` } } })).data!;
  return { ...opened, text: version.received, kind: "version", by: definition.updatedBy, at: definition.updatedAt };
}

function documentText(document: unknown): string {
  return typeof document === "string" ? document : writeExact(document, 2);
}

async function found<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

export async function previewOf(slug: string, text: string): Promise<Schemas["DocumentPreview"]> {
  return (await api.POST("/api/workflows/preview", { body: { document: text as never, slug } })).data!;
}

export async function saveDraft(slug: string, text: string, revision: number | null): Promise<Definition> {
  return (await api.PUT("/api/workflows/{definition}/draft", { params: { path: { definition: slug } }, body: { document: text, revision } })).data!;
}

export async function publishText(slug: string, text: string, revision: number | null, note: string, part: "patch" | "minor" | "major"): Promise<Definition> {
  return (await api.PUT("/api/workflows/{definition}", { params: { path: { definition: slug } }, body: { document: text as never, revision, note, part } })).data!;
}

export async function discardDraft(slug: string, revision: number | null): Promise<void> {
  await api.DELETE("/api/workflows/{definition}/draft", { params: { path: { definition: slug } }, body: { revision } as never });
}

export function isConflict(error: unknown): boolean {
  return error instanceof Problem && (error.status === 412 || error.code.startsWith("stale"));
}
