// Tries a proposal on the inputs and results that the last executions have recorded, and shows both outcomes beside each other.
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { parseExact } from "@/api/exact-json";
import { Button } from "@/parts/button";
import { Empty, ErrorNotice } from "@/parts/notice";
import { Section } from "@/parts/page";
import { ValueView } from "@/parts/value-view";
import styles from "./trial.module.css";

const LAST = 10;
const VERDICTS = { same: ["=", "the same"], differs: ["≠", "differs"], unknown: ["?", "not known"] } as const;

/** A section that runs a trial when it is asked to. */
export function Trial({ proposal }: { proposal: Schemas["ProposalDetails"] }) {
  const [mocks, setMocks] = useState("");
  const [problem, setProblem] = useState("");
  const run = useMutation({
    mutationFn: async (given: Record<string, unknown> | undefined) =>
      (await api.POST("/api/proposals/{proposal}/try", { params: { path: { proposal: proposal.id } }, body: { last: LAST, mocks: given as never } })).data,
  });
  const begin = () => {
    try {
      const given = mocks.trim() ? (parseExact(mocks) as Record<string, unknown>) : undefined;
      setProblem("");
      run.mutate(given);
    } catch {
      setProblem('Results are an object by the ids of steps: {"charge": {"ok": true}}');
    }
  };
  return (
    <Section
      title={`Try it on the last ${LAST} inputs`}
      actions={
        <Button busy={run.isPending} onClick={begin}>
          {run.data ? "Try again" : "Try it"}
        </Button>
      }
    >
      <p>In virtual time, with the results that were recorded: no step is performed, and nothing is sent or stored.</p>
      <details>
        <summary>Results for steps that have none</summary>
        <label className={styles.mocks}>
          By the ids of the steps, as JSON
          <textarea rows={4} spellCheck={false} value={mocks} aria-invalid={problem !== ""} onChange={(event) => setMocks(event.target.value)} />
        </label>
      </details>
      {problem && <ErrorNotice error={new Error(problem)} />}
      {run.error && <ErrorNotice error={run.error} />}
      {run.data && <Report report={run.data} />}
    </Section>
  );
}

function Report({ report }: { report: Schemas["TrialReport"] }) {
  if (report.items.length === 0) return <Empty title="No execution of this workflow has ended yet, so there is nothing to try it on" />;
  return (
    <>
      <p role="status">
        <b>{report.same}</b> end the same, <b>{report.differing}</b> differ, of <b>{report.unknown}</b> it is not known.
      </p>
      <ul className={styles.list}>
        {report.items.map((one) => (
          <li key={`${one.workflow}/${one.id}`}>
            <p>
              <span aria-hidden="true">{VERDICTS[one.verdict][0]}</span>{" "}
              <Link to="/executions/$workflow/$id" params={{ workflow: one.workflow, id: one.id }}>
                {one.workflow}/{one.id}
              </Link>
              : {VERDICTS[one.verdict][1]}
              {one.unknownFrom && `, from the step ${one.unknownFrom}`}
              {one.why && ` (${one.why})`}
            </p>
            {(one.notRun?.length ?? 0) > 0 && <p>Not run any more: {one.notRun?.join(", ")}</p>}
            {(one.alsoRun?.length ?? 0) > 0 && <p>Run as well: {one.alsoRun?.join(", ")}</p>}
            {one.status && <Difference name="status" of={one.status} />}
            {one.result && <Difference name="result" of={one.result} />}
            {Object.entries(one.results ?? {}).map(([step, difference]) => (
              <Difference key={step} name={`the step ${step}`} of={difference} />
            ))}
          </li>
        ))}
      </ul>
    </>
  );
}

function Difference({ name, of }: { name: string; of: Schemas["ValueDifference"] }) {
  return (
    <div className={styles.pair}>
      <div>
        <p>{name}, recorded</p>
        <ValueView value={of.before} name={`${name}, recorded`} />
      </div>
      <div>
        <p>{name}, with the change</p>
        <ValueView value={of.after} name={`${name}, with the change`} />
      </div>
    </div>
  );
}
