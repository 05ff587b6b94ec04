// What stands where an address leads nowhere.
import { Link, useLocation } from "@tanstack/react-router";
import { Page } from "@/parts/page";
import { Problem } from "@/api/problem";
import { ErrorNotice } from "@/parts/notice";

/** Explains that no page has this address. */
export function NotFound() {
  const { pathname } = useLocation();
  return (
    <Page title="No such page" name="No such page">
      <p>
        No page has the address <code>{pathname}</code>. The link may be of another version, or was cut.
      </p>
      <p>
        <Link to="/executions">Go to the executions</Link>
      </p>
    </Page>
  );
}

/** Explains why a page could not be shown. */
export function PageFailed({ error, reset }: { error: unknown; reset: () => void }) {
  const isMissing = error instanceof Problem && error.status === 404;
  return (
    <Page title={isMissing ? "Not found" : "This page can't be shown"} name="Error">
      <ErrorNotice error={error} onRetry={reset} />
      {isMissing && <p>It may belong to another tenant, or was removed after its retention time.</p>}
    </Page>
  );
}
