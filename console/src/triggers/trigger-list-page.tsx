// The list of triggers: when each starts something, how it stands, and when it is due next.
import { Link, useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { api } from "@/api/client";
import { usePages } from "@/api/pages";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { type Column, DataTable } from "@/parts/data-table";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { Page } from "@/parts/page";
import { TimeText } from "@/parts/time-text";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { useShortcut } from "@/shell/shortcuts";
import { TriggerFormDialog } from "./trigger-form-dialog";
import { TriggerState } from "./trigger-state";
import { type Trigger, triggerSentence, triggerState, TYPE_NAMES } from "./trigger-words";

const COLUMNS: Column<Trigger>[] = [
  {
    id: "name",
    title: "Trigger",
    width: "2fr",
    cell: (one) => (
      <Link to="/triggers/$id" params={{ id: one.id }} title={one.id}>
        {one.name}
      </Link>
    ),
  },
  { id: "workflow", title: "Starts", width: "2fr", wideOnly: true, cell: (one) => one.workflowId && <Link to="/workflows/$slug" params={{ slug: slugOf(one.workflowId) }}>{one.workflowId}</Link> },
  { id: "when", title: "When", width: "4fr", wideOnly: true, cell: (one) => <span title={triggerSentence(one)}>{triggerSentence(one)}</span> },
  { id: "state", title: "State", width: "2fr", cell: (one) => <TriggerState trigger={one} /> },
  { id: "next", title: "Next", width: "7rem", wideOnly: true, cell: (one) => <TimeText at={one.enabled && !one.pause ? one.dueAt : null} /> },
  { id: "last", title: "Last run", width: "7rem", wideOnly: true, cell: (one) => <TimeText at={one.lastRunAt} missing="never" /> },
];

/** The slug in a reference such as `billing@1.2.0` or `billing:production`. */
export function slugOf(reference: string): string {
  return reference.replace(/[@:].*$/, "");
}

/** The page of all triggers. */
export function TriggerListPage() {
  const view = useView();
  const navigate = useNavigate();
  const author = useRefusal("author");
  const [isCreating, setCreating] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  useShortcut("/", "search", () => search.current?.focus());
  const [text, type, workflow, state] = ["q", "type", "workflow", "state"].map(view.text) as [string, string, string, string];
  const query = { type: (type || undefined) as Trigger["type"] | undefined, workflowId: workflow || undefined, enabled: state === "off" ? false : state ? true : undefined, limit: 200 };
  const pages = usePages("/api/triggers", query, (after?: string) => api.GET("/api/triggers", { params: { query: { ...query, after } } }), {
    placeholderData: (before) => before,
    ...usePolling(),
  });
  const all = pages.data?.pages.flatMap((one) => one.items) ?? [];
  const wanted = text.toLowerCase();
  const rows = all.filter((one) => [one.name, one.id, one.workflowId].some((field) => field.toLowerCase().includes(wanted)) && (state !== "paused" || one.pause !== null) && (state !== "on" || one.pause === null));
  const isFiltered = Boolean(text || type || workflow || state);
  return (
    <Page
      title="Triggers"
      name="Triggers"
      actions={
        <Button look="main" refusal={author} onClick={() => setCreating(true)}>
          New trigger…
        </Button>
      }
    >
      <search className={blocks.row}>
        <input ref={search} type="search" aria-label="Search triggers" placeholder="Name, id or workflow" className={blocks.search} value={text} onChange={(event) => view.change({ q: event.target.value }, true)} dir="auto" />
        <select aria-label="Type" className={blocks.choice} value={type} onChange={(event) => view.change({ type: event.target.value })}>
          <option value="">of any type</option>
          {Object.entries(TYPE_NAMES).map(([one, name]) => (
            <option key={one} value={one}>
              {name}
            </option>
          ))}
        </select>
        <select aria-label="State" className={blocks.choice} value={state} onChange={(event) => view.change({ state: event.target.value })}>
          <option value="">in any state</option>
          <option value="on">active</option>
          <option value="paused">paused, or circuit breaker open</option>
          <option value="off">disabled</option>
        </select>
        {workflow && (
          <Button onClick={() => view.change({ workflow: undefined })}>
            starts {workflow} <span aria-label="Remove this filter">✕</span>
          </Button>
        )}
      </search>
      {pages.error && <ErrorNotice error={pages.error} onRetry={() => void pages.refetch()} />}
      {pages.isPending && <Loading what="the triggers" />}
      {pages.data && rows.length === 0 && !pages.hasNextPage && (
        <Empty title={isFiltered ? "No trigger fits the search" : "There is no trigger yet"}>
          {isFiltered ? (
            <Button onClick={() => view.change({ q: undefined, type: undefined, workflow: undefined, state: undefined })}>Show all</Button>
          ) : (
            <p>A trigger starts executions at times, on requests, on events, or by hand. Definitions and code declare their own; others are made here.</p>
          )}
        </Empty>
      )}
      {rows.length > 0 && (
        <DataTable label="Triggers" rows={rows} columns={COLUMNS} keyOf={(one) => one.id} nameOf={(one) => `${one.name}, starts ${one.workflowId || "a prompt"}: ${triggerState(one).word}`} onOpen={(one) => void navigate({ to: "/triggers/$id", params: { id: one.id } })} />
      )}
      {pages.hasNextPage && (
        <div>
          <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            More triggers
          </Button>
        </div>
      )}
      {isCreating && <TriggerFormDialog onClose={() => setCreating(false)} onSaved={(made) => void navigate({ to: "/triggers/$id", params: { id: made.id } })} />}
    </Page>
  );
}
