// The home of the console: executions by a filter, newest first, live, with commands for all that a filter selects.
import { type InfiniteData, useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState } from "react";
import { api, queryClient, type Schemas } from "@/api/client";
import type { Change } from "@/api/live";
import { pagesKey, pagesOptions } from "@/api/pages";
import { useChanges } from "@/api/use-live";
import { Button } from "@/parts/button";
import { type Column, DataTable } from "@/parts/data-table";
import { Menu } from "@/parts/menu";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { Page } from "@/parts/page";
import { StateMark } from "@/parts/state-mark";
import { DurationText, TimeText } from "@/parts/time-text";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { countText } from "@/words/times";
import { stateWord } from "@/words/states";
import { StartSomethingDialog } from "@/workflows/start-dialog";
import { useWorkflowNames } from "@/workflows/workflow-data";
import { BulkDialog, type BulkAction } from "./bulk-dialog";
import { ColumnDialog } from "./column-dialog";
import { apiFilter, bareWords, type ExecutionFilter, filterOf, searchOf } from "./execution-filter";
import type { ExecutionKey } from "./execution-reads";
import { FilterBar } from "./filter-bar";
import { type ColumnName, columnsOf, DEFAULT_COLUMNS } from "./list-columns";
import { rememberList } from "./neighbours";
import { NumberStrip } from "./number-strip";
import { SavedViews } from "./saved-view-menu";
import styles from "./list-page.module.css";

type Row = Schemas["ListedExecution"];
type Rows = InfiniteData<Schemas["ExecutionPage"]>;

const PAGE_ROWS = 50;

/** The list of executions. */
export function ExecutionListPage() {
  const view = useView();
  const navigate = useNavigate();
  const filter = filterOf(view);
  const columns = columnsOf(view.list("columns"));
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [bulk, setBulk] = useState<{ action: BulkAction; keys: ExecutionKey[] } | null>(null);
  const [dialog, setDialog] = useState<"" | "columns" | "start">("");
  const refusal = useRefusal("operator");
  const { rows, found, added, showAdded } = useRows(filter);
  const workflows = useWorkflowNames();
  const attributes = useMemo(() => [...new Set(rows.flatMap((row) => Object.keys(row.attributes ?? {})))].sort(), [rows]);
  const change = (next: ExecutionFilter) => {
    setChosen(new Set());
    view.change(searchOf(next));
  };
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = found;
  const readOn = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, hasNextPage, isFetchingNextPage]);
  const scanned = found.data?.pages.reduce((sum, page) => sum + (page.scanned ?? 0), 0) ?? 0;
  const bulkRefusal = refusal || (filter.text && chosen.size === 0 ? "Of what was found by text, choose those that you mean" : "");
  return (
    <Page
      title="Executions"
      name="Executions"
      actions={
        <>
          <Button look="main" refusal={refusal} onClick={() => setDialog("start")}>
            Start …
          </Button>
          <SavedViews />
          <Button onClick={() => setDialog("columns")}>Columns</Button>
          <Menu
            title={chosen.size ? `With ${countText(chosen.size)} chosen` : "With all of the filter"}
            items={(["cancel", "pause", "resume", "retry", "undo", "terminate"] as const).map((action) => ({
              title: `${stateWord(action).word[0]?.toUpperCase()}${action.slice(1)} …`,
              refusal: bulkRefusal,
              danger: action === "terminate",
              onChoose: () => setBulk({ action, keys: [...chosen].map(keyFrom) }),
            }))}
          />
        </>
      }
    >
      <NumberStrip />
      <FilterBar filter={filter} onChange={change} workflows={workflows} attributes={attributes} />
      {added > 0 && (
        <Button onClick={showAdded} className={styles.added}>
          {countText(added)} new; show {added === 1 ? "it" : "them"}
        </Button>
      )}
      {found.error && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && <Loading what="the executions" />}
      {found.data && rows.length === 0 && !hasNextPage && <NoRows filter={filter} onChange={change} />}
      {rows.length > 0 && (
        <DataTable
          label="Executions"
          rows={rows}
          columns={columns.map((name) => columnOf(name, filter, change, () => rememberList(rows)))}
          keyOf={keyOf}
          nameOf={(row) => `${row.workflow}/${row.id}: ${stateWord(row.status).word}`}
          onOpen={(row) => {
            rememberList(rows);
            void navigate({ to: "/executions/$workflow/$id", params: { workflow: row.workflow, id: row.id } });
          }}
          chosen={chosen}
          onChoose={setChosen}
          onEnd={readOn}
        />
      )}
      <p role="status" className={styles.count}>
        {found.data && `${countText(rows.length)} shown${hasNextPage ? ", more below" : ""}`}
        {scanned > 0 && `; the search for text has looked through ${countText(scanned)} executions, newest first`}
        {hasNextPage && (
          <Button look="quiet" busy={isFetchingNextPage} onClick={readOn}>
            {filter.text ? "Look further" : "Show more"}
          </Button>
        )}
      </p>
      {bulk && <BulkDialog action={bulk.action} filter={filter} keys={bulk.keys} onClose={() => setBulk(null)} />}
      {dialog === "columns" && <ColumnDialog columns={columns} attributes={attributes} onChange={(next) => view.change({ columns: next.join() === DEFAULT_COLUMNS.join() ? undefined : next }, true)} onClose={() => setDialog("")} />}
      {dialog === "start" && <StartSomethingDialog onClose={() => setDialog("")} />}
    </Page>
  );
}

