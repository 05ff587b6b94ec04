// What a webhook has received: the last deliveries, accepted and refused, with a listener for the next one.
import { useEffect, useRef, useState } from "react";
import { queries, type Schemas } from "@/api/client";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { CopyButton } from "@/parts/copy-button";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Facts, Section } from "@/parts/page";
import { SimpleTable } from "@/parts/simple-table";
import { StateMark } from "@/parts/state-mark";
import { TimeText } from "@/parts/time-text";
import { useView } from "@/shell/search";
import { countText, durationText } from "@/words/times";
import { SERVER_URL } from "@/api/base";
import { curlLine } from "./curl-line";
import { DeliveryDrawer, RejectedDrawer } from "./delivery-drawer";
import { TestSender } from "./test-sender";
import type { Trigger, WebhookConfig } from "./trigger-words";

type Delivery = Schemas["DeliveryDetails"];
type Rejected = Schemas["RejectedDelivery"];
type Received = { at: string; delivery: Delivery } | { at: string; rejected: Rejected };

const SHOWN = 20;

/** The sections of a webhook. */
export function WebhookSection({ trigger, config }: { trigger: Trigger; config: WebhookConfig }) {
  const view = useView();
  const [isListening, setListening] = useState(false);
  const [cutoff, setCutoff] = useState("");
  const pausedHint = usePausedHint();
  const deliveries = queries.useQuery("get", "/api/triggers/{trigger}/deliveries", { params: { path: { trigger: trigger.id }, query: { limit: SHOWN } } }, usePolling(isListening ? 1 : 5));
  const received = receivedOf(deliveries.data);
  const url = urlOf(trigger);
  const chosen = view.text("delivery");
  const latest = received[0];
  const change = useRef(view.change);
  change.current = view.change;
  useEffect(() => {
    if (!isListening || !latest || latest.at <= cutoff) return;
    setListening(false);
    change.current({ delivery: keyOf(latest) });
  }, [isListening, latest?.at, cutoff]);
  const listen = () => {
    setCutoff(latest?.at ?? "");
    setListening(!isListening);
  };
  const rejected = received.find((one) => "rejected" in one && keyOf(one) === chosen);
  return (
    <>
      <Section title="Where and how to send">
        <p className={blocks.row}>
          <code>{url}</code> <CopyButton text={url} label="Copy the URL" />
        </p>
        <Facts
          of={[
            ["Method", config.method || "POST"],
            ["Verified", verifySentence(config)],
            ["Answer", config.respond === "result" ? `the result, if it is there within ${durationText((config.respondWithinSeconds ?? 10) * 1_000)}; else 202 with the execution` : "202 at once, with the execution"],
            ["Limits", `${config.activeMax ? `${config.activeMax} executions at a time` : "any number at a time"}, ${countText(config.queuedMax ?? 10_000)} waiting`],
            ["Required headers", Object.entries(config.headers ?? {}).map(([name, value]) => `${name}: ${value}`).join(", ")],
          ]}
        />
        <CurlLine url={url} config={config} />
      </Section>
      <Section title="Send a test delivery">
        <TestSender trigger={trigger} config={config} />
      </Section>
      <Section
        title="The last deliveries"
        actions={
          <Button onClick={listen} aria-pressed={isListening}>
            {isListening ? "Stop listening" : "Listen for the next delivery"}
          </Button>
        }
      >
        {isListening && (
          <Notice>
            <p>Listening: the next request to {url} opens here, also one that is refused. {pausedHint}</p>
          </Notice>
        )}
        {deliveries.error && <ErrorNotice error={deliveries.error} />}
        {!deliveries.data && !deliveries.error && <Loading what="the deliveries" />}
        {deliveries.data && (
          <SimpleTable
            label="The last deliveries"
            rows={received}
            keyOf={keyOf}
            isMarked={(one) => keyOf(one) === chosen}
            empty="Nothing has arrived yet. Accepted deliveries are kept for 14 days."
            columns={[
              { id: "at", title: "Received", cell: (one) => <Button look="quiet" onClick={() => view.change({ delivery: keyOf(one) })}><TimeText at={one.at} /></Button> },
              { id: "verdict", title: "Verdict", cell: (one) => ("rejected" in one ? <strong className={blocks.bad}>✗ {one.rejected.status} {one.rejected.code}</strong> : <span>✓ {verdictOf(one.delivery, config)}</span>) },
              { id: "event", title: "Event", cell: (one) => ("rejected" in one ? <span className={blocks.plain}>{one.rejected.message}</span> : one.delivery.event || "–") },
              { id: "size", title: "Bytes", align: "end", wideOnly: true, cell: (one) => countText("rejected" in one ? one.rejected.bodyBytes : one.delivery.bodyBytes) },
              { id: "from", title: "From", wideOnly: true, cell: (one) => ("rejected" in one ? one.rejected.address : one.delivery.address) },
              { id: "status", title: "Execution", cell: (one) => ("rejected" in one ? "nothing started" : <StateMark state={one.delivery.status} />) },
            ]}
          />
        )}
        {(deliveries.data?.rejected ?? 0) > 0 && <p className={blocks.soft}>{countText(deliveries.data?.rejected ?? 0)} refused since the server that answers began; it keeps the last 20.</p>}
      </Section>
      {rejected && "rejected" in rejected && <RejectedDrawer rejected={rejected.rejected} onClose={() => view.change({ delivery: undefined })} />}
      {chosen && !chosen.startsWith("rejected ") && <DeliveryDrawer trigger={trigger} config={config} delivery={chosen} onClose={() => view.change({ delivery: undefined })} />}
    </>
  );
}

