// @vitest-environment jsdom
import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import { EdgeLayer } from "./graph-edges";
import styles from "./graph-edges.module.css";

test("an edge of the chosen step that was not taken stays dashed", () => {
  const edges = ["b", "c"].map((target, number) => ({ id: `e${number}`, source: "a", target, label: "", isBack: false, edges: [number] }));
  const way = { points: [{ x: 0, y: 0 }, { x: 0, y: 50 }], label: null };
  const { container } = render(<EdgeLayer edges={edges} ways={[way, way]} taken={[true, false]} isPlan={false} marked="a" isDim={false} window="" />);
  const marked = container.querySelector(`.${styles.marked}`)!;
  expect([...marked.children].map((one) => one.getAttribute("class"))).toEqual([styles.taken, styles.ghost]);
});
