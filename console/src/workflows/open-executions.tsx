// The executions of a workflow that have not ended, by the version with which they began; each count leads to its list.
import { Link } from "@tanstack/react-router";
import { queries } from "@/api/client";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { ErrorNotice, Loading } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { countText } from "@/words/times";
import { OPEN_STATUSES } from "./workflow-data";

/** Counts open executions by version. */
export function OpenExecutions({ workflow, current, isCode }: { workflow: string; current: string; isCode: boolean }) {
  const use = queries.useQuery("get", "/api/workflow-versions-in-use", { params: { query: { workflow } } }, usePolling());
  if (use.error) return <ErrorNotice error={use.error} />;
  if (!use.data) return <Loading what="the open executions" />;
  const search = (version: string) => ({ workflow, status: OPEN_STATUSES, q: version && !isCode ? `definition_version=${version}` : undefined });
  return (
    <div className={blocks.stack}>
      <SimpleTable
        label="Open executions by version"
        rows={use.data.versions}
        keyOf={(one) => `${one.version} ${one.hash}`}
        empty="No execution is in progress."
        columns={[
          { id: "version", title: "Version", cell: (one) => (one.version ? `${one.version}${one.version === current ? ", the current one" : ""}` : "a document of its own, or not known yet") },
          {
            id: "count",
            title: "Open executions",
            cell: (one) => (
              <Link to="/executions" search={search(one.version)}>
                {countText(one.count)}
              </Link>
            ),
          },
          { id: "oldest", title: "The oldest began", cell: (one) => <TimeText at={one.oldestAt} /> },
        ]}
      />
      <p className={blocks.soft}>
        {use.data.isPartial && `There are more than ${countText(use.data.total)}; only those were counted. `}
        <Link to="/executions" search={{ workflow, status: OPEN_STATUSES }}>
          All open executions
        </Link>{" "}
        · <Link to="/executions" search={{ workflow, status: "failed" }}>those that have failed</Link>{" "}
        · <Link to="/executions" search={{ workflow }}>all</Link>
      </p>
    </div>
  );
}
