// The graph of an execution, now or as of an event.
import { keepPreviousData } from "@tanstack/react-query";
import { queries } from "@/api/client";
import { Problem } from "@/api/problem";
import type { ShownGraph } from "@/graph/graph-model";
import { GraphView } from "@/graph/graph-view";
import { graphSearchOf } from "@/graph/graph-view-state";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { useView } from "@/shell/search";
import { useShortcut } from "@/shell/shortcuts";
import { type ExecutionRecord, type StepTrace, nameOf, requestAt } from "./execution-reads";
import { PassageChoice } from "./passage-choice";
import { nodePath, passagesOf } from "./step-passages";
import styles from "./graph-tab.module.css";

interface Props {
  record: ExecutionRecord;
  at: number | null;
  steps: StepTrace[];
  /** Whether it has the room of the whole window. */
  isWide: boolean;
  chosen: string;
  onChoose: (path: string) => void;
}

/** The graph, with the chosen step marked in it. */
export function GraphTab({ record, at, steps, isWide, chosen, onChoose }: Props) {
  const view = useView();
  const graph = queries.useQuery("get", "/api/executions/{workflow}/{id}/graph", requestAt(record, at), { placeholderData: keepPreviousData, enabled: record.version > 0 });
  useShortcut("f", "follow what goes on", () => view.change({ follow: view.text("follow") === "1" ? "" : "1", as: "" }, true));
  if (record.version === 0) return <Empty title="It has not begun, so no step has" />;
  if (graph.isPending) return <Loading what="the graph" />;
  if (graph.error) {
    if (graph.error instanceof Problem && graph.error.status === 409) return <ErrorNotice error={graph.error} />;
    return <ErrorNotice error={graph.error} onRetry={() => void graph.refetch()} />;
  }
  const shown = graph.data as ShownGraph;
  if (shown.nodes.length === 0) return <Empty title="No step has begun" />;
  return (
    <div className={`${styles.frame} ${isWide ? styles.wide : ""}`}>
      <GraphView
        graph={shown}
        selected={nodeOf(shown, chosen)}
        onSelect={(id) => onChoose(shown.nodes.find((one) => one.id === id)?.path || id)}
        search={graphSearchOf(view)}
        onSearch={(change) => view.change({ ...change }, true)}
        turnControl={(node) => <PassageChoice passages={passagesOf(steps, node.path || node.id)} chosen={chosen} onChoose={onChoose} />}
        label={`Graph of ${nameOf(record)}`}
      />
    </div>
  );
}

/** The id of the node of a step; empty if none is chosen. */
function nodeOf(graph: ShownGraph, path: string): string {
  if (path === "") return "";
  const node = nodePath(path);
  const found = graph.nodes.find((one) => one.path === path || one.id === path) ?? graph.nodes.find((one) => nodePath(one.path) === node || one.id === node);
  return found?.id ?? "";
}
