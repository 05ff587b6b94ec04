// The editor of a definition: one document with three views, drafts, publication, and what happens when somebody else saves.
import { useQuery } from "@tanstack/react-query";
import { useBlocker, useNavigate, useParams } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore, type KeyboardEvent, type ReactNode } from "react";
import { queries, refresh } from "@/api/client";
import { usePolling } from "@/api/polling";
import { graphSearchOf } from "@/graph/graph-view-state";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { Menu } from "@/parts/menu";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Page } from "@/parts/page";
import { useSettledValue } from "@/parts/settled-value";
import { TimeText } from "@/parts/time-text";
import { WordsDialog } from "@/proposals/words-dialog";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { useShortcut } from "@/shell/shortcuts";
import { tellEveryone } from "@/shell/told";
import { errorText } from "@/words/failures";
import { discardDraft, isConflict, openText, previewOf, publishText, saveDraft, type OpenedText } from "./catalog-calls";
import { DefinitionStore } from "./document/definition-store";
import { findingOfProblem, findingsOf, type Finding } from "./findings";
import { forgetText, keepText, keptText, type KeptText } from "./kept-text";
import type { JsonSchema } from "./model/definition-schema";
import { localGraph } from "./model/local-graph";
import type { Action } from "./model/step-edits";
import { stepAt } from "./model/step-tree";
import { isVerb, VERBS, verbOfKind } from "./model/verbs";
import { CanvasView } from "./views/canvas-view";
import { ConflictDialog } from "./views/conflict-dialog";
import { FormView } from "./views/form-view";
import { ProblemsPanel } from "./views/problems-panel";
import { PublishDialog, type Part } from "./views/publish-dialog";
import type { TextPlace } from "./views/text-view";
import { TryDialog } from "./views/try-dialog";
import styles from "./editor-page.module.css";

const TextView = lazy(async () => ({ default: (await import("./views/text-view")).TextView }));

/** The page. */
export function EditorPage() {
  const { slug } = useParams({ strict: false }) as { slug: string };
  const opened = useQuery({ queryKey: ["editor", slug], queryFn: () => openText(slug), staleTime: Number.POSITIVE_INFINITY, gcTime: 0, refetchOnWindowFocus: false });
  if (opened.data) return <Editor key={slug} opened={opened.data} />;
  return (
    <Page title={slug} name={`Edit ${slug}`}>
      {opened.error ? <ErrorNotice error={opened.error} onRetry={() => void opened.refetch()} /> : <Loading what="the definition" />}
    </Page>
  );
}

type Shown = "" | "publish" | "try" | "discard" | "words";
type ViewName = "canvas" | "form" | "text";
const VIEW_TITLES: Record<ViewName, string> = { canvas: "Canvas", form: "Form", text: "Text" };
const WIDE = "(min-width: 1100px)";
const CHECK_MS = 400;

