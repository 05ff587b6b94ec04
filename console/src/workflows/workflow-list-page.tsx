// The list of workflows, definitions and code, with the outcomes of the last 24 hours.
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
import { WordsDialog } from "@/proposals/words-dialog";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { useShortcut } from "@/shell/shortcuts";
import { stateWord } from "@/words/states";
import { ImportDialog } from "./import-dialog";
import { OutcomeStrip } from "./outcome-strip";
import { isDefinition, type ListedWorkflow, type Outcomes, useOutcomes } from "./workflow-data";

const KINDS = [
  ["", "definitions and code"],
  ["definition", "definitions"],
  ["code", "code"],
] as const;

/** The page of all workflows. */
export function WorkflowListPage() {
  const view = useView();
  const navigate = useNavigate();
  const author = useRefusal("author");
  const operator = useRefusal("operator");
  const [isImporting, setImporting] = useState(false);
  const [isDescribing, setDescribing] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  useShortcut("/", "search", () => search.current?.focus());
  const [text, tag, kind, state] = ["q", "tag", "kind", "state"].map(view.text) as [string, string, string, string];
  const query = {
    text: text || undefined,
    tag: tag || undefined,
    kind: (kind || undefined) as "code" | "definition" | undefined,
    enabled: state === "on" ? true : state === "off" ? false : undefined,
    hasDraft: state === "draft" ? true : undefined,
    limit: 100,
  };
  const pages = usePages("/api/workflows", query, (after?: string) => api.GET("/api/workflows", { params: { query: { ...query, after } } }), {
    placeholderData: (before) => before,
    ...usePolling(15),
  });
  const all = pages.data?.pages ?? [];
  const rows: ListedWorkflow[] = [...all.flatMap((one) => one.items), ...all.flatMap((one) => one.code ?? [])];
  const tags = [...new Set(rows.filter(isDefinition).flatMap((one) => one.tags))].sort();
  const outcomes = useOutcomes(rows.map((one) => one.slug));
  const isFiltered = Boolean(text || tag || kind || state);
  return (
    <Page
      title="Workflows"
      name="Workflows"
      actions={
        <>
          <Button look="main" refusal={author} onClick={() => setImporting(true)}>
            Import…
          </Button>
          <Button refusal={author || operator} onClick={() => setDescribing(true)}>
            Describe a workflow…
          </Button>
        </>
      }
    >
      <search className={blocks.row}>
        <input ref={search} type="search" aria-label="Search workflows" placeholder="Name, description or tag" className={blocks.search} value={text} onChange={(event) => view.change({ q: event.target.value }, true)} dir="auto" />
        <Choice label="Kind" value={kind} choices={KINDS} onChange={(value) => view.change({ kind: value })} />
        <Choice
          label="State"
          value={state}
          choices={[["", "in any state"], ["on", "taking new starts"], ["off", "new starts paused"], ["draft", "with a draft"]]}
          onChange={(value) => view.change({ state: value })}
        />
        {(tags.length > 0 || tag) && (
          <Choice label="Tag" value={tag} choices={[["", "any tag"], ...[...new Set([...tags, ...(tag ? [tag] : [])])].map((one) => [one, one] as const)]} onChange={(value) => view.change({ tag: value })} />
        )}
      </search>
      {pages.error && <ErrorNotice error={pages.error} onRetry={() => void pages.refetch()} />}
      {pages.isPending && <Loading what="the workflows" />}
      {pages.data && rows.length === 0 && (
        <Empty title={isFiltered ? "No workflow fits the search" : "There is no workflow yet"}>
          {isFiltered ? <Button onClick={() => view.change({ q: undefined, tag: undefined, kind: undefined, state: undefined })}>Show all</Button> : <p>Import a definition, or start a worker with code: <code>perdure worker flows.py</code>.</p>}
        </Empty>
      )}
      {rows.length > 0 && (
        <>
          <p className="visually-hidden" role="status">
            {rows.length} workflows{pages.hasNextPage ? ", and more" : ""}
          </p>
          <DataTable
            label="Workflows"
            rows={rows}
            columns={columnsOf(outcomes)}
            keyOf={(one) => `${one.kind} ${one.slug}`}
            nameOf={(one) => `${one.slug}: ${isDefinition(one) ? (one.enabled ? "takes new starts" : "new starts are paused") : "code"}`}
            onOpen={(one) => void navigate({ to: "/workflows/$slug", params: { slug: one.slug } })}
            onEnd={pages.hasNextPage && !pages.isFetchingNextPage ? () => void pages.fetchNextPage() : undefined}
          />
        </>
      )}
      {isImporting && <ImportDialog onClose={() => setImporting(false)} />}
      {isDescribing && <WordsDialog onClose={() => setDescribing(false)} />}
    </Page>
  );
}

function columnsOf(outcomes: Outcomes): Column<ListedWorkflow>[] {
  return [
    {
      id: "name",
      title: "Workflow",
      width: "3fr",
      cell: (one) => (
        <>
          <Link to="/workflows/$slug" params={{ slug: one.slug }} title={isDefinition(one) ? one.description || one.name : undefined}>
            {one.slug}
          </Link>{" "}
          {isDefinition(one) && !one.enabled && <span className={blocks.warn} title="New starts are paused">{stateWord("paused").glyph}</span>}{" "}
          <span className={blocks.chips}>{isDefinition(one) && one.tags.map((tag) => <span key={tag} className={blocks.chip}>{tag}</span>)}</span>
        </>
      ),
    },
    { id: "kind", title: "Version", width: "9rem", wideOnly: true, cell: (one) => (isDefinition(one) ? `${one.version || "no version yet"}${one.hasDraft ? ", draft" : ""}` : `${one.version}, code`) },
    {
      id: "state",
      title: "New starts",
      width: "7rem",
      wideOnly: true,
      cell: (one) => (!isDefinition(one) ? (one.engines.length ? "taken" : "no engine") : one.enabled ? "taken" : <strong className={blocks.warn}>{stateWord("paused").glyph} paused</strong>),
    },
    {
      id: "outcomes",
      title: "Started in 24 h",
      width: "2fr",
      cell: (one) => {
        const found = outcomes.byWorkflow.get(one.slug);
        return found ? <OutcomeStrip of={found} fromAt={outcomes.fromAt} untilAt={outcomes.untilAt} /> : <span className={blocks.soft}>…</span>;
      },
    },
    { id: "changed", title: "Changed", width: "8rem", wideOnly: true, cell: (one) => (isDefinition(one) ? <TimeText at={one.updatedAt} /> : "–") },
  ];
}

function Choice({ label, value, choices, onChange }: { label: string; value: string; choices: readonly (readonly [string, string])[]; onChange: (value: string) => void }) {
  return (
    <select aria-label={label} className={blocks.choice} value={value} onChange={(event) => onChange(event.target.value)}>
      {choices.map(([one, shown]) => (
        <option key={one} value={one}>
          {shown}
        </option>
      ))}
    </select>
  );
}
