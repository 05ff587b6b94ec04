"""The graph of a document of seed 004: its nodes by what they are called, the edges between them, and who comes before whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.programs.format.dialects.reading import Fields, Names, Notes
from perdure.programs.format.dialects.routes004 import Routed, Way
from perdure.programs.format.finding import closest

ROUTING = ("branch", "loop")


class Graph:
    """The nodes in the order in which they stand, and `ways`: where each leads by edges, by its dependents, or because another names it as a dependency.

    After `connect`, `sources` are those that lead to a node, without those that only loop back to it (`looped` are those that others loop back to), and
    `joins` says which nodes each token runs anew. `unreached` are nodes to which none leads, and with which nothing begins.
    """

    def __init__(self, top: Fields, notes: Notes) -> None:
        self.names = Names(notes)
        self.nodes: dict[str, Fields] = {}
        self.ways: dict[str, list[Way]] = {}
        self.sources: dict[str, list[str]] = {}
        self.joins: dict[str, str] = {}
        self.looped: set[str] = set()
        self.unreached: set[str] = set()
        self._originals: dict[str, str] = {}
        self._places: dict[str, int] = {}
        self._targets: dict[str, tuple[str, ...]] = {}
        self._notes = notes
        for original, pointer, node in self._listed(top):
            called = self.names.give(original, pointer)
            self.nodes[called] = node
            self._originals[called] = original
            self.ways[called] = []
        for called, node in self.nodes.items():
            self.ways[called].extend(Way(target, None, node.at("dependents")) for target in node.texts("dependents"))
        self._edges(top)
        for called, node in self.nodes.items():
            self._dependencies(called, node)

    def connect(self, routed: dict[str, Routed]) -> None:
        """Note who leads to whom, and what has to run once per token: a node without `wait_for_all` that several lead to, and what comes after it."""
        self.looped = {head for called, one in routed.items() for head in one.back if head != called}
        self.sources = {called: [] for called in self.nodes}
        for source, one in routed.items():
            for target in one.targets:
                if target in self.nodes and target not in one.back:
                    self.sources[target].append(source)
        unused = {target for one in routed.values() for target in one.unused}
        for called, node in self.nodes.items():
            if not self.sources[called] and called not in self.looped and (called in unused or node.texts("dependencies")):
                self.unreached.add(called)
                text = "no node leads to this one, though it is not one to begin with; it never runs"
                self._notes.warning("unreachable_step", node.pointer, text)
        self._targets = {called: one.targets for called, one in routed.items()}
        self._places = {called: place for place, called in enumerate(self.nodes)}
        waiting = {called for called, node in self.nodes.items() if node.flag("wait_for_all")}
        again = [called for called, sources in self.sources.items() if len(sources) > 1 and called not in waiting]
        self.joins = dict.fromkeys(again, "each")
        for called in again:
            fresh = [target for target in routed[called].targets if target in self.nodes and target not in self.joins and target not in waiting]
            self.joins.update(dict.fromkeys(fresh, "each"))
            again.extend(fresh)

    def is_entry(self, called: str) -> bool:
        """Whether the execution begins at a node: none leads to it, or it is the first of a cycle to which none leads."""
        if any(self._places[source] < self._places[called] for source in self.sources[called]):
            return False
        behind, waiting = {called}, [called]
        for node in waiting:
            fresh = [target for target in self._targets[node] if target in self.nodes and target not in behind]
            behind.update(fresh)
            waiting.extend(fresh)
        return behind.issuperset(self.sources[called])

    def before(self, called: str) -> list[str]:
        """All nodes by which a node is come to, in the order in which they stand."""
        found, waiting = {called}, [called]
        for node in waiting:
            fresh = [source for source in self.sources[node] if source not in found]
            found.update(fresh)
            waiting.extend(fresh)
        return [node for node in self.nodes if node in found and node != called]

    def _listed(self, top: Fields) -> Iterator[tuple[str, str, Fields]]:
        """Each node with its id and where that stands."""
        nodes = top.any("nodes")
        named: list[tuple[str, Any, str]] = []
        if isinstance(nodes, dict):
            named = [(str(name), node, top.at("nodes", str(name))) for name, node in nodes.items()]
        else:
            named = [("", node, top.at("nodes", index)) for index, node in enumerate(top.listed("nodes"))]
        if not named:
            self._notes.error("no_steps", top.at("nodes"), "a workflow has at least one node")
        for name, value, pointer in named:
            node = Fields(value, pointer, self._notes)
            field = node.name_of("id", "node_id")
            original = node.text("id", "node_id") or name
            if not original:
                self._notes.error("missing_field", node.at("id"), "a node has an id, by which edges name it")
                original = self.names.free("node")
            yield original, node.at(field) if node.has(field) else pointer, node

    def _edges(self, top: Fields) -> None:
        for index, value in enumerate(top.listed("edges")):
            edge = Fields(value, top.at("edges", index), self._notes)
            source, target = edge.text("from", "source"), edge.text("to", "target")
            condition = edge.any("condition") or None
            edge.ignore("id", "metadata")
            edge.left()
            if source not in self.names or not target:
                near = closest(source, self.names)
                text = f"there is no node {source[:60]!r}{f'; did you mean {near!r}?' if near else ''}" if target else "an edge leads from one node to another"
                self._notes.error("unknown_step" if target else "missing_field", edge.at("from" if target else "to"), text, near)
                continue
            self._add(self.names[source], Way(target, condition, edge.pointer))

    def _dependencies(self, called: str, node: Fields) -> None:
        """A dependency that does not lead on by itself leads here."""
        for dependency in node.texts("dependencies"):
            if dependency not in self.names:
                near = closest(dependency, self.names)
                hint = f"; did you mean {near!r}?" if near else ""
                self._notes.error("unknown_step", node.at("dependencies"), f"there is no node {dependency[:60]!r}{hint}", near)
                continue
            source = self.names[dependency]
            original = self._originals[called]
            leads_on = any(_routes_itself(self.nodes[source], name) for name in ROUTING)
            if not leads_on and all(way.target != original for way in self.ways[source]):
                self.ways[source].append(Way(original, None, node.at("dependencies")))

    def _add(self, source: str, way: Way) -> None:
        if all((known.target, known.condition) != (way.target, way.condition) for known in self.ways[source]):
            self.ways[source].append(way)


def _routes_itself(node: Fields, name: str) -> bool:
    value = node.value.get(name)
    return isinstance(value, dict) and value.get("enabled") is not False and (name == "branch" or bool(value.get("break_path")))
