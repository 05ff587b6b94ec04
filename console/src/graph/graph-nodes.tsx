// The boxes as they are drawn: steps, folded boxes with a bar of states, and frames around what is open. Each stands at its place by itself: a node of the
// flow costs a transform and several subscriptions, with which a thousand of them are too slow to pan without a GPU.
import { createContext, memo, useContext, type CSSProperties, type ReactNode } from "react";
import { stateWord } from "@/words/states";
import type { VisibleBox } from "./graph-folding";
import { isFoldable } from "./graph-folding";
import type { Place } from "./graph-layout";
import type { ShownNode } from "./graph-model";
import { inOrder, isGhost, type StateCounts } from "./graph-states";
import { boxDetail, boxSentence, boxTitle, countsText, factsText, modifiersText } from "./graph-texts";
import { meets } from "./graph-window";
import styles from "./graph-nodes.module.css";

/** What a box shows. It is replaced as a whole if any of it changes, and kept if nothing does. */
export interface BoxData {
  visible: VisibleBox;
  place: Place;
  node: ShownNode | undefined;
  counts: StateCounts | undefined;
  isSelected: boolean;
  /** Whether Tab leads to it: one box of the graph has that at a time. */
  isStop: boolean;
  /** Whether the filter leaves it out. */
  isDim: boolean;
}

/** What boxes may ask of the view; it never changes. */
export interface BoxActions {
  open: (id: string) => void;
  fold: (id: string, isFolded: boolean) => void;
  setTurn: (id: string, turn: number) => void;
  focused: (id: string) => void;
  turnControl: (node: ShownNode) => ReactNode;
}

export const BoxActionsContext = createContext<BoxActions | null>(null);

function useActions(): BoxActions {
  const actions = useContext(BoxActionsContext);
  if (!actions) throw new Error("a box is drawn outside of a graph");
  return actions;
}

function placeStyle({ place }: BoxData): CSSProperties {
  return { left: place.x, top: place.y, width: place.width, height: place.height };
}

/** The glyph, and the look of a state: "plan" if there is none. */
function lookOf(data: BoxData): { glyph: string; style: string; isGhost: boolean } {
  const state = data.node?.state;
  if (state === undefined) {
    const [first] = inOrder(Object.entries(data.counts ?? {}));
    return first && first[0] !== "plan" ? { ...stateWord(first[0]), isGhost: isGhost(first[0]) } : { glyph: "", style: "plan", isGhost: false };
  }
  return state === null ? { glyph: "", style: "plan", isGhost: false } : { ...stateWord(state), isGhost: isGhost(state) };
}

/** What opens the step of a box with its glyph, its title and a line below; of a box that is no step, it folds or opens the box. */
function OpenButton({ data, folds, detail, children }: { data: BoxData; folds: boolean; detail: string; children?: ReactNode }) {
  const actions = useActions();
  const { visible, node } = data;
  return (
    <button type="button" className={styles.open} data-box={visible.id} tabIndex={data.isStop ? 0 : -1} aria-current={data.isSelected || undefined} onClick={() => (node ? actions.open(visible.id) : actions.fold(visible.id, folds))} onFocus={() => actions.focused(visible.id)}>
      <span className={styles.name}>
        <span className={styles.glyph} aria-hidden="true">
          {lookOf(data).glyph}
        </span>
        <bdi>{boxTitle(visible.box, node)}</bdi>
      </span>
      <span className={styles.detail}>
        <bdi>{detail}</bdi>
      </span>
      {children}
    </button>
  );
}

function FoldButton({ data: { visible, node }, isOpen }: { data: BoxData; isOpen: boolean }) {
  const actions = useActions();
  const word = isOpen ? "Fold" : "Open";
  return (
    <button type="button" className={styles.fold} tabIndex={-1} aria-expanded={isOpen} aria-label={`${word} ${boxTitle(visible.box, node)}`} title={word} onClick={() => actions.fold(visible.id, isOpen)}>
      {isOpen ? "▾" : "▸"}
    </button>
  );
}

/** A step, or a box that is folded. */
export const StepBox = memo(function StepBox({ data }: { data: BoxData }) {
  const { visible, node, counts } = data;
  const { box } = visible;
  const look = lookOf(data);
  const sentence = boxSentence(box, node, counts);
  const isFolded = isFoldable(box);
  return (
    <div className={`${styles.step} ${styles[look.style] ?? ""} ${look.isGhost ? styles.ghost : ""} ${isFolded ? styles.folded : ""}`} data-selected={data.isSelected || undefined} data-dim={data.isDim || undefined} title={sentence} style={placeStyle(data)}>
      <OpenButton data={data} folds={false} detail={boxDetail(box, node, isFolded || (node !== undefined && node.state !== null))}>
        {isFolded && counts ? <StateBar counts={counts} /> : node && <span className={node.state === null ? styles.detail : styles.facts}>{node.state === null ? modifiersText(node) : factsText(node)}</span>}
      </OpenButton>
      {isFolded && <FoldButton data={data} isOpen={false} />}
    </div>
  );
});

/** How many of a box are in which state, as a bar and in words. */
function StateBar({ counts }: { counts: StateCounts }) {
  return (
    <span className={styles.counts}>
      <span className={styles.bar} aria-hidden="true">
        {inOrder(Object.entries(counts)).map(([state, count]) => (
          <span key={state} className={`${styles.part} ${state === "plan" ? styles.plan : styles[stateWord(state).style]} ${isGhost(state) ? styles.ghostPart : ""}`} style={{ flexGrow: count }} />
        ))}
      </span>
      <span className={styles.countsText}>{countsText(counts)}</span>
    </span>
  );
}

