// An action of a page: a request that changes something. What it changed is read again before it counts as done.
import { useMutation } from "@tanstack/react-query";
import { refresh } from "./client";

export interface Action<Given> {
  run: (given: Given) => void;
  busy: boolean;
  error: unknown;
  /** Forgets the error. */
  clear: () => void;
}

/** Performs `act` when it is run, then has what was read from `paths` be read again, then calls `onDone`. */
export function useAction<Given = void, Result = unknown>(act: (given: Given) => Promise<Result>, paths: string[] = [], onDone?: (result: Result, given: Given) => void): Action<Given> {
  const mutation = useMutation({
    mutationFn: act,
    onSuccess: async (result, given) => {
      await refresh(...paths);
      onDone?.(result, given);
    },
  });
  return { run: mutation.mutate, busy: mutation.isPending, error: mutation.error, clear: mutation.reset };
}
