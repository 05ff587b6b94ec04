// Shows a value of JSON: folded where it is large, exact in its digits, and hidden where the viewer hides payloads.
import { useState } from "react";
import { writeExact } from "@/api/exact-json";
import { useSettings } from "@/shell/settings";
import { Button } from "./button";
import { CopyButton } from "./copy-button";
import styles from "./value-view.module.css";

const SHOWN_ITEMS_MAX = 100;
const SHOWN_TEXT_MAX = 2_000;
const OPEN_DEPTH = 2;

/** Shows a value with a button that copies it. `undefined` means that there is none. */
export function ValueView({ value, name }: { value: unknown; name: string }) {
  const { hidesPayloads } = useSettings();
  const [isShown, show] = useState(false);
  if (value === undefined) return <span className={styles.soft}>none</span>;
  if (hidesPayloads && !isShown)
    return (
      <Button look="quiet" onClick={() => show(true)}>
        Show {name}
      </Button>
    );
  return (
    <div className={styles.value}>
      <div className={styles.tree}>
        <Part value={value} depth={0} />
      </div>
      <CopyButton text={typeof value === "string" ? value : writeExact(value, 2)} label={`Copy ${name}`} />
    </div>
  );
}

function Part({ value, depth }: { value: unknown; depth: number }) {
  if (value === null) return <span className={styles.word}>null</span>;
  if (typeof value === "string") return <Text text={value} />;
  if (typeof value === "boolean") return <span className={styles.word}>{String(value)}</span>;
  if (typeof value === "number" || typeof value === "bigint") return <span className={styles.number}>{String(value)}</span>;
  if (Array.isArray(value)) return <Items entries={value.map((one, index) => [String(index), one])} marks="[]" depth={depth} />;
  return <Items entries={Object.entries(value as object)} marks="{}" depth={depth} />;
}

function Text({ text }: { text: string }) {
  const [isWhole, showWhole] = useState(false);
  const isCut = text.length > SHOWN_TEXT_MAX && !isWhole;
  return (
    <span className={styles.text} dir="auto">
      "{isCut ? text.slice(0, SHOWN_TEXT_MAX) : text}"
      {isCut && (
        <Button look="quiet" onClick={() => showWhole(true)}>
          … {(text.length - SHOWN_TEXT_MAX).toLocaleString("en")} more characters
        </Button>
      )}
    </span>
  );
}

function Items({ entries, marks, depth }: { entries: [string, unknown][]; marks: string; depth: number }) {
  const [shown, showMore] = useState(SHOWN_ITEMS_MAX);
  if (entries.length === 0) return <span className={styles.soft}>{marks}</span>;
  const said = marks === "[]" ? `${entries.length} ${entries.length === 1 ? "item" : "items"}` : `${entries.length} ${entries.length === 1 ? "field" : "fields"}`;
  return (
    <details open={depth < OPEN_DEPTH && entries.length <= SHOWN_ITEMS_MAX} className={styles.items}>
      <summary>
        <span className={styles.soft}>
          {marks[0]} {said} {marks[1]}
        </span>
      </summary>
      <ul>
        {entries.slice(0, shown).map(([name, one]) => (
          <li key={name}>
            <span className={styles.name}>{name}</span> <Part value={one} depth={depth + 1} />
          </li>
        ))}
      </ul>
      {entries.length > shown && (
        <Button look="quiet" onClick={() => showMore(shown + 1_000)}>
          {(entries.length - shown).toLocaleString("en")} more
        </Button>
      )}
    </details>
  );
}
