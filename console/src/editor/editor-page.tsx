// To be written.
import { Page } from "@/parts/page";

export function EditorPage() {
  return (
    <Page title="Editor page" name="Editor page">
      <p>To be written.</p>
    </Page>
  );
}
