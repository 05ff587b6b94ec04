// Who uses the page, and what their roles allow. The server decides; the page hides what it would refuse, with the reason.
import { useQuery } from "@tanstack/react-query";
import { queries, type Schemas } from "@/api/client";
import { readSession } from "@/api/access";

export type Role = Schemas["CallerDetails"]["roles"][number];

export const whoamiQuery = queries.queryOptions("get", "/api/whoami", {}, { staleTime: 60_000 });
export const sessionQuery = { queryKey: ["session"], queryFn: readSession, staleTime: 60_000 };

/** Who uses the page. */
export function useIdentity(): Schemas["CallerDetails"] | undefined {
  return useQuery(whoamiQuery).data;
}

/** Why the person at this page may not do what needs a role; empty if they may. Of one operation of the API, such as "queues.statuses", their key or tenant may not be allowed it all the same. */
export function useRefusal(role: Role, operation = ""): string {
  const identity = useIdentity();
  if (!identity) return "It is not known yet who you are";
  if (!identity.roles.includes(role) && !identity.roles.includes("admin")) return `This needs the role ${role}; you have ${identity.roles.join(", ") || "none"}`;
  if (operation === "" || !identity.operations || identity.operations.includes(operation)) return "";
  return identity.tenantName === "default" ? "Your key may not do this" : `This concerns all tenants, and is for callers of the tenant default; you are in ${identity.tenantName}`;
}
