// To be written.
import { Page } from "@/parts/page";

export function WorkflowListPage() {
  return (
    <Page title="Workflow list page" name="Workflow list page">
      <p>To be written.</p>
    </Page>
  );
}
