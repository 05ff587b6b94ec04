// Starts an execution of a workflow, with its input as JSON; the page of a workflow has a form in place of that.
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api } from "@/api/client";
import { parseExact } from "@/api/exact-json";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ErrorNotice } from "@/parts/notice";
import styles from "./start-dialog.module.css";

/** A dialog that starts an execution, and goes to it when the server has made it durable. */
export function StartDialog({ workflows, onClose }: { workflows: string[]; onClose: () => void }) {
  const navigate = useNavigate();
  const [problem, setProblem] = useState("");
  const start = useMutation({
    mutationFn: async (body: { workflow: string; id?: string; input?: Record<string, never> }) => (await api.POST("/api/executions", { body: body as never })).data,
    onSuccess: (started) => {
      onClose();
      if (started) void navigate({ to: "/executions/$workflow/$id", params: { workflow: started.workflow, id: started.id } });
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const text = String(given.get("input") ?? "").trim();
    const id = String(given.get("id") ?? "").trim();
    try {
      const input = text ? parseExact(text) : undefined;
      if (input !== undefined && (typeof input !== "object" || input === null)) throw new Error();
      setProblem("");
      start.mutate({ workflow: String(given.get("workflow")), ...(id ? { id } : {}), ...(input === undefined ? {} : { input: input as Record<string, never> }) });
    } catch {
      setProblem('The input is an object of arguments by name, {"amount": 5}, or a list of them by position, [5]. Texts stand in "quotes".');
    }
  };
  return (
    <Dialog title="Start an execution" onClose={onClose}>
      <form id="start" onSubmit={submit} className={styles.form}>
        <label htmlFor="start-workflow">Workflow</label>
        <input id="start-workflow" name="workflow" list="start-workflows" required autoComplete="off" />
        <datalist id="start-workflows">
          {workflows.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        <label htmlFor="start-id">Id (default: a random one)</label>
        <input id="start-id" name="id" autoComplete="off" />
        <label htmlFor="start-input">Input, as JSON</label>
        <textarea id="start-input" name="input" rows={6} spellCheck={false} aria-invalid={problem !== ""} aria-describedby="start-problem" />
        <p id="start-problem" role="alert" className={styles.problem}>
          {problem}
        </p>
        {start.error && <ErrorNotice error={start.error} />}
        <Button look="main" type="submit" busy={start.isPending}>
          Start
        </Button>
      </form>
    </Dialog>
  );
}
