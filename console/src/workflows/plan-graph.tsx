// The plan of a definition as a graph: what its executions will do.
import { queries } from "@/api/client";
import type { ShownGraph } from "@/graph/graph-model";
import { GraphView } from "@/graph/graph-view";
import { graphSearchOf } from "@/graph/graph-view-state";
import { ErrorNotice, Loading } from "@/parts/notice";
import { useView } from "@/shell/search";
import styles from "./plan-graph.module.css";

/** Shows the plan of the version that a reference names. */
export function PlanGraph({ reference }: { reference: string }) {
  const view = useView();
  const graph = queries.useQuery("get", "/api/workflow-versions/{reference}/graph", { params: { path: { reference } } }, { staleTime: Number.POSITIVE_INFINITY });
  if (graph.error) return <ErrorNotice error={graph.error} />;
  if (!graph.data) return <Loading what="the graph" />;
  return (
    <div className={styles.frame}>
      <GraphView
        graph={graph.data as ShownGraph}
        selected={view.text("step")}
        onSelect={(step) => view.change({ step }, true)}
        search={graphSearchOf(view)}
        onSearch={(change) => view.change({ ...change }, true)}
        label={`Plan of ${reference}`}
      />
    </div>
  );
}