function NoRows({ filter, onChange }: { filter: ExecutionFilter; onChange: (filter: ExecutionFilter) => void }) {
  const bare = bareWords(filter);
  return Object.values(searchOf(filter)).some((one) => one !== undefined) ? (
    <Empty title="No execution fits this filter">
      {bare.length > 0 ? (
        <>
          <p>A word alone is the name of an attribute: none that fits has {bare.join(", ")}.</p>
          <Button onClick={() => onChange({ ...filter, q: filter.q.filter((one) => !bare.includes(one)), text: bare.join(" ") })}>Look for the text “{bare.join(" ")}”</Button>
        </>
      ) : (
        <p>Remove a filter above, or look at a longer time.</p>
      )}
    </Empty>
  ) : (
    <Empty title="There are no executions yet">
      <p>
        Start one here, with <code>perdure run</code>, or from your program. They appear by themselves.
      </p>
    </Empty>
  );
}

function keyOf(row: ExecutionKey): string {
  return `${encodeURIComponent(row.workflow)}/${encodeURIComponent(row.id)}`;
}

/** The execution whose key is `text`, which need not be among the rows any more. */
function keyFrom(text: string): ExecutionKey {
  const [workflow = "", id = ""] = text.split("/").map(decodeURIComponent);
  return { workflow, id };
}

function columnOf(name: ColumnName, filter: ExecutionFilter, change: (filter: ExecutionFilter) => void, onOpen: () => void): Column<Row> {
  switch (name) {
    case "status":
      return { id: name, title: "Status", width: "9.5rem", narrowWidth: "7.25rem", cell: (row) => <StateMark state={row.status} /> };
    case "execution":
      return {
        id: name,
        title: "Execution",
        width: "3fr",
        cell: (row) => (
          <Link to="/executions/$workflow/$id" params={{ workflow: row.workflow, id: row.id }} title={`${row.workflow}/${row.id}`} onClick={onOpen}>
            <span dir="ltr">
              <bdi>{row.workflow}</bdi>/<bdi>{row.id}</bdi>
            </span>
          </Link>
        ),
      };
    case "workflow":
      return { id: name, title: "Workflow", width: "2fr", cell: (row) => row.workflow };
    case "started":
      return { id: name, title: "Created", width: "1.2fr", wideOnly: true, cell: (row) => <TimeText at={row.createdAt} /> };
    case "took":
      return { id: name, title: "Took", width: "1fr", wideOnly: true, cell: (row) => <DurationText from={row.createdAt} until={row.completedAt} /> };
    case "error":
      return { id: name, title: "Error", width: "1.5fr", wideOnly: true, cell: (row) => row.errorType ?? "" };
    case "holder":
      return { id: name, title: "Engine", width: "1fr", wideOnly: true, cell: (row) => row.holder ?? "" };
    case "due":
      return { id: name, title: "Due", width: "1fr", wideOnly: true, cell: (row) => <TimeText at={row.dueAt} missing="" /> };
    case "version":
      return { id: name, title: "Version", width: "6rem", wideOnly: true, cell: (row) => String(row.workflowVersion) };
    default: {
      const attribute = name.slice(1);
      const mark = filter.order === attribute ? " ↑" : filter.order === `-${attribute}` ? " ↓" : "";
      const next = filter.order === `-${attribute}` ? attribute : filter.order === attribute ? "" : `-${attribute}`;
      return {
        id: name,
        title: (
          <button type="button" className={styles.order} title="Order by it: greatest first, least first, not at all" onClick={() => change({ ...filter, order: next })}>
            {attribute}
            {mark}
          </button>
        ),
        width: "1fr",
        wideOnly: true,
        cell: (row) => attributeText((row.attributes as Record<string, unknown> | undefined)?.[attribute]),
      };
    }
  }
}

