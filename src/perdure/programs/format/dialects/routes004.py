"""Where a node of seed 004 leads: its loop and its branch, its dependents, the edges of the document; as `repeat` and `next` of a step.

A loop over the node itself is `repeat`; one back to an earlier node is a rule that is taken one time less than the node may run. The condition is looked at
first, then the number of tries, so success on the last one is success. When a loop is done it goes on by `break_path`, and only without one by the branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from perdure.programs.format.dialects.conditions004 import Conditions
from perdure.programs.format.dialects.reading import Fields, Names, Notes, seconds
from perdure.programs.format.finding import closest, joined

HOPS_MAX = 100
FANOUT_MAX = 10
HUMAN = ("human", "hitl", "approval")
DECISIONS = {"approved": "approved", "approve": "approved", "rejected": "rejected", "reject": "rejected"}


class Way(NamedTuple):
    """An edge of the document: where to, on which condition (None: always), and where it stands."""

    target: str
    condition: Any
    pointer: str


class Routed(NamedTuple):
    """How a step goes on: the fields that say it, all steps that it may lead to, those of them that its loop leads back to, and steps of its own.

    `unused` are the steps to which a branch would lead that is never looked at.
    """

    fields: dict[str, Any]
    targets: tuple[str, ...]
    back: tuple[str, ...] = ()
    added: tuple[dict[str, Any], ...] = ()
    is_terminal: bool = False
    unused: tuple[str, ...] = ()


Rule = dict[str, Any]


class Routes:
    """Reads where the nodes of one document lead."""

    def __init__(self, names: Names, notes: Notes, conditions: Conditions) -> None:
        self._names, self._notes, self._conditions = names, notes, conditions

    def read(self, node: Fields, called: str, ways: list[Way]) -> Routed:
        """The ways on from a node whose dependents and edges are `ways`."""
        loop, branch = _enabled(node.inside("loop")), _enabled(node.inside("branch"))
        if node.text("type") in HUMAN:
            return self._decided(node, ways, loop or branch)
        following = self._branch(branch, called) if branch else self._static(ways)
        if loop is None:
            terminal = not _targets(following)
            return Routed({"next": following} if following else {}, _targets(following), is_terminal=terminal)
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

    def _decided(self, node: Fields, ways: list[Way], routing: Fields | None) -> Routed:
        """The ways on from what people decide: its dependents when they approve, `rejection_path` when they do not."""
        if routing is not None:
            text = "a human node goes on by what was decided; put the loop or the branch on the node after it"
            self._notes.error("unsupported", routing.pointer, text)
        rejected = self._nodes(node, "rejection_path")
        ports: dict[str, list[str]] = {"approved": [], "rejected": rejected}
        for way in ways:
            port = DECISIONS.get(way.condition) if isinstance(way.condition, str) else "approved"
            if port is None or not (way.condition is None or isinstance(way.condition, str)):
                text = f"after a human node a condition is one of {', '.join(DECISIONS)}"
                self._notes.error("unsupported", joined(way.pointer, "condition"), text)
                continue
            ports[port] = list(dict.fromkeys([*ports[port], self._node(way.target, way.pointer)]))
        following = {port: _one(targets) for port, targets in ports.items() if targets}
        return Routed({"next": following} if following else {}, _targets(following), is_terminal=not following)

    def _static(self, ways: list[Way]) -> Any:
        """The edges: rules in the order in which they stand, and without a condition what is left over."""
        rules: list[Rule] = []
        for way in ways:
            target = self._node(way.target, way.pointer)
            if way.condition is None:
                continue
            when = self._conditions.read(way.condition, joined(way.pointer, "condition"))
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

    def _branch(self, branch: Fields, called: str) -> Any:
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
            near = closest(kind, ("conditional", "agent_driven"))
            self._notes.error("unknown_type", branch.at("type"), f"expected 'conditional' or 'agent_driven', found {kind[:40]!r}", near)
        rules: list[Rule] = []
        for index, item in enumerate(branch.listed("rules")):
            rule = Fields(item, branch.at("rules", index), self._notes)
            if not rule.has("condition"):
                self._notes.error("missing_field", rule.at("condition"), "a rule has a condition")
                continue
            when = self._conditions.read(rule.any("condition"), rule.at("condition"))
            rules.append({"when": when, "to": _one(self._nodes(rule, "next_nodes") or default)})
            rule.left()
        branch.left()
        return [*rules, {"to": _one(default)}] if default else rules

    def _loop(self, loop: Fields, called: str, following: Any) -> Routed:
        if not loop.has("condition"):
            self._notes.error("missing_field", loop.at("condition"), "a loop has a condition: it goes on as long as that holds")
        again = self._conditions.read(loop.any("condition"), loop.at("condition")) if loop.has("condition") else {"expr": "false"}
        most = loop.whole("max_iterations", least=1)
        if most is None:
            self._notes.warning("no_bound", loop.at("max_iterations"), f"how often may it go round? taken as {HOPS_MAX}")
            most = HOPS_MAX
        late = self._nodes(loop, "timeout_path")
        back = loop.text("loop_back_to")
        head = self._node(back, loop.at("loop_back_to")) if back else called
        delay = seconds(loop.number("delay_ms"))
        terminal = not _targets(following) and not late
        if head == called:
            return self._over_itself(called, {"while": again, "max": most, **({"delay": delay} if delay else {})}, late, following, terminal)
        rules: list[Rule] = [{"when": again, "to": head, "max": most - 1, **({"on_max": _one(late)} if late else {})}] if most > 1 else []
        if not rules or not late:
            rules.append({"when": again, "to": _one(late)})
        if isinstance(following, dict):
            self._notes.error(
                "unsupported", loop.pointer, "a loop back to another node and a choice of an agent can't stand on one node; put the choice on the next"
            )
            following = []
        rest = following if following and isinstance(following, list) and isinstance(following[0], dict) else [{"to": following}] if following else []
        rules = [*rules, *rest]
        return Routed({"next": rules}, _targets(rules), (head,), is_terminal=terminal)

    def _over_itself(self, called: str, repeat: dict[str, Any], late: list[str], following: Any, terminal: bool) -> Routed:
        added: tuple[dict[str, Any], ...] = ()
        if len(late) > 1:
            added = ({"id": self._names.free(f"{called}_timeout"), "do": [], "next": late},)
        repeat["on_max"] = added[0]["id"] if added else late[0] if late else "go_on"
        fields = {"repeat": repeat, **({"next": following} if following else {})}
        return Routed(fields, tuple(dict.fromkeys((*_targets(following), *late))), added=added, is_terminal=terminal)

    def _nodes(self, fields: Fields, name: str) -> list[str]:
        """The steps that a field names."""
        found = list(dict.fromkeys(self._node(node, fields.at(name)) for node in fields.texts(name)))
        self._count(found, fields.at(name))
        return found

    def _node(self, node: str, pointer: str) -> str:
        if node not in self._names:
            near = closest(node, self._names)
            self._notes.error("unknown_step", pointer, f"there is no node {node[:60]!r}{f'; did you mean {near!r}?' if near else ''}", near)
        return self._names[node]

    def _count(self, targets: list[str], pointer: str) -> None:
        if len(targets) > FANOUT_MAX:
            self._notes.warning("wide", pointer, f"it leads to {len(targets)} nodes at once; more than {FANOUT_MAX} fail unless limits say otherwise")


def _enabled(fields: Fields | None) -> Fields | None:
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
