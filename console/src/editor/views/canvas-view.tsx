// The definition as a graph whose steps are chosen, added, moved and removed. Each change patches the text.
import { useMemo, useState, type DragEvent, type KeyboardEvent } from "react";
import { GraphView } from "@/graph/graph-view";
import type { GraphSearch } from "@/graph/graph-view-state";
import { Button } from "@/parts/button";
import { Menu } from "@/parts/menu";
import type { ReadText } from "../document/definition-store";
import type { ShownGraph } from "../model/local-graph";
import { connectSteps, duplicateStep, insertStep, moveStep, moveStepIn, moveStepOut, removeStep, type Action } from "../model/step-edits";
import type { Step, StepList, StepTree } from "../model/step-tree";
import type { Verb } from "../model/verbs";
import { DRAGGED_VERB, KindPalette } from "./palette";
import styles from "./canvas-view.module.css";

interface Props {
  read: ReadText;
  graph: ShownGraph;
  verbs: readonly Verb[];
  selected: string;
  onSelect: (id: string) => void;
  onAct: (action: Action | null, refusal?: string) => void;
  readOnly: string;
  search: GraphSearch;
  onSearch: (change: GraphSearch) => void;
  isPaletteOpen: boolean;
  onPalette: (isOpen: boolean) => void;
  onRunTo: (() => void) | null;
  name: string;
}

interface Place {
  id: string;
  title: string;
  list: StepList;
  index: number;
}

/** Where a new step may go, seen from the chosen one. */
function placesFor(tree: StepTree, step: Step | undefined): Place[] {
  const places: Place[] = [];
  if (step !== undefined) {
    places.push({ id: "behind", title: `behind ${step.id}`, list: step.list, index: step.index + 1 });
    for (const list of step.lists) places.push({ id: list.field, title: `into ${list.field} of ${step.id}`, list, index: list.steps.length });
    places.push({ id: "before", title: `before ${step.id}`, list: step.list, index: step.index });
  }
  places.push({ id: "end", title: "at the end", list: tree.root, index: tree.root.steps.length });
  return places;
}

export function CanvasView({ read, graph, verbs, selected, onSelect, onAct, readOnly, search, onSearch, isPaletteOpen, onPalette, onRunTo, name }: Props) {
  const { tree } = read;
  const step = tree.byId.get(selected);
  const [placeId, setPlace] = useState("behind");
  const places = useMemo(() => placesFor(tree, step), [tree, step]);
  const place = places.find((one) => one.id === placeId) ?? places[0]!;
  // The name and the hash decide whether it is another graph, which is shown from its begin; here it always is the same one.
  const shown = useMemo(() => ({ ...graph, name, definition: "" }), [graph, name]);
  const refusal = readOnly || (read.isNative ? "" : "Only the text of this format can be edited");
  const needsStep = refusal || (step === undefined ? "Choose a step first" : "");
  const act = (make: (step: Step) => Action | null, why: string) => step !== undefined && needsStep === "" && onAct(make(step), why);

  const press = (event: KeyboardEvent) => {
    if (refusal !== "" || step === undefined || !(event.target as HTMLElement).dataset["box"]) return;
    const keys: Record<string, () => void> = {
      ArrowUp: () => act((one) => moveStep(one, -1), `${step.id} is the first of its list.`),
      ArrowDown: () => act((one) => moveStep(one, 1), `${step.id} is the last of its list.`),
      ArrowLeft: () => act(moveStepOut, `${step.id} is in no block.`),
      ArrowRight: () => act(moveStepIn, `There is no block before ${step.id}.`),
    };
    const key = event.altKey ? keys[event.key] : event.key === "Delete" || event.key === "Backspace" ? () => act((one) => removeStep(tree, one), "") : undefined;
    if (key === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    key();
  };
  const drop = (event: DragEvent) => {
    const verb = verbs.find((one) => one.name === event.dataTransfer.getData(DRAGGED_VERB));
    if (verb === undefined || refusal !== "") return;
    event.preventDefault();
    const box = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-box]")?.dataset["box"] : undefined;
    const target = box === undefined ? undefined : tree.byId.get(box);
    const empty = target?.lists.find((list) => list.steps.length === 0);
    if (target === undefined) onAct(insertStep(tree, tree.root, tree.root.steps.length, verb));
    else if (empty !== undefined) onAct(insertStep(tree, empty, 0, verb));
    else onAct(insertStep(tree, target.list, target.index + 1, verb));
  };
  const others = step === undefined ? [] : step.list.steps.filter((one) => one !== step);
  return (
    <div className={styles.view} data-palette={isPaletteOpen || undefined} onKeyDownCapture={press}>
      <div className={styles.tools} role="toolbar" aria-label="Steps">
        <Button look={isPaletteOpen ? "plain" : "main"} aria-expanded={isPaletteOpen} refusal={refusal} onClick={() => onPalette(!isPaletteOpen)}>
          Add a step
        </Button>
        <Button refusal={needsStep} title="Alt and the arrow up" onClick={() => act((one) => moveStep(one, -1), "It is the first of its list.")}>
          <span aria-hidden="true">↑</span> <span className="visually-hidden">Move up</span>
        </Button>
        <Button refusal={needsStep} title="Alt and the arrow down" onClick={() => act((one) => moveStep(one, 1), "It is the last of its list.")}>
          <span aria-hidden="true">↓</span> <span className="visually-hidden">Move down</span>
        </Button>
        <Button refusal={needsStep} title="Delete" onClick={() => act((one) => removeStep(tree, one), "")}>
          Remove
        </Button>
        <Menu
          title="More"
          label="More for the chosen step"
          items={[
            { title: "Duplicate", refusal: needsStep, onChoose: () => act((one) => duplicateStep(tree, one), "") },
            { title: "Move out of its block (Alt ←)", refusal: needsStep, onChoose: () => act(moveStepOut, "It is in no block.") },
            { title: "Move into the block before it (Alt →)", refusal: needsStep, onChoose: () => act(moveStepIn, "There is no block before it.") },
            ...(step?.list.order === "ports" ? others.slice(0, 30).map((one) => ({ title: `Lead on to ${one.id}`, refusal: needsStep, onChoose: () => act((own) => connectSteps(own, one.id), "Its transitions are rules; change them in the form.") })) : []),
          ]}
        />
        {onRunTo && (
          <Button refusal={step === undefined ? "Choose a step first" : ""} onClick={onRunTo}>
            Try up to here
          </Button>
        )}
      </div>
      {isPaletteOpen && <KindPalette verbs={verbs} place={place.id} places={places} onPlace={setPlace} onInsert={(verb) => onAct(insertStep(tree, place.list, place.index, verb))} onClose={() => onPalette(false)} />}
      <div
        className={styles.graph}
        onDragOver={(event) => {
          if (event.dataTransfer.types.includes(DRAGGED_VERB) && refusal === "") event.preventDefault();
        }}
        onDrop={drop}
      >
        <GraphView graph={shown} selected={selected} onSelect={onSelect} search={search} onSearch={onSearch} label={`Graph of ${name}`} />
      </div>
    </div>
  );
}
