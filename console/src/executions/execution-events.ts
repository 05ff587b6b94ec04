// Reads the public events of an execution.
import { queries, type Schemas } from "@/api/client";
import { type ExecutionKey, requestOf } from "./execution-reads";

export type PublicEvent = Schemas["PublicEvent"];

/** All events of an execution, in their order. Several may have one number. */
export function useEvents(of: ExecutionKey, isOn = true) {
  const events = queries.useQuery("get", "/api/executions/{workflow}/{id}/events", requestOf(of), { enabled: isOn });
  return { ...events, items: (events.data as { items: PublicEvent[] } | undefined)?.items };
}
