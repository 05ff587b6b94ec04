// Engines and workers: where each runs, what it knows, and what it holds.
import { Link } from "@tanstack/react-router";
import { queries } from "@/api/client";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { useRefusal } from "@/shell/identity";
import { countText } from "@/words/times";
import { knownWorkflows } from "./program-names";
import { Refused } from "./refused";

const SHOWN = 6;

/** The tab of engines and workers. */
export function EngineTab() {
  const refusal = useRefusal("viewer", "queues.processes");
  const engines = queries.useQuery("get", "/api/engines", {}, { ...usePolling(), enabled: refusal === "" });
  if (refusal) return <Refused what="Engines and workers" why={refusal} />;
  if (engines.error && !engines.data) return <ErrorNotice error={engines.error} onRetry={() => void engines.refetch()} />;
  if (!engines.data) return <Loading what="the engines" />;
  const rows = engines.data.items.toSorted((one, other) => Number(other.alive) - Number(one.alive) || one.name.localeCompare(other.name));
  const alive = rows.filter((one) => one.alive).length;
  if (rows.length === 0)
    return (
      <Empty title="No engine and no worker is known">
        <p>Start one: perdure worker flows.py. What is started meanwhile waits.</p>
      </Empty>
    );
  return (
    <div className={blocks.stack}>
      <p role="status">
        {alive} of {rows.length} alive
      </p>
      <SimpleTable
        label="Engines and workers"
        rows={rows}
        keyOf={(one) => one.name}
        columns={[
          { id: "name", title: "Name", cell: (one) => <code>{one.name}</code> },
          { id: "kind", title: "Kind", cell: (one) => one.kind },
          { id: "alive", title: "State", cell: (one) => (one.alive ? <span>✓ alive</span> : <strong className={blocks.bad}>✗ its lease has run out</strong>) },
          { id: "where", title: "Where", cell: (one) => `${one.host}, process ${one.pid}` },
          { id: "since", title: "Since", cell: (one) => <TimeText at={one.startedAt} /> },
          { id: "holds", title: "Holds", cell: (one) => `${countText(one.executions)} executions, ${countText(one.tasks)} tasks` },
          { id: "knows", title: "Knows", cell: (one) => <Known programs={one.programs} queues={one.queues} tenants={one.tenants as string[] | null | undefined} /> },
        ]}
      />
    </div>
  );
}

function Known({ programs, queues, tenants }: { programs: string[]; queues: string[]; tenants: string[] | null | undefined }) {
  const { names, hasCatalog } = knownWorkflows(programs);
  const shown = (list: typeof names) => (
    <ul>
      {list.map(([name, versions]) => (
        <li key={name}>
          <Link to="/workflows/$slug" params={{ slug: name }}>
            {name}
          </Link>{" "}
          {versions.join(", ")}
        </li>
      ))}
    </ul>
  );
  return (
    <div>
      {hasCatalog && <p>definitions of the catalog</p>}
      {names.length <= SHOWN ? (
        shown(names)
      ) : (
        <details>
          <summary>{names.length} workflows of code</summary>
          {shown(names)}
        </details>
      )}
      {queues.length > 0 && <p>queues: {queues.join(", ")}</p>}
      {tenants && <p>only of the tenants {tenants.join(", ")}</p>}
      {!hasCatalog && names.length + queues.length === 0 && <span className={blocks.soft}>nothing of its own</span>}
    </div>
  );
}
