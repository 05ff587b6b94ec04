// The executions before and after this one in the list from which the viewer came. The tab keeps the list, also when it is loaded again.
import { useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { SERVER_URL } from "@/api/base";
import { useShortcut } from "@/shell/shortcuts";
import type { ExecutionKey } from "./execution-reads";

const NAME = `perdure.list ${SERVER_URL}`;

/** Keeps a list, from which one of its executions is opened. */
export function rememberList(list: readonly ExecutionKey[]): void {
  try {
    sessionStorage.setItem(NAME, JSON.stringify(list.map(({ workflow, id }) => [workflow, id])));
  } catch {
    // The storage of the tab is full or switched off; then there are no neighbours.
  }
}

/** The executions before and after one in the list that the tab keeps; null where there is none. */
export function neighboursOf({ workflow, id }: ExecutionKey): { before: ExecutionKey | null; after: ExecutionKey | null } {
  const list = keptList();
  const index = list.findIndex((one) => one.workflow === workflow && one.id === id);
  return { before: list[index - 1] ?? null, after: index < 0 ? null : (list[index + 1] ?? null) };
}

function keptList(): ExecutionKey[] {
  try {
    const found = JSON.parse(sessionStorage.getItem(NAME) ?? "[]") as [string, string][];
    return found.map(([workflow, id]) => ({ workflow, id }));
  } catch {
    return []; // the storage is switched off, or another program has written to it
  }
}

/** Has `[` and `]` go to the neighbours of an execution, while there is a list. */
export function useNeighbours(of: ExecutionKey): void {
  const navigate = useNavigate();
  const { before, after } = useMemo(() => neighboursOf(of), [of]);
  const go = (to: ExecutionKey | null) => {
    if (!to) return;
    const params = { workflow: to.workflow, id: to.id };
    // The tab and its room stay; a step or an event of one execution means nothing in another one.
    void navigate({ to: "/executions/$workflow/$id", params, search: (({ tab, wide }: Record<string, unknown>) => ({ tab, wide })) as never, replace: true });
  };
  useShortcut("[", "the execution before this one in the list", () => go(before), before !== null);
  useShortcut("]", "the next execution in the list", () => go(after), after !== null);
}
