// Has a model write or change a definition from words: asks for them, shows what the agent does as it goes, and leads to the proposal.
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, queries, refresh, type Schemas } from "@/api/client";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import buttons from "@/parts/button.module.css";
import { CopyButton } from "@/parts/copy-button";
import { Dialog } from "@/parts/dialog";
import { TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";

type Agent = Schemas["ProposalAgentState"];

interface Props {
  /** The slug of the definition that is changed; empty for a new one. */
  slug?: string;
  onClose: () => void;
}

/** A dialog for the words, and then for the agent that carries them out. */
export function WordsDialog({ slug = "", onClose }: Props) {
  const [words, setWords] = useState("");
  const [model, setModel] = useState("");
  const [turns, setTurns] = useState("20");
  const [agent, setAgent] = useState("");
  if (agent) return <AgentDialog id={agent} slug={slug} onClose={onClose} />;
  const most = Number(turns);
  const refusal = words.trim() === "" ? "Say in words what it should do" : Number.isInteger(most) && most >= 1 && most <= 200 ? "" : "Between 1 and 200 model calls";
  return (
    <FormDialog
      title={slug ? `Change ${slug} with words` : "Describe a workflow"}
      submit="Write a proposal"
      refusal={refusal}
      onClose={onClose}
      onDone={setAgent}
      onSubmit={async () => {
        const answer = await api.POST("/api/proposal-agents", { body: { words, definition: slug, model: model.trim(), maxTurns: most } as never });
        return answer.data?.id ?? "";
      }}
    >
      <p>
        A model writes the {slug ? "change" : "definition"}, checks it until it is valid, and runs a trial of it. What comes of it is a proposal of yours, which somebody else reviews; nothing is applied.
      </p>
      <TextField
        label={slug ? "What should be different?" : "What should it do?"}
        value={words}
        onChange={setWords}
        rows={6}
        required
        autoFocus
        placeholder={slug ? "Ask a person before amounts over 5,000 EUR" : "When an order comes in, check the stock, and ask somebody if it is large"}
      />
      <TextField label="Model" value={model} onChange={setModel} mono placeholder="the default one" hint="A name that the engine knows." />
      <TextField label="Model calls, at most" value={turns} onChange={setTurns} type="number" />
    </FormDialog>
  );
}

const EVERY_S = 1;

/** What an agent does, and how it has ended. It goes on when the dialog is closed. */
function AgentDialog({ id, slug, onClose }: { id: string; slug: string; onClose: () => void }) {
  const polling = usePolling(EVERY_S);
  const found = queries.useQuery("get", "/api/proposal-agents/{agent}", { params: { path: { agent: id } } }, { ...polling, refetchInterval: (query) => (query.state.data?.ended ? false : polling.refetchInterval) });
  const key = { workflow: "perdure.propose", id };
  const stopping = useMutation({
    mutationFn: () => api.POST("/api/executions/{workflow}/{id}/cancel", { params: { path: key }, body: { reason: "stopped in the console" } as never }),
    onSuccess: () => refresh("/api/proposal-agents"),
  });
  const agent = found.data;
  return (
    <Dialog
      title={slug ? `Changing ${slug}` : "Writing a workflow"}
      wide
      onClose={onClose}
      actions={
        <>
          {agent && !agent.ended && (
            <Button look="danger" busy={stopping.isPending} onClick={() => stopping.mutate()}>
              Stop
            </Button>
          )}
          <Button onClick={onClose}>Close</Button>
          {agent?.proposal && (
            <Link to="/proposals/$id" params={{ id: agent.proposal }} className={`${buttons.button} ${buttons.main}`} autoFocus>
              Look at the proposal
            </Link>
          )}
        </>
      }
    >
      {found.error && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
      {stopping.error && <ErrorNotice error={stopping.error} />}
      {!agent && !found.error && <Loading what="what the model does" />}
      {agent && <Progress agent={agent} />}
      <p className={blocks.soft}>
        It goes on when this is closed. All that it does is in{" "}
        <Link to="/executions/$workflow/$id" params={key}>
          its execution
        </Link>
        .
      </p>
    </Dialog>
  );
}

function Progress({ agent }: { agent: Agent }) {
  return (
    <>
      <p dir="auto" className={blocks.soft}>
        {agent.words}
      </p>
      <ol className={blocks.stack} aria-label="What the model has done">
        {agent.steps.map((one) => (
          <li key={one.number}>
            {one.did || "…"} {one.failed ? <span className={blocks.warn}>! refused</span> : one.errors ? <span className={blocks.warn}>! to be corrected</span> : null}
          </li>
        ))}
      </ol>
      <p className={blocks.soft}>
        {agent.calls} model {agent.calls === 1 ? "call" : "calls"}, {agent.tokens.toLocaleString("en")} tokens{agent.costUsd === null ? "" : `, ${agent.costUsd.toFixed(4)} USD`}
      </p>
      {!agent.ended && <p role="status">The model works …</p>}
      {agent.ended && agent.proposal && <Notice look="good">It has written a proposal for {agent.slug}.</Notice>}
      {agent.ended && !agent.proposal && <Ended agent={agent} />}
    </>
  );
}

/** An agent that has proposed nothing: why, and the document that was nearest, so that nothing is lost. */
function Ended({ agent }: { agent: Agent }) {
  return (
    <>
      <Notice look="warn">
        <p>Nothing was proposed: {agent.why || agent.status}</p>
        {agent.status === "failed" && <p>Retrying its execution grants the model calls once more, and it goes on.</p>}
      </Notice>
      {agent.findings.length > 0 && (
        <ul className={blocks.stack} aria-label="What is wrong with its document">
          {agent.findings.map((one, index) => (
            <li key={index}>
              <span className={one.severity === "warning" ? blocks.warn : blocks.bad}>{one.severity === "warning" ? "! warning" : "✗ error"}</span>
              {one.line ? ` in line ${one.line}` : ""}: {one.message}
            </li>
          ))}
        </ul>
      )}
      {agent.document && (
        <>
          <TextField label="The document that was nearest" value={agent.document} onChange={() => undefined} rows={12} mono readOnly />
          <CopyButton text={agent.document}>Copy the document</CopyButton>
        </>
      )}
    </>
  );
}