function Editor({ opened: first }: { opened: OpenedText }) {
  const { slug } = first;
  const [store] = useState(() => new DefinitionStore(first.text));
  const state = useSyncExternalStore(store.subscribe, store.get);
  const [opened, setOpened] = useState(first);
  const [kept, setKept] = useState<KeptText | null>(() => {
    const found = keptText(slug);
    return found !== null && found.text !== first.text ? found : null;
  });
  const [shown, show] = useState<Shown>("");
  const [conflict, setConflict] = useState<OpenedText | null>(null);
  const [isSaving, setSaving] = useState(false);
  const [refused, setRefused] = useState("");
  const [place, setPlace] = useState<TextPlace | null>(null);
  const view = useView();
  const navigate = useNavigate();
  const role = useRefusal("author");
  const operator = useRefusal("operator");
  const owner = opened.definition?.owner ?? "";
  const readOnly = owner ? `The file ${owner} has this definition; it is changed there` : role;
  const isDirty = state.text !== opened.text;

  const selected = view.text("step");
  const select = useCallback((id: string) => view.change({ step: id || undefined }, true), [view]);
  const { schema, configs, verbs, failure: schemaFailure } = useFormat();
  const checked = useChecks(slug, state.text, state.problem !== null);
  const findings = useMemo(
    () => (state.problem !== null ? [findingOfProblem(state.problem)] : findingsOf(checked.found?.findings ?? [], state.read?.value)),
    [state.problem, checked.found, state.read?.value],
  );
  const local = useMemo(() => (state.read ? localGraph(state.read.tree) : null), [state.read]);
  const graph = state.problem === null && checked.isCurrent && checked.found?.graph ? checked.found.graph : (state.read?.isNative === false ? (checked.found?.graph ?? local) : local);

  // Unsaved text stays in this tab.
  const latest = useRef({ state, opened, isDirty });
  latest.current = { state, opened, isDirty };
  useEffect(() => {
    const timer = setTimeout(() => {
      const { isDirty: dirty, opened: base } = latest.current;
      if (dirty) keepText(slug, { text: state.text, base: base.text, revision: base.revision, atMs: Date.now() });
      else if (kept === null) forgetText(slug);
    }, 300);
    return () => clearTimeout(timer);
  }, [state.text, opened, slug, kept]);

  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => latest.current.isDirty && current.pathname !== next.pathname,
    enableBeforeUnload: () => latest.current.isDirty,
    withResolver: true,
  });

  const act = (action: Action | null, refusal = "") => {
    if (action === null) return setRefused(refusal || "That can't be done here.");
    const why = store.act(action);
    setRefused(why);
    if (why === "" && action.select !== undefined) select(action.select);
  };

  const afterSave = (next: OpenedText) => {
    setOpened(next);
    setConflict(null);
    setRefused("");
    if (store.get().text === next.text) forgetText(slug);
    void refresh("/api/workflows", "/api/workflow-versions");
  };
  /** Saves the draft; returns whether it is saved. */
  const save = async (text = commitFields(store), base = latest.current.opened): Promise<boolean> => {
    if (readOnly) setRefused(readOnly);
    if (readOnly || isSaving) return false;
    setSaving(true);
    try {
      return await write(text, base);
    } catch (error) {
      setRefused(`It is not saved: ${errorText(error).text} ${errorText(error).next}`);
      return false;
    } finally {
      setSaving(false);
    }
  };
  /** Saves the draft, if need be over what somebody else has saved that is no other text; returns whether it is saved. */
  const write = async (text: string, base: OpenedText): Promise<boolean> => {
    try {
      const definition = await saveDraft(slug, text, base.revision);
      afterSave({ ...base, definition, text, kind: "draft", by: definition.updatedBy, at: definition.updatedAt, revision: Number(definition.revision) });
      tellEveryone(`The draft of ${slug} is saved`);
      return true;
    } catch (error) {
      if (!isConflict(error)) throw error;
      return meet(text, base);
    }
  };
  /** Somebody else was first: their text is looked at, if it is another one. */
  const meet = async (text: string, base: OpenedText): Promise<boolean> => {
    const theirs = await openText(slug);
    if (theirs.text === base.text || theirs.text === text) return write(text, theirs);
    setConflict(theirs);
    return false;
  };
  const publish = async (note: string, part: Part) => {
    const { text } = store.get();
    try {
      const definition = await publishText(slug, text, latest.current.opened.revision, note, part);
      afterSave({ ...latest.current.opened, definition, text, kind: "version", by: definition.updatedBy, at: definition.updatedAt, revision: Number(definition.revision) });
      show("");
      tellEveryone(`${slug} ${definition.version} is published`);
    } catch (error) {
      if (!isConflict(error)) throw error;
      show("");
      await meet(text, latest.current.opened);
    }
  };
  useShortcut("mod+s", "save the draft", () => void save());

  const press = (event: KeyboardEvent) => {
    const isTyping = event.target instanceof HTMLElement && (event.target.isContentEditable || /^(INPUT|TEXTAREA)$/.test(event.target.tagName));
    if (event.defaultPrevented || isTyping || !(event.ctrlKey || event.metaKey)) return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) store.redo();
    else store.undo();
  };

  const isWide = useMedia(WIDE);
  const main = viewName(view.text("view"), "canvas");
  const beside = isWide ? viewName(view.text("beside"), main === "text" ? "canvas" : "text") : null;
  const second = beside === main ? null : beside;
  const isTextShown = main === "text" || second === "text";
  const go = (finding: Finding) => {
    const step = state.read && state.problem === null ? stepAt(state.read.tree, finding.path) : undefined;
    const isOnlyForm = !isTextShown && main === "form";
    view.change({ ...(step ? { step: step.id } : {}), ...(isTextShown || (isOnlyForm && step) ? {} : isWide ? { beside: "text" } : { view: "text" }) }, true);
    setPlace(finding.line > 0 ? { line: finding.line, column: Math.max(1, finding.column) } : null);
  };
  const mend = (finding: Finding) => act(fixAction(finding, state.read?.value));

  const stale = state.problem !== null;
  const panes: Record<ViewName, () => ReactNode> = {
    text: () => (
      <Suspense fallback={<Loading what="the text view" />}>
        <TextView store={store} findings={findings} schema={schema} readOnly={readOnly !== ""} selected={selected} onSelect={select} place={place} />
      </Suspense>
    ),
    form: () =>
      state.read && schema ? (
        <FormView read={state.read} text={state.text} isBroken={stale} schema={schema} configs={configs} selected={selected} onSelect={select} onAct={act} readOnly={readOnly !== "" || stale} />
      ) : schemaFailure ? (
        <ErrorNotice error={schemaFailure} />
      ) : state.read ? (
        <Loading what="the format of definitions" />
      ) : (
        <p>There is no form, since the text could not be read yet.</p>
      ),
    canvas: () =>
      state.read && graph ? (
        <CanvasView
          name={slug}
          read={state.read}
          graph={graph}
          verbs={verbs}
          selected={selected}
          onSelect={select}
          onAct={act}
          readOnly={readOnly || (stale ? "Mend the text first" : "")}
          search={graphSearchOf(view)}
          onSearch={(change) => view.change({ ...change }, true)}
          isPaletteOpen={view.text("kinds") === "1"}
          onPalette={(isOpen) => view.change({ kinds: isOpen ? "1" : undefined }, true)}
          onRunTo={opened.definition === null ? null : () => show("try")}
        />
      ) : (
        <p>There is no graph, since the text could not be read yet.</p>
      ),
  };
  const pane = (name: ViewName, which: "view" | "beside") => (
    <div className={styles.pane} data-view={name}>
      <div className={styles.tabs} role="group" aria-label={which === "view" ? "View" : "View beside it"}>
        {(Object.keys(VIEW_TITLES) as ViewName[]).map((one) => (
          <button
            key={one}
            type="button"
            aria-pressed={one === name}
            className={styles.tab}
            onClick={() => {
              const other = which === "view" ? "beside" : "view";
              const isTaken = one === (which === "view" ? second : main);
              view.change({ [which]: one, ...(isTaken ? { [other]: name } : {}) });
            }}
          >
            {VIEW_TITLES[one]}
          </button>
        ))}
        {which === "beside" && (
          <Button look="quiet" aria-label="Close the view beside" onClick={() => view.change({ beside: main })}>
            ✕
          </Button>
        )}
        {which === "view" && isWide && second === null && (
          <Button look="quiet" onClick={() => view.change({ beside: main === "text" ? "canvas" : "text" })}>
            Split
          </Button>
        )}
      </div>
      <div className={styles.content} data-stale={(stale && state.read !== null && name !== "text") || undefined}>
        {panes[name]()}
      </div>
    </div>
  );

  const last = state.history.past.at(-1);
  const nextUp = state.history.future[0];
  return (
    <Page
      title={`Edit ${slug}`}
      name={`Edit ${slug}`}
      below={<Standing opened={opened} isDirty={isDirty} />}
      actions={
        <>
          <Button refusal={last ? "" : "Nothing to undo"} title={last && `Undo: ${last.label}`} onClick={() => store.undo()}>
            Undo
          </Button>
          <Button refusal={nextUp ? "" : "Nothing to redo"} title={nextUp && `Redo: ${nextUp.label}`} onClick={() => store.redo()}>
            Redo
          </Button>
          <Button refusal={readOnly || (isDirty || opened.kind === "new" ? "" : "Everything is saved")} busy={isSaving} title="Ctrl S" onClick={() => void save()}>
            Save draft
          </Button>
          <Button look="main" refusal={readOnly || (stale ? "The text can't be read; mend it first" : "")} onClick={() => (commitFields(store), show("publish"))}>
            Publish …
          </Button>
          <Menu
            title="More"
            label="More actions"
            items={[
              { title: "Go to the workflow", onChoose: () => void navigate({ to: "/workflows/$slug", params: { slug } }), refusal: opened.definition ? "" : "It is not saved yet" },
              { title: "Try it on a past execution", onChoose: () => show("try"), refusal: opened.definition ? "" : "It is not saved yet" },
              {
                title: "Change with words…",
                onChoose: () => show("words"),
                refusal: operator || (opened.definition?.version ? (isDirty || opened.definition.hasDraft ? "A model changes the version that is published; publish or discard the draft first" : "") : "It has no version yet"),
              },
              { title: "Discard the draft", danger: true, onChoose: () => show("discard"), refusal: readOnly || (opened.definition?.hasDraft ? "" : "There is no draft") },
            ]}
          />
        </>
      }
    >
      <div className={styles.editor} onKeyDown={press}>
        {readOnly && <Notice>Read only: {readOnly}.</Notice>}
        {kept && (
          <Notice look="warn">
            This tab has text that was not saved, of {new Date(kept.atMs).toLocaleString()}.{" "}
            <Button
              onClick={() => {
                store.replace(kept.text, "Take the unsaved text");
                setOpened((before) => (before.revision === kept.revision ? before : { ...before, text: kept.base, revision: kept.revision }));
                setKept(null);
              }}
            >
              Take it
            </Button>{" "}
            <Button look="quiet" onClick={() => (forgetText(slug), setKept(null))}>
              Discard it
            </Button>
          </Notice>
        )}
        <ChangedMeanwhile slug={slug} opened={opened} />
        {refused && (
          <div role="alert" className={styles.refused}>
            {refused}{" "}
            <Button look="quiet" aria-label="Close the message" onClick={() => setRefused("")}>
              ✕
            </Button>
          </div>
        )}
        {state.problem && (
          <Notice look="warn">
            Line {state.problem.line}, column {state.problem.column}: {state.problem.message} {state.read && "The other views show what the text said before. "}
            <Button onClick={() => go(findings[0]!)}>Go to line {state.problem.line}</Button>
          </Notice>
        )}
        <div className={styles.panes} data-split={second !== null || undefined}>
          {pane(main, "view")}
          {second !== null && pane(second, "beside")}
        </div>
        <ProblemsPanel findings={findings} isChecking={!checked.isCurrent && state.problem === null} failure={checked.failure} onGo={go} onFix={readOnly ? null : mend} />
      </div>
      {shown === "publish" && <PublishDialog slug={slug} text={state.text} definition={opened.definition} onPublish={publish} onClose={() => show("")} />}
      {shown === "try" && <TryDialog slug={slug} text={state.text} step={state.read?.tree.byId.has(selected) ? selected : ""} onClose={() => show("")} />}
      {shown === "words" && <WordsDialog slug={slug} onClose={() => show("")} />}
      {shown === "discard" && (
        <Dialog
          title="Discard the draft"
          onClose={() => show("")}
          actions={
            <>
              <Button onClick={() => show("")}>Keep it</Button>
              <Button
                look="danger"
                onClick={async () => {
                  show("");
                  try {
                    await discardDraft(slug, opened.revision);
                    const fresh = await openText(slug);
                    store.replace(fresh.text, "Discard the draft");
                    afterSave(fresh);
                    tellEveryone(`The draft of ${slug} is discarded`);
                  } catch (error) {
                    setRefused(`The draft is not discarded: ${errorText(error).text}`);
                  }
                }}
              >
                Discard it
              </Button>
            </>
          }
        >
          <p>The draft that is saved goes, and the editor shows the current version again. Undo brings its text back into the editor.</p>
        </Dialog>
      )}
      {conflict && (
        <ConflictDialog
          base={opened.text}
          theirs={conflict.text}
          mine={state.text}
          by={conflict.by}
          onClose={() => setConflict(null)}
          onResolve={(text) => {
            store.replace(text, "Bring both texts together");
            setOpened(conflict);
            void save(text, conflict);
          }}
        />
      )}
      {blocker.status === "blocked" && (
        <Dialog
          title="Leave without saving?"
          onClose={() => blocker.reset()}
          actions={
            <>
              <Button onClick={() => blocker.proceed()}>Leave</Button>
              <Button
                look="main"
                onClick={async () => {
                  if (await save()) blocker.proceed();
                  else blocker.reset();
                }}
              >
                Save the draft and leave
              </Button>
            </>
          }
        >
          <p>The text has changes that are not saved. This tab keeps them, and offers them when you come back.</p>
        </Dialog>
      )}
    </Page>
  );
}

