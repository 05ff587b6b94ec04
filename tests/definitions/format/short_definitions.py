"""Definitions and what they compile to, short enough for tables: ``a * b`` is an edge from a to b by the port ``*``, with ``<-`` behind it if it leads back."""

from typing import Any

from perdure.definitions.format.compiler import compile_definition, compile_findings
from perdure.definitions.graph.ir import IR, GraphNode

Step = dict[str, Any]


def definition(order: str, *steps: Step, **fields: Any) -> dict[str, Any]:
    """A canonical definition."""
    return {"perdure": 1, "name": "d", "order": order, "steps": list(steps), **fields}


def tool(id: str, /, **fields: Any) -> Step:
    """A step that uses a tool; fields with a trailing _ are those whose names Python keeps for itself."""
    return {"id": id, "tool": "T", **{name.rstrip("_"): value for name, value in fields.items()}}


def do(id: str, *steps: Step, **fields: Any) -> Step:
    """A step that holds others."""
    return {"id": id, "do": list(steps), **fields}


def edges(ir: IR) -> set[str]:
    """All edges."""
    ids = [node.id for node in ir.nodes]
    return {f"{ids[edge.source]} {edge.port or '?'} {ids[edge.target]}{' <-' if edge.back else ''}" for edge in ir.edges}


def regions(ir: IR) -> dict[str, tuple[str, str, str]]:
    """For each region but the root, by its number: where it stands, what stands in it, and with what it begins."""
    ids = [node.id for node in ir.nodes]
    names = ["root", *(f"{region.kind} of {ids[region.head]}" for region in ir.regions[1:])]
    shown = {}
    for number, region in enumerate(ir.regions[1:], 1):
        name = names[number] if names[number] not in shown else f"{names[number]} (2)"
        shown[name] = names[region.parent], " ".join(ids[node] for node in region.nodes), " ".join(ids[node] for node in region.entries)
    return shown


def node(ir: IR, id: str) -> GraphNode:
    """The node with this id."""
    return next(node for node in ir.nodes if node.id == id)


def codes(document: dict[str, Any]) -> list[str]:
    """The codes of what is found, a warning's with a ~ before it."""
    return [f"{'~' if one.severity == 'warning' else ''}{one.code}" for one in compile_findings(document)]


__all__ = ["codes", "compile_definition", "compile_findings", "definition", "do", "edges", "node", "regions", "tool"]
