// The triggers that start a workflow, in a few words each.
import { Link } from "@tanstack/react-router";
import { queries } from "@/api/client";
import { usePolling } from "@/api/polling";
import { ErrorNotice, Loading } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { TriggerState } from "@/triggers/trigger-state";
import { triggerSentence } from "@/triggers/trigger-words";

/** The triggers of a workflow. */
export function TriggerRows({ workflow }: { workflow: string }) {
  const triggers = queries.useQuery("get", "/api/triggers", { params: { query: { workflowId: workflow, limit: 100 } } }, usePolling());
  if (triggers.error) return <ErrorNotice error={triggers.error} />;
  if (!triggers.data) return <Loading what="the triggers" />;
  return (
    <SimpleTable
      label={`Triggers of ${workflow}`}
      rows={triggers.data.items}
      keyOf={(one) => one.id}
      empty="No trigger starts it; people and programs do."
      columns={[
        {
          id: "name",
          title: "Trigger",
          cell: (one) => (
            <Link to="/triggers/$id" params={{ id: one.id }}>
              {one.name}
            </Link>
          ),
        },
        { id: "when", title: "When", cell: (one) => triggerSentence(one) },
        { id: "state", title: "State", cell: (one) => <TriggerState trigger={one} /> },
        { id: "next", title: "Next", cell: (one) => <TimeText at={one.dueAt} /> },
        { id: "last", title: "Last", cell: (one) => <TimeText at={one.lastRunAt} missing="never" /> },
      ]}
    />
  );
}
