// What the page of an execution reads: its record, its steps and its events, now or as of an event of its log.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, queries, queryClient, type Schemas } from "@/api/client";
import { isEnded } from "@/words/states";

export type ExecutionRecord = Schemas["ExecutionRecord"];
export type StepTrace = Schemas["StepTrace"];
export type StepAttempt = Schemas["StepAttempt"];

/** The workflow and the id of an execution. */
export interface ExecutionKey {
  workflow: string;
  id: string;
}

const PAGE_STEPS = 1_000;
const READ_WHOLE_AFTER_MS = 20_000;

/** The parameters of a request about an execution. */
export function requestOf(of: ExecutionKey) {
  return { params: { path: { workflow: of.workflow, id: of.id } } };
}

/** The parameters of a request about an execution, now (null) or as of an event. */
export function requestAt(of: ExecutionKey, at: number | null) {
  const query: { at?: number } = at === null ? {} : { at };
  return { params: { ...requestOf(of).params, query } };
}

/** The record of an execution. While another time is read, the one before is shown. */
export function useRecord(of: ExecutionKey, at: number | null) {
  return queries.useQuery("get", "/api/executions/{workflow}/{id}", requestAt(of, at), { placeholderData: keepPreviousData });
}

/** All steps of an execution, in the order of opening. */
export interface StepList {
  steps: StepTrace[];
  wholeAtMs: number;
}

/** Reads all steps, page by page. Of a long list that was read shortly before, only what is not completed is read again. */
export function useSteps(of: ExecutionKey, at: number | null) {
  const queryKey = ["get", "/api/executions/{workflow}/{id}/steps", requestAt(of, at), "all"] as const;
  return useQuery({
    queryKey,
    queryFn: ({ signal }) => readSteps(of, at, at === null ? queryClient.getQueryData<StepList>(queryKey) : undefined, signal),
    placeholderData: keepPreviousData,
  });
}

async function readSteps(of: ExecutionKey, at: number | null, before: StepList | undefined, signal: AbortSignal): Promise<StepList> {
  const firstOpen = before?.steps.findIndex((one) => one.state !== "completed" && one.state !== "skipped") ?? -1;
  const goesOn = before !== undefined && before.steps.length > PAGE_STEPS && firstOpen > 0 && Date.now() - before.wholeAtMs < READ_WHOLE_AFTER_MS;
  const steps = goesOn ? before.steps.slice(0, firstOpen) : [];
  const wholeAtMs = goesOn ? before.wholeAtMs : Date.now();
  for (let after: number | null = steps.length; after !== null; ) {
    const request = requestAt(of, at);
    const { data }: { data?: Schemas["StepPage"] } = await api.GET("/api/executions/{workflow}/{id}/steps", { params: { path: request.params.path, query: { ...request.params.query, after, limit: PAGE_STEPS } }, signal });
    steps.push(...(data?.items ?? []));
    after = data?.next ?? null;
  }
  return { steps, wholeAtMs };
}

/** Whether an execution does not change by itself: it has ended, or waits for a person to continue it. */
export function isStill(status: string): boolean {
  return isEnded(status) || status === "paused" || status === "needs_attention";
}

/** Whether a step may have started an execution. In definitions, the kind "call" is a child; in code it is a step, which has attempts. */
export function maySpawn(step: StepTrace): boolean {
  return SPAWNING.has(step.kind) || (step.kind === "call" && step.attempts.length === 0);
}

const SPAWNING = new Set(["spawn", "agent", "approve", "workflow"]);

/** Whether a step waits for a message. */
export function isReceiving(step: StepTrace): boolean {
  return (step.kind === "receive" || step.kind === "listen") && step.completedAt === null;
}

/** The name of an execution in sentences, paths and commands: "order/o-17". */
export function nameOf(of: ExecutionKey): string {
  return `${of.workflow}/${of.id}`;
}
