// What the pages of workflows read: definitions and code as one list, and the counts of their executions.
import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { queries, type Schemas } from "@/api/client";
import { usePolling } from "@/api/polling";

export type Definition = Schemas["CatalogDefinition"];
export type CodeWorkflow = Schemas["ListedCodeWorkflow"];
export type ListedWorkflow = Definition | CodeWorkflow;

/** Paths of which the pages of workflows read something. */
export const WORKFLOW_PATHS = ["/api/workflows", "/api/workflow-"];

/** Whether a workflow is a definition of the catalog, and not code. */
export function isDefinition(workflow: ListedWorkflow): workflow is Definition {
  return workflow.kind !== "code";
}

export interface Outcomes {
  byWorkflow: Map<string, Schemas["WorkflowOutcomes"]>;
  fromAt: string;
  untilAt: string;
  /** Whether those of all workflows are read. */
  isWhole: boolean;
  error: unknown;
}

const ASKED_MAX = 25;

/** The outcomes of workflows in the last hours; of many, a part at a time, so that each is counted far enough. */
export function useOutcomes(workflows: string[], hours = 24, seconds = 15): Outcomes {
  const polling = usePolling(seconds);
  const parts = Array.from({ length: Math.ceil(workflows.length / ASKED_MAX) }, (_, index) => workflows.slice(index * ASKED_MAX, (index + 1) * ASKED_MAX));
  const found = useQueries({
    queries: parts.map((workflow) => queries.queryOptions("get", "/api/workflow-outcomes", { params: { query: { workflow, hours } } }, { ...polling, placeholderData: (before) => before })),
  });
  const answers = found.flatMap((one) => (one.data ? [one.data] : []));
  return {
    byWorkflow: new Map(answers.flatMap((one) => one.items.map((item) => [item.workflow, item] as const))),
    fromAt: answers[0]?.fromAt ?? "",
    untilAt: answers[0]?.untilAt ?? "",
    isWhole: answers.length === parts.length,
    error: found.find((one) => one.error)?.error ?? null,
  };
}

/** The workflows of the tenant, for choices: definitions and code. `hasMore` says that there are more, which are left out. */
export interface ListedWorkflows {
  items: ListedWorkflow[];
  hasMore: boolean;
  isRead: boolean;
  error: unknown;
}

/** The first workflows of the tenant, in the order of their names. */
export function useListedWorkflows(): ListedWorkflows {
  const { data, error } = queries.useQuery("get", "/api/workflows", { params: { query: { limit: 200 } } }, { staleTime: 60_000 });
  return useMemo(() => ({ items: [...(data?.items ?? []), ...(data?.code ?? [])], hasMore: Boolean(data?.next), isRead: data !== undefined, error }), [data, error]);
}

/** Their names, each once. */
export function useWorkflowNames(): string[] {
  const { items } = useListedWorkflows();
  return useMemo(() => [...new Set(items.map((one) => one.slug))].sort(), [items]);
}

/** The statuses of executions that have not ended, as search parameters of the list of executions. */
export const OPEN_STATUSES = ["running", "waiting", "waiting_approval", "paused", "needs_attention", "undoing"];
