// Publishing: what changes, by steps and as text, and the hashes, before anything happens.
import { lazy, Suspense, useState } from "react";
import { useQuery } from "@tanstack/react-query";
import { api, type Schemas } from "@/api/client";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Facts } from "@/parts/page";
import { ChangeList } from "@/workflows/version-diff";
import { previewOf } from "../catalog-calls";

const TextDiff = lazy(async () => ({ default: (await import("@/parts/text-diff")).TextDiff }));

interface Props {
  slug: string;
  text: string;
  definition: Schemas["CatalogDefinition"] | null;
  onPublish: (note: string, part: Part) => Promise<void>;
  onClose: () => void;
}

export type Part = "patch" | "minor" | "major";

export function PublishDialog({ slug, text, definition, onPublish, onClose }: Props) {
  const [note, setNote] = useState("");
  const [part, setPart] = useState<Part>("minor");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const preview = useQuery({ queryKey: ["publish", slug, text], queryFn: () => previewOf(slug, text), staleTime: Number.POSITIVE_INFINITY });
  const reference = definition?.version ? `${slug}@${definition.version}` : "";
  const current = useQuery({
    queryKey: ["current", reference],
    enabled: reference !== "",
    queryFn: async () => (await api.GET("/api/workflow-versions/{reference}", { params: { path: { reference } } })).data!,
  });
  const found = preview.data;
  const isSame = found?.valid === true && found.hash === definition?.hash;
  const refusal = !found ? "It is being checked" : !found.valid ? "It is not valid; see the problems" : isSame ? "It does the same as the current version; save it as a draft to keep the text" : "";
  const publish = async () => {
    setBusy(true);
    setError(null);
    try {
      await onPublish(note, part);
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={`Publish ${slug}`}
      wide
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button look="main" busy={isBusy} refusal={refusal} onClick={() => void publish()}>
            Publish
          </Button>
        </>
      }
    >
      <div className={blocks.stack}>
        {error !== null && <ErrorNotice error={error} />}
        {preview.error && <ErrorNotice error={preview.error} onRetry={() => void preview.refetch()} />}
        {!found && !preview.error && <Loading what="what changes" />}
        {found && !found.valid && (
          <Notice look="warn">
            The definition is not valid, so it can't be published:
            <ul>
              {found.findings.filter((one) => one.severity === "error").slice(0, 5).map((one, index) => (
                <li key={index}>{one.message}</li>
              ))}
            </ul>
          </Notice>
        )}
        {found?.valid && (
          <>
            <Facts
              of={[
                ["Current version", definition?.version ? `${definition.version} (${shortHash(definition.hash)})` : "none yet"],
                ["Hash of what you publish", <code key="hash">{shortHash(found.hash ?? "")}</code>],
                ["Declared version", found.version && found.version !== "1.0.0" ? found.version : ""],
              ]}
            />
            {isSame && <Notice>The hashes are equal: at most comments, order of fields and layout differ. There is nothing to publish.</Notice>}
            {!isSame && definition?.version && (
              <>
                <h3>What changes</h3>
                <ChangeList changes={found.changes ?? []} />
              </>
            )}
            <div className={blocks.pair}>
              <label>
                Which part of the version rises
                <br />
                <select className={blocks.choice} value={part} onChange={(event) => setPart(event.target.value as Part)}>
                  <option value="patch">patch: it is mended</option>
                  <option value="minor">minor: it can do more</option>
                  <option value="major">major: it behaves in another way</option>
                </select>
              </label>
              <label>
                Note for the history
                <br />
                <input className={blocks.search} value={note} onChange={(event) => setNote(event.target.value)} maxLength={500} />
              </label>
            </div>
          </>
        )}
        {current.data && current.data.received !== text && (
          <>
            <h3>The text</h3>
            <Suspense fallback={<Loading what="the texts" />}>
              <TextDiff before={current.data.received} after={text} beforeName={`${definition?.version}, current`} afterName="what you publish" />
            </Suspense>
          </>
        )}
      </div>
    </Dialog>
  );
}

export function shortHash(hash: string): string {
  return hash.replace(/^(sha256:[0-9a-f]{12}).*$/, "$1…");
}
