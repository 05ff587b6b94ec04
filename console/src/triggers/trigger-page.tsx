// One trigger: what it does, how it stands, its last runs, and what can be done with it.
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { queries } from "@/api/client";
import { usePollingIfThere } from "@/api/polling";
import { Problem } from "@/api/problem";
import { ActionError } from "@/parts/action-error";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { Menu } from "@/parts/menu";
import { Empty, ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Facts, Page, Section } from "@/parts/page";
import { TimeText } from "@/parts/time-text";
import { ValueView } from "@/parts/value-view";
import { useRefusal } from "@/shell/identity";
import { EventSection } from "./event-section";
import { RunStrip } from "./run-strip";
import { ScheduleSection } from "./schedule-section";
import { BackfillDialog, DeleteTriggerDialog, PauseDialog, RunTriggerDialog, useSwitch } from "./trigger-dialogs";
import { TriggerFormDialog } from "./trigger-form-dialog";
import { slugOf } from "./trigger-list-page";
import { TriggerState } from "./trigger-state";
import { ownerSentence, type Trigger, triggerSentence, TYPE_NAMES } from "./trigger-words";
import { WebhookSection } from "./webhook-section";

/** The page of a trigger. */
export function TriggerPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const found = queries.useQuery("get", "/api/triggers/{trigger}", { params: { path: { trigger: id } } }, usePollingIfThere());
  if (found.data) return <Known trigger={found.data} key={id} />;
  const isMissing = found.error instanceof Problem && (found.error as Problem).status === 404;
  return (
    <Page title={id} name={id}>
      {isMissing ? (
        <Empty title={`There is no trigger ${id}`}>
          <p>It was deleted, or the definition or the code that declared it has it no more, or it is one of another tenant. What it has started is still in the list of executions.</p>
          <p className={blocks.row}>
            <Link to="/triggers">All triggers</Link>
            <Link to="/executions" search={{ q: `trigger=${id}` }}>
              Executions that it has started
            </Link>
          </p>
        </Empty>
      ) : found.error ? (
        <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />
      ) : (
        <Loading what="the trigger" />
      )}
    </Page>
  );
}

