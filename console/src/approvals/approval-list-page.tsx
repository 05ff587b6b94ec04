// To be written.
import { Page } from "@/parts/page";

export function ApprovalListPage() {
  return (
    <Page title="Approval list page" name="Approval list page">
      <p>To be written.</p>
    </Page>
  );
}
