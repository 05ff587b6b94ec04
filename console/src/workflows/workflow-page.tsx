// To be written.
import { Page } from "@/parts/page";

export function WorkflowPage() {
  return (
    <Page title="Workflow page" name="Workflow page">
      <p>To be written.</p>
    </Page>
  );
}