function attributeText(value: unknown): string {
  return value === undefined ? "" : Array.isArray(value) ? value.map(String).join(", ") : String(value);
}

/** Begins to read the list that search parameters name, before it is drawn. */
export function prefetchList(search: URLSearchParams): void {
  const filter = filterOf({ text: (name) => search.get(name) ?? "", list: (name) => search.getAll(name) });
  void queryClient.prefetchInfiniteQuery(rowsOptions(queryOf(filter)));
}

const queryOf = (filter: ExecutionFilter) => ({ ...apiFilter(filter), text: filter.text || undefined, limit: PAGE_ROWS });

function rowsOptions(query: ReturnType<typeof queryOf>) {
  return pagesOptions("/api/executions", query, (after?: string) => api.GET("/api/executions", { params: { query: { ...query, after } } }), { staleTime: 5_000, refetchOnWindowFocus: false });
}

/** The rows of a filter, page by page. A row changes in its place; new executions are counted, and come in when they are asked for. */
function useRows(filter: ExecutionFilter) {
  const client = useQueryClient();
  const [added, setAdded] = useState<ReadonlySet<string>>(new Set());
  const query = queryOf(filter);
  const found = useInfiniteQuery(rowsOptions(query));
  const key = JSON.stringify(query);
  useEffect(() => setAdded(new Set()), [key]);
  const hear = useCallback(
    (change: Change) => {
      const queryKey = pagesKey("/api/executions", JSON.parse(key) as object);
      if (change.type === "reset") void client.invalidateQueries({ queryKey });
      const row = change.execution;
      if (!row) return;
      let isShown = false;
      client.setQueryData<Rows>(queryKey, (before) => {
        const pages = before?.pages.map((page) => {
          const index = page.items.findIndex((one) => one.id === row.id && one.workflow === row.workflow);
          if (index < 0) return page;
          isShown = true;
          return { ...page, items: page.items.with(index, row) };
        });
        return before && isShown && pages ? { ...before, pages } : before;
      });
      if (change.type === "began" && !isShown && mayFit(filter, row)) setAdded((before) => new Set(before).add(keyOf(row)));
    },
    [client, key],
  );
  useChanges(hear);
  const rows = useMemo(() => found.data?.pages.flatMap((page) => page.items) ?? [], [found.data]);
  return {
    rows,
    found,
    added: added.size,
    showAdded: () => {
      setAdded(new Set());
      void found.refetch();
    },
  };
}

/** Whether a new execution may belong to a filter: what only the server can say counts as yes. */
function mayFit(filter: ExecutionFilter, row: Row): boolean {
  return (
    (!filter.workflow || filter.workflow === row.workflow) &&
    row.id.startsWith(filter.id) &&
    (filter.status.length === 0 || filter.status.includes(row.status)) &&
    !filter.error &&
    !filter.fingerprint &&
    !filter.failedSince
  );
}
