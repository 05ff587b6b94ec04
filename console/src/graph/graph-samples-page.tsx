// A page to look at graphs and to measure them, which is no part of the console: ?sample=NAME, or ?steps=1000&changes=40 for a made one of which so many change at a time.
import "@/shell/theme.css";
import { useEffect, useMemo, useState } from "react";
import { createRoot } from "react-dom/client";
import type { ShownGraph } from "./graph-model";
import { changedSample, layeredSample, sampleGraph, SAMPLES } from "./graph-samples";
import { GraphView } from "./graph-view";
import type { GraphSearch } from "./graph-view-state";

const CHANGE_MS = 200;
const given = new URLSearchParams(location.search);
if (given.get("theme")) document.documentElement.dataset.theme = given.get("theme")!;

function chosenGraph(): ShownGraph {
  const steps = Number(given.get("steps") ?? 0);
  if (steps > 0) return layeredSample(steps, Number(given.get("width") ?? 25));
  return SAMPLES[given.get("sample") ?? ""] ?? sampleGraph([]);
}

/** The page: a graph that fills the window. */
function SamplesPage() {
  const [graph, setGraph] = useState(useMemo(chosenGraph, []));
  const [selected, setSelected] = useState(given.get("selected") ?? "");
  const [search, setSearch] = useState<GraphSearch>({ fold: given.get("fold") ?? undefined, as: given.get("as") ?? undefined, states: given.get("states") ?? undefined, follow: given.get("follow") ?? undefined });
  useEffect(() => {
    const changes = Number(given.get("changes") ?? 0);
    if (changes === 0) return;
    let round = 0;
    const timer = setInterval(() => setGraph((before) => changedSample(before, changes, (round += 1))), CHANGE_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <main style={{ position: "fixed", inset: 0, padding: 8 }}>
      <GraphView graph={graph} selected={selected} onSelect={setSelected} search={search} onSearch={(change) => setSearch((before) => ({ ...before, ...change }))} />
    </main>
  );
}

createRoot(document.getElementById("root")!).render(<SamplesPage />);
