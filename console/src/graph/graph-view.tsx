// A graph as a page shows it: what will happen dashed, what has happened solid, live, with folding, a filter, follow mode, keys, and a tree that says the same.
import "@xyflow/react/dist/base.css";
import { getViewportForBounds, ReactFlow, ReactFlowProvider, useReactFlow, useStore, useStoreApi, ViewportPortal } from "@xyflow/react";
import { useCallback, useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { stateWord } from "@/words/states";
import { EdgeLayer, FAR_EDGES_MAX } from "./graph-edges";
import { isFoldable, seenBox, visibleGraph } from "./graph-folding";
import { followedViewport, placeAround } from "./graph-following";
import type { Place } from "./graph-layout";
import { GraphMinimap } from "./graph-minimap";
import { graphModel, type LeftWay, sameStructure, type GraphModel, type ShownGraph, type ShownNode } from "./graph-model";
import { BoxActionsContext, FrameLayer, StepLayer, type BoxActions, type BoxChunk, type BoxData } from "./graph-nodes";
import { countedStates, isActive, isGhost, stateCounts, type StateCounts } from "./graph-states";
import { GraphToolbar, Tool } from "./graph-toolbar";
import { GraphTreeView } from "./graph-tree-view";
import { insteadText } from "./graph-texts";
import { graphChoices, graphSearch, type GraphChoices, type GraphSearch } from "./graph-view-state";
import { walkedTo } from "./graph-walk";
import { useDrawnWindow } from "./graph-window";
import { useGraphLayout, type LaidOutGraph } from "./use-graph-layout";
import styles from "./graph-view.module.css";

const MIN_ZOOM = 0.05;
const MAX_ZOOM = 1.6;
const READABLE_ZOOM = 0.55;
const MOVE_MS = 250;
const FOLLOW_MS = 1_000;
/** With more boxes or edges than this, only those in the window are drawn. */
const ALL_DRAWN_MAX = 600;
const NO_NODES: never[] = [];
/** So many boxes are drawn anew together. */
const CHUNK = 100;
/** Moves that follow each other this closely are one. */
const MOVE_GAP_MS = 100;

export interface GraphViewProps {
  graph: ShownGraph;
  /** The id of the node that is chosen, wherever it is shown; empty for none. */
  selected?: string | null;
  onSelect?: (id: string) => void;
  /** What the viewer has chosen in the graph, from the address of the page, and what changes of it. */
  search?: GraphSearch;
  onSearch?: (change: GraphSearch) => void;
  /** What stands in the frame of a block that runs several times, such as a choice of its passage. */
  turnControl?: (node: ShownNode) => ReactNode;
  /** Further controls in the line above the graph. */
  tools?: ReactNode;
  /** What the graph is of, for those who hear it. */
  label?: string;
}

/** A graph with its toolbar. It fills the height that it is given. */
export function GraphView(props: GraphViewProps) {
  const { graph, selected, onSelect, onSearch } = props;
  const [own, setOwn] = useState<GraphSearch>({});
  const search = props.search ?? own;
  const { fold, turn, states, follow, as } = search;
  const choices = useMemo(() => graphChoices({ fold, turn, states, follow, as }), [fold, turn, states, follow, as]);
  const change = useCallback(
    (changed: Partial<GraphChoices>) => {
      const written = graphSearch(changed);
      if (onSearch) onSearch(written);
      else setOwn((before) => ({ ...before, ...written }));
    },
    [onSearch],
  );
  const structure = useKept(graph, sameStructure);
  const model = useMemo(() => graphModel(structure), [structure]);
  const visible = useMemo(() => visibleGraph(model, choices.folds, choices.turns), [model, choices.folds, choices.turns]);
  const counts = useMemo(() => stateCounts(model, graph.nodes), [model, graph.nodes]);
  const counted = useMemo(() => countedStates(graph), [graph]);
  const label = props.label ?? `Graph of ${graph.name}`;
  const foldBox = useCallback((id: string, isFolded: boolean) => change({ folds: new Map(choices.folds).set(id, isFolded) }), [change, choices.folds]);
  return (
    <ReactFlowProvider>
      <section className={styles.view} aria-label={label}>
        <GraphToolbar states={counted} steps={graph.nodes.length} chosen={choices.states} onStates={(chosen) => change({ states: chosen })} isTree={choices.isTree} onTree={(isTree) => change({ isTree })}>
          <ViewTools model={model} choices={choices} change={change} hasStates={counted.length > 0} />
          {props.tools}
        </GraphToolbar>
        {!!graph.drawnFrom && (
          <p className={styles.forecast}>
            Dashed steps have not happened: {graph.drawnFrom === 1 ? "the last earlier execution of this version" : `all of the last ${graph.drawnFrom} earlier executions of this version`} did them next.
          </p>
        )}
        {graph.leftWay && <LeftWayNote of={graph.leftWay} graph={graph} onSelect={onSelect} />}
        {choices.isTree ? (
          <GraphTreeView graph={graph} model={model} counts={counts} folds={choices.folds} isLarge={visible.isLarge} states={choices.states} selected={selected ?? ""} label={label} onFold={foldBox} onSelect={(id) => onSelect?.(id)} />
        ) : (
          <Canvas graph={graph} model={model} visible={visible} counts={counts} choices={choices} change={change} selected={selected ?? ""} onSelect={onSelect} turnControl={props.turnControl} label={label} />
        )}
      </section>
    </ReactFlowProvider>
  );
}

/** Says where an execution of code has done what none did before, with a way to that step. */
function LeftWayNote({ of, graph, onSelect }: { of: LeftWay; graph: ShownGraph; onSelect: ((id: string) => void) | undefined }) {
  const node = graph.nodes.find((one) => one.path === of.node || one.id === of.node);
  return (
    <p className={styles.forecast}>
      It has left the way of the last {of.examples} completed executions of this version at{" "}
      {node && onSelect ? (
        <button type="button" className={styles.way} onClick={() => onSelect(node.id)}>
          {of.node}
        </button>
      ) : (
        <b>{of.node}</b>
      )}
      , which none of them did; there, {insteadText(of)}.
    </p>
  );
}

/** The earlier value as long as it is the same. */
function useKept<T>(value: T, same: (one: T, other: T) => boolean): T {
  const [kept, setKept] = useState(value);
  if (kept === value || same(kept, value)) return kept;
  setKept(value);
  return value;
}

function moveMs(): number {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : MOVE_MS;
}

function ViewTools({ model, choices, change, hasStates }: { model: GraphModel; choices: GraphChoices; change: (changed: Partial<GraphChoices>) => void; hasStates: boolean }) {
  const foldable = useMemo(() => [...model.boxes.values()].filter(isFoldable), [model]);
  const setAll = (isFolded: boolean) => change({ folds: new Map(foldable.filter((box) => box.form !== "items" || isFolded).map((box) => [box.id, isFolded])) });
  return (
    <>
      {hasStates && <Tool label="Follow" isPressed={choices.isFollowing} onClick={() => change({ isFollowing: !choices.isFollowing })} />}
      {foldable.length > 0 && (
        <>
          <Tool label="Fold all" onClick={() => setAll(true)} />
          <Tool label="Open all" onClick={() => setAll(false)} />
        </>
      )}
    </>
  );
}

/** The controls in the corner of the graph. */
function ZoomControls({ laid }: { laid: LaidOutGraph }) {
  const flow = useReactFlow();
  const store = useStoreApi();
  const fit = () => void flow.setViewport(wholeViewport(laid, store.getState()), { duration: moveMs() });
  return (
    <div className={styles.zoom} role="group" aria-label="Zoom">
      <Tool label="Zoom in" sign="+" onClick={() => void flow.zoomIn({ duration: moveMs() })} />
      <Tool label="Zoom out" sign="−" onClick={() => void flow.zoomOut({ duration: moveMs() })} />
      <Tool label="Fit" onClick={fit} />
    </div>
  );
}

/** The view of the whole graph, with a margin. */
function wholeViewport({ layout }: LaidOutGraph, { width, height }: { width: number; height: number }) {
  return getViewportForBounds({ x: 0, y: 0, width: Math.max(layout.width, 1), height: Math.max(layout.height, 1) }, width, height, MIN_ZOOM, 1, 0.06);
}

interface CanvasProps {
  graph: ShownGraph;
  model: GraphModel;
  visible: ReturnType<typeof visibleGraph>;
  counts: ReadonlyMap<string, StateCounts>;
  choices: GraphChoices;
  change: (changed: Partial<GraphChoices>) => void;
  selected: string;
  onSelect: ((id: string) => void) | undefined;
  turnControl: ((node: ShownNode) => ReactNode) | undefined;
  label: string;
}

function Canvas({ graph, model, visible, counts, choices, change, selected, onSelect, turnControl, label }: CanvasProps) {
  const laid = useGraphLayout(visible);
  const [stop, setStop] = useState("");
  const latest = useRef({ choices, change, onSelect, turnControl });
  latest.current = { choices, change, onSelect, turnControl };
  const actions = useMemo<BoxActions>(
    () => ({
      open: (id) => latest.current.onSelect?.(id),
      fold: (id, isFolded) => latest.current.change({ folds: new Map(latest.current.choices.folds).set(id, isFolded) }),
      setTurn: (id, turn) => latest.current.change({ turns: new Map(latest.current.choices.turns).set(id, turn) }),
      focused: setStop,
      turnControl: (node) => latest.current.turnControl?.(node) ?? null,
    }),
    [],
  );
  const marked = laid ? seenBox(model, laid.visible.boxes, selected) : "";
  const shownStop = laid?.visible.boxes.has(stop) ? stop : marked || (laid?.visible.top[0] ?? "");
  const chunks = useBoxes(laid, model, graph.nodes, counts, choices.states, marked, shownStop);
  const isPlan = graph.nodes.every((node) => node.state === null);
  const taken = useKept(
    useMemo(() => (laid ? laid.visible.edges.map((edge) => edge.edges.some((number) => graph.edges[number]?.isTaken)) : []), [laid, graph.edges]),
    sameItems,
  );
  const looks = useKept(
    useMemo(() => (laid ? [...laid.visible.boxes.values()].map((one) => lookOf(graph.nodes[model.boxes.get(one.id)?.node ?? -1], counts.get(one.id))) : []), [laid, model, graph.nodes, counts]),
    sameItems,
  );
  useFirstViewport(laid, graph.nodes, `${graph.name}\n${graph.definition}`);
  useFollowing(laid, model, graph.nodes, choices.isFollowing);
  useFilterInView(laid, chunks, choices.states);
  const press = useWalking(laid, actions);
  const zoom = useStore((state) => (state.transform[2] < 0.2 ? "far" : state.transform[2] < 0.45 ? "middle" : "near"));
  const window = useDrawnWindow(laid !== null && Math.max(laid.visible.boxes.size, laid.visible.edges.length) > ALL_DRAWN_MAX);
  const hasEdges = zoom !== "far" || (laid?.visible.edges.length ?? 0) <= FAR_EDGES_MAX;
  const canvas = useRef<HTMLDivElement>(null);
  const movedAt = useRef(0);
  const move = useCallback((event: unknown) => {
    const isJump = event === null && performance.now() - movedAt.current > MOVE_GAP_MS;
    movedAt.current = performance.now();
    if (!isJump && !canvas.current?.hasAttribute("data-moves")) canvas.current?.setAttribute("data-moves", "");
    if (event !== null && latest.current.choices.isFollowing) latest.current.change({ isFollowing: false });
  }, []);
  const endMove = useCallback(() => canvas.current?.removeAttribute("data-moves"), []);
  if (graph.nodes.length === 0) return <p className={styles.empty}>There are no steps yet.</p>;
  return (
    <div ref={canvas} className={styles.canvas} data-zoom={zoom} onKeyDown={press} role="group" aria-label={`${label}. Arrow keys walk along its edges, Enter opens a step.`}>
      {!laid && (
        <p className={styles.busy} role="status">
          Laying out {visible.boxes.size.toLocaleString()} steps…
        </p>
      )}
      {!hasEdges && <p className={styles.note}>Zoom in to see the edges.</p>}
      <BoxActionsContext value={actions}>
        <ReactFlow
          nodes={NO_NODES}
          minZoom={MIN_ZOOM}
          maxZoom={MAX_ZOOM}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          disableKeyboardA11y
          deleteKeyCode={null}
          selectionKeyCode={null}
          multiSelectionKeyCode={null}
          panActivationKeyCode={null}
          zoomActivationKeyCode={null}
          panOnScroll
          zoomOnDoubleClick={false}
          onMove={move}
          onMoveEnd={endMove}
          proOptions={{ hideAttribution: true }}
        >
          {laid && (
            <ViewportPortal>
              <FrameLayer chunks={chunks} window={window} />
              {hasEdges && <EdgeLayer edges={laid.visible.edges} ways={laid.layout.ways} taken={taken} isPlan={isPlan} marked={marked} isDim={choices.states.size > 0} window={window} />}
              <StepLayer chunks={chunks} window={window} isFar={zoom === "far"} />
            </ViewportPortal>
          )}
        </ReactFlow>
        {laid && <ZoomControls laid={laid} />}
        {laid && <GraphMinimap laid={laid} looks={looks} />}
      </BoxActionsContext>
    </div>
  );
}

function sameItems<T>(one: readonly T[], other: readonly T[]): boolean {
  return one.length === other.length && one.every((item, at) => item === other[at]);
}

/** The look of a box in the small picture; empty if nothing has happened there. */
function lookOf(node: ShownNode | undefined, counts: StateCounts | undefined): string {
  const state = node ? node.state : (Object.keys(counts ?? {}).find((one) => one !== "plan") ?? null);
  return state === null || isGhost(state) ? "" : stateWord(state).style;
}

/** What the boxes show. One of which nothing has changed is the same object as before, so that it is not drawn again. */
function useBoxes(
  laid: LaidOutGraph | null,
  model: GraphModel,
  nodes: readonly ShownNode[],
  counts: ReadonlyMap<string, StateCounts>,
  states: ReadonlySet<string>,
  marked: string,
  stop: string,
): readonly BoxChunk[] {
  const known = useRef(new Map<string, BoxData>());
  const chunks = useRef<BoxChunk[]>([]);
  return useMemo(() => {
    const found = new Map<string, BoxData>();
    for (const visible of laid?.visible.boxes.values() ?? []) {
      const { id, box } = visible;
      const own = model.boxes.get(id);
      const node = own && nodes[own.node];
      const inside = box.children.length > 0 ? counts.get(id) : undefined;
      const isDim = states.size > 0 && !isAmong(states, node, inside);
      found.set(id, keptBox(known.current.get(id), { visible, place: laid!.places.get(id)!, node, counts: inside, isSelected: id === marked, isStop: id === stop, isDim }));
    }
    known.current = found;
    const all = [...found.values()];
    chunks.current = Array.from({ length: Math.ceil(all.length / CHUNK) }, (_, number) => {
      const [before, now] = [chunks.current[number], all.slice(number * CHUNK, (number + 1) * CHUNK)];
      return before && sameItems(before, now) ? before : now;
    });
    return chunks.current;
  }, [laid, model, nodes, counts, states, marked, stop]);
}

function isAmong(states: ReadonlySet<string>, node: ShownNode | undefined, counts: StateCounts | undefined): boolean {
  return (node?.state !== null && node?.state !== undefined && states.has(node.state)) || Object.keys(counts ?? {}).some((state) => states.has(state));
}

function keptBox(before: BoxData | undefined, box: BoxData): BoxData {
  const isSame =
    before !== undefined &&
    before.visible === box.visible &&
    before.place === box.place &&
    before.node === box.node &&
    before.isSelected === box.isSelected &&
    before.isStop === box.isStop &&
    before.isDim === box.isDim &&
    sameCounts(before.counts, box.counts);
  return isSame ? before : box;
}

function sameCounts(one: StateCounts | undefined, other: StateCounts | undefined): boolean {
  if (one === other) return true;
  if (!one || !other) return false;
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => one[key] === other[key]);
}

