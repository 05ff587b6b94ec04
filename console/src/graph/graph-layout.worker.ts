// Lays out large graphs beside the page, which stays usable meanwhile.
import { layoutGraph, type LayoutInput } from "./graph-layout";

self.onmessage = (event: MessageEvent<{ number: number; input: LayoutInput }>) => {
  self.postMessage({ number: event.data.number, layout: layoutGraph(event.data.input) });
};
