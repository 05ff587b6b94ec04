// To be written.
import { Page } from "@/parts/page";

export function TriggerListPage() {
  return (
    <Page title="Trigger list page" name="Trigger list page">
      <p>To be written.</p>
    </Page>
  );
}
