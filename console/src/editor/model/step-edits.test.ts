// What people do with steps changes the document as they mean it, and what refers to the steps with them.
import { expect, test } from "vitest";
import { DefinitionStore } from "../document/definition-store";
import { connectSteps, insertStep, moveStepIn, moveStepOut, removeStep, renameStep, type Action } from "./step-edits";
import { localGraph } from "./local-graph";
import type { StepTree } from "./step-tree";
import { verbNamed } from "./verbs";

const PORTS = `perdure: 1 # the format
name: triage
order: ports
steps:
  # look first
  - {id: look, tool: look, with: {text: "@input.text"}, next: sure}
  - id: sure
    test: {all: [{ref: "@look.confidence", gte: 0.8}, {ref: "@steps.look.output.meta.finish", eq: stop}]}
    next: {"true": file, "false": ask} # both ways
  - {id: ask, approve: {title: "Is @{look.label} right? (@look)"}, next: {approved: file}}
  - {id: file, tool: file, when: {expr: "look.n > 1 && steps['look'].ok"}, needs: [look]}
output: "@look"
`;

function done(text: string, action: (tree: StepTree) => Action | null): string {
  const store = new DefinitionStore(text);
  const found = action(store.get().read!.tree);
  expect(found).not.toBeNull();
  expect(store.act(found!)).toBe("");
  const result = store.get().text;
  store.undo();
  expect(store.get().text).toBe(text);
  return result;
}

test("renaming a step renames every reference to it, and nothing else", () => {
  const expected = PORTS.replace("id: look", "id: first-look")
    .replace("@look.confidence", "@first-look.confidence")
    .replace("@steps.look.output", "@steps.first-look.output")
    .replace("@{look.label}", "@{first-look.label}")
    .replace("look.n > 1 && steps['look'].ok", 'steps[\\"first-look\\"].n > 1 && steps[\\"first-look\\"].ok')
    .replace("needs: [look]", "needs: [first-look]")
    .replace('output: "@look"', 'output: "@first-look"');
  expect(done(PORTS, (tree) => renameStep(tree, tree.byId.get("look")!, "first-look"))).toBe(expected);
}, 30_000);

test("a step that is inserted where `next` orders the steps is on the way", () => {
  const text = done(PORTS, (tree) => insertStep(tree, tree.root, 1, verbNamed("sleep")!));
  expect(text).toBe(PORTS.replace("next: sure}\n", "next: sleep}\n  - {id: sleep, sleep: 1h, next: sure}\n"));
});

test("steps that led to a removed step lead to where it led", () => {
  const text = done(PORTS, (tree) => removeStep(tree, tree.byId.get("sure")!));
  expect(text).toContain('{id: look, tool: look, with: {text: "@input.text"}}');
  const linear = "order: ports\nsteps:\n- {id: a, set: {}, next: b}\n- {id: b, set: {}, next: c}\n- {id: c, set: {}}\n";
  expect(done(linear, (tree) => removeStep(tree, tree.byId.get("b")!))).toBe("order: ports\nsteps:\n- {id: a, set: {}, next: c}\n- {id: c, set: {}}\n");
});

test("a step is moved into the block before it and out again", () => {
  const text = "order: listed\nsteps:\n  - id: gate\n    if: {ref: \"@input.x\"}\n    then: [] # nothing yet\n  # sends it\n  - {id: send, tool: t}\n";
  const inside = done(text, (tree) => moveStepIn(tree.byId.get("send")!));
  expect(inside).toBe("order: listed\nsteps:\n  - id: gate\n    if: {ref: \"@input.x\"}\n    then: # nothing yet\n      # sends it\n      - {id: send, tool: t}\n");
  const outside = done(inside, (tree) => moveStepOut(tree.byId.get("send")!));
  expect(outside).toContain("    then: [] # nothing yet\n");
  expect(outside).toContain("  # sends it\n  - {id: send, tool: t}\n");
});

test("a transition is added to those that are there", () => {
  expect(done(PORTS, (tree) => connectSteps(tree.byId.get("look")!, "file"))).toContain("next: [sure, file]");
  expect(done(PORTS, (tree) => connectSteps(tree.byId.get("ask")!, "look", "rejected"))).toContain("next: {approved: file, rejected: look}");
});

test("the graph of the text alone has the edges of its order", () => {
  const edges = (text: string) => localGraph(new DefinitionStore(text).get().read!.tree).edges.map((one) => `${one.source}>${one.target}${one.label && `:${one.label}`}`);
  expect(edges(PORTS)).toEqual(["look>sure", "sure>file:true", "sure>ask:false", "ask>file:approved", "look>file"]);
  expect(edges("steps:\n- {id: a, set: {}}\n- {id: b, set: {x: '@a'}}\n- {id: c, when: {ref: '@b.x'}, set: {}}\n")).toEqual(["a>b", "b>c"]);
  expect(edges("order: listed\nsteps:\n- {id: a, set: {}}\n- {id: b, do: [{id: c, set: {}}, {id: d, set: {}}]}\n")).toEqual(["c>d", "a>b"]);
});

test("while a text can't be read, the last one that could is kept", () => {
  const store = new DefinitionStore(PORTS);
  store.type([{ from: 0, to: 0, insert: "a: @x\n" }], null);
  expect(store.get().problem).toMatchObject({ line: 1, column: 4 });
  expect(store.get().read?.tree.byId.has("look")).toBe(true);
  expect(store.act({ label: "Remove look", edits: [{ op: "remove", path: ["steps", 0] }] })).toContain("can't be read");
  store.undo();
  expect(store.get().problem).toBeNull();
});
