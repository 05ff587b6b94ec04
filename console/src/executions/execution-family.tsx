// The family of an execution as a tree: the one that has started it, and the executions that it has started, now or at the time of an event.
import { keepPreviousData } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { queries, type Schemas } from "@/api/client";
import { Button } from "@/parts/button";
import { ErrorNotice } from "@/parts/notice";
import { StateMark } from "@/parts/state-mark";
import { type ExecutionRecord, type StepTrace, maySpawn, nameOf, requestAt } from "./execution-reads";
import styles from "./execution-family.module.css";

export type FamilyMember = Schemas["FamilyMember"];

const SHOWN_MAX = 50;

interface Props {
  record: ExecutionRecord;
  /** The event at whose time it is shown; null: now. */
  at: number | null;
  steps: StepTrace[];
}

/** The family of an execution; nothing if it has neither a parent nor children. */
export function ExecutionFamily({ record, at, steps }: Props) {
  const spawned = steps.filter(maySpawn).length;
  const family = useFamily(record, at, record.parent !== null || spawned > 0);
  if (!record.parent && spawned === 0) return null;
  return (
    <nav aria-label="Family" className={styles.family}>
      {record.parent && (
        <p>
          <span className={styles.soft}>Started by</span> {family.data?.parent ? <Member of={family.data.parent} at={at} /> : nameOf(record.parent)}
        </p>
      )}
      {family.isPending && spawned > 0 && <p className={styles.soft}>Reading what it has started …</p>}
      {family.error && <ErrorNotice error={family.error} onRetry={() => void family.refetch()} />}
      {family.data && (family.data.children.length > 0 || family.data.omitted > 0) && (
        <>
          <p className={styles.soft}>{at === null ? "Has started" : "Had started by then"}</p>
          <Children children={family.data.children} omitted={family.data.omitted} at={at} />
        </>
      )}
    </nav>
  );
}

/** Reads the family of an execution, now or at the time of an event. While another time is read, the one before is shown. */
export function useFamily(of: ExecutionRecord, at: number | null, isOn: boolean) {
  return queries.useQuery("get", "/api/executions/{workflow}/{id}/family", requestAt(of, at), { enabled: isOn, placeholderData: keepPreviousData });
}

function Children({ children, omitted, at }: { children: FamilyMember[]; omitted: number; at: number | null }) {
  const [shown, showMore] = useState(SHOWN_MAX);
  if (children.length === 0 && omitted === 0) return null;
  return (
    <ul className={styles.children}>
      {children.slice(0, shown).map((child) => (
        <li key={`${child.path} ${nameOf(child)}`}>
          <Member of={child} at={at} />
          <Children children={child.children ?? []} omitted={child.omitted ?? 0} at={at} />
        </li>
      ))}
      {children.length > shown && (
        <li>
          <Button look="quiet" onClick={() => showMore(shown + 500)}>
            {(children.length - shown).toLocaleString("en")} more
          </Button>
        </li>
      )}
      {omitted > 0 && <li className={styles.soft}>and {omitted.toLocaleString("en")} more, which are not read here</li>}
    </ul>
  );
}

/** One execution of a family: its state, its name, and what it waits for. */
export function Member({ of, at }: { of: FamilyMember; at: number | null }) {
  return (
    <>
      {of.status && <StateMark state={of.status} />} <MemberLink of={of} at={at} /> <span className={styles.soft}>{remark(of)}</span>
    </>
  );
}

function remark(of: FamilyMember): string {
  if (of.unknown) return `state not known: ${of.unknown}`;
  return of.completedAt ? "" : (of.why ?? "");
}

/** A link to the page of an execution of a family, which leads to the same time. */
function MemberLink({ of, at }: { of: FamilyMember; at: number | null }) {
  const search = at !== null && (of.version ?? 0) > 0 ? { at: String(of.version) } : {};
  return (
    <Link to="/executions/$workflow/$id" params={{ workflow: of.workflow, id: of.id }} search={search} dir="auto">
      {nameOf(of)}
    </Link>
  );
}
