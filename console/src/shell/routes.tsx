// The routes of the console. Each page but the first is a chunk of its own; its view is in the search parameters, which it checks itself.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { ROOT_PATH } from "@/api/base";
import { ExecutionListPage } from "@/executions/list-page";
import { Loading } from "@/parts/notice";
import { Layout } from "./layout";
import { NotFound, PageFailed } from "./not-found";

/** Search parameters as they come; each page reads those that it knows by `useSearch`, as text. */
export type Search = Record<string, string | number | boolean | string[] | undefined>;

const root = createRootRoute({ component: Layout, notFoundComponent: NotFound, errorComponent: PageFailed });
const validateSearch = (search: Record<string, unknown>): Search => search as Search;
const page = <Path extends string>(path: Path, load: () => Promise<Record<string, unknown>>, name: string) =>
  createRoute({
    getParentRoute: () => root,
    path,
    validateSearch,
    component: lazyRouteComponent(load as never, name as never),
    pendingComponent: () => <Loading what="the page" />,
    errorComponent: PageFailed,
  });

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/executions", replace: true });
  },
});

const routeTree = root.addChildren([
  home,
  // The page that most begin with is in the first chunk.
  createRoute({ getParentRoute: () => root, path: "/executions", validateSearch, component: ExecutionListPage, errorComponent: PageFailed }),
  page("/executions/$workflow/$id", () => import("@/executions/execution-page"), "ExecutionPage"),
  page("/workflows", () => import("@/workflows/workflow-list-page"), "WorkflowListPage"),
  page("/workflows/$slug", () => import("@/workflows/workflow-page"), "WorkflowPage"),
  page("/workflows/$slug/edit", () => import("@/editor/editor-page"), "EditorPage"),
  page("/approvals", () => import("@/approvals/approval-list-page"), "ApprovalListPage"),
  page("/approvals/$id", () => import("@/approvals/approval-page"), "ApprovalPage"),
  page("/triggers", () => import("@/triggers/trigger-list-page"), "TriggerListPage"),
  page("/triggers/$id", () => import("@/triggers/trigger-page"), "TriggerPage"),
  page("/dead-letters", () => import("@/dead-letters/dead-letter-page"), "DeadLetterPage"),
  page("/proposals", () => import("@/proposals/proposal-list-page"), "ProposalListPage"),
  page("/proposals/$id", () => import("@/proposals/proposal-page"), "ProposalPage"),
  page("/recordings", () => import("@/recordings/recording-list-page"), "RecordingListPage"),
  page("/recordings/$id", () => import("@/recordings/recording-page"), "RecordingPage"),
  page("/system", () => import("@/system/system-page"), "SystemPage"),
]);

export const router = createRouter({
  routeTree,
  basepath: ROOT_PATH || "/",
  defaultPreload: "intent",
  defaultPendingMs: 150,
  scrollRestoration: true,
  defaultNotFoundComponent: NotFound,
  parseSearch: (text) => readSearch(new URLSearchParams(text)),
  stringifySearch: (search) => writeSearch(search),
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

/** Reads search parameters as they are written by people: text, and several of one name as a list. */
function readSearch(given: URLSearchParams): Search {
  const found: Search = {};
  for (const name of new Set(given.keys())) {
    const all = given.getAll(name);
    found[name] = all.length > 1 ? all : all[0];
  }
  return found;
}

function writeSearch(search: Record<string, unknown>): string {
  const written = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    if (value === undefined || value === null || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) written.append(name, String(one));
  }
  const text = written.toString();
  return text && `?${text}`;
}
