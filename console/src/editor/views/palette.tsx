// The kinds of steps, to search, click or drag into the definition.
import { useMemo, useState } from "react";
import { Button } from "@/parts/button";
import type { Verb } from "../model/verbs";
import styles from "./palette.module.css";

/** The type under which a dragged kind travels. */
export const DRAGGED_VERB = "application/x-perdure-verb";

export function matchingVerbs(verbs: readonly Verb[], search: string): Verb[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const score = (one: Verb) => {
    const name = `${one.name} ${one.title}`.toLowerCase();
    const all = `${name} ${one.says} ${one.group}`.toLowerCase();
    if (!words.every((word) => all.includes(word))) return 0;
    return words.length === 0 ? 1 : 1 + words.filter((word) => name.includes(word)).length + (one.name === words[0] ? 5 : 0);
  };
  return verbs.map((one) => ({ one, found: score(one) })).filter(({ found }) => found > 0).sort((a, b) => b.found - a.found).map(({ one }) => one);
}

interface Props {
  verbs: readonly Verb[];
  /** Where a click inserts. */
  place: string;
  places: readonly { id: string; title: string }[];
  onPlace: (id: string) => void;
  onInsert: (verb: Verb) => void;
  onClose: () => void;
}

export function KindPalette({ verbs, place, places, onPlace, onInsert, onClose }: Props) {
  const [search, setSearch] = useState("");
  const found = useMemo(() => matchingVerbs(verbs, search), [verbs, search]);
  const groups = search === "" ? [...new Set(verbs.map((one) => one.group))] : [""];
  return (
    <section aria-label="Kinds of steps" className={styles.palette} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <div className={styles.top}>
        <input
          type="search"
          aria-label="Search kinds of steps"
          placeholder="Search kinds"
          value={search}
          autoFocus
          className={styles.search}
          onChange={(event) => setSearch(event.target.value)}
          onKeyDown={(event) => event.key === "Enter" && found[0] && onInsert(found[0])}
        />
        <Button look="quiet" aria-label="Close the kinds of steps" onClick={onClose}>
          ✕
        </Button>
      </div>
      <label className={styles.where}>
        Insert
        <select value={place} onChange={(event) => onPlace(event.target.value)}>
          {places.map((one) => (
            <option key={one.id} value={one.id}>
              {one.title}
            </option>
          ))}
        </select>
      </label>
      {found.length === 0 && <p className={styles.none}>No kind is called like that.</p>}
      {groups.map((group) => {
        const listed = group === "" ? found : found.filter((one) => one.group === group);
        return (
          <div key={group}>
            {group !== "" && <h3 className={styles.group}>{group}</h3>}
            <ul>
              {listed.map((one) => (
                <li key={one.name}>
                  <button
                    type="button"
                    className={styles.kind}
                    draggable
                    onDragStart={(event) => {
                      event.dataTransfer.setData(DRAGGED_VERB, one.name);
                      event.dataTransfer.effectAllowed = "copy";
                    }}
                    onClick={() => onInsert(one)}
                  >
                    <span className={styles.title}>{one.title}</span> <code>{one.name}</code>
                    <span className={styles.says}>{one.says}</span>
                  </button>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
    </section>
  );
}
