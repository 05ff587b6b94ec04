// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import type { ShownGraph } from "./graph-model";
import { changedSample, layeredSample, sampleGraph, SAMPLES } from "./graph-samples";
import { GraphView } from "./graph-view";

beforeAll(() => {
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe() {}
      unobserve() {}
      disconnect() {}
    },
  );
  vi.stubGlobal("matchMedia", () => ({ matches: true, addEventListener() {}, removeEventListener() {} }));
  HTMLCanvasElement.prototype.getContext = () => null;
});
afterEach(cleanup);

const boxes = () => screen.getAllByRole("button").filter((one) => one.dataset.box !== undefined);
const boxOf = (id: string) => boxes().find((one) => one.dataset.box === id)!;

test("each step says its name, its state and what has happened, and one of them can be reached by Tab", () => {
  render(<GraphView graph={SAMPLES["code-of-every-kind"]!} />);
  expect([...boxOf("bad").children].map((one) => one.textContent)).toEqual(["✗bad", "call work", "failed · 3 attempts · 9 s"]);
  expect(boxOf("map:item").textContent).toContain("24 completed");
  expect(boxes().filter((one) => one.tabIndex === 0)).toHaveLength(1);
});

test("arrow keys walk along edges, a click opens a step, and e folds", () => {
  const onSelect = vi.fn();
  const onSearch = vi.fn();
  render(<GraphView graph={SAMPLES["code-of-every-kind"]!} onSelect={onSelect} search={{}} onSearch={onSearch} />);
  boxOf("load").focus();
  fireEvent.keyDown(boxOf("load"), { key: "ArrowDown" });
  expect(document.activeElement).toBe(boxOf("join"));
  fireEvent.click(boxOf("join"));
  expect(onSelect).toHaveBeenCalledWith("join");
  fireEvent.keyDown(boxOf("join"), { key: "e" });
  expect(onSearch).toHaveBeenLastCalledWith({ fold: "f.join" });
});

test("a graph of which one step has changed draws only that one anew", () => {
  const graph = layeredSample(60, 5);
  const { rerender } = render(<GraphView graph={graph} />);
  const before = new Map(boxes().map((one) => [one.dataset.box!, one.outerHTML]));
  const places = new Map(boxes().map((one) => [one.dataset.box!, one.parentElement!.style.cssText]));
  const next = changedSample(graph, 1, 3);
  rerender(<GraphView graph={next} />);
  const changed = boxes().filter((one) => one.outerHTML !== before.get(one.dataset.box!));
  expect(changed.map((one) => one.dataset.box)).toEqual(next.nodes.filter((node, at) => node !== graph.nodes[at]).map((node) => node.id));
  expect(boxes().every((one) => one.parentElement!.style.cssText === places.get(one.dataset.box!))).toBe(true);
});

test("the legend counts the states and filters by them", () => {
  const onSearch = vi.fn();
  render(<GraphView graph={SAMPLES["run-ports"]!} search={{}} onSearch={onSearch} />);
  fireEvent.click(within(screen.getByRole("toolbar")).getByRole("button", { name: /not taken/ }));
  expect(onSearch).toHaveBeenCalledWith({ states: "not_taken" });
});

test("it says of what earlier executions the dashed steps of code are known", () => {
  render(<GraphView graph={{ ...SAMPLES["code-in-progress"]!, drawnFrom: 5 }} />);
  expect(document.body.textContent).toContain("all of the last 5 earlier executions of this version did them next");
});

test("a chosen step that is folded away is marked in the box that contains it", () => {
  render(<GraphView graph={SAMPLES["code-of-every-kind"]!} selected="map:item/item#3/resize" />);
  expect(boxOf("map:item").getAttribute("aria-current")).toBe("true");
});

test("the tree has the same steps, with arrow keys and Enter", () => {
  const onSelect = vi.fn();
  render(<GraphView graph={SAMPLES["code-of-every-kind"]!} search={{ as: "tree" }} onSelect={onSelect} />);
  const tree = screen.getByRole("tree");
  const rows = within(tree).getAllByRole("treeitem");
  expect(rows[0]!.textContent).toContain("load");
  fireEvent.keyDown(tree, { key: "ArrowDown" });
  fireEvent.keyDown(tree, { key: "Enter" });
  expect(onSelect).toHaveBeenCalledWith("join");
});

test.each<[string, ShownGraph]>([
  ["no steps", sampleGraph([])],
  ["a plan alone", SAMPLES["plan-claim"]!],
])("a graph with %s is shown", (_, graph) => {
  render(<GraphView graph={graph} />);
  expect(document.body.textContent).toMatch(/There are no steps yet|Plan · 9 steps/);
});

test("where an execution has left the way of earlier ones is said in a sentence that leads to the step", () => {
  const onSelect = vi.fn();
  const graph = SAMPLES["code-in-progress"]!;
  const node = graph.nodes.at(-1)!;
  render(<GraphView graph={{ ...graph, leftWay: { node: node.path || node.id, examples: 5, instead: { pay: 3, hold: 1 } } }} onSelect={onSelect} />);
  const said = screen.getByText(/has left the way/);
  expect(said.textContent).toBe(`It has left the way of the last 5 completed executions of this version at ${node.path || node.id}, which none of them did; there, 3 did pay, 1 did hold and 1 did nothing more.`);
  fireEvent.click(within(said).getByRole("button"));
  expect(onSelect).toHaveBeenCalledWith(node.id);
});