/** Shows at first the whole graph if it is readable then; else what goes on in it, or its begin. */
function useFirstViewport(laid: LaidOutGraph | null, nodes: readonly ShownNode[], what: string): void {
  const flow = useReactFlow();
  const [width, height] = [useStore((state) => state.width), useStore((state) => state.height)];
  const shown = useRef("");
  useEffect(() => {
    if (!laid || width === 0 || shown.current === what) return;
    shown.current = what;
    const { layout } = laid;
    const whole = wholeViewport(laid, { width, height });
    if (whole.zoom >= READABLE_ZOOM) {
      void flow.setViewport(whole);
      return;
    }
    const zoom = READABLE_ZOOM + 0.15;
    const active = firstPlace(laid, nodes, (node) => isActive(node.state)) ?? firstPlace(laid, nodes, (node) => node.state === "failed");
    const at = active ?? firstPlace(laid, nodes, () => true);
    const x = layout.width * zoom <= width ? (width - layout.width * zoom) / 2 : width / 2 - ((at?.x ?? 0) + (at?.width ?? 0) / 2) * zoom;
    void flow.setViewport({ x, y: active ? height / 2 - (active.y + active.height / 2) * zoom : 24, zoom });
  }, [laid, nodes, what, width, height, flow]);
}

function firstPlace(laid: LaidOutGraph, nodes: readonly ShownNode[], isWanted: (node: ShownNode) => boolean) {
  for (const one of laid.visible.boxes.values()) {
    const node = nodes[one.box.node];
    if (node && !one.isOpen && isWanted(node)) return laid.places.get(one.id)!;
  }
  return null;
}

