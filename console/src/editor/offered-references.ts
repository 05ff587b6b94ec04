// The references that a field of a step may use: as the server knows them, and as far as the document tells them while it can't be asked.
import { useQuery } from "@tanstack/react-query";
import { api, queryClient } from "@/api/client";
import { Problem } from "@/api/problem";
import { useSettledValue } from "@/parts/settled-value";
import { type OfferedReference, PREFIXES, referencesFor } from "./model/references";
import type { Step, StepTree } from "./model/step-tree";

const SETTLED_MS = 400;

/** The references that a field of a step may use. `isBroken` says that the text can't be read, so that the tree is of an earlier one. */
export async function offeredReferences(text: string, tree: StepTree, step: Step | undefined, field: string, isBroken: boolean): Promise<OfferedReference[]> {
  if (step === undefined || !step.hasId || isBroken) return referencesFor(tree, step);
  return (await queryClient.fetchQuery(queryOf(text, step.id, field))) ?? referencesFor(tree, step);
}

/** The same for a form, a moment after the last change. */
export function useOfferedReferences(text: string, tree: StepTree, step: Step | undefined, isBroken: boolean): OfferedReference[] {
  const isSettled = useSettledValue(text, SETTLED_MS) === text;
  const { data } = useQuery({ ...queryOf(text, step?.id ?? "", "with"), enabled: isSettled && step !== undefined && step.hasId && !isBroken });
  return data ?? referencesFor(tree, step);
}

function queryOf(document: string, step: string, field: string) {
  return { queryKey: ["references", document, step, field], queryFn: () => askServer(document, step, field), staleTime: Number.POSITIVE_INFINITY, gcTime: 10_000 };
}

/** What the server says; null if it does not know: it reads the text in another way, or does not answer. */
async function askServer(document: string, step: string, field: string): Promise<OfferedReference[] | null> {
  try {
    const { data } = await api.POST("/api/workflows/references", { body: { document: document as never, step, field } });
    return [...(data?.items ?? []).map(({ reference, about }) => ({ text: reference, says: about })), ...PREFIXES];
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}
