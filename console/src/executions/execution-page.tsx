// To be written.
import { Page } from "@/parts/page";

export function ExecutionPage() {
  return (
    <Page title="Execution page" name="Execution page">
      <p>To be written.</p>
    </Page>
  );
}
