// Runs the text, or what leads to one of its steps, with the input of a past execution: in virtual time on what that has recorded, or for real.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { parseExact } from "@/api/exact-json";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { ValueView } from "@/parts/value-view";
import { useRefusal } from "@/shell/identity";
import { TextField } from "./value-field";

type Trial = Schemas["TrialReport"]["items"][number];

interface Props {
  slug: string;
  text: string;
  /** The step up to which it runs; empty: to the end. */
  step: string;
  onClose: () => void;
}

export function TryDialog({ slug, text, step, onClose }: Props) {
  const [chosen, choose] = useState("");
  const [mocks, setMocks] = useState("");
  const [trial, setTrial] = useState<Trial | null>(null);
  const [started, setStarted] = useState<{ workflow: string; id: string } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const author = useRefusal("author");
  const list = useQuery({ queryKey: ["try", slug], queryFn: async () => (await api.GET("/api/executions", { params: { query: { workflow: slug, limit: 50 } } })).data! });
  const past = list.data?.items ?? [];
  const id = chosen || past[0]?.id || "";
  const attempt = async (run: () => Promise<void>) => {
    setBusy(true);
    setError(null);
    setTrial(null);
    setStarted(null);
    try {
      await run();
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  const virtual = () =>
    attempt(async () => {
      const given = mocks.trim() === "" ? undefined : parseExact(mocks);
      const body = { document: text, executions: [id], until: step || undefined, mocks: given };
      const { data } = await api.POST("/api/workflows/{definition}/try", { params: { path: { definition: slug } }, body: body as never });
      setTrial(data?.items[0] ?? null);
    });
  const real = () =>
    attempt(async () => {
      const { data: given } = await api.GET("/api/executions/{workflow}/{id}/input", { params: { path: { workflow: slug, id } } });
      const { data } = await api.POST("/api/inline-executions", { body: { document: text as never, workflow: slug, input: given?.input as never, ...(step ? { until: step } : {}) } });
      setStarted(data as { workflow: string; id: string });
    });
  const noInput = id === "" ? "There is no past execution to take the input from" : "";
  return (
    <Dialog
      title={step ? `Try up to ${step}` : "Try it"}
      wide
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button refusal={author || noInput} busy={isBusy} onClick={() => void real()}>
            {step ? "Run up to it for real" : "Run it for real"}
          </Button>
          <Button look="main" refusal={noInput} busy={isBusy} onClick={() => void virtual()}>
            Try in virtual time
          </Button>
        </>
      }
    >
      <div className={blocks.stack}>
        <p>
          <b>In virtual time</b> no step is performed and nothing is sent or stored: a step with the same id and input has the result that was recorded. <b>For real</b>, {step ? <>a new execution performs what leads to {step}, with all its effects, and ends with its result; what runs beside it until then has its effects as well.</> : "the text runs as a new execution, with all its effects."}
        </p>
        {list.error && <ErrorNotice error={list.error} />}
        {list.isPending && <Loading what="past executions" />}
        {list.data && past.length === 0 && <Notice>{slug} has no executions yet, so there is no recorded input to try it on.</Notice>}
        {past.length > 0 && (
          <label>
            Take the input of
            <br />
            <select className={blocks.choice} value={id} onChange={(event) => choose(event.target.value)}>
              {past.map((one) => (
                <option key={one.id} value={one.id}>
                  {one.id}: {one.status}, {new Date(one.createdAt).toLocaleString()}
                </option>
              ))}
            </select>
          </label>
        )}
        <details>
          <summary>Results of steps that were not recorded</summary>
          <TextField label="Results as JSON, by the ids of steps" mono multiline value={mocks} onCommit={setMocks} says='Such as {"charge": {"status": "paid"}}' check={(given) => jsonProblem(given)} />
        </details>
        {error !== null && <ErrorNotice error={error} />}
        {started && (
          <Notice look="good">
            It runs for real{step && ` up to ${step}`} as{" "}
            <Link to="/executions/$workflow/$id" params={{ workflow: started.workflow, id: started.id }}>
              {started.workflow}/{started.id}
            </Link>
            .
          </Notice>
        )}
        {trial && <TrialResult trial={trial} step={step} />}
      </div>
    </Dialog>
  );
}

function TrialResult({ trial, step }: { trial: Trial; step: string }) {
  const results = Object.entries(trial.stop?.results ?? {});
  return (
    <section aria-label="What came of it" className={blocks.stack}>
      <h3>In virtual time, on {trial.id}</h3>
      {step && trial.stop && <p>{trial.stop.reached ? `${step} was reached.` : `${step} was not reached${trial.why ? `: ${trial.why}` : ""}.`}</p>}
      {trial.unknownFrom && (
        <Notice look="warn">
          From {trial.unknownFrom} on it is not known what happens: {trial.why || "no result was recorded for it"}. Give it a result above.
        </Notice>
      )}
      {!step && <p>{trial.verdict === "same" ? "It ends as the recorded execution did." : trial.verdict === "differs" ? "It ends otherwise than the recorded execution did." : "It is not known how it ends."}</p>}
      {results.length > 0 && (
        <dl>
          {results.map(([id, value]) => (
            <div key={id}>
              <dt>
                <code>{id}</code>
              </dt>
              <dd>
                <ValueView value={value} name={`the result of ${id}`} />
              </dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}

function jsonProblem(text: string): string {
  if (text.trim() === "") return "";
  try {
    parseExact(text);
    return "";
  } catch {
    return "This is not JSON.";
  }
}
