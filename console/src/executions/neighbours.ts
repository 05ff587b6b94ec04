// The executions before and after this one in the list from which the viewer came. The history of the browser holds the list.
import { useNavigate, useRouterState } from "@tanstack/react-router";
import { useShortcut } from "@/shell/shortcuts";
import type { ExecutionKey } from "./execution-reads";

/** Has `[` and `]` go to the neighbours of an execution, while there is a list. */
export function useNeighbours(of: ExecutionKey): void {
  const navigate = useNavigate();
  const list = useRouterState({ select: (state) => (state.location.state as { list?: ExecutionKey[] }).list });
  const index = list?.findIndex((one) => one.workflow === of.workflow && one.id === of.id) ?? -1;
  const go = (to: number) => {
    const next = list?.[to];
    if (!next) return;
    const params = { workflow: next.workflow, id: next.id };
    // The tab stays; a step or an event of one execution means nothing in another one.
    void navigate({ to: "/executions/$workflow/$id", params, search: ((before: Record<string, unknown>) => ({ tab: before.tab })) as never, state: { list } as never, replace: true });
  };
  useShortcut("[", "the execution before this one in the list", () => go(index - 1), index > 0);
  useShortcut("]", "the next execution in the list", () => go(index + 1), list !== undefined && index >= 0 && index < list.length - 1);
}
