"""Reads token_graph: ``{nodes, edges, metadata}``, or nodes alone that name their dependencies and dependents.

A `task` calls the tool of ``config.action`` (else its config's type, else its id); `agent` and `human` map to their verbs; `http` with a URL is a request; at a
`migration` the execution continues in another version; any other type is work for a worker of that type. The input of a node without a config is the output of
its predecessor, or a mapping of the outputs of several.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.dialects.foreign_document import (
    UNTITLED,
    FindingCollector,
    ForeignDefinition,
    ForeignFields,
    ms_to_s,
    without_empty,
    workflow_title,
)
from perdure.dialects.token_graph.condition_reader import ReferencedContents, TokenGraphConditionReader
from perdure.dialects.token_graph.node_reader import MIGRATION_TYPE, TokenGraphNodeReader, TokenGraphValueReader, version_before
from perdure.dialects.token_graph.node_reader import route_handover as handed_on
from perdure.dialects.token_graph.node_routes import FANOUT_MAX, HOPS_MAX, RoutedNode, TokenGraph, TokenGraphRouteReader

ENDLESS_FLAGS = ("HasInfiniteLoopFlag", "has_infinite_loop", "hasInfiniteLoopFlag")


def to_definition(document: Any, blobs: Mapping[str, Any] | None = None, name: str = "") -> ForeignDefinition:
    """The definition that a document of this shape is, called `name` if it does not say so itself.

    `blobs` holds what its references ``cas://…`` stand for: configs, schemas and source texts; one that it lacks is an error.
    """
    notes = FindingCollector(document)
    top = ForeignFields(document, "", notes)
    metadata = top.inside("metadata") or ForeignFields({}, "/metadata", notes)
    graph, contents = TokenGraph(top, notes), ReferencedContents(blobs or {}, notes)
    routes = TokenGraphRouteReader(graph.names, notes, TokenGraphConditionReader(graph.names, notes, contents))
    routed = {called: routes.read(node, called, graph.ways[called]) for called, node in graph.nodes.items()}
    said = workflow_title(metadata.text("name"), top.text("name"), top.text("tag"), top.text("id"))
    own = name if name and said == UNTITLED else said
    for called, node in graph.nodes.items():
        if node.text("type") == MIGRATION_TYPE:
            routed[called] = handed_on(node, called, own, graph.names, routed[called].targets)
    forever = any(where.flag(*ENDLESS_FLAGS) for where in (metadata, top))
    if graph.nodes and not forever and not any(one.is_terminal or set(one.targets) - graph.nodes.keys() for one in routed.values()):
        notes.error("no_end", "/nodes", "workflow has no terminal nodes (would run forever); end one of its ways, or set metadata.HasInfiniteLoopFlag")
    graph.connect(routed)
    nodes = TokenGraphNodeReader(graph, TokenGraphValueReader(graph.names, notes), notes, contents)
    steps = [step for called, node in graph.nodes.items() for step in _steps(nodes, node, called, routed[called])]
    definition: dict[str, Any] = {
        "perdure": 1,
        "dialect": "token_graph",
        "name": own,
        "order": "ports",
    }
    definition |= without_empty(
        {
            "version": metadata.text("version") or top.text("version") or version_before(graph.nodes),
            "description": metadata.text("description") or top.text("description"),
            "tags": [*metadata.texts("tags"), *top.texts("tags")],
            "limits": _limits(metadata, nodes.hops_max, forever),
            "allow": _allowed(metadata, top),
        }
    )
    definition["steps"] = _steps_endless(steps) if forever else steps
    top.ignore("id", "edges", "nodes", "created_at", "updated_at")
    top.left()
    metadata.left()
    return ForeignDefinition("token_graph", definition, tuple(notes.findings))


def _steps(nodes: TokenGraphNodeReader, node: ForeignFields, called: str, routed: RoutedNode) -> list[dict[str, Any]]:
    step = nodes.read(node, called, routed)
    node.left()
    return [step, *routed.added]


def _limits(metadata: ForeignFields, hops_max: int | None, forever: bool) -> dict[str, Any]:
    """The limits: 100 hops and 10 at once unless it says otherwise; what is to go on for ever has no bound of hops but its own."""
    limits = metadata.inside("limits") or ForeignFields({}, metadata.at("limits"), metadata.notes)
    hops = limits.whole("max_hops", least=1) or metadata.whole("max_hops", least=1) or hops_max or (None if forever else HOPS_MAX)
    fanout = limits.whole("max_fanout", least=1) or metadata.whole("max_fanout", least=1) or FANOUT_MAX
    within_s = limits.number("deadline_s", "max_wall_time_s") or metadata.number("deadline_s")
    found = {"max_hops": hops, "max_fanout": fanout, "deadline": within_s or ms_to_s(limits.number("timeout_ms") or metadata.number("timeout_ms"))}
    limits.left()
    return without_empty(found)


def _allowed(*holders: ForeignFields) -> dict[str, Any]:
    """The permissions of the document's agents, from beside the nodes or from the metadata."""
    found = False
    for holder in holders:
        if allow := holder.inside("allow"):
            found = allow.flag("self_edit") or found
            allow.left()
    return {"self_edit": True} if found else {}


def _steps_endless(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps with what leads back in rules that say that no bound is meant."""
    place = {step["id"]: index for index, step in enumerate(steps)}
    for index, step in enumerate(steps):
        match step.get("next"):
            case str() as target if place.get(target, index + 1) <= index:
                step["next"] = [{"to": target, "endless": True}]
            case [dict(), *_] as rules:
                for rule in rules:
                    if isinstance(rule["to"], str) and place.get(rule["to"], index + 1) <= index and "max" not in rule:
                        rule["endless"] = True
            case _:
                pass
    return steps
