// To be written.
import { Page } from "@/parts/page";

export function TriggerPage() {
  return (
    <Page title="Trigger page" name="Trigger page">
      <p>To be written.</p>
    </Page>
  );
}
