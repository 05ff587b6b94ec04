// Sends a test delivery to a webhook, signed by the server as its sender would, and says what became of it.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useAction } from "@/api/action";
import { api, type Schemas } from "@/api/client";
import { ActionError } from "@/parts/action-error";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { CopyButton } from "@/parts/copy-button";
import { TextField } from "@/parts/field";
import { Facts } from "@/parts/page";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { shellWord } from "@/words/shell-word";
import type { Trigger, WebhookConfig } from "./trigger-words";

const VERDICTS: Record<Schemas["SentSample"]["verdict"], string> = {
  accepted: "✓ accepted: it has started an execution",
  known: "✓ accepted before: it started nothing new",
  answered: "✓ answered: it starts nothing, like a ping",
  rejected: "✗ refused",
};

const PATHS = ["/api/triggers", "/api/executions"];

/** The form of a test delivery. */
export function TestSender({ trigger, config }: { trigger: Trigger; config: WebhookConfig }) {
  const operator = useRefusal("operator");
  const view = useView();
  const [body, setBody] = useState("{}");
  const [contentType, setContentType] = useState("application/json");
  const [event, setEvent] = useState("");
  const [deliveryId, setDeliveryId] = useState("");
  const [sent, setSent] = useState<Schemas["SentSample"]>();
  const send = useAction(
    async () => (await api.POST("/api/triggers/{trigger}/sample-delivery", { params: { path: { trigger: trigger.id } }, body: { body, contentType, event, deliveryId } as never })).data,
    PATHS,
    setSent,
  );
  const isOff = trigger.enabled && !trigger.pause ? "" : "It is not active, so its sender gets 404";
  const signs = config.verify && config.verify.scheme !== "none" ? `The server signs it with ${config.verify.secrets?.[0] ?? "its secret"}, as its sender would; the secret stays there.` : "Nothing is signed, since nothing is verified.";
  const command = `printf %s ${shellWord(body)} | perdure webhook send ${shellWord(trigger.id)} --file -${event ? ` --event ${shellWord(event)}` : ""}${deliveryId ? ` --id ${shellWord(deliveryId)}` : ""}${contentType === "application/json" ? "" : ` --content-type ${shellWord(contentType)}`}`;
  return (
    <div className={blocks.stack}>
      <p className={blocks.soft}>{signs} It is received like any other, so it starts an execution.</p>
      <TextField label="Body" value={body} onChange={setBody} rows={6} mono />
      <div className={blocks.pair}>
        <TextField label="Content type" value={contentType} onChange={setContentType} mono offers={["application/json", "application/x-www-form-urlencoded", "text/plain"]} />
        <TextField label="Event" value={event} onChange={setEvent} mono hint="What has happened, as its sender names it." />
        <TextField label="Id of the delivery" value={deliveryId} onChange={setDeliveryId} mono placeholder="a new one" hint="Sent twice, it starts one execution." />
      </div>
      <div className={blocks.row}>
        <Button look="main" busy={send.busy} refusal={operator || isOff} onClick={() => send.run()}>
          Send
        </Button>
        <CopyButton text={command} label="Copy as a command">
          Copy as a command
        </CopyButton>
      </div>
      {send.error !== null && <ActionError error={send.error} paths={PATHS} />}
      {sent && (
        <div role="status" className={blocks.stack}>
          <p className={sent.verdict === "rejected" ? blocks.bad : undefined}>
            {VERDICTS[sent.verdict]}
            {sent.code && ` (${sent.code})`}
            {sent.message && `: ${sent.message}`}
          </p>
          {sent.execution && (
            <p className={blocks.row}>
              <Link to="/executions/$workflow/$id" params={sent.execution}>
                {sent.execution.workflow}/{sent.execution.id}
              </Link>
              {sent.delivery && <Button look="quiet" onClick={() => view.change({ delivery: sent.delivery })}>Show the delivery</Button>}
            </p>
          )}
          <details>
            <summary>Headers that were sent</summary>
            <Facts of={Object.entries(sent.headers).map(([name, value]) => [name, <code key={name}>{value}</code>])} />
          </details>
        </div>
      )}
    </div>
  );
}
