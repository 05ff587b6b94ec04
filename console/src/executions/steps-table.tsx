// The steps of an execution as a table.
import { DataTable } from "@/parts/data-table";
import { Empty } from "@/parts/notice";
import { StateMark } from "@/parts/state-mark";
import { DurationText, TimeText } from "@/parts/time-text";
import type { StepTrace } from "./execution-reads";

interface Props {
  steps: StepTrace[];
  chosen: string;
  onChoose: (path: string) => void;
}

/** A row a step, in the order of opening. */
export function StepsTable({ steps, chosen, onChoose }: Props) {
  if (steps.length === 0) return <Empty title="No step has begun" />;
  return (
    <DataTable
      label="Steps"
      rows={steps}
      keyOf={(one) => one.path}
      nameOf={(one) => `${one.path}: ${one.state.replaceAll("_", " ")}`}
      onOpen={(one) => onChoose(one.path)}
      marked={chosen}
      columns={[
        { id: "path", title: "Step", width: "3fr", cell: (one) => <bdi title={one.path}>{one.path}</bdi> },
        { id: "state", title: "State", width: "10rem", cell: (one) => <StateMark state={one.state} /> },
        { id: "kind", title: "Kind", width: "1fr", wideOnly: true, cell: (one) => one.kind },
        { id: "attempts", title: "Attempts", width: "5rem", wideOnly: true, align: "end", cell: (one) => one.attempts.length || "" },
        { id: "started", title: "Began", width: "7rem", wideOnly: true, cell: (one) => <TimeText at={one.startedAt} /> },
        { id: "took", title: "Took", width: "6rem", align: "end", cell: (one) => <DurationText from={one.startedAt} until={one.completedAt} /> },
      ]}
    />
  );
}