/** In follow mode, moves the view to what goes on when that is not in it any more; at most once in `FOLLOW_MS`, so that it can be looked at. */
function useFollowing(laid: LaidOutGraph | null, model: GraphModel, nodes: readonly ShownNode[], isFollowing: boolean): void {
  const flow = useReactFlow();
  const store = useStoreApi();
  const movedAt = useRef(Number.NEGATIVE_INFINITY);
  const waiting = useRef<ReturnType<typeof setTimeout> | null>(null);
  const move = useRef(() => undefined as void);
  move.current = () => {
    waiting.current = null;
    const places = laid && isFollowing ? activePlaces(laid, model, nodes) : [];
    const { width, height, transform } = store.getState();
    if (places.length === 0 || width === 0) return;
    const next = followedViewport(placeAround(places), { x: transform[0], y: transform[1], zoom: transform[2] }, { width, height });
    if (next === null) return;
    movedAt.current = performance.now();
    void flow.setViewport(next, { duration: moveMs() });
  };
  useEffect(() => {
    if (laid && isFollowing) waiting.current ??= setTimeout(() => move.current(), Math.max(movedAt.current + FOLLOW_MS - performance.now(), 0));
  }, [laid, nodes, isFollowing]);
  useEffect(
    () => () => {
      if (waiting.current !== null) clearTimeout(waiting.current);
    },
    [],
  );
}