function Known({ trigger }: { trigger: Trigger }) {
  const operator = useRefusal("operator");
  const author = useRefusal("author");
  const [shown, show] = useState<"" | "run" | "pause" | "edit" | "delete" | "backfill">("");
  const change = useSwitch(trigger);
  const owned = ownerSentence(trigger);
  const { config } = trigger;
  const close = () => show("");
  return (
    <Page
      title={trigger.name}
      name={trigger.name}
      below={
        <div className={blocks.stack}>
          <p className={blocks.row}>
            <TriggerState trigger={trigger} />
            <span className={blocks.chip}>{TYPE_NAMES[trigger.type]}</span>
            <span>
              starts{" "}
              {trigger.workflowId ? (
                <Link to="/workflows/$slug" params={{ slug: slugOf(trigger.workflowId) }}>
                  {trigger.workflowId}
                </Link>
              ) : (
                "a prompt"
              )}{" "}
              {triggerSentence(trigger)}
            </span>
          </p>
          {trigger.dueAt && trigger.enabled && !trigger.pause && (
            <p>
              Next run: <TimeText at={trigger.dueAt} />
            </p>
          )}
        </div>
      }
      actions={
        <>
          <Button look="main" refusal={operator} onClick={() => show("run")}>
            Run now…
          </Button>
          {trigger.pause ? (
            <Button refusal={operator} busy={change.busy} onClick={() => change.run("resume")}>
              Resume
            </Button>
          ) : (
            <Button refusal={operator} onClick={() => show("pause")}>
              Pause…
            </Button>
          )}
          <Button refusal={operator} busy={change.busy} onClick={() => change.run(trigger.enabled ? "disable" : "enable")}>
            {trigger.enabled ? "Disable" : "Enable"}
          </Button>
          {trigger.type === "schedule" && (
            <Button refusal={operator} onClick={() => show("backfill")}>
              Backfill…
            </Button>
          )}
          <Menu
            title="More"
            label="More actions"
            items={[
              { title: "Change…", refusal: author || owned, onChoose: () => show("edit") },
              { title: "Delete…", danger: true, refusal: author || (trigger.owner && !trigger.undeclared ? owned : ""), onChoose: () => show("delete") },
            ]}
          />
        </>
      }
    >
      {change.error !== null && <ActionError error={change.error} paths={["/api/triggers"]} />}
      {trigger.pause && (
        <Notice look="warn">
          <p>
            {trigger.pause.breaker ? "The circuit breaker is open: it paused itself" : `Paused by ${trigger.pause.by}`}, <TimeText at={trigger.pause.at} />
            {trigger.pause.reason ? <>: <span className={blocks.plain}>{trigger.pause.reason}</span></> : ", without a reason"}. {trigger.pause.breaker && "Look at the last runs, mend the cause, and resume it; then the count of failures begins anew."}
          </p>
        </Notice>
      )}
      {!trigger.enabled && (
        <Notice look="warn">
          <p>It is disabled and starts nothing. Last changed by {trigger.updatedBy}, <TimeText at={trigger.updatedAt} />.</p>
        </Notice>
      )}
      {trigger.undeclared && (
        <Notice look="warn">
          <p>The code of no living engine declares it any more; it goes on until it is deleted.</p>
        </Notice>
      )}
      {owned && (
        <Notice>
          <p>
            {owned}{" "}
            {trigger.owner === "definition" && (
              <Link to="/workflows/$slug/edit" params={{ slug: trigger.definition }}>
                Open {trigger.definition} in the editor
              </Link>
            )}
          </p>
        </Notice>
      )}
      <Section title="The last 20 runs">
        <RunStrip trigger={trigger.id} />
      </Section>
      {config.type === "schedule" && <ScheduleSection trigger={trigger} config={config} />}
      {config.type === "webhook" && <WebhookSection trigger={trigger} config={config} />}
      {config.type === "event" && <EventSection trigger={trigger} config={config} />}
      <Section title="The input of what it starts">
        {Object.keys(trigger.variableMapping).length > 0 && (
          <>
            <h3>From the payload</h3>
            <Facts of={Object.entries(trigger.variableMapping).map(([name, path]) => [name, <code key={name}>{path}</code>])} />
          </>
        )}
        {Object.keys(trigger.input).length > 0 && (
          <>
            <h3>Fixed</h3>
            <ValueView value={trigger.input} name="the fixed input" />
          </>
        )}
        {Object.keys(trigger.variableMapping).length + Object.keys(trigger.input).length === 0 && <p className={blocks.soft}>{trigger.type === "schedule" ? "None." : "The whole payload, as the input “payload”; without a payload, none."}</p>}
      </Section>
      <Section title="About">
        <Facts
          of={[
            ["Id", <code key="id">{trigger.id}</code>],
            ["Created", <><TimeText key="at" at={trigger.createdAt} /> by {trigger.createdBy}</>],
            ["Changed", <><TimeText key="at" at={trigger.updatedAt} /> by {trigger.updatedBy}</>],
            ["Last run", trigger.lastRunAt && <TimeText key="at" at={trigger.lastRunAt} />],
          ]}
        />
      </Section>
      {shown === "run" && <RunTriggerDialog trigger={trigger} onClose={close} />}
      {shown === "pause" && <PauseDialog trigger={trigger} onClose={close} />}
      {shown === "edit" && <TriggerFormDialog trigger={trigger} onClose={close} />}
      {shown === "delete" && <DeleteTriggerDialog trigger={trigger} onClose={close} />}
      {shown === "backfill" && <BackfillDialog trigger={trigger} onClose={close} />}
    </Page>
  );
}
