// The facts of an execution below its heading: times, version, who started it, attributes, ids to copy, and files to download.
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { accessHeaders } from "@/api/access";
import { SERVER_URL } from "@/api/base";
import { parseExact, writeExact } from "@/api/exact-json";
import { problemOf } from "@/api/problem";
import { Button } from "@/parts/button";
import { CopyButton } from "@/parts/copy-button";
import { download } from "@/parts/download";
import { Facts } from "@/parts/page";
import { DurationText, TimeText } from "@/parts/time-text";
import { tellEveryone } from "@/shell/told";
import { errorText } from "@/words/failures";
import { type ExecutionRecord, nameOf } from "./execution-reads";
import { LogsLink } from "./logs-link";
import { shellWord } from "@/words/shell-word";
import styles from "./execution-facts.module.css";

const SHOWN_ELSEWHERE = new Set(["initiator", "definition_hash", "definition_version"]);

/** The facts of an execution; `shownMs` is the time of the past state that is shown. */
export function ExecutionFacts({ record, shownMs }: { record: ExecutionRecord; shownMs: number | null }) {
  const attributes = Object.entries(record.attributes as Record<string, unknown>).filter(([name]) => !SHOWN_ELSEWHERE.has(name));
  const initiator = record.initiatorUserId || String((record.attributes as Record<string, unknown>).initiator ?? "");
  return (
    <div className={styles.all}>
      <Facts
        of={[
          ["Started", record.startedAt ? <TimeText at={record.startedAt} /> : <span>not yet; asked for <TimeText at={record.createdAt} /></span>],
          [record.completedAt ? "Took" : "Runs for", record.startedAt && <DurationText from={record.startedAt} until={record.completedAt ?? (shownMs === null ? null : new Date(shownMs).toISOString())} />],
          ["Deadline", record.deadlineAt && !record.completedAt ? <TimeText at={record.deadlineAt} /> : ""],
          ["Next by itself", record.completedAt || !record.startedAt || !record.dueAt ? "" : <TimeText at={record.dueAt} />],
          ["Started by", startedBy(record, initiator)],
          ["Version", versionOf(record)],
          ["Steps", `${record.settled.toLocaleString("en")} done, ${record.open.toLocaleString("en")} open`],
        ]}
      />
      {attributes.length > 0 && (
        <ul className={styles.chips} aria-label="Attributes">
          {attributes.map(([name, value]) => (
            <li key={name} dir="auto">
              <Link to="/executions" search={{ q: `${name}=${Array.isArray(value) ? String(value[0]) : String(value)}` }} title="Executions with the same value">
                {name} = {Array.isArray(value) ? value.map(String).join(", ") : typeof value === "object" ? writeExact(value) : String(value)}
              </Link>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function startedBy(record: ExecutionRecord, initiator: string): ReactNode {
  if (record.parent) return "";
  if (record.triggerId)
    return (
      <Link to="/triggers/$id" params={{ id: record.triggerId }}>
        trigger {record.triggerName ?? record.triggerId}
      </Link>
    );
  return initiator || record.initiatorType || "";
}

function versionOf(record: ExecutionRecord): ReactNode {
  const text = record.workflowVersion || record.workflowHash.slice(0, 12);
  if (!record.definition) return text && <span>{text} (code)</span>;
  if (record.isInlineExecution) return <span title={record.definition}>given at its start, {record.definition.slice(0, 12)}</span>;
  return (
    <Link to="/workflows/$slug" params={{ slug: record.workflow }} search={record.workflowVersion ? { version: record.workflowVersion } : {}}>
      {text || record.definition.slice(0, 12)}
    </Link>
  );
}

/** Copies what names an execution, and downloads its log and its definition. */
export function ExecutionTools({ record }: { record: ExecutionRecord }) {
  const name = nameOf(record);
  const base = `${SERVER_URL}/api/executions/${encodeURIComponent(record.workflow)}/${encodeURIComponent(record.id)}`;
  return (
    <div className={styles.tools}>
      <CopyButton text={record.id} label={`Copy id ${record.id}`}>Copy id</CopyButton>
      <CopyButton text={location.href} label="Copy link to this view">Copy link</CopyButton>
      <CopyButton text={`perdure show ${shellWord(name)}`} label="Copy command that shows it">Copy command</CopyButton>
      <LogsLink record={record} />
      <Download url={`${base}/export`} name={`${record.workflow}-${record.id}.perdure`}>Download log</Download>
      {record.definition && <Download url={`${base}/definition`} name={`${record.workflow}-${record.id}.definition.json`} read={definitionOf}>Download definition</Download>}
    </div>
  );
}

async function definitionOf(response: Response): Promise<Blob> {
  const { document } = parseExact(await response.text()) as { document: unknown };
  return new Blob([writeExact(document, 2)], { type: "application/json" });
}

interface DownloadProps {
  url: string;
  name: string;
  children: string;
  /** What of an answer is saved; all of it if nothing is given. */
  read?: (response: Response) => Promise<Blob>;
}

function Download({ url, name, children, read = (response) => response.blob() }: DownloadProps) {
  const [isBusy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    try {
      const response = await fetch(url, { headers: accessHeaders(false), credentials: "same-origin" });
      if (!response.ok) throw await problemOf(response);
      download(name, await read(response));
    } catch (error) {
      tellEveryone(errorText(error).text, "bad");
    } finally {
      setBusy(false);
    }
  };
  return (
    <Button look="quiet" busy={isBusy} onClick={save}>
      {children}
    </Button>
  );
}
