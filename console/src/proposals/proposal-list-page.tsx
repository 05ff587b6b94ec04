// To be written.
import { Page } from "@/parts/page";

export function ProposalListPage() {
  return (
    <Page title="Proposal list page" name="Proposal list page">
      <p>To be written.</p>
    </Page>
  );
}
