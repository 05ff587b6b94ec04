// Who did what to what: the audit entries of the tenant, by person, operation and execution.
import { Link } from "@tanstack/react-router";
import { type FormEvent, type ReactNode } from "react";
import { api, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { ErrorNotice, Loading } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { useIdentity, useRefusal } from "@/shell/identity";
import type { Search } from "@/shell/routes";
import { useView } from "@/shell/search";
import { Refused } from "./refused";

/** The tab of the audit. */
export function AuditTab() {
  const view = useView();
  const refusal = useRefusal("admin", "access.list_audit");
  const operations = useIdentity()?.operations ?? [];
  const [subject, operation, execution] = [view.text("subject"), view.text("operation"), view.text("execution")];
  const which = { subject: subject || undefined, operation: operation || undefined, execution: execution || undefined };
  const entries = usePages("/api/audit", which, (after?: string) => api.GET("/api/audit", { params: { query: { ...which, limit: 50, after } } }), { enabled: refusal === "", placeholderData: (before) => before });
  if (refusal) return <Refused what="Audit entries" why={refusal} />;
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    view.change(Object.fromEntries(["subject", "operation", "execution"].map((name) => [name, String(given.get(name) ?? "").trim() || undefined])));
  };
  const isFiltered = Boolean(subject || operation || execution);
  return (
    <div className={blocks.stack}>
      <search>
        <form onSubmit={submit} className={blocks.row} key={`${subject} ${operation} ${execution}`}>
          <input name="subject" aria-label="Who" placeholder="Who" defaultValue={subject} className={blocks.choice} />
          <input name="operation" aria-label="Operation" placeholder="Operation, such as triggers.pause" list="audit-operations" defaultValue={operation} className={blocks.search} />
          <datalist id="audit-operations">
            {(operations as string[]).map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
          <input name="execution" aria-label="Execution" placeholder="Execution: workflow/id" defaultValue={execution} className={blocks.search} />
          <Button type="submit">Filter</Button>
          {isFiltered && <Button onClick={() => view.change({ subject: undefined, operation: undefined, execution: undefined })}>Show all</Button>}
          <Button onClick={() => void entries.refetch()} busy={entries.isFetching && !entries.isFetchingNextPage}>
            Read again
          </Button>
        </form>
      </search>
      {entries.error && <ErrorNotice error={entries.error} />}
      {!entries.data && !entries.error && <Loading what="the audit entries" />}
      {entries.data && (
        <SimpleTable
          label="Audit entries"
          rows={entries.data.pages.flatMap((one) => one.items)}
          keyOf={(one) => one.id}
          empty={isFiltered ? "No entry fits the filter." : "Nothing was changed yet."}
          columns={[
            { id: "at", title: "When", cell: ({ entry }) => <TimeText at={entry.at} /> },
            { id: "who", title: "Who", cell: ({ entry }) => <FilterLink name="subject" value={entry.subject} /> },
            { id: "operation", title: "Operation", cell: ({ entry }) => <FilterLink name="operation" value={entry.operation} /> },
            { id: "what", title: "What", cell: ({ entry }) => <ul>{entry.targets.map((one, index) => <li key={index}><Target of={one} /></li>)}{(entry.more ?? 0) > 0 && <li>and {entry.more} more</li>}</ul> },
            { id: "from", title: "From", wideOnly: true, cell: ({ entry }) => entry.address },
          ]}
        />
      )}
      {entries.hasNextPage && (
        <div>
          <Button busy={entries.isFetchingNextPage} onClick={() => void entries.fetchNextPage()}>
            Earlier entries
          </Button>
        </div>
      )}
      <p className={blocks.soft}>Starts and messages are in the logs of executions.</p>
    </div>
  );
}

function FilterLink({ name, value }: { name: "subject" | "operation"; value: string }) {
  return (
    <Link to="/system" search={((before: Search) => ({ ...before, [name]: value })) as never} title="Only these">
      {value}
    </Link>
  );
}

function Target({ of }: { of: Schemas["AuditTarget"] }) {
  const said = `${of.kind.replaceAll("_", " ")} `;
  return (
    <>
      {said}
      <TargetLink of={of} />
      {of.change && `, ${of.change}`}
    </>
  );
}

function TargetLink({ of }: { of: Schemas["AuditTarget"] }): ReactNode {
  const [workflow = "", ...rest] = of.key.split("/");
  if (of.kind === "execution" && rest.length) return <Link to="/executions/$workflow/$id" params={{ workflow, id: rest.join("/") }}>{of.key}</Link>;
  if (of.kind === "definition") return <Link to="/workflows/$slug" params={{ slug: of.key }}>{of.key}</Link>;
  if (of.kind === "trigger") return <Link to="/triggers/$id" params={{ id: of.key }}>{of.key}</Link>;
  return <code>{of.key}</code>;
}
