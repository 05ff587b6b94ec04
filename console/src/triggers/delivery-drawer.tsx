// One delivery of a webhook: what arrived, what was verified, what input it gave, how it was answered, and a replay.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, queries, type Schemas } from "@/api/client";
import { parseExact } from "@/api/exact-json";
import { randomId } from "@/api/random-id";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { FormDialog } from "@/parts/form-dialog";
import { ErrorNotice, Loading } from "@/parts/notice";
import { Facts } from "@/parts/page";
import { SimpleTable } from "@/parts/simple-table";
import { StartedDialog } from "@/parts/started-dialog";
import { StateMark } from "@/parts/state-mark";
import { TimeText } from "@/parts/time-text";
import { ValueView } from "@/parts/value-view";
import { useRefusal } from "@/shell/identity";
import { countText } from "@/words/times";
import type { Trigger, WebhookConfig } from "./trigger-words";
import { verdictOf } from "./webhook-section";

/** A drawer with a delivery that was accepted. */
export function DeliveryDrawer({ trigger, config, delivery: id, onClose }: { trigger: Trigger; config: WebhookConfig; delivery: string; onClose: () => void }) {
  const operator = useRefusal("operator");
  const [isReplaying, setReplaying] = useState(false);
  const read = queries.useQuery("get", "/api/triggers/{trigger}/deliveries/{delivery}", { params: { path: { trigger: trigger.id, delivery: id } } });
  const one = read.data;
  return (
    <Dialog
      title="Delivery"
      side
      onClose={onClose}
      actions={
        <Button look="main" refusal={operator || (one ? "" : "It is not read yet")} onClick={() => setReplaying(true)}>
          Replay…
        </Button>
      }
    >
      {read.error && <ErrorNotice error={read.error} />}
      {!one && !read.error && <Loading what="the delivery" />}
      {one && (
        <div className={blocks.stack}>
          <Facts
            of={[
              ["Received", <TimeText key="at" at={one.receivedAt} />],
              ["Signature", `✓ ${verdictOf(one, config)}`],
              ["Event", one.event],
              ["Id of the sender", one.senderId && <code key="id">{one.senderId}</code>],
              ["From", one.address],
              ["Request", `${one.method}${one.query && ` ?${one.query}`}, ${countText(one.bodyBytes)} bytes`],
            ]}
          />
          <h3>Execution</h3>
          <p className={blocks.row}>
            <Link to="/executions/$workflow/$id" params={{ workflow: one.workflowId, id: one.executionId }}>
              {one.workflowId}/{one.executionId}
            </Link>
            <StateMark state={one.status} />
          </p>
          <h3>Mapped input</h3>
          <MappedInput workflow={one.workflowId} id={one.executionId} />
          <h3>Answer</h3>
          <p>{answerSentence(config)}</p>
          <h3>Headers</h3>
          <Headers of={one.headers} />
          <p className={blocks.soft}>Headers that hold secrets or signatures are not kept.</p>
          <h3>Body</h3>
          <Body delivery={one} />
        </div>
      )}
      {one && isReplaying && <ReplayDialog trigger={trigger} delivery={one} onClose={() => setReplaying(false)} />}
    </Dialog>
  );
}

/** How the sender was answered, as far as the trigger says it. */
function answerSentence(config: WebhookConfig): string {
  return config.respond === "result" ? "200 with the result of the execution if it completed in time, 409 if it did not complete, else 202 with the execution. Which one it was is not kept." : "202 Accepted with the id of the execution; 200 if the same delivery came again.";
}

function MappedInput({ workflow, id }: { workflow: string; id: string }) {
  const input = queries.useQuery("get", "/api/executions/{workflow}/{id}/input", { params: { path: { workflow, id } } });
  if (input.error) return <ErrorNotice error={input.error} />;
  if (input.isPending) return <Loading what="the input" />;
  return <ValueView value={(input.data as { input?: unknown }).input ?? input.data} name="the input" />;
}

function Body({ delivery }: { delivery: Schemas["DeliveryDetails"] }) {
  if (delivery.body === null) return <p className={blocks.soft}>{delivery.bodyBytes === 0 ? "It had none." : `It is larger than what is kept; its SHA-256 is ${delivery.bodySha256}.`}</p>;
  try {
    if (delivery.bodyEncoding === "text") return <ValueView value={parseExact(delivery.body)} name="the body" />;
  } catch {
    // It is no JSON; the text is shown as it came.
  }
  return (
    <pre className={blocks.code} tabIndex={0} aria-label="Body">
      {delivery.body}
    </pre>
  );
}

function Headers({ of }: { of: Record<string, string> }) {
  return (
    <SimpleTable
      label="Headers"
      rows={Object.entries(of)}
      keyOf={([name]) => name}
      empty="None are kept."
      columns={[
        { id: "name", title: "Name", cell: ([name]) => <code>{name}</code> },
        { id: "value", title: "Value", cell: ([, value]) => <code>{value}</code> },
      ]}
    />
  );
}

function ReplayDialog({ trigger, delivery, onClose }: { trigger: Trigger; delivery: Schemas["DeliveryDetails"]; onClose: () => void }) {
  const [ran, setRan] = useState<Schemas["TriggeredRun"]>();
  const [requestId] = useState(randomId);
  if (ran) return <StartedDialog of={ran} onClose={onClose} />;
  return (
    <FormDialog
      title="Replay the delivery"
      submit="Replay"
      paths={["/api/triggers", "/api/executions"]}
      onClose={onClose}
      onDone={setRan}
      onSubmit={async () => (await api.POST("/api/triggers/{trigger}/deliveries/{delivery}/replay", { params: { path: { trigger: trigger.id, delivery: delivery.id } }, body: { clientRequestId: requestId } as never })).data as Schemas["TriggeredRun"]}
    >
      <p>This starts a new execution with what was received, by the trigger and the workflow as they are now. The first execution stays as it is.</p>
    </FormDialog>
  );
}

/** A drawer with a delivery that was refused. */
export function RejectedDrawer({ rejected, onClose }: { rejected: Schemas["RejectedDelivery"]; onClose: () => void }) {
  return (
    <Dialog title="Refused delivery" side onClose={onClose}>
     <div className={blocks.stack}>
      <Facts
        of={[
          ["Received", <TimeText key="at" at={rejected.receivedAt} />],
          ["Answer", `${rejected.status} ${rejected.code}`],
          ["From", rejected.address],
          ["Request", `${rejected.method}, ${countText(rejected.bodyBytes)} bytes`],
        ]}
      />
      <p className={blocks.bad}>✗ {rejected.message}</p>
      <p className={blocks.soft}>Nothing was started, and the body is not kept: send it again when the cause is mended.</p>
      <h3>Headers</h3>
      <Headers of={rejected.headers} />
     </div>
    </Dialog>
  );
}
