import { expect, test } from "vitest";
import { commonName, graphModel, ITEMS_MAX, ROOT, sameStructure } from "./graph-model";
import { sampleGraph, sampleNode, SAMPLES } from "./graph-samples";

const modelOf = (name: string) => graphModel(SAMPLES[name]!);

test("a block contains its steps, and lists with captions are boxes of their own", () => {
  const model = modelOf("plan-release");
  expect(model.boxes.get("gate")).toMatchObject({ form: "block", parent: ROOT });
  const lists = model.boxes.get("gate")!.children.map((id) => model.boxes.get(id)!);
  expect(lists.map((list) => [list.form, list.caption])).toEqual([["list", "then"], ["list", "else"]]);
  expect(model.boxes.get("images")!.children).toEqual(["amd64", "arm64"]);
  expect(model.boxes.get(ROOT)!.size).toBe(SAMPLES["plan-release"]!.nodes.length);
});

test("branches of code are blocks, iterations make a loop, and a map of many items is a box of items", () => {
  const model = modelOf("code-of-every-kind");
  expect(model.boxes.get("join")!.children).toEqual(["join/left", "join/right"]);
  expect(model.boxes.get("poll")).toMatchObject({ form: "loop" });
  expect(model.boxes.get("poll")!.children).toHaveLength(4);
  expect(model.boxes.get("map:item")).toMatchObject({ form: "items", caption: "item" });
});

test("a cycle of several steps is a box, one of a single step is not", () => {
  const model = modelOf("run-ports");
  const cycles = [...model.boxes.values()].filter((box) => box.form === "cycle").map((box) => box.children);
  expect(cycles).toContainEqual(["add", "keep"]);
  expect(cycles.every((children) => children.length > 1)).toBe(true);
});

test("more than eight steps that follow the same and lead to the same become one box; eight do not", () => {
  const fork = (count: number) => {
    const items = Array.from({ length: count }, (_, at) => `blast_${at}`);
    const nodes = ["split", ...items, "merge"].map((id) => sampleNode(id));
    return graphModel(sampleGraph(nodes, items.flatMap((id) => [["split", id], [id, "merge"]] as [string, string][])));
  };
  expect(fork(ITEMS_MAX).boxes.get(ROOT)!.children).toHaveLength(ITEMS_MAX + 2);
  const model = fork(ITEMS_MAX + 1);
  expect(model.boxes.get(ROOT)!.children).toEqual(["split", "/items/blast_0", "merge"]);
  expect(model.boxes.get("/items/blast_0")).toMatchObject({ form: "items", caption: "blast", size: ITEMS_MAX + 1 });
});

test("blocks that are inside each other or that do not exist stand at the root, and nothing is lost", () => {
  const region = (block: string) => ({ parent: 0, block, isCycle: false, max: 0, caption: "" });
  const nodes = [sampleNode("a", { block: "b", region: 2 }), sampleNode("b", { block: "a", region: 1 }), sampleNode("c", { region: 3 }), sampleNode("d", { region: 77 })];
  const graph = sampleGraph(nodes, [], { regions: [{ ...region(""), parent: -1 }, region("a"), region("b"), region("missing")] });
  expect(graphModel(graph).boxes.get(ROOT)!.size).toBe(4);
});

test("states do not belong to the structure, edges and names do", () => {
  const graph = SAMPLES["code-in-progress"]!;
  const [first, ...rest] = graph.nodes;
  expect(sameStructure(graph, { ...graph, nodes: [{ ...first!, state: "failed", attempts: 9 }, ...rest] })).toBe(true);
  expect(sameStructure(graph, { ...graph, nodes: [{ ...first!, id: "other" }, ...rest] })).toBe(false);
  expect(sameStructure(graph, { ...graph, edges: graph.edges.slice(1) })).toBe(false);
});

test("items are named by what their names have in common", () => {
  const named = (...names: string[]) => commonName(names.map((name) => sampleNode(name, { name, kind: "call" })));
  expect(named("item", "item#2", "item#3")).toBe("item");
  expect(named("mDiffFit_ID0000005", "mDiffFit_ID0000016")).toBe("mDiffFit");
  expect(named("page 1", "page 12")).toBe("page");
  expect(named("alpha", "beta")).toBe("call");
});
