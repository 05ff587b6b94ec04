// The filter of the list: typed as text with completion, shown as chips that can be removed.
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { Button } from "@/parts/button";
import { useShortcut } from "@/shell/shortcuts";
import { EXECUTION_STATUSES, stateWord } from "@/words/states";
import { type ExecutionFilter, FIELDS, filterText, parseFilter } from "./execution-filter";
import styles from "./filter-bar.module.css";

interface Props {
  filter: ExecutionFilter;
  onChange: (filter: ExecutionFilter) => void;
  workflows: string[];
  /** The names of attributes that are known. */
  attributes: string[];
}

/** Edits a filter. */
export function FilterBar({ filter, onChange, workflows, attributes }: Props) {
  const written = filterText(filter);
  const [typed, setTyped] = useState(written);
  const [isOpen, setOpen] = useState(false);
  const [chosen, choose] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  const list = useId();
  useEffect(() => setTyped(written), [written]);
  useShortcut("/", "filter the list", () => input.current?.focus());
  const suggestions = isOpen ? suggestionsFor(typed, workflows, attributes) : [];
  const complete = (suggestion: string) => {
    setTyped(`${typed.replace(/\S*$/, "")}${suggestion}`);
    choose(-1);
    input.current?.focus();
  };
  const apply = () => {
    setOpen(false);
    onChange(parseFilter(typed, filter.order));
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && suggestions.length) {
      event.preventDefault();
      choose((before) => Math.max(-1, Math.min(suggestions.length - 1, before + step)));
    } else if (event.key === "Enter") {
      event.preventDefault();
      const suggestion = suggestions[chosen];
      if (suggestion) complete(suggestion.text);
      else apply();
    } else if (event.key === "Escape") {
      if (isOpen && suggestions.length) setOpen(false);
      else input.current?.blur();
    }
  };
  return (
    <search className={styles.bar}>
      <div className={styles.line}>
        <input
          ref={input}
          role="combobox"
          aria-label="Filter"
          aria-expanded={suggestions.length > 0}
          aria-controls={list}
          aria-activedescendant={chosen >= 0 ? `${list}-${chosen}` : undefined}
          aria-autocomplete="list"
          placeholder="status=failed workflow=order since=24h cents>500"
          spellCheck={false}
          autoComplete="off"
          className={styles.input}
          value={typed}
          onChange={(event) => (setTyped(event.target.value), setOpen(true), choose(-1))}
          onFocus={() => setOpen(true)}
          onBlur={() => setOpen(false)}
          onKeyDown={press}
        />
        <Button onClick={apply}>Filter</Button>
      </div>
      {suggestions.length > 0 && (
        <ul id={list} role="listbox" aria-label="Completions" className={styles.list}>
          {suggestions.map((one, index) => (
            <li key={one.text} id={`${list}-${index}`} role="option" aria-selected={index === chosen} className={styles.suggestion} onMouseDown={(event) => (event.preventDefault(), complete(one.text))}>
              <code>{one.text}</code> <span className={styles.says}>{one.says}</span>
            </li>
          ))}
        </ul>
      )}
      <Chips filter={filter} onChange={onChange} />
    </search>
  );
}

function Chips({ filter, onChange }: Pick<Props, "filter" | "onChange">) {
  const chips: [text: string, without: Partial<ExecutionFilter>][] = [
    ...filter.status.map((one): [string, Partial<ExecutionFilter>] => [stateWord(one).word, { status: filter.status.filter((other) => other !== one) }]),
    ...(Object.keys(FIELDS) as (keyof typeof FIELDS)[]).filter((name) => name !== "status" && filter[name] !== "").map((name): [string, Partial<ExecutionFilter>] => [`${name}: ${String(filter[name])}`, { [name]: "" }]),
    ...filter.q.map((one, index): [string, Partial<ExecutionFilter>] => [one, { q: filter.q.filter((_, other) => other !== index) }]),
  ];
  if (chips.length === 0) return null;
  return (
    <ul aria-label="Filters" className={styles.chips}>
      {chips.map(([text, without]) => (
        <li key={text} className={styles.chip}>
          <span dir="auto">{text}</span>
          <button type="button" aria-label={`Remove the filter ${text}`} onClick={() => onChange({ ...filter, ...without })}>
            ✕
          </button>
        </li>
      ))}
      <li>
        <Button look="quiet" onClick={() => onChange(parseFilter("", filter.order))}>
          Remove all
        </Button>
      </li>
    </ul>
  );
}

interface Suggestion {
  text: string;
  says: string;
}

const SUGGESTIONS_MAX = 12;

function suggestionsFor(typed: string, workflows: string[], attributes: string[]): Suggestion[] {
  const word = /\S*$/.exec(typed)?.[0] ?? "";
  const all: Suggestion[] = word.startsWith("status=")
    ? EXECUTION_STATUSES.map((one) => ({ text: `status=${one}`, says: stateWord(one).glyph }))
    : word.startsWith("workflow=")
      ? workflows.map((one) => ({ text: `workflow=${one}`, says: "" }))
      : /^(since|failedSince)=/.test(word)
        ? ["1h", "24h", "7d", "30d"].map((one) => ({ text: `${word.split("=")[0]}=${one}`, says: "" }))
        : [
            ...Object.entries(FIELDS).map(([name, says]) => ({ text: `${name}=`, says })),
            ...attributes.map((name) => ({ text: name, says: "an attribute: =, !=, <, <=, >, >= and a value, or the name alone" })),
          ];
  return all.filter((one) => one.text.startsWith(word) && one.text !== word).slice(0, SUGGESTIONS_MAX);
}
