// Proposals: changes of definitions that wait for a review, and those that are done.
import { Link, useNavigate } from "@tanstack/react-router";
import { api, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { usePolling } from "@/api/polling";
import { Button } from "@/parts/button";
import { type Column, DataTable } from "@/parts/data-table";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { Page } from "@/parts/page";
import { TimeText } from "@/parts/time-text";
import { useView } from "@/shell/search";
import { countText } from "@/words/times";
import { ProposalState } from "./proposal-state";
import { proposalState } from "./proposal-words";
import styles from "@/approvals/approval-list-page.module.css";

type Row = Schemas["ProposalSummary"];

const COLUMNS: Column<Row>[] = [
  { id: "state", title: "State", width: "8rem", cell: (row) => <ProposalState proposal={row} /> },
  { id: "slug", title: "Definition", width: "2fr", cell: (row) => <Link to="/proposals/$id" params={{ id: row.id }}><bdi>{row.slug}</bdi></Link> },
  { id: "note", title: "Note", width: "3fr", wideOnly: true, cell: (row) => <bdi>{row.note}</bdi> },
  { id: "by", title: "Proposed by", width: "1.5fr", wideOnly: true, cell: (row) => row.proposedBy },
  { id: "at", title: "When", width: "1fr", cell: (row) => <TimeText at={row.createdAt} /> },
  { id: "expires", title: "Expires", width: "1fr", wideOnly: true, cell: (row) => (row.status === "pending" || row.status === "approved" ? <TimeText at={row.expiresAt} /> : "") },
];

/** The list of proposals. */
export function ProposalListPage() {
  const view = useView();
  const navigate = useNavigate();
  const isOpen = view.text("of") !== "all";
  const definition = view.text("definition");
  const query = { open: isOpen || undefined, definition: definition || undefined, limit: 50 };
  const found = usePages("/api/proposals", query, (after?: string) => api.GET("/api/proposals", { params: { query: { ...query, after } } }), usePolling(10));
  const rows = found.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Page
      title="Proposals"
      name="Proposals"
      below={definition && `For ${definition}`}
      actions={
        <div role="group" aria-label="Which proposals" className={styles.choice}>
          <Button aria-pressed={isOpen} look={isOpen ? "main" : "plain"} onClick={() => view.change({ of: undefined })}>
            Open
          </Button>
          <Button aria-pressed={!isOpen} look={isOpen ? "plain" : "main"} onClick={() => view.change({ of: "all" })}>
            All
          </Button>
          {definition && <Button onClick={() => view.change({ definition: undefined })}>Of all definitions</Button>}
        </div>
      }
    >
      {found.error && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && <Loading what="the proposals" />}
      {found.data && rows.length === 0 && (
        <Empty title={isOpen ? "No proposal is open" : "There are no proposals yet"}>
          <p>
            People, programs and agents propose changes of definitions that allow it (<code>allow: {"{self_edit: true}"}</code>): in the editor, by the API, or with <code>perdure propose</code>.
          </p>
        </Empty>
      )}
      {rows.length > 0 && (
        <DataTable
          label="Proposals"
          rows={rows}
          columns={COLUMNS}
          keyOf={(row) => row.id}
          nameOf={(row) => `${row.slug}: ${proposalState(row)}`}
          onOpen={(row) => void navigate({ to: "/proposals/$id", params: { id: row.id } })}
          onEnd={() => found.hasNextPage && !found.isFetchingNextPage && void found.fetchNextPage()}
        />
      )}
      <p role="status" className={styles.count}>
        {found.data && `${countText(rows.length)} shown${found.hasNextPage ? ", more below" : ""}`}
      </p>
    </Page>
  );
}