function usePausedHint(): string {
  return usePolling().refetchInterval === false ? "Updates are paused, so nothing will come: go on with them first." : "";
}

/** Accepted and refused deliveries together, the newest first. */
export function receivedOf(page: Schemas["DeliveryPage"] | undefined): Received[] {
  const accepted = (page?.items ?? []).map((delivery): Received => ({ at: delivery.receivedAt, delivery }));
  const refused = (page?.lastRejected ?? []).map((rejected): Received => ({ at: rejected.receivedAt, rejected }));
  return [...accepted, ...refused].sort((one, other) => other.at.localeCompare(one.at)).slice(0, SHOWN);
}

function keyOf(one: Received): string {
  return "rejected" in one ? `rejected ${one.at}` : one.delivery.id;
}

/** The whole URL of a webhook. */
export function urlOf(trigger: Trigger): string {
  return /^https?:/.test(trigger.webhookUrl) ? trigger.webhookUrl : `${SERVER_URL}${trigger.webhookUrl}`;
}

/** What was verified of a delivery that was accepted. */
export function verdictOf(delivery: Delivery, config: WebhookConfig): string {
  if (delivery.secret) return `signed with ${delivery.secret}`;
  return config.verify && config.verify.scheme !== "none" ? "accepted" : "accepted; nothing is verified";
}

function verifySentence(config: WebhookConfig): string {
  const { scheme = "none", secrets = [] } = config.verify ?? {};
  return scheme === "none" ? "nothing: whoever knows the URL may send" : `${scheme.replaceAll("_", " ")}, with the ${secrets.length === 1 ? "secret" : "secrets"} ${secrets.join(" or ")}`;
}

function CurlLine({ url, config }: { url: string; config: WebhookConfig }) {
  const scheme = config.verify?.scheme ?? "none";
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (scheme === "bearer") headers[config.verify?.header || "Authorization"] = config.verify?.header ? "$SECRET" : "Bearer $SECRET";
  const line = curlLine(url, config.method || "POST", headers, "{}").replaceAll(/'([^']*\$SECRET)'/g, '"$1"');
  const isSigned = scheme !== "none" && scheme !== "bearer";
  return (
    <div className={blocks.stack}>
      <div className={blocks.row}>
        <span>A line for a shell</span>
        <CopyButton text={line} label="Copy the line" />
      </div>
      <pre className={blocks.code} tabIndex={0} aria-label="A line with curl">
        {line}
      </pre>
      {isSigned && <p className={blocks.soft}>This line signs nothing, so it is answered with 401. The test sender below gives a line with a signature.</p>}
    </div>
  );
}
