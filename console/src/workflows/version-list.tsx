// The versions of a definition: who published each and how, what differs between two, and the way back to an earlier one.
import { useState } from "react";
import { api, queries, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { CopyButton } from "@/parts/copy-button";
import { ChoiceField, TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { ErrorNotice, Loading } from "@/parts/notice";
import { Section } from "@/parts/page";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { tellEveryone } from "@/shell/told";
import { VersionDiff } from "./version-diff";
import { type Definition, WORKFLOW_PATHS } from "./workflow-data";

type CatalogEvent = Schemas["CatalogEvent"];

const SOURCES: Record<string, string> = {
  sync: "from a folder",
  update: "published",
  proposal: "a proposal",
  rollback: "rolled back",
  record: "a recording",
  system: "Perdure",
};

/** The versions of a definition, newest first. `reads` is how often they are read again; `definition` is missing if it was deleted. */
export function VersionList({ slug, definition, onStart, onTag }: { slug: string; definition?: Definition; onStart: (version: string) => void; onTag: () => void }) {
  const view = useView();
  const author = useRefusal("author");
  const operator = useRefusal("operator");
  const [rollback, setRollback] = useState("");
  const { versions, query } = useVersions(slug);
  const numbers = [...new Set(versions.map((one) => one.version ?? "").filter(Boolean))];
  const chosen = view.text("version");
  const compared = view.text("compare");
  const choices = numbers.map((one) => [one, one] as const);
  if (query.error) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (query.isPending) return <Loading what="the versions" />;
  return (
    <div className={blocks.stack}>
      <SimpleTable
        label={`Versions of ${slug}`}
        rows={versions}
        keyOf={(one) => String(one.number)}
        isMarked={(one) => one.version === chosen}
        empty="No version was published yet; there is only a draft."
        columns={[
          {
            id: "version",
            title: "Version",
            cell: (one) => (
              <span className={blocks.row}>
                <strong>{one.version}</strong>
                {one.version === definition?.version && <span className={blocks.chip}>current</span>}
                {Object.entries(definition?.versionTags ?? {}).filter(([, at]) => at.version === one.version).map(([tag]) => (
                  <span key={tag} className={blocks.chip}>
                    :{tag}
                  </span>
                ))}
              </span>
            ),
          },
          { id: "source", title: "Source", cell: (one) => SOURCES[one.source ?? ""] ?? one.source ?? "" },
          { id: "by", title: "Author", cell: (one) => one.by },
          { id: "at", title: "When", cell: (one) => <TimeText at={one.at} /> },
          { id: "note", title: "Note", cell: (one) => <span className={blocks.plain}>{one.note}</span> },
          {
            id: "actions",
            title: "Actions",
            cell: (one) => (
              <span className={blocks.actions}>
                <Button look="quiet" aria-label={`Show version ${one.version}`} onClick={() => view.change({ version: one.version, compare: undefined })}>
                  Show
                </Button>
                <Button look="quiet" aria-label={`Compare version ${one.version}`} onClick={() => view.change({ version: one.version, compare: (one.fromVersion || nextOf(numbers, one.version)) ?? one.version })}>
                  Compare
                </Button>
                {definition && (
                  <>
                    <Button look="quiet" aria-label={`Start version ${one.version}`} refusal={operator} onClick={() => onStart(one.version ?? "")}>
                      Start
                    </Button>
                    <Button look="quiet" aria-label={`Roll back to version ${one.version}`} refusal={author || (one.hash === definition.hash ? "This is the current version" : "")} onClick={() => setRollback(one.version ?? "")}>
                      Roll back…
                    </Button>
                  </>
                )}
              </span>
            ),
          },
        ]}
      />
      <div className={blocks.row}>
        {query.hasNextPage && (
          <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            Older versions
          </Button>
        )}
        {definition && versions.length > 0 && (
          <Button refusal={author} onClick={onTag}>
            Move a tag…
          </Button>
        )}
      </div>
      {chosen && (
        <Section title={compared ? `Version ${chosen}, compared with ${compared}` : `Version ${chosen}`} actions={<Button onClick={() => view.change({ version: undefined, compare: undefined })}>Close</Button>}>
          <div className={blocks.pair}>
            <ChoiceField label="Version" value={chosen} choices={withOne(choices, chosen)} onChange={(version) => view.change({ version })} />
            <ChoiceField label="Compared with" value={compared} choices={[["", "nothing: show its text"], ...withOne(choices, compared)]} onChange={(compare) => view.change({ compare })} />
          </div>
          {compared ? <VersionDiff slug={slug} before={compared} after={chosen} /> : <VersionText reference={`${slug}@${chosen}`} />}
        </Section>
      )}
      {definition && rollback && <RollBackDialog definition={definition} target={rollback} onClose={() => setRollback("")} />}
    </div>
  );
}

/** The versions of a definition that were published, as far as they are read. */
export function useVersions(slug: string) {
  const query = usePages("/api/workflows/{definition}/history", { slug, versionsOnly: true }, (before?: number) => api.GET("/api/workflows/{definition}/history", { params: { path: { definition: slug }, query: { versionsOnly: true, limit: 50, before } } }));
  const versions: CatalogEvent[] = query.data?.pages.flatMap((one) => one.items) ?? [];
  return { versions, query };
}

function nextOf(numbers: string[], version: string | undefined): string | undefined {
  return numbers[numbers.indexOf(version ?? "") + 1];
}

function withOne(choices: (readonly [string, string])[], value: string): (readonly [string, string])[] {
  return !value || choices.some(([one]) => one === value) ? choices : [[value, value], ...choices];
}

/** The text of a version, as its author wrote it. */
function VersionText({ reference }: { reference: string }) {
  const version = queries.useQuery("get", "/api/workflow-versions/{reference}", { params: { path: { reference } } }, { staleTime: Number.POSITIVE_INFINITY });
  if (version.error) return <ErrorNotice error={version.error} />;
  if (!version.data) return <Loading what="the version" />;
  const { received, hash, firstVersion, by, at, note } = version.data;
  return (
    <div className={blocks.stack}>
      <p className={blocks.soft}>
        {hash} · first published as {firstVersion} by {by}, <TimeText at={at} /> {note && `· ${note}`}
      </p>
      <div className={blocks.row}>
        <CopyButton text={received}>Copy the text</CopyButton>
      </div>
      <pre className={blocks.code} tabIndex={0} aria-label={`Text of ${reference}`}>
        {received}
      </pre>
    </div>
  );
}

/** Makes an earlier version the current one again, after showing what that changes. */
function RollBackDialog({ definition, target, onClose }: { definition: Definition; target: string; onClose: () => void }) {
  const [note, setNote] = useState("");
  return (
    <FormDialog
      title={`Roll ${definition.slug} back to ${target}`}
      submit="Roll back"
      wide
      paths={WORKFLOW_PATHS}
      onClose={onClose}
      onSubmit={async () => {
        const answer = await api.POST("/api/workflows/{definition}/rollback", { params: { path: { definition: definition.slug } }, body: { target, note: note || undefined, revision: definition.revision } as never });
        const done = answer.data as Schemas["RolledBack"];
        tellEveryone(done.alreadyAtVersion ? `${definition.slug} was at this version already` : `${definition.slug} is at ${done.definition.version}, with the content of ${target}`);
      }}
    >
      <p>New executions take the content of {target}; its triggers come back as they were then. Executions in progress go on with the version that they began with.</p>
      <VersionDiff slug={definition.slug} before={definition.version} after={target} withText={false} />
      <TextField label="Note" value={note} onChange={setNote} hint="Why; it stays in the history." />
    </FormDialog>
  );
}
