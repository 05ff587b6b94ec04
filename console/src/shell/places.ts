// The main places of the console: their paths, names, and the keys that go there.
export interface Place {
  path: "/executions" | "/approvals" | "/dead-letters" | "/workflows" | "/triggers" | "/proposals" | "/recordings" | "/system";
  name: string;
  key: string;
}

export const PLACES: Place[] = [
  { path: "/executions", name: "Executions", key: "e" },
  { path: "/approvals", name: "Approvals", key: "a" },
  { path: "/dead-letters", name: "Dead letters", key: "d" },
  { path: "/workflows", name: "Workflows", key: "w" },
  { path: "/triggers", name: "Triggers", key: "t" },
  { path: "/proposals", name: "Proposals", key: "p" },
  { path: "/recordings", name: "Recordings", key: "r" },
  { path: "/system", name: "System", key: "s" },
];
