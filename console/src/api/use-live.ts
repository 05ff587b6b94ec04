// Live changes for components: what was read of an execution is read again when it changes, at most a few times a second.
import { useEffect, useSyncExternalStore } from "react";
import { queryClient } from "./client";
import { type Change, type Connection, live } from "./live";

const OFTEN_MS = 400;

/** Whether changes arrive now. */
export function useConnection(): Connection {
  return useSyncExternalStore(live.state.subscribe, live.state.get);
}

/** Calls `listener` for each change of an execution of the tenant while the component is shown. */
export function useChanges(listener: (change: Change) => void): void {
  useEffect(() => live.onChange(listener), [listener]);
}

/** Reads everything of an execution again when it changes; nothing at all while `frozen`, as when a past state is shown. */
export function useLiveExecution(workflow: string, id: string, frozen: boolean): void {
  useEffect(() => {
    if (frozen) return;
    const isOfIt = (query: { queryKey: readonly unknown[] }) => {
      const path = (query.queryKey[2] as { params?: { path?: Record<string, string> } } | undefined)?.params?.path;
      return path?.workflow === workflow && path.id === id;
    };
    let waiting: ReturnType<typeof setTimeout> | null = null;
    let isReading = false;
    let isStale = false;
    const read = async () => {
      waiting = null;
      isReading = true;
      isStale = false;
      const begunAt = performance.now();
      await queryClient.invalidateQueries({ predicate: isOfIt }, { cancelRefetch: false });
      isReading = false;
      if (isStale) waiting = setTimeout(read, Math.max(OFTEN_MS, 3 * (performance.now() - begunAt)));
    };
    const endWatch = live.watch(workflow, id);
    const endChanges = live.onChange((change) => {
      if (change.type !== "reset" && (change.execution?.workflow !== workflow || change.execution.id !== id)) return;
      isStale = true;
      if (waiting === null && !isReading) waiting = setTimeout(read, 30);
    });
    return () => {
      endWatch();
      endChanges();
      if (waiting !== null) clearTimeout(waiting);
    };
  }, [workflow, id, frozen]);
}
