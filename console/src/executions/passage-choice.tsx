// Chooses one of the passages of a step, as in a loop.
import { Button } from "@/parts/button";
import type { StepTrace } from "./execution-reads";
import styles from "./passage-choice.module.css";

interface Props {
  passages: StepTrace[];
  chosen: string;
  onChoose: (path: string) => void;
}

/** The passages of a step, one after the other; nothing if there is only one. The last one is present if none is chosen. */
export function PassageChoice({ passages, chosen, onChoose }: Props) {
  if (passages.length < 2) return null;
  const found = passages.findIndex((one) => one.path === chosen);
  const index = found < 0 ? passages.length - 1 : found;
  const go = (to: number) => passages[to] && onChoose(passages[to].path);
  return (
    <div className={styles.passages} role="group" aria-label="Passages of this step">
      <Button refusal={index > 0 ? "" : "This is the first"} onClick={() => go(index - 1)} aria-label="The passage before">
        ‹
      </Button>
      <label>
        Passage{" "}
        <select value={index} onChange={(event) => go(Number(event.target.value))}>
          {passages.map((one, number) => (
            <option key={one.path} value={number}>
              {number + 1} ({one.state.replaceAll("_", " ")})
            </option>
          ))}
        </select>{" "}
        of {passages.length.toLocaleString("en")}
      </label>
      <Button refusal={index < passages.length - 1 ? "" : "This is the last"} onClick={() => go(index + 1)} aria-label="The next passage">
        ›
      </Button>
    </div>
  );
}
