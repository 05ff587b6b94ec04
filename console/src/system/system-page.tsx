// To be written.
import { Page } from "@/parts/page";

export function SystemPage() {
  return (
    <Page title="System page" name="System page">
      <p>To be written.</p>
    </Page>
  );
}
