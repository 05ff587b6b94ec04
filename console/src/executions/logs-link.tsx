// The way to the logs of an execution or a step, which another system keeps: by the template that the server was given.
import { useIdentity } from "@/shell/identity";
import { logsAddress } from "./logs-address";
import type { ExecutionRecord, StepTrace } from "./execution-reads";

/** A link to the logs; nothing if the server does not know where they are. */
export function LogsLink({ record, step, className }: { record: ExecutionRecord; step?: StepTrace; className?: string }) {
  const template = useIdentity()?.logsUrl;
  if (!template) return null;
  const of = step ?? record;
  const address = logsAddress(template, { ...record, path: step?.path ?? "", from: of.startedAt ?? record.createdAt, to: of.completedAt ?? null });
  return (
    <a className={className} href={address} target="_blank" rel="noreferrer" aria-label={`Logs of ${step ? `step ${step.path}` : "this execution"}, in another tab`}>
      Logs ↗
    </a>
  );
}
