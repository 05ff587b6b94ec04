// To be written.
import { Page } from "@/parts/page";

export function ProposalPage() {
  return (
    <Page title="Proposal page" name="Proposal page">
      <p>To be written.</p>
    </Page>
  );
}