/** Takes over what stands in a field that is still being edited, and returns the text. */
function commitFields(store: DefinitionStore): string {
  const field = document.activeElement;
  if (field instanceof HTMLElement && field.dataset["commits"] !== undefined) {
    field.blur();
    field.focus();
  }
  return store.get().text;
}

function viewName(text: string, otherwise: ViewName): ViewName {
  return text === "canvas" || text === "form" || text === "text" ? text : otherwise;
}

/** The fix of a finding, where it sets, adds or removes one value. */
function fixAction(finding: Finding, value: unknown): Action | null {
  const edits: Action["edits"] = [];
  for (const one of finding.fix) {
    const { op, path, value: to } = one as { op?: string; path?: string; value?: never };
    if (path === undefined || !["replace", "add", "remove"].includes(op ?? "")) return null;
    let at: unknown = value;
    const keys = path.split("/").slice(1).map((part) => {
      const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
      const step = Array.isArray(at) ? Number(key) : key;
      at = (at as Record<string | number, unknown> | undefined)?.[step];
      return step;
    });
    if (op === "add" && typeof keys.at(-1) === "number") return null;
    edits.push(op === "remove" ? { op: "remove", path: keys } : { op: "set", path: keys, value: to! });
  }
  return edits.length === 0 ? null : { label: "Mend a problem", edits };
}