/** A frame around the boxes of a block, a loop or open items. */
export const FrameBox = memo(function FrameBox({ data }: { data: BoxData }) {
  const actions = useActions();
  const { visible, node, counts } = data;
  const { box } = visible;
  const look = lookOf(data);
  const sentence = boxSentence(box, node, counts);
  return (
    <div className={`${styles.frame} ${styles[look.style] ?? ""} ${look.isGhost ? styles.ghost : ""}`} data-selected={data.isSelected || undefined} data-dim={data.isDim || undefined} style={placeStyle(data)}>
      <div className={styles.header} title={sentence}>
        <FoldButton data={data} isOpen />
        <OpenButton data={data} folds detail={[boxDetail(box, node), node ? factsText(node) : ""].filter((part) => part !== "").join(" · ")} />
        {visible.turn > 0 ? <TurnControl visible={visible} title={boxTitle(box, node)} setTurn={actions.setTurn} /> : node && actions.turnControl(node)}
      </div>
    </div>
  );
});

/** Chooses the turn of a loop that is shown. */
export function TurnControl({ visible, title, setTurn }: { visible: VisibleBox; title: string; setTurn: (id: string, turn: number) => void }) {
  const { turn, turns } = visible;
  const place = turns.indexOf(turn);
  return (
    <span className={`${styles.turns} nodrag nopan nokey`}>
      <span aria-live="polite">
        turn {turn} of {turns[turns.length - 1]}
      </span>
      {turns.length > 1 && (
        <input type="range" min={0} max={turns.length - 1} value={place} tabIndex={-1} aria-label={`Turn of ${title}`} aria-valuetext={`turn ${turn}`} onChange={(event) => setTurn(visible.id, turns[Number(event.target.value)]!)} />
      )}
    </span>
  );
}

/** The frame of a list with a caption. */
export const ListBox = memo(function ListBox({ data }: { data: BoxData }) {
  return (
    <div className={styles.list} data-dim={data.isDim || undefined} style={placeStyle(data)}>
      <span className={styles.caption}>{boxTitle(data.visible.box, undefined)}</span>
    </div>
  );
});

/** The frame of a cycle. */
export const CycleBox = memo(function CycleBox({ data }: { data: BoxData }) {
  return (
    <div className={styles.cycle} data-dim={data.isDim || undefined} style={placeStyle(data)}>
      <span className={styles.cycleCaption}>
        <span aria-hidden="true">↺ </span>
        {boxTitle(data.visible.box, undefined)}
      </span>
    </div>
  );
});

/** A step from afar, where only its glyph can be read. */
const FarBox = memo(function FarBox({ data }: { data: BoxData }) {
  const actions = useActions();
  const { visible, node, counts } = data;
  const look = lookOf(data);
  return (
    <button
      type="button"
      className={`${styles.far} ${styles[look.style] ?? ""} ${look.isGhost ? styles.ghost : ""}`}
      style={placeStyle(data)}
      data-box={visible.id}
      data-selected={data.isSelected || undefined}
      data-dim={data.isDim || undefined}
      tabIndex={data.isStop ? 0 : -1}
      aria-label={boxSentence(visible.box, node, counts)}
      title={boxTitle(visible.box, node)}
      onClick={() => (node ? actions.open(visible.id) : actions.fold(visible.id, false))}
      onFocus={() => actions.focused(visible.id)}
    >
      <span aria-hidden="true">{look.glyph}</span>
    </button>
  );
});

/** Boxes that are drawn anew together, if one of them has changed. */
export type BoxChunk = readonly BoxData[];

/** The frames, which stand below the edges. */
export const FrameLayer = memo(function FrameLayer({ chunks, window }: { chunks: readonly BoxChunk[]; window: string }) {
  return (
    <div className={styles.layer}>
      {chunks.map((chunk, number) => (
        <FrameChunk key={number} chunk={chunk} window={window} />
      ))}
    </div>
  );
});

const FrameChunk = memo(function FrameChunk({ chunk, window }: { chunk: BoxChunk; window: string }) {
  return chunk.map((data) => {
    if (!data.visible.isOpen || !isInWindow(data, window)) return null;
    const { form } = data.visible.box;
    const Frame = form === "list" ? ListBox : form === "cycle" ? CycleBox : FrameBox;
    return <Frame key={data.visible.id} data={data} />;
  });
});

/** The steps, which stand above the edges. */
export const StepLayer = memo(function StepLayer({ chunks, window, isFar }: { chunks: readonly BoxChunk[]; window: string; isFar: boolean }) {
  return (
    <div className={styles.layer}>
      {chunks.map((chunk, number) => (
        <StepChunk key={number} chunk={chunk} window={window} isFar={isFar} />
      ))}
    </div>
  );
});

const StepChunk = memo(function StepChunk({ chunk, window, isFar }: { chunk: BoxChunk; window: string; isFar: boolean }) {
  const Step = isFar ? FarBox : StepBox;
  return chunk.map((data) => (data.visible.isOpen || !isInWindow(data, window) ? null : <Step key={data.visible.id} data={data} />));
});

function isInWindow(data: BoxData, window: string): boolean {
  return window === "" || data.isStop || meets(data.place, window);
}
