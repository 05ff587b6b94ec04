// Approvals that wait: those of the viewer and all, those that are due first first.
import { Link, useNavigate } from "@tanstack/react-router";
import { api, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { usePolling } from "@/api/polling";
import { Button } from "@/parts/button";
import { type Column, DataTable } from "@/parts/data-table";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { Page } from "@/parts/page";
import { TimeText } from "@/parts/time-text";
import { useIdentity } from "@/shell/identity";
import { useView } from "@/shell/search";
import { countText, serverNow } from "@/words/times";
import styles from "./approval-list-page.module.css";

type Approval = Schemas["Approval"];

const columnsOf = (list: string[]): Column<Approval>[] => [
  {
    id: "title",
    title: "Question",
    width: "3fr",
    cell: (row) => (
      <Link to="/approvals/$id" params={{ id: row.id }} state={{ list } as never}>
        <bdi>{row.title}</bdi>
      </Link>
    ),
  },
  { id: "due", title: "Due", width: "1fr", cell: (row) => <Due row={row} /> },
  { id: "execution", title: "Asked by", width: "2fr", wideOnly: true, cell: (row) => (row.requestedBy ? <span dir="ltr"><bdi>{row.requestedBy.workflow}</bdi>/<bdi>{row.requestedBy.id}</bdi></span> : "") },
  { id: "assignees", title: "Who may decide", width: "1.5fr", wideOnly: true, cell: (row) => row.assignees.join(", ") || "anybody" },
  { id: "votes", title: "Votes", width: "5rem", wideOnly: true, cell: (row) => `${row.votes.length} of ${row.quorum}` },
  { id: "priority", title: "Priority", width: "6rem", wideOnly: true, cell: (row) => row.priority ?? "normal" },
];

/** The list of approvals that wait. */
export function ApprovalListPage() {
  const view = useView();
  const navigate = useNavigate();
  const identity = useIdentity();
  const isProgram = /^(key:|local$)/.test(identity?.subject ?? "");
  const isMine = view.text("of") !== "all" && !(isProgram && view.text("of") !== "mine");
  const others = { overdue: view.text("overdue") === "true" || undefined, workflow: view.text("workflow") || undefined };
  const query = { ...others, mine: isMine || undefined, limit: 50 };
  const found = usePages("/api/approvals", query, (after?: string) => api.GET("/api/approvals", { params: { query: { ...query, after } } }), {
    enabled: identity !== undefined && !(isMine && isProgram),
    ...usePolling(),
  });
  const rows = found.data?.pages.flatMap((page) => page.items) ?? [];
  const list = rows.map(({ id }) => id);
  const open = (row: Approval) => void navigate({ to: "/approvals/$id", params: { id: row.id }, state: { list } as never });
  return (
    <Page
      title="Approvals"
      name="Approvals"
      actions={
        <div role="group" aria-label="Which approvals" className={styles.choice}>
          <Button aria-pressed={isMine} look={isMine ? "main" : "plain"} onClick={() => view.change({ of: isProgram ? "mine" : undefined })}>
            Mine
          </Button>
          <Button aria-pressed={!isMine} look={isMine ? "plain" : "main"} onClick={() => view.change({ of: "all" })}>
            All
          </Button>
          <label className={styles.check}>
            <input type="checkbox" checked={Boolean(others.overdue)} onChange={(event) => view.change({ overdue: event.target.checked || undefined })} /> Overdue alone
          </label>
        </div>
      }
    >
      {isProgram && isMine ? (
        <Empty title="You use the key of a program, which has no approvals of its own">
          <Button onClick={() => view.change({ of: "all" })}>Show all</Button>
        </Empty>
      ) : (
        found.error && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />
      )}
      {found.isLoading && <Loading what="the approvals" />}
      {found.data && rows.length === 0 && (
        <Empty title={isMine ? "Nothing waits for your decision" : "Nothing waits for a decision"}>{isMine && <Button onClick={() => view.change({ of: "all" })}>Show those of all people</Button>}</Empty>
      )}
      {rows.length > 0 && (
        <DataTable
          label="Approvals that wait"
          rows={rows}
          columns={columnsOf(list)}
          keyOf={(row) => row.id}
          nameOf={(row) => row.title}
          onOpen={open}
          onEnd={() => found.hasNextPage && !found.isFetchingNextPage && void found.fetchNextPage()}
        />
      )}
      <p role="status" className={styles.count}>
        {found.data && `${countText(rows.length)} shown${found.hasNextPage ? ", more below" : ""}`}
      </p>
    </Page>
  );
}

function Due({ row }: { row: Approval }) {
  const at = row.dueAt ?? row.timesOutAt;
  if (!at) return <>–</>;
  return Date.parse(at) < serverNow() ? (
    <span className={styles.overdue}>
      overdue, <TimeText at={at} />
    </span>
  ) : (
    <TimeText at={at} />
  );
}
