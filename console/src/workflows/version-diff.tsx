// What differs between two versions of a definition: first by its steps, then by its text.
import { lazy, Suspense } from "react";
import { queries, type Schemas } from "@/api/client";
import { writeExact } from "@/api/exact-json";
import blocks from "@/parts/blocks.module.css";
import { ErrorNotice, Loading } from "@/parts/notice";
import { changeWords } from "./change-words";
import styles from "./version-diff.module.css";

const TextDiff = lazy(async () => ({ default: (await import("@/parts/text-diff")).TextDiff }));

/** The differences of two versions of one definition, from `before` to `after`. */
export function VersionDiff({ slug, before, after, withText = true }: { slug: string; before: string; after: string; withText?: boolean }) {
  const [one, other] = [`${slug}@${before}`, `${slug}@${after}`];
  const diff = queries.useQuery("get", "/api/workflow-diff", { params: { query: { before: one, after: other } } }, { staleTime: Number.POSITIVE_INFINITY });
  const read = (reference: string) => ({ params: { path: { reference } } });
  const old = queries.useQuery("get", "/api/workflow-versions/{reference}", read(one), { enabled: withText, staleTime: Number.POSITIVE_INFINITY });
  const next = queries.useQuery("get", "/api/workflow-versions/{reference}", read(other), { enabled: withText, staleTime: Number.POSITIVE_INFINITY });
  const error = diff.error ?? old.error ?? next.error;
  if (error) return <ErrorNotice error={error} />;
  if (!diff.data) return <Loading what="the differences" />;
  return (
    <div className={blocks.stack}>
      <h3>
        What changes from {before} to {after}
      </h3>
      <ChangeList changes={diff.data.changes} />
      {withText && (
        <>
          <h3>The text</h3>
          {old.data && next.data ? (
            old.data.received === next.data.received ? (
              <p className={blocks.soft}>The texts are the same.</p>
            ) : (
              <Suspense fallback={<Loading what="the view of texts" />}>
                <TextDiff before={old.data.received} after={next.data.received} beforeName={one} afterName={other} />
              </Suspense>
            )
          ) : (
            <Loading what="the texts" />
          )}
        </>
      )}
    </div>
  );
}

const MARKS = { added: "+", removed: "−", renamed: "→", moved: "↕", changed: "~" } as const;

/** Changes of a definition by its steps. */
export function ChangeList({ changes }: { changes: Schemas["DefinitionChange"][] }) {
  if (changes.length === 0) return <p className={blocks.soft}>Both do the same: at most comments or the layout of the text differ.</p>;
  return (
    <ul className={styles.changes}>
      {changes.map((one, index) => (
        <li key={`${one.pointer} ${one.kind} ${index}`}>
          <span className={`${styles.mark} ${styles[one.kind]}`} aria-hidden="true">
            {MARKS[one.kind]}
          </span>
          <span className={styles.said}>
            {changeWords(one)} <Values change={one} />
          </span>
        </li>
      ))}
    </ul>
  );
}

function Values({ change }: { change: Schemas["DefinitionChange"] }) {
  const [before, after] = [change.before, change.after].map((one) => (one === undefined || one === null ? "" : writeExact(one)));
  if (!before && !after) return null;
  return (
    <span className={styles.values}>
      {before && <del className={styles.before}>{before}</del>}
      {before && after && <span aria-hidden="true"> → </span>}
      {after && <ins className={styles.after}>{after}</ins>}
    </span>
  );
}
