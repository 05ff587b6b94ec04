// Secrets by name: where each is and when it was set. No page and no operation shows a value.
import { useState } from "react";
import { api, queries } from "@/api/client";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { useRefusal } from "@/shell/identity";
import { tellEveryone } from "@/shell/told";
import { Refused } from "./refused";

const PLACES: Record<string, string> = { environment: "the environment of the process that answers", file: "a file of the process that answers", store: "the store, encrypted" };

/** The tab of secrets. */
export function SecretTab() {
  const refusal = useRefusal("admin", "secrets.names");
  const [shown, show] = useState<{ name: string; removes: boolean } | null>(null);
  const secrets = queries.useQuery("get", "/api/secrets", {}, { enabled: refusal === "" });
  if (refusal) return <Refused what="The names of secrets" why={refusal} />;
  if (secrets.error) return <ErrorNotice error={secrets.error} onRetry={() => void secrets.refetch()} />;
  if (!secrets.data) return <Loading what="the names of secrets" />;
  const rows = secrets.data.items;
  return (
    <div className={blocks.stack}>
      <div className={blocks.row}>
        <Button onClick={() => show({ name: "", removes: false })}>Set a secret…</Button>
        <span className={blocks.soft}>Only names are shown. A value can be replaced, and never read.</span>
      </div>
      {rows.length === 0 ? (
        <Empty title="There are no secrets" />
      ) : (
        <SimpleTable
          label="Secrets"
          rows={rows}
          keyOf={(one, index) => `${one.name} ${one.place} ${index}`}
          columns={[
            { id: "name", title: "Name", cell: (one) => <code>{one.name}</code> },
            { id: "place", title: "Place", cell: (one) => `${PLACES[one.place] ?? one.place}${rows.find((other) => other.name === one.name) === one ? "" : ", hidden by the one above"}` },
            { id: "version", title: "Version", cell: (one) => one.version ?? "–" },
            { id: "set", title: "Set", cell: (one) => <TimeText at={one.setAt} /> },
            { id: "key", title: "Encrypted with", wideOnly: true, cell: (one) => (one.keyId ? <code>{one.keyId}</code> : "–") },
            {
              id: "actions",
              title: "Actions",
              cell: (one) => (
                <span className={blocks.actions}>
                  <Button look="quiet" aria-label={`Replace ${one.name}`} refusal={one.place === "store" ? "" : "It is changed where the process has it"} onClick={() => show({ name: one.name, removes: false })}>
                    Replace…
                  </Button>
                  <Button look="quiet" aria-label={`Remove ${one.name}`} refusal={one.place === "store" ? "" : "It is removed where the process has it"} onClick={() => show({ name: one.name, removes: true })}>
                    Remove…
                  </Button>
                </span>
              ),
            },
          ]}
        />
      )}
      {shown && !shown.removes && <SetDialog name={shown.name} onClose={() => show(null)} />}
      {shown?.removes && (
        <FormDialog
          title={`Remove the secret ${shown.name}`}
          submit="Remove"
          danger
          paths={["/api/secrets"]}
          onClose={() => show(null)}
          onDone={() => (show(null), tellEveryone(`The secret ${shown.name} is removed`))}
          onSubmit={() => api.DELETE("/api/secrets/{name}", { params: { path: { name: shown.name } } })}
        >
          <p>Steps and webhooks that use it fail from then on. The value can't be brought back.</p>
        </FormDialog>
      )}
    </div>
  );
}

function SetDialog({ name: given, onClose }: { name: string; onClose: () => void }) {
  const [name, setName] = useState(given);
  const [value, setValue] = useState("");
  return (
    <FormDialog
      title={given ? `Replace ${given}` : "Set a secret"}
      submit="Save"
      refusal={name && value ? "" : "Give a name and a value"}
      paths={["/api/secrets"]}
      onClose={onClose}
      onSubmit={async () => {
        const saved = (await api.PUT("/api/secrets/{name}", { params: { path: { name } }, body: { value } })).data;
        tellEveryone(saved?.isMasked === false ? `${name} is stored, but is too short to be masked in the outcomes of steps` : `${name} is stored, as version ${saved?.version}`, saved?.isMasked === false ? "bad" : "good");
      }}
    >
      <p>It is encrypted in the store with a key of the server. Steps have it within seconds; secrets of the environment and of files take precedence.</p>
      <TextField label="Name" value={name} onChange={setName} mono readOnly={given !== ""} />
      <TextField label="Value" type="password" value={value} onChange={setValue} />
    </FormDialog>
  );
}
