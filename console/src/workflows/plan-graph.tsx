// The plan of a definition: its steps and how they lead to each other.
import { queries } from "@/api/client";
import blocks from "@/parts/blocks.module.css";
import { ErrorNotice, Loading } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";

/** Shows the plan of the version that a reference names. */
export function PlanGraph({ reference }: { reference: string }) {
  const graph = queries.useQuery("get", "/api/workflow-versions/{reference}/graph", { params: { path: { reference } } }, { staleTime: Number.POSITIVE_INFINITY });
  if (graph.error) return <ErrorNotice error={graph.error} />;
  if (!graph.data) return <Loading what="the graph" />;
  const names = new Map(graph.data.nodes.map((one) => [one.id, one.name || one.detail || one.id]));
  const edges = graph.data.edges;
  return (
    <div className={blocks.stack}>
      <SimpleTable
        label={`Steps of ${reference}`}
        rows={graph.data.nodes}
        keyOf={(one) => one.id}
        columns={[
          { id: "name", title: "Step", cell: (one) => one.name || one.detail || one.id },
          { id: "kind", title: "Kind", cell: (one) => one.kind },
          { id: "detail", title: "What it does", cell: (one) => one.detail },
          { id: "next", title: "Leads to", cell: (one) => edges.filter((edge) => edge.source === one.id).map((edge) => `${edge.label ? `${edge.label}: ` : ""}${names.get(edge.target) ?? edge.target}`).join(", ") },
        ]}
      />
    </div>
  );
}