/** The places of boxes in which something goes on. */
function activePlaces(laid: LaidOutGraph, model: GraphModel, nodes: readonly ShownNode[]): Place[] {
  const found = new Set<string>();
  nodes.forEach((node, number) => {
    if (!isActive(node.state)) return;
    const id = seenBox(model, laid.visible.boxes, model.byNode[number] ?? "");
    if (id !== "" && !laid.visible.boxes.get(id)!.isOpen) found.add(id);
  });
  return [...found].map((id) => laid.places.get(id)!);
}

/** When the filter changes and nothing that it shows is in the window, moves the view to the first that it shows. */
function useFilterInView(laid: LaidOutGraph | null, chunks: readonly BoxChunk[], states: ReadonlySet<string>): void {
  const flow = useReactFlow();
  const store = useStoreApi();
  const shown = useRef(states);
  useEffect(() => {
    if (!laid || shown.current === states) return;
    shown.current = states;
    const { transform, width, height } = store.getState();
    const [x, y, zoom] = transform;
    const found = chunks.flat().filter((one) => states.size > 0 && !one.isDim && !one.visible.isOpen);
    const isSeen = found.some(({ place }) => place.x * zoom + x < width && (place.x + place.width) * zoom + x > 0 && place.y * zoom + y < height && (place.y + place.height) * zoom + y > 0);
    if (found[0] && !isSeen) void flow.setViewport(centeredOn(found[0].place, zoom, width, height), { duration: moveMs() });
  }, [laid, chunks, states, flow, store]);
}

