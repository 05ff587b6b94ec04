// To be written.
import { Page } from "@/parts/page";

export function DeadLetterPage() {
  return (
    <Page title="Dead letter page" name="Dead letter page">
      <p>To be written.</p>
    </Page>
  );
}
