// The beginning of the console.
import "@/shell/theme.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { onNewAccess, startAccess } from "@/api/access";
import { CSP_NONCE, ROOT_PATH } from "@/api/base";
import { queryClient } from "@/api/client";
import { live } from "@/api/live";
import { prefetchList } from "@/executions/list-page";
import { sessionQuery, whoamiQuery } from "@/shell/identity";
import { router } from "@/shell/routes";
import { startSettings } from "@/shell/settings";
import { startShortcuts } from "@/shell/shortcuts";

setNonce(CSP_NONCE); // for the style that a dialog adds
startAccess();
startSettings();
startShortcuts();
// What the first page shows is asked for at once, and not only when the page is drawn.
void queryClient.prefetchQuery(whoamiQuery);
if (/^\/(executions\/?)?$/.test(location.pathname.slice(ROOT_PATH.length))) prefetchList(new URLSearchParams(location.search));
await queryClient.prefetchQuery(sessionQuery); // it brings the CSRF token
live.start();
onNewAccess(() => {
  live.restart();
  void queryClient.invalidateQueries();
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
