// What an event trigger listens for, and a form that posts a test event.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useAction } from "@/api/action";
import { api, type Schemas } from "@/api/client";
import { NO_JSON, parseExact, writeExact } from "@/api/exact-json";
import { randomId } from "@/api/random-id";
import { ActionError } from "@/parts/action-error";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { TextField } from "@/parts/field";
import { Facts, Section } from "@/parts/page";
import { ValueView } from "@/parts/value-view";
import { useRefusal } from "@/shell/identity";
import { curlLine } from "./curl-line";
import { CopyButton } from "@/parts/copy-button";
import { SERVER_URL } from "@/api/base";
import type { EventConfig, Trigger } from "./trigger-words";

const OF_EXECUTIONS = new Set(["completed", "failed", "cancelled", "needs_attention"]);

/** The sections of an event trigger. */
export function EventSection({ trigger, config }: { trigger: Trigger; config: EventConfig }) {
  return (
    <>
      <Section title="What it listens for">
        <Facts
          of={[
            ["Events", config.on.join(", ")],
            ["Of the workflow", config.of ? <Link key="of" to="/workflows/$slug" params={{ slug: config.of }}>{config.of}</Link> : "any"],
          ]}
        />
        {config.where?.length ? (
          <>
            <h3>Conditions, all of which have to hold</h3>
            <ValueView value={config.where} name="the conditions" />
          </>
        ) : null}
      </Section>
      <Section title="Send a test event">
        <EventSender trigger={trigger} config={config} />
      </Section>
    </>
  );
}

function EventSender({ trigger, config }: { trigger: Trigger; config: EventConfig }) {
  const operator = useRefusal("operator");
  const type = config.on.find((one) => !OF_EXECUTIONS.has(one)) ?? "";
  const [text, setText] = useState(() =>
    writeExact({ specversion: "1.0", type, source: "/console", id: randomId(), data: {} }, 2),
  );
  const [posted, setPosted] = useState<Schemas["PostedEvent"]>();
  const post = useAction(async () => (await api.POST("/api/cloudevents", { body: parseExact(text) as never })).data as Schemas["PostedEvent"], ["/api/executions", "/api/triggers"], setPosted);
  const problem = problemOf(text);
  const line = curlLine(`${SERVER_URL}/api/cloudevents`, "POST", { "content-type": "application/cloudevents+json", authorization: "Bearer $PERDURE_TOKEN" }, compact(text)).replace("'authorization: Bearer $PERDURE_TOKEN'", '"authorization: Bearer $PERDURE_TOKEN"');
  if (!type) return <p className={blocks.soft}>It listens for what executions do themselves, so nothing can be sent: start an execution{config.of ? ` of ${config.of}` : ""}, or run the trigger with a payload.</p>;
  if (config.of) return <p className={blocks.soft}>It listens for what executions of {config.of} emit, and not for events that are posted. Start one, or run the trigger now with a payload.</p>;
  return (
    <div className={blocks.stack}>
      <p>A CloudEvent as another system would post it. All triggers that listen for {type} get it, not only {trigger.name}.</p>
      <TextField label="Event, as JSON" value={text} onChange={setText} rows={9} mono problem={problem} hint="An event of the same source and id has no second effect." />
      <div className={blocks.row}>
        <Button look="main" busy={post.busy} refusal={operator || problem} onClick={() => post.run()}>
          Post the event
        </Button>
        <Button
          onClick={() => {
            setText(withNewId(text));
            setPosted(undefined);
          }}
        >
          New id
        </Button>
        <CopyButton text={line} label="Copy a line with curl">
          Copy as curl
        </CopyButton>
      </div>
      {post.error !== null && <ActionError error={post.error} />}
      {posted && (
        <p role="status">
          {posted.created ? "✓ The server has it. " : "It was there already, so nothing happened. "}
          <Link to="/executions" search={{ q: `trigger=${trigger.id}` }}>
            Executions of this trigger
          </Link>
        </p>
      )}
    </div>
  );
}

function problemOf(text: string): string {
  try {
    const event = parseExact(text) as Record<string, unknown> | null;
    const missing = ["specversion", "type", "source", "id"].filter((one) => typeof event?.[one] !== "string");
    return missing.length ? `The event lacks ${missing.join(", ")}` : "";
  } catch {
    return NO_JSON;
  }
}

function compact(text: string): string {
  try {
    return writeExact(parseExact(text));
  } catch {
    return text;
  }
}

function withNewId(text: string): string {
  try {
    return writeExact({ ...(parseExact(text) as object), id: randomId() }, 2);
  } catch {
    return text;
  }
}
