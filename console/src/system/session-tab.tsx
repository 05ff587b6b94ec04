// Sessions of browsers that have not ended, and their end.
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { FormDialog } from "@/parts/form-dialog";
import { ErrorNotice, Loading } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { useIdentity, useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { tellEveryone } from "@/shell/told";
import { Refused } from "./refused";

/** The tab of sessions. */
export function SessionTab() {
  const view = useView();
  const refusal = useRefusal("admin", "access.list_sessions");
  const identity = useIdentity();
  const [ending, setEnding] = useState<Schemas["SessionDetails"]>();
  const subject = view.text("subject");
  const sessions = usePages("/api/sessions", { subject }, (after?: string) => api.GET("/api/sessions", { params: { query: { subject: subject || undefined, limit: 100, after } } }), { enabled: refusal === "", ...usePolling(15) });
  if (refusal) return <Refused what="Sessions" why={refusal} />;
  if (sessions.error && !sessions.data) return <ErrorNotice error={sessions.error} onRetry={() => void sessions.refetch()} />;
  if (!sessions.data) return <Loading what="the sessions" />;
  return (
    <div className={blocks.stack}>
      <search className={blocks.row}>
        <input type="search" aria-label="Only of this person" placeholder="The whole name of a person" className={blocks.search} value={subject} onChange={(event) => view.change({ subject: event.target.value }, true)} />
      </search>
      <SimpleTable
        label="Sessions"
        rows={sessions.data.pages.flatMap((one) => one.items)}
        keyOf={(one) => one.id}
        empty={subject ? `${subject} has no session.` : "Nobody is signed in with a browser."}
        columns={[
          { id: "who", title: "Who", cell: (one) => <>{one.subject} {one.subject === identity?.subject && <span className={blocks.chip}>you</span>}</> },
          { id: "roles", title: "Roles", cell: (one) => one.roles.join(", ") },
          { id: "began", title: "Began", cell: (one) => <TimeText at={one.createdAt} /> },
          { id: "ends", title: "Ends", cell: (one) => <TimeText at={one.expiresAt} /> },
          { id: "from", title: "From", cell: (one) => one.address },
          { id: "agent", title: "Browser", wideOnly: true, cell: (one) => one.agent },
          {
            id: "end",
            title: "End",
            cell: (one) => (
              <Button look="quiet" aria-label={`End the session of ${one.subject} from ${one.address}`} onClick={() => setEnding(one)}>
                End…
              </Button>
            ),
          },
        ]}
      />
      {sessions.hasNextPage && (
        <div>
          <Button busy={sessions.isFetchingNextPage} onClick={() => void sessions.fetchNextPage()}>
            More sessions
          </Button>
        </div>
      )}
      {ending && (
        <FormDialog
          title={`End a session of ${ending.subject}`}
          submit="End the session"
          danger
          paths={["/api/sessions"]}
          onClose={() => setEnding(undefined)}
          onDone={() => (setEnding(undefined), tellEveryone(`The session of ${ending.subject} has ended`))}
          onSubmit={() => api.DELETE("/api/sessions/{id}", { params: { path: { id: ending.id } } })}
        >
          <p>The browser at {ending.address} is signed out, and has to sign in again. To keep somebody out for good, revoke their key, or remove them from their group.</p>
        </FormDialog>
      )}
    </div>
  );
}
