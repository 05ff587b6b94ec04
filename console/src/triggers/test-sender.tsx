// Sends a test delivery to a webhook, as its sender would.
import blocks from "@/parts/blocks.module.css";
import type { Trigger, WebhookConfig } from "./trigger-words";

/** The form of a test delivery. */
export function TestSender({ trigger }: { trigger: Trigger; config: WebhookConfig }) {
  return (
    <p className={blocks.soft}>
      <code>perdure webhook send {trigger.id} --file event.json</code>
    </p>
  );
}
