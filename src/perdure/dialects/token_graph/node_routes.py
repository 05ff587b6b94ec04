"""Reads the graph of token_graph: its nodes and edges, and each node's loop, branch and dependents as `repeat` and `next` of a step.

A loop over the node itself is `repeat`; one back to an earlier node is a rule that is taken once less than the node may run. The condition is evaluated before
the count of attempts, so success on the last attempt is success. A finished loop continues at `break_path`, or at the branch without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from perdure.definitions.format.definition_findings import closest_name, joined_pointer
from perdure.dialects.foreign_document import FindingCollector, ForeignFields, StepNames, ms_to_s
from perdure.dialects.token_graph.condition_reader import TokenGraphConditionReader

HOPS_MAX = 100
FANOUT_MAX = 10
HUMAN_TYPES = ("human", "hitl", "approval")
DECISION_PORTS = {"approved": "approved", "approve": "approved", "rejected": "rejected", "reject": "rejected"}


class TokenGraphEdge(NamedTuple):
    """An edge of the document: its target, its condition (None: always) and its location."""

    target: str
    condition: Any
    pointer: str


class RoutedNode(NamedTuple):
    """How a step goes on: the fields that say it, all steps that it may lead to, those of them that its loop leads back to, and steps of its own.

    `unused` are the steps to which a branch would lead that is never looked at.
    """

    fields: dict[str, Any]
    targets: tuple[str, ...]
    back: tuple[str, ...] = ()
    added: tuple[dict[str, Any], ...] = ()
    is_terminal: bool = False
    unused: tuple[str, ...] = ()


RouteRule = dict[str, Any]


class TokenGraphRouteReader:
    """Reads where the nodes of one document lead."""

    def __init__(self, names: StepNames, notes: FindingCollector, conditions: TokenGraphConditionReader) -> None:
        self._names, self._notes, self._conditions = names, notes, conditions

    def read(self, node: ForeignFields, called: str, ways: list[TokenGraphEdge]) -> RoutedNode:
        """The ways on from a node whose dependents and edges are `ways`."""
        loop, branch = _enabled(node.inside("loop")), _enabled(node.inside("branch"))
        if node.text("type") in HUMAN_TYPES:
            return self._decided(node, ways, loop or branch)
        following = self._branch(branch, called) if branch else self._static(ways)
        if loop is None:
            terminal = not _targets(following)
            return RoutedNode({"next": following} if following else {}, _targets(following), is_terminal=terminal)
        broken = self._nodes(loop, "break_path")
        unused: tuple[str, ...] = ()
        if broken:
            if branch:
                unused = _targets(following)
                text = "the loop goes on by its break_path, so this branch is never looked at; take one of the two away"
                self._notes.warning("branch_unused", branch.pointer, text)
            following = _one(broken)
        routed = self._loop(loop, called, following)
        loop.left()
        return routed._replace(unused=unused)

    def _decided(self, node: ForeignFields, ways: list[TokenGraphEdge], routing: ForeignFields | None) -> RoutedNode:
        """The ways on from what people decide: its dependents when they approve, `rejection_path` when they do not."""
        if routing is not None:
            text = "a human node goes on by what was decided; put the loop or the branch on the node after it"
            self._notes.error("unsupported", routing.pointer, text)
        rejected = self._nodes(node, "rejection_path")
        ports: dict[str, list[str]] = {"approved": [], "rejected": rejected}
        for way in ways:
            port = DECISION_PORTS.get(way.condition) if isinstance(way.condition, str) else "approved"
            if port is None or not (way.condition is None or isinstance(way.condition, str)):
                text = f"after a human node a condition is one of {', '.join(DECISION_PORTS)}"
                self._notes.error("unsupported", joined_pointer(way.pointer, "condition"), text)
                continue
            ports[port] = list(dict.fromkeys([*ports[port], self._node(way.target, way.pointer)]))
        following = {port: _one(targets) for port, targets in ports.items() if targets}
        return RoutedNode({"next": following} if following else {}, _targets(following), is_terminal=not following)

    def _static(self, ways: list[TokenGraphEdge]) -> Any:
        """The edges: rules in document order, and an unconditional one for the rest."""
        rules: list[RouteRule] = []
        for way in ways:
            target = self._node(way.target, way.pointer)
            if way.condition is None:
                continue
            when = self._conditions.read(way.condition, joined_pointer(way.pointer, "condition"))
            same = next((rule for rule in rules if rule["when"] == when), None)
            if same is None:
                rules.append({"when": when, "to": [target]})
            elif target not in same["to"]:
                same["to"].append(target)
        always = list(dict.fromkeys(self._names[way.target] for way in ways if way.condition is None))
        self._count(always, ways[0].pointer if ways else "")
        if not rules:
            return _one(always)
        rules = [{**rule, "to": _one(rule["to"])} for rule in rules]
        return [*rules, {"to": _one(always)}] if always else rules

    def _branch(self, branch: ForeignFields, called: str) -> Any:
        kind = branch.text("type", default="conditional")
        default = self._nodes(branch, "default")
        if kind == "agent_driven":
            chosen = self._nodes(branch, "available_next_nodes")
            branch.left()
            if not chosen:
                self._notes.error("missing_field", branch.at("available_next_nodes"), "an agent chooses from a list of nodes")
                return _one(default)
            return {"choose": chosen, "default": _one(default)} if default else {"choose": chosen}
        if kind != "conditional":
            near = closest_name(kind, ("conditional", "agent_driven"))
            self._notes.error("unknown_type", branch.at("type"), f"expected 'conditional' or 'agent_driven', found {kind[:40]!r}", near)
        rules: list[RouteRule] = []
        for index, item in enumerate(branch.listed("rules")):
            rule = ForeignFields(item, branch.at("rules", index), self._notes)
            if not rule.has("condition"):
                self._notes.error("missing_field", rule.at("condition"), "a rule has a condition")
                continue
            when = self._conditions.read(rule.any("condition"), rule.at("condition"))
            rules.append({"when": when, "to": _one(self._nodes(rule, "next_nodes") or default)})
            rule.left()
        branch.left()
        return [*rules, {"to": _one(default)}] if default else rules

    def _loop(self, loop: ForeignFields, called: str, following: Any) -> RoutedNode:
        if not loop.has("condition"):
            self._notes.error("missing_field", loop.at("condition"), "a loop needs a condition; it repeats as long as the condition holds")
        again = self._conditions.read(loop.any("condition"), loop.at("condition")) if loop.has("condition") else {"expr": "false"}
        most = loop.whole("max_iterations", least=1)
        if most is None:
            self._notes.warning("no_bound", loop.at("max_iterations"), f"no bound is given; the loop repeats at most {HOPS_MAX} times")
            most = HOPS_MAX
        late = self._nodes(loop, "timeout_path")
        back = loop.text("loop_back_to")
        head = self._node(back, loop.at("loop_back_to")) if back else called
        delay = ms_to_s(loop.number("delay_ms"))
        terminal = not _targets(following) and not late
        if head == called:
            return self._over_itself(called, {"while": again, "max": most, **({"delay": delay} if delay else {})}, late, following, terminal)
        rules: list[RouteRule] = [{"when": again, "to": head, "max": most - 1, **({"on_max": _one(late)} if late else {})}] if most > 1 else []
        if not rules or not late:
            rules.append({"when": again, "to": _one(late)})
        if isinstance(following, dict):
            self._notes.error("unsupported", loop.pointer, "a node can't have both a loop back and a choice by an agent; put the choice on the next node")
            following = []
        rest = following if following and isinstance(following, list) and isinstance(following[0], dict) else [{"to": following}] if following else []
        rules = [*rules, *rest]
        return RoutedNode({"next": rules}, _targets(rules), (head,), is_terminal=terminal)

    def _over_itself(self, called: str, repeat: dict[str, Any], late: list[str], following: Any, terminal: bool) -> RoutedNode:
        added: tuple[dict[str, Any], ...] = ()
        if len(late) > 1:
            added = ({"id": self._names.free(f"{called}_timeout"), "do": [], "next": late},)
        repeat["on_max"] = added[0]["id"] if added else late[0] if late else "go_on"
        fields = {"repeat": repeat, **({"next": following} if following else {})}
        return RoutedNode(fields, tuple(dict.fromkeys((*_targets(following), *late))), added=added, is_terminal=terminal)

    def _nodes(self, fields: ForeignFields, name: str) -> list[str]:
        """The steps that a field names."""
        found = list(dict.fromkeys(self._node(node, fields.at(name)) for node in fields.texts(name)))
        self._count(found, fields.at(name))
        return found

    def _node(self, node: str, pointer: str) -> str:
        if node not in self._names:
            near = closest_name(node, self._names)
            self._notes.error("unknown_step", pointer, f"there is no node {node[:60]!r}{f'; did you mean {near!r}?' if near else ''}", near)
        return self._names[node]

    def _count(self, targets: list[str], pointer: str) -> None:
        if len(targets) > FANOUT_MAX:
            self._notes.warning("wide", pointer, f"it leads to {len(targets)} nodes at once; executions fail above {FANOUT_MAX} unless the limits allow more")


def _enabled(fields: ForeignFields | None) -> ForeignFields | None:
    return fields if fields is not None and fields.flag("enabled", default=True) else None


def _one(targets: list[str]) -> Any:
    """One step alone as itself."""
    return targets[0] if len(targets) == 1 else targets


def _targets(following: Any) -> tuple[str, ...]:
    """All steps that `next` names, in order, each once."""
    return tuple(dict.fromkeys(_every(following)))


def _every(following: Any) -> Iterator[str]:
    match following:
        case str():
            yield following
        case list():
            for one in following:
                yield from _every(one)
        case dict() if "choose" in following:
            yield from following["choose"]
            yield from _every(following.get("default"))
        case dict():
            yield from _every(following.get("to"))
            yield from _every(following.get("on_max"))
            for port in ("approved", "rejected"):
                yield from _every(following.get(port))


ROUTING_FIELDS = ("branch", "loop")


class TokenGraph:
    """The nodes in document order, and `ways`: the targets of each by edges, by dependents, or as a dependency of another.

    After `connect`, `sources` are those that lead to a node, without those that only loop back to it (`looped` are those that others loop back to), and
    `joins` says which nodes each token runs anew. `unreached` are nodes to which none leads, and with which nothing begins.
    """

    def __init__(self, top: ForeignFields, notes: FindingCollector) -> None:
        self.names = StepNames(notes)
        self.nodes: dict[str, ForeignFields] = {}
        self.ways: dict[str, list[TokenGraphEdge]] = {}
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
            self.ways[called].extend(TokenGraphEdge(target, None, node.at("dependents")) for target in node.texts("dependents"))
        self._edges(top)
        for called, node in self.nodes.items():
            self._dependencies(called, node)

    def connect(self, routed: dict[str, RoutedNode]) -> None:
        """Notes each node's predecessors, and the nodes that run once per token: one without `wait_for_all` that several lead to, and those after it."""
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
        """All predecessors of a node, in document order."""
        found, waiting = {called}, [called]
        for node in waiting:
            fresh = [source for source in self.sources[node] if source not in found]
            found.update(fresh)
            waiting.extend(fresh)
        return [node for node in self.nodes if node in found and node != called]

    def _listed(self, top: ForeignFields) -> Iterator[tuple[str, str, ForeignFields]]:
        """Each node with its id and its pointer."""
        nodes = top.any("nodes")
        named: list[tuple[str, Any, str]] = []
        if isinstance(nodes, dict):
            named = [(str(name), node, top.at("nodes", str(name))) for name, node in nodes.items()]
        else:
            named = [("", node, top.at("nodes", index)) for index, node in enumerate(top.listed("nodes"))]
        if not named:
            self._notes.error("no_steps", top.at("nodes"), "a workflow has at least one node")
        for name, value, pointer in named:
            node = ForeignFields(value, pointer, self._notes)
            field = node.name_of("id", "node_id")
            original = node.text("id", "node_id") or name
            if not original:
                self._notes.error("missing_field", node.at("id"), "a node has an id, by which edges name it")
                original = self.names.free("node")
            yield original, node.at(field) if node.has(field) else pointer, node

    def _edges(self, top: ForeignFields) -> None:
        for index, value in enumerate(top.listed("edges")):
            edge = ForeignFields(value, top.at("edges", index), self._notes)
            source, target = edge.text("from", "source"), edge.text("to", "target")
            condition = edge.any("condition") or None
            edge.ignore("id", "metadata")
            edge.left()
            if source not in self.names or not target:
                near = closest_name(source, self.names)
                text = f"there is no node {source[:60]!r}{f'; did you mean {near!r}?' if near else ''}" if target else "an edge leads from one node to another"
                self._notes.error("unknown_step" if target else "missing_field", edge.at("from" if target else "to"), text, near)
                continue
            self._add(self.names[source], TokenGraphEdge(target, condition, edge.pointer))

    def _dependencies(self, called: str, node: ForeignFields) -> None:
        """A dependency that does not lead on by itself leads here."""
        for dependency in node.texts("dependencies"):
            if dependency not in self.names:
                near = closest_name(dependency, self.names)
                hint = f"; did you mean {near!r}?" if near else ""
                self._notes.error("unknown_step", node.at("dependencies"), f"there is no node {dependency[:60]!r}{hint}", near)
                continue
            source = self.names[dependency]
            original = self._originals[called]
            leads_on = any(_routes_itself(self.nodes[source], name) for name in ROUTING_FIELDS)
            if not leads_on and all(way.target != original for way in self.ways[source]):
                self.ways[source].append(TokenGraphEdge(original, None, node.at("dependencies")))

    def _add(self, source: str, way: TokenGraphEdge) -> None:
        if all((known.target, known.condition) != (way.target, way.condition) for known in self.ways[source]):
            self.ways[source].append(way)


def _routes_itself(node: ForeignFields, name: str) -> bool:
    value = node.value.get(name)
    return isinstance(value, dict) and value.get("enabled") is not False and (name == "branch" or bool(value.get("break_path")))
