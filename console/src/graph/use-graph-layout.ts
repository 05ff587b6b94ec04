// The layout of what is in sight: at once for small graphs, in a worker for large ones.
import { useEffect, useMemo, useRef, useState } from "react";
import type { VisibleGraph } from "./graph-folding";
import { layoutGraph, layoutInput, type GraphLayout, type LayoutInput, type Place } from "./graph-layout";

/** With more boxes than this, the layout is made in a worker. */
export const SYNC_BOXES_MAX = 300;

/** A layout with the boxes that it is of. */
export interface LaidOutGraph {
  visible: VisibleGraph;
  layout: GraphLayout;
  places: ReadonlyMap<string, Place>;
}

/** The layout of a graph; while a worker is at it, the one before, or null. */
export function useGraphLayout(visible: VisibleGraph): LaidOutGraph | null {
  const isSmall = visible.boxes.size <= SYNC_BOXES_MAX;
  const now = useMemo(() => (isSmall ? laidOut(visible, layoutGraph(layoutInput(visible))) : null), [visible, isSmall]);
  const [later, setLater] = useState<LaidOutGraph | null>(null);
  const worker = useRef<LayoutWorker | null>(null);
  useEffect(() => {
    if (isSmall) return;
    let isWanted = true;
    worker.current ??= new LayoutWorker();
    void worker.current.made(layoutInput(visible)).then((layout) => {
      if (isWanted) setLater(laidOut(visible, layout));
    });
    return () => {
      isWanted = false;
    };
  }, [visible, isSmall]);
  useEffect(
    () => () => {
      worker.current?.stop();
      worker.current = null;
    },
    [],
  );
  return now ?? later;
}

function laidOut(visible: VisibleGraph, layout: GraphLayout): LaidOutGraph {
  return { visible, layout, places: new Map([...visible.boxes.keys()].map((id, number) => [id, layout.places[number]!])) };
}

/** The worker, which starts with the first layout. If it can't start, layouts are made here. */
class LayoutWorker {
  private readonly worker = new Worker(new URL("./graph-layout.worker.ts", import.meta.url), { type: "module" });
  private readonly waiting = new Map<number, { input: LayoutInput; settle: (layout: GraphLayout) => void }>();
  private count = 0;

  constructor() {
    this.worker.onmessage = (event: MessageEvent<{ number: number; layout: GraphLayout }>) => {
      this.waiting.get(event.data.number)?.settle(event.data.layout);
      this.waiting.delete(event.data.number);
    };
    this.worker.onerror = () => {
      for (const { input, settle } of this.waiting.values()) settle(layoutGraph(input));
      this.waiting.clear();
    };
  }

  made(input: LayoutInput): Promise<GraphLayout> {
    const number = (this.count += 1);
    return new Promise((settle) => {
      this.waiting.set(number, { input, settle });
      this.worker.postMessage({ number, input });
    });
  }

  stop(): void {
    this.worker.terminate();
  }
}
