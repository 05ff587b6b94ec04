// Goes to anything by typing: places, workflows, and executions by the beginning of their id.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useDeferredValue, useId, useState } from "react";
import { queries } from "@/api/client";
import { Dialog } from "@/parts/dialog";
import { StateMark } from "@/parts/state-mark";
import { useWorkflowNames } from "@/workflows/workflow-data";
import { PLACES } from "./places";
import styles from "./palette.module.css";

interface Target {
  id: string;
  name: string;
  kind: string;
  state?: string;
  go: () => void;
}

/** A dialog in which typing finds where to go. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [chosen, choose] = useState(0);
  const list = useId();
  const targets = useTargets(useDeferredValue(text.trim()), onClose);
  const present = Math.min(chosen, targets.length - 1);
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      choose(Math.max(0, Math.min(targets.length - 1, present + step)));
    } else if (event.key === "Enter") targets[present]?.go();
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={targets[present] && `${list}-${present}`}
        aria-label="A place, a workflow, or the beginning of an execution's id"
        placeholder="A place, a workflow, or the beginning of an execution's id"
        className={styles.input}
        value={text}
        onChange={(event) => (setText(event.target.value), choose(0))}
        onKeyDown={press}
      />
      <ul id={list} role="listbox" aria-label="Where to go" className={styles.list}>
        {targets.map((one, index) => (
          <li key={one.id} id={`${list}-${index}`} role="option" aria-selected={index === present} className={styles.target} onClick={one.go} onMouseMove={() => choose(index)}>
            <span className={styles.name}>{one.name}</span>
            {one.state && <StateMark state={one.state} />}
            <span className={styles.kind}>{one.kind}</span>
          </li>
        ))}
        {targets.length === 0 && <li className={styles.kind}>Nothing begins with that.</li>}
      </ul>
    </Dialog>
  );
}

function useTargets(text: string, close: () => void): Target[] {
  const navigate = useNavigate();
  const go = (to: () => Promise<void>) => () => {
    close();
    void to();
  };
  const names = useWorkflowNames();
  const executions = useQuery(queries.queryOptions("get", "/api/executions", { params: { query: { idPrefix: text, limit: 8 } } }, { enabled: text !== "", staleTime: 5_000 })).data;
  const matches = (name: string) => name.toLowerCase().includes(text.toLowerCase());
  return [
    ...PLACES.filter((one) => matches(one.name)).map((one) => ({ id: one.path, name: one.name, kind: `g ${one.key}`, go: go(() => navigate({ to: one.path })) })),
    ...(executions?.items ?? []).map((one) => ({
      id: `${one.workflow}/${one.id}`,
      name: `${one.workflow}/${one.id}`,
      kind: "execution",
      state: one.status,
      go: go(() => navigate({ to: "/executions/$workflow/$id", params: { workflow: one.workflow, id: one.id } })),
    })),
    ...names
      .filter(matches)
      .slice(0, 12)
      .map((name) => ({ id: `workflow ${name}`, name, kind: "workflow", go: go(() => navigate({ to: "/workflows/$slug", params: { slug: name } })) })),
  ];
}
