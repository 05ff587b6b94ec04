"""Workflows that others have drawn: each compiles to a sound IR, and can be drawn with every step in it and nothing on top of anything."""

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.definitions.graph.graph_drawing import mermaid_drawing, svg_drawing_of, text_drawing
from perdure.definitions.graph.shown_graph import shown_graph
from tests.definitions.format.short_definitions import compile_definition, compile_findings, definition, tool
from tests.definitions.graph.ir_invariants import broken
from tests.definitions.graph.svg_layout import overlapping

DATA = Path(__file__).parents[4] / "shared/data"
GRAPHS = [json.loads(line) for path in sorted((DATA / "graphs").glob("*.jsonl")) for line in path.read_text().splitlines()]
TRACES = sorted((DATA / "wfinstances").glob("*.json"))

pytestmark = [pytest.mark.real, pytest.mark.skipif(not GRAPHS, reason="the workflows are not at hand")]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: f"{graph['source'].rpartition('/')[2]}-{graph['id']}")
def test_a_business_workflow_compiles_and_can_be_drawn(graph: dict[str, Any]) -> None:
    ids = {node["id"]: f"s{number}" for number, node in enumerate(graph["nodes"])}
    document = definition("ports", *(tool(id, name=name, next=leading(graph, name, ids)) for name, id in ids.items()))
    assert [finding.message for finding in compile_findings(document) if finding.severity == "error"] == []
    ir = compile_definition(document)
    assert broken(ir) == []
    assert ids[graph["start"]] in {ir.nodes[number].id for number in ir.regions[0].entries}
    assert len(text_drawing(shown_graph(ir)).splitlines()) > len(ids) < len(mermaid_drawing(shown_graph(ir)).splitlines())
    assert overlapping(svg_drawing_of(shown_graph(ir)), ir) == []


def leading(graph: dict[str, Any], name: str, ids: dict[str, str]) -> Any:
    """The ways on from a step: by ports if one is for errors, else by rules."""
    edges = [edge for edge in graph["edges"] if edge["from"] == name and edge["to"] in ids]
    if any(edge["port"] == "error" for edge in edges):
        return {port: {"to": [ids[edge["to"]] for edge in edges if edge["port"] == port], "max": 10} for port in ("success", "error")}
    if all(edge["port"] in ("success", "done") or edge["port"].startswith("branch") for edge in edges):
        return [{"to": [ids[edge["to"]] for edge in edges], "max": 10}] if edges else []
    return [{"to": [ids[edge["to"]]], "max": 10, **({} if edge["port"] == "default" else {"when": {"ref": "@self", "eq": edge["port"]}})} for edge in edges]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_scientific_workflow_compiles_and_can_be_drawn(path: Path) -> None:
    tasks = json.loads(path.read_text())["workflow"]["specification"]["tasks"]
    ids = {task["id"]: f"s{number}" for number, task in enumerate(tasks)}
    ir = compile_definition(definition("refs", *(tool(ids[task["id"]], with_=[f"@{ids[parent]}" for parent in task["parents"]]) for task in tasks)))
    assert broken(ir) == []
    assert len(ir.edges) == sum(len(task["parents"]) for task in tasks)
    assert {node.id for number, node in enumerate(ir.nodes) if number in ir.regions[0].entries} == {ids[task["id"]] for task in tasks if not task["parents"]}
    assert overlapping(svg_drawing_of(shown_graph(ir)), ir) == []