function centeredOn(place: Place, zoom: number, width: number, height: number) {
  return { x: width / 2 - (place.x + Math.min(place.width, 400) / 2) * zoom, y: height / 2 - (place.y + Math.min(place.height, 200) / 2) * zoom, zoom };
}

const TRIES_MAX = 30;

/** Arrow keys, Home and End walk from box to box; "e" folds and opens. A box outside of the window is brought into it first. */
function useWalking(laid: LaidOutGraph | null, actions: BoxActions): (event: KeyboardEvent<HTMLElement>) => void {
  const flow = useReactFlow();
  const store = useStoreApi();
  return (event) => {
    const target = event.target as HTMLElement;
    const id = target.dataset.box;
    if (!laid || id === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const box = laid.visible.boxes.get(id);
    if (event.key === "e" && box && isFoldable(box.box)) {
      event.preventDefault();
      actions.fold(id, box.isOpen);
      return;
    }
    const next = walkedTo(laid.visible, laid.places, id, event.key);
    if (next === "" && !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    if (next === "") return;
    const canvas = event.currentTarget;
    const place = laid.places.get(next)!;
    const { transform, width, height } = store.getState();
    const [x, y, zoom] = transform;
    const [left, top] = [place.x * zoom + x, place.y * zoom + y];
    const [right, bottom] = [left + Math.min(place.width * zoom, width), top + Math.min(place.height, 120) * zoom];
    if (left < 0 || top < 0 || right > width || bottom > height) void flow.setViewport(centeredOn(place, zoom, width, height));
    focusBox(canvas, next, 0);
  };
}

function focusBox(canvas: HTMLElement, id: string, tries: number): void {
  const element = canvas.querySelector<HTMLElement>(`[data-box="${CSS.escape(id)}"]`);
  if (element) element.focus({ preventScroll: true });
  else if (tries < TRIES_MAX) requestAnimationFrame(() => focusBox(canvas, id, tries + 1));
}
