// To be written.
import { Page } from "@/parts/page";

export function ExecutionListPage() {
  return (
    <Page title="Execution list page" name="Execution list page">
      <p>To be written.</p>
    </Page>
  );
}
