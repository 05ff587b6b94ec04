// The data of an execution: its input, output and error, the state and the values that it shows, its attributes and unread messages.
import { keepPreviousData } from "@tanstack/react-query";
import { queries, type Schemas } from "@/api/client";
import { CopyButton } from "@/parts/copy-button";
import { Empty, ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Section } from "@/parts/page";
import { ValueView } from "@/parts/value-view";
import { ErrorView } from "./error-view";
import { type ExecutionRecord, requestAt } from "./execution-reads";
import styles from "./data-tab.module.css";

interface Props {
  record: ExecutionRecord;
  /** The event as of which it is shown; null: now. */
  at: number | null;
}

/** The values of an execution, now or as of an event. */
export function DataTab({ record, at }: Props) {
  const unread = Object.entries(record.unread as Record<string, number>);
  return (
    <div className={styles.sections}>
      <Section title="Input">{record.variables === null || record.variables === undefined ? <Empty title="The input is not there any more" /> : <ValueView value={record.variables} name="the input" />}</Section>
      {record.error && (
        <Section title="Error">
          <ErrorView error={record.error} path={record.error.path} />
          <p className={styles.soft}>
            Failures that are alike have the fingerprint <code>{record.error.fingerprint}</code> <CopyButton text={record.error.fingerprint} label="Copy the fingerprint" />
          </p>
        </Section>
      )}
      <Section title="Output">{record.status === "completed" ? <ValueView value={record.outputs ?? null} name="the output" /> : <p className={styles.soft}>There is none{record.completedAt ? "" : " yet"}.</p>}</Section>
      <State record={record} at={at} />
      <Stream record={record} at={at} />
      <Section title="Attributes">{Object.keys(record.attributes).length ? <ValueView value={record.attributes} name="the attributes" /> : <p className={styles.soft}>There are none.</p>}</Section>
      {unread.length > 0 && (
        <Section title="Unread messages">
          <ul>
            {unread.map(([name, count]) => (
              <li key={name}>
                <bdi>{name}</bdi>: {count.toLocaleString("en")}
              </li>
            ))}
          </ul>
        </Section>
      )}
    </div>
  );
}

function State({ record, at }: Props) {
  const state = queries.useQuery("get", "/api/executions/{workflow}/{id}/state", requestAt(record, at), { enabled: record.version > 0, placeholderData: keepPreviousData });
  if (record.version === 0) return null;
  return (
    <Section title="State">
      {state.isPending && <Loading what="the state" />}
      {state.error && <ErrorNotice error={state.error} onRetry={() => void state.refetch()} />}
      {state.data && (Object.keys(state.data).length ? <ValueView value={state.data} name="the state" /> : <p className={styles.soft}>The workflow has set none{record.completedAt ? "" : " yet"}.</p>)}
    </Section>
  );
}

function Stream({ record, at }: Props) {
  const stream = queries.useQuery("get", "/api/executions/{workflow}/{id}/stream", requestAt(record, at), { enabled: record.version > 0 && record.emitted > 0, placeholderData: keepPreviousData });
  if (record.version === 0 || record.emitted === 0) return null;
  const values = (stream.data as EmittedPage | undefined)?.items ?? [];
  const dropped = values[0]?.dropped ?? 0;
  return (
    <Section title={`Emitted values (${record.emitted.toLocaleString("en")})`}>
      {stream.isPending && <Loading what="the emitted values" />}
      {stream.error && <ErrorNotice error={stream.error} onRetry={() => void stream.refetch()} />}
      {dropped > 0 && <Notice>{dropped.toLocaleString("en")} values before these are forgotten with their iterations.</Notice>}
      {values.length > 0 && (
        <ol className={styles.values} aria-label="Emitted values, the last first">
          {values
            .slice(-SHOWN_MAX)
            .reverse()
            .map((one) => (
              <li key={one.number} value={one.number}>
                <ValueView value={one.value} name={`value ${one.number}`} />
              </li>
            ))}
        </ol>
      )}
      {values.length > SHOWN_MAX && <p className={styles.soft}>The last {SHOWN_MAX} of {values.length.toLocaleString("en")} are shown.</p>}
    </Section>
  );
}

const SHOWN_MAX = 100;

interface EmittedPage {
  items: Schemas["EmittedValue"][];
}
