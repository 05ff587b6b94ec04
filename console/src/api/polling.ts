// Reads things again every few seconds, as long as the page is visible and updates are not paused.
import { Problem } from "./problem";
import { useConnection } from "./use-live";

/** The interval as options of a query that may find nothing: what is not there is not asked for again and again, nor what `isFinal` says can't change any more. */
export function usePollingIfThere<Data>(seconds = 5, isFinal: (data: Data) => boolean = () => false) {
  const { refetchInterval, ...options } = usePolling(seconds);
  return {
    ...options,
    refetchInterval: ({ state }: { state: { error: unknown; data: Data | undefined } }) => {
      const isMissing = state.error instanceof Problem && state.error.status === 404;
      return isMissing || (state.data !== undefined && isFinal(state.data)) ? false : refetchInterval;
    },
  };
}

/** Options of a query that is read again by itself. A hidden page reads nothing. */
export function usePolling(seconds = 5): { refetchInterval: number | false; refetchIntervalInBackground: false } {
  const isPaused = useConnection() === "paused";
  return { refetchInterval: isPaused ? false : seconds * 1_000, refetchIntervalInBackground: false };
}
