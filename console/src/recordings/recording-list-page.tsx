// Recordings: sessions in which somebody calls tools one by one, and of which a definition can be made.
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { usePolling } from "@/api/polling";
import { Button } from "@/parts/button";
import { type Column, DataTable } from "@/parts/data-table";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { Page } from "@/parts/page";
import { StateMark } from "@/parts/state-mark";
import { TimeText } from "@/parts/time-text";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { stateWord } from "@/words/states";
import { countText } from "@/words/times";
import styles from "@/approvals/approval-list-page.module.css";
import { StartRecordingDialog } from "./recording-dialogs";
import { recordingState } from "./recording-words";

type Row = Schemas["ListedRecording"];

const COLUMNS: Column<Row>[] = [
  { id: "state", title: "State", width: "9.5rem", narrowWidth: "7.25rem", cell: (row) => <StateMark state={recordingState(row)} /> },
  { id: "title", title: "Recording", width: "3fr", cell: (row) => <Link to="/recordings/$id" params={{ id: row.id }}><bdi>{row.title || row.id}</bdi></Link> },
  { id: "by", title: "Begun by", width: "1.5fr", wideOnly: true, cell: (row) => <bdi>{row.initiator ?? ""}</bdi> },
  { id: "at", title: "Begun", width: "1fr", narrowWidth: "5.5rem", cell: (row) => <TimeText at={row.createdAt} /> },
  { id: "ended", title: "Ended", width: "1fr", wideOnly: true, cell: (row) => <TimeText at={row.completedAt} missing="" /> },
];

/** The list of recordings. */
export function RecordingListPage() {
  const view = useView();
  const navigate = useNavigate();
  const [isStarting, setStarting] = useState(false);
  const refusal = useRefusal("operator", "recordings.start");
  const isOpen = view.text("of") !== "all";
  const query = { open: isOpen || undefined, limit: 50 };
  const found = usePages("/api/recordings", query, (after?: string) => api.GET("/api/recordings", { params: { query: { ...query, after } } }), usePolling());
  const rows = found.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Page
      title="Recordings"
      name="Recordings"
      actions={
        <>
          <div role="group" aria-label="Which recordings" className={styles.choice}>
            <Button aria-pressed={isOpen} look={isOpen ? "main" : "plain"} onClick={() => view.change({ of: undefined })}>
              Open
            </Button>
            <Button aria-pressed={!isOpen} look={isOpen ? "plain" : "main"} onClick={() => view.change({ of: "all" })}>
              All
            </Button>
          </div>
          <Button refusal={refusal} onClick={() => setStarting(true)}>
            Record …
          </Button>
        </>
      }
    >
      {found.error && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && <Loading what="the recordings" />}
      {found.data && rows.length === 0 && (
        <Empty title={isOpen ? "No recording is open" : "There are no recordings yet"}>
          <p>
            A client of MCP calls tools through <code>perdure mcp --record --tools mcp.json</code>, and each call becomes a step. A definition can be made of them.
          </p>
        </Empty>
      )}
      {rows.length > 0 && (
        <DataTable
          label="Recordings"
          rows={rows}
          columns={COLUMNS}
          keyOf={(row) => row.id}
          nameOf={(row) => `${row.title || row.id}: ${stateWord(recordingState(row)).word}`}
          onOpen={(row) => void navigate({ to: "/recordings/$id", params: { id: row.id } })}
          onEnd={() => found.hasNextPage && !found.isFetchingNextPage && void found.fetchNextPage()}
        />
      )}
      <p role="status" className={styles.count}>
        {found.data && `${countText(rows.length)} shown${found.hasNextPage ? ", more below" : ""}`}
      </p>
      {isStarting && <StartRecordingDialog onClose={() => setStarting(false)} />}
    </Page>
  );
}
