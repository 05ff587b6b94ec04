// Reads things again every few seconds, as long as the page is visible and updates are not paused.
import { Problem } from "./problem";
import { useConnection } from "./use-live";

/** The interval as options of a query that may find nothing: what is not there is not asked for again and again. */
export function usePollingIfThere(seconds = 5) {
  const { refetchInterval, ...options } = usePolling(seconds);
  return { ...options, refetchInterval: (query: { state: { error: unknown } }) => (query.state.error instanceof Problem && query.state.error.status === 404 ? false : refetchInterval) };
}

/** Options of a query that is read again by itself. A hidden page reads nothing. */
export function usePolling(seconds = 5): { refetchInterval: number | false; refetchIntervalInBackground: false } {
  const isPaused = useConnection() === "paused";
  return { refetchInterval: isPaused ? false : seconds * 1_000, refetchIntervalInBackground: false };
}