function Standing({ opened, isDirty }: { opened: OpenedText; isDirty: boolean }) {
  const { definition, kind } = opened;
  const said = kind === "draft" ? "A draft" : kind === "version" ? `Version ${definition?.version}` : "A new definition";
  return (
    <>
      {said}
      {kind === "draft" && (
        <>
          {" "}
          of {opened.by}, saved <TimeText at={opened.at} />
          {definition?.version ? `; the current version is ${definition.version}` : "; nothing is published yet"}
        </>
      )}
      {isDirty ? " · not saved" : ""}
    </>
  );
}

/** Says that somebody else has changed the definition since it was opened. */
function ChangedMeanwhile({ slug, opened }: { slug: string; opened: OpenedText }) {
  const now = queries.useQuery("get", "/api/workflows/{definition}", { params: { path: { definition: slug } } }, { enabled: opened.definition !== null, ...usePolling(10) });
  const revision = now.data === undefined ? null : Number(now.data.revision);
  if (revision === null || opened.revision === null || revision <= opened.revision) return null;
  return <Notice look="warn">{now.data?.updatedBy || "Somebody else"} has changed this definition since you opened it. When you save, both texts are brought together.</Notice>;
}

/** Asks the server what it finds in the text, a moment after the last change. */
function useChecks(slug: string, text: string, isBroken: boolean) {
  const settled = useSettledValue(text, CHECK_MS);
  const { data, error } = useQuery({
    queryKey: ["preview", slug, settled],
    queryFn: async () => ({ text: settled, found: await previewOf(slug, settled) }),
    enabled: !isBroken && settled.trim() !== "",
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 10_000,
    placeholderData: (before) => before,
  });
  return { found: data?.found, isCurrent: data?.text === text, failure: error ? errorText(error).text : "" };
}

/** The format of definitions, and the kinds of steps. */
function useFormat() {
  const format = queries.useQuery("get", "/api/definition-format", {}, { staleTime: 600_000 });
  const kinds = queries.useQuery("get", "/api/kinds", {}, { staleTime: 600_000 });
  const items = kinds.data?.items;
  const configs = useMemo(() => new Map((items ?? []).map((one) => [one.name, one.config as JsonSchema])), [items]);
  const verbs = useMemo(() => {
    const titles = new Map((items ?? []).map((one) => [one.name, one]));
    const own = VERBS.map((one) => ({ ...one, says: titles.get(one.name)?.summary ?? one.says }));
    return [...own, ...(items ?? []).filter((one) => !isVerb(one.name)).map(verbOfKind)];
  }, [items]);
  return { schema: (format.data?.schema ?? null) as JsonSchema | null, configs, verbs, failure: format.error };
}

function useMedia(query: string): boolean {
  const list = useMemo(() => matchMedia(query), [query]);
  return useSyncExternalStore(
    (listener) => {
      list.addEventListener("change", listener);
      return () => list.removeEventListener("change", listener);
    },
    () => list.matches,
  );
}
