// To be written.
import { Page } from "@/parts/page";

export function ApprovalPage() {
  return (
    <Page title="Approval page" name="Approval page">
      <p>To be written.</p>
    </Page>
  );
}
