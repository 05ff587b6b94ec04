// Keys of the API: their roles and their use; a new one is shown once.
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { CopyButton } from "@/parts/copy-button";
import { Dialog } from "@/parts/dialog";
import { CheckField, ChoiceField, TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { type Role, useIdentity, useRefusal } from "@/shell/identity";
import { tellEveryone } from "@/shell/told";
import { Refused } from "./refused";

type Key = Schemas["KeyDetails"];

const ROLES: [Role, string][] = [
  ["viewer", "sees everything, changes nothing"],
  ["operator", "starts and repairs executions, operates triggers"],
  ["approver", "decides on approvals"],
  ["author", "publishes definitions, reviews proposals, makes triggers"],
  ["admin", "all of these, and keys, people and secrets"],
];
const DAY_S = 86_400;
const VALID = [["", "for ever"], ["1", "for a day"], ["30", "for 30 days"], ["90", "for 90 days"], ["365", "for a year"]] as const;
const OVERLAPS = [["0", "ends at once"], ["3600", "stays valid for an hour"], ["86400", "stays valid for a day"], ["604800", "stays valid for a week"]] as const;

/** The tab of keys. */
export function KeyTab() {
  const refusal = useRefusal("admin", "access.list_keys");
  const identity = useIdentity();
  const [shown, show] = useState<{ what: "create" | "rotate" | "revoke"; key?: Key } | null>(null);
  const [created, setCreated] = useState<Schemas["CreatedKey"]>();
  const keys = usePages("/api/keys", {}, (after?: string) => api.GET("/api/keys", { params: { query: { limit: 100, after } } }), { enabled: refusal === "", ...usePolling(15) });
  if (refusal) return <Refused what="Keys" why={refusal} />;
  if (keys.error && !keys.data) return <ErrorNotice error={keys.error} onRetry={() => void keys.refetch()} />;
  if (!keys.data) return <Loading what="the keys" />;
  const rows = keys.data.pages.flatMap((one) => one.items);
  const ended = (one: Key) => (one.revokedAt ? "It was revoked" : one.secrets === 0 ? "It has expired" : "");
  return (
    <div className={blocks.stack}>
      <div className={blocks.row}>
        <Button look="main" onClick={() => show({ what: "create" })}>
          New key…
        </Button>
      </div>
      <SimpleTable
        label="Keys"
        rows={rows}
        keyOf={(one) => one.id}
        empty="There are no keys."
        columns={[
          { id: "name", title: "Name", cell: (one) => <>{one.name} {identity?.subject === `key:${one.id}` && <span className={blocks.chip}>yours</span>}</> },
          { id: "id", title: "Id", wideOnly: true, cell: (one) => <code>{one.id}</code> },
          { id: "roles", title: "Roles", cell: (one) => `${one.roles.join(", ")}${one.queues ? `; only queues ${(one.queues as string[]).join(", ")}` : ""}` },
          { id: "created", title: "Created", wideOnly: true, cell: (one) => <><TimeText at={one.createdAt} /> by {one.createdBy}</> },
          { id: "used", title: "Last use", cell: (one) => <TimeText at={one.usedAt} missing="never" /> },
          { id: "state", title: "Valid", cell: (one) => (one.revokedAt ? <>✗ revoked <TimeText at={one.revokedAt} /> by {one.revokedBy}</> : ended(one) ? <>✗ expired <TimeText at={one.expiresAt} /></> : <>✓ {one.expiresAt ? <>ends <TimeText at={one.expiresAt} /></> : "for ever"}{one.secrets > 1 ? ", with its former secret too" : ""}</>) },
          {
            id: "actions",
            title: "Actions",
            cell: (one) => (
              <span className={blocks.actions}>
                <Button look="quiet" aria-label={`Rotate ${one.name}`} refusal={ended(one)} onClick={() => show({ what: "rotate", key: one })}>
                  Rotate…
                </Button>
                <Button look="quiet" aria-label={`Revoke ${one.name}`} refusal={one.revokedAt ? "It was revoked" : ""} onClick={() => show({ what: "revoke", key: one })}>
                  Revoke…
                </Button>
              </span>
            ),
          },
        ]}
      />
      {keys.hasNextPage && (
        <div>
          <Button busy={keys.isFetchingNextPage} onClick={() => void keys.fetchNextPage()}>
            More keys
          </Button>
        </div>
      )}
      {shown?.what === "create" && <CreateDialog onClose={() => show(null)} onCreated={setCreated} />}
      {shown?.what === "rotate" && shown.key && <RotateDialog of={shown.key} isOwn={identity?.subject === `key:${shown.key.id}`} onClose={() => show(null)} onCreated={setCreated} />}
      {shown?.what === "revoke" && shown.key && <RevokeDialog of={shown.key} isOwn={identity?.subject === `key:${shown.key.id}`} onClose={() => show(null)} />}
      {created && <CreatedDialog created={created} onClose={() => setCreated(undefined)} />}
    </div>
  );
}

function CreateDialog({ onClose, onCreated }: { onClose: () => void; onCreated: (created: Schemas["CreatedKey"]) => void }) {
  const [name, setName] = useState("");
  const [roles, setRoles] = useState<Role[]>(["viewer"]);
  const [queueText, setQueues] = useState("");
  const [days, setDays] = useState("90");
  const listed = queueText.split(",").map((one) => one.trim()).filter(Boolean);
  return (
    <FormDialog
      title="New key"
      submit="Create"
      refusal={!name.trim() ? "Give it a name" : roles.length === 0 ? "Choose a role" : ""}
      paths={["/api/keys"]}
      onClose={onClose}
      onSubmit={async () => {
        const body = { name, roles, queues: listed.length ? listed : undefined, validSeconds: days ? Number(days) * DAY_S : undefined };
        const answer = await api.POST("/api/keys", { body: body as never });
        if (answer.data) onCreated(answer.data);
      }}
    >
      <TextField label="Name" value={name} onChange={setName} hint="What uses it: “build server”." />
      <fieldset className={blocks.stack}>
        <legend>Roles</legend>
        {ROLES.map(([role, says]) => (
          <CheckField key={role} label={role} hint={says} checked={roles.includes(role)} onChange={(on) => setRoles(on ? [...roles, role] : roles.filter((one) => one !== role))} />
        ))}
      </fieldset>
      <ChoiceField label="Valid" value={days} onChange={setDays} choices={VALID} />
      <TextField label="Only the queues" value={queueText} onChange={setQueues} mono hint="For a worker elsewhere, separated by commas: such a key may take tasks of these queues, and nothing else. Empty: no limit." />
    </FormDialog>
  );
}

function RotateDialog({ of, isOwn, onClose, onCreated }: { of: Key; isOwn: boolean; onClose: () => void; onCreated: (created: Schemas["CreatedKey"]) => void }) {
  const [overlap, setOverlap] = useState("86400");
  return (
    <FormDialog
      title={`Rotate ${of.name}`}
      submit="Rotate"
      paths={["/api/keys"]}
      onClose={onClose}
      onSubmit={async () => {
        const answer = await api.POST("/api/keys/{id}/rotate", { params: { path: { id: of.id } }, body: { overlapSeconds: Number(overlap), revision: of.revision } as never });
        if (answer.data) onCreated(answer.data);
      }}
    >
      <p>The key gets a new secret, which is shown once. Give it to what uses the key while the present one is still valid.</p>
      <ChoiceField label="The present secret" value={overlap} onChange={setOverlap} choices={OVERLAPS} />
      {isOwn && overlap === "0" && <Notice look="warn">You use this key yourself: you have to sign in again at once.</Notice>}
    </FormDialog>
  );
}

function RevokeDialog({ of, isOwn, onClose }: { of: Key; isOwn: boolean; onClose: () => void }) {
  return (
    <FormDialog
      title={`Revoke ${of.name}`}
      submit="Revoke"
      danger
      paths={["/api/keys", "/api/sessions"]}
      onClose={onClose}
      onDone={() => (onClose(), tellEveryone(`${of.name} is revoked`))}
      onSubmit={() => api.DELETE("/api/keys/{id}", { params: { path: { id: of.id }, query: { revision: of.revision } } })}
    >
      <p>Whatever uses the key is refused at once, and sessions that began with it end. This can't be undone; the key stays in this list.</p>
      {isOwn && <Notice look="warn">You use this key yourself: this page is refused then, too.</Notice>}
    </FormDialog>
  );
}

/** Shows the text of a key, the only time. */
function CreatedDialog({ created, onClose }: { created: Schemas["CreatedKey"]; onClose: () => void }) {
  const [isKept, keep] = useState(false);
  return (
    <Dialog
      title={`The key ${created.key.name}`}
      onClose={() => isKept && onClose()}
      actions={
        <Button look="main" refusal={isKept ? "" : "Say first that you have kept it"} onClick={onClose}>
          Close
        </Button>
      }
    >
      <p>Copy it now: it is shown this once, and the server keeps only a hash of it.</p>
      <pre className={blocks.code} tabIndex={0} aria-label="The key">
        {created.text}
      </pre>
      <div className={blocks.row}>
        <CopyButton text={created.text} label="Copy the key" />
      </div>
      <CheckField label="I have kept it in a safe place" checked={isKept} onChange={keep} />
    </Dialog>
  );
}
