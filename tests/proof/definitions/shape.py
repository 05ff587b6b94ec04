"""What leads where in a list of steps: edges, entries and cycles, found from the document by looking at everything again and again.

A second reading of the rules by which definitions are compiled, which shares nothing with the compiler.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.proof.definitions.facts import Json
from tests.proof.definitions.references import reads

Step = dict[str, Json]

FAILING = frozenset(("skipped", "error", "rejected", "timeout", "max"))
"""The ports by which an edge `after` is not taken."""

AT_ALL = frozenset(("error", "rejected"))
"""The ports by which an edge `always` is not taken."""


class Edge(NamedTuple):
    """From one step to another. `how` is "after", "always", "port" or "rule"; then `port` is the port's name, or the rule's number as text, with a ``!`` if
    it is taken when the rule is used up.
    """

    source: str
    target: str
    how: str
    port: str = ""


class Cycle(NamedTuple):
    """A natural loop: its head, its members, and the edges back."""

    head: str
    members: frozenset[str]
    back: frozenset[Edge]


class Shape(NamedTuple):
    """A list of steps as a graph. A step with no edge to it begins."""

    steps: Mapping[str, Step]
    edges: Sequence[Edge]
    cycles: Sequence[Cycle]
    entries: Sequence[str]

    def routed(self, source: str) -> frozenset[str]:
        """The ports by which edges leave a step."""
        return frozenset(edge.port for edge in self.edges if edge.source == source and edge.how == "port")

    def within(self, cycle: Cycle | None) -> list[Cycle]:
        """The cycles that stand directly in this one, or in none."""
        inner = [one for one in self.cycles if cycle is None or (one.members < cycle.members and one is not cycle)]
        return [one for one in inner if not any(one.members < other.members for other in inner)]


def shaped(steps: Sequence[Step], order: str) -> Shape:
    """The shape of a list in this order: refs, listed, ports, or apart (the branches of a parallel or a race)."""
    by_id = {step["id"]: step for step in steps}
    found = [edge for step in steps for edge in _leaving(step)] if order == "ports" else list(_following(steps, order))
    between = {(edge.source, edge.target) for edge in found}
    found += [Edge(one, step["id"], "after") for step in steps for one in step.get("needs", ()) if (one, step["id"]) not in between]
    edges = [edge for n, edge in enumerate(found) if edge not in found[:n] and edge.target in by_id]
    entries = _entries(list(by_id), edges)
    return Shape(by_id, edges, _cycles(list(by_id), edges, entries), entries)


def is_to_be_undone(step: Step, failed: str) -> bool:
    """Whether what a step has done is to be undone: once it has succeeded, or also if it is in doubt."""
    return "undo" in step and (not failed or step["undo"].get("in_doubt", False))


def inside(step: Step) -> Iterator[Step]:
    """All steps that stand in the lists of this one, at any depth."""
    for key in ("then", "else", "do", "parallel", "race", "on_error"):
        for one in listed(step.get(key)):
            yield one
            yield from inside(one)


def listed(block: Json) -> list[Step]:
    """The list of steps behind a verb, however it is written."""
    if isinstance(block, dict):
        block = block.get("steps")
    return block if isinstance(block, list) else []


def _following(steps: Sequence[Step], order: str) -> Iterator[Edge]:
    if order == "listed":
        pairs = ((one["id"], other) for one, other in pairwise(steps))
        yield from (Edge(one, other["id"], "after" if one in other.get("needs", ()) else "always") for one, other in pairs)
        return
    holder = {name: step["id"] for step in steps for name in (step["id"], *(one["id"] for one in inside(step)))}
    for step in steps:
        needed = set(step.get("needs", ()))
        for name in _read(step):
            if name in holder and holder[name] != step["id"] and holder[name] not in needed:
                yield Edge(holder[name], step["id"], "always")


def _read(step: Step) -> list[str]:
    """What a step and those in it read, without what is read when it is undone."""
    own = {key: value for key, value in step.items() if key not in ("undo", "then", "else", "do", "parallel", "race", "on_error", "id", "needs", "next")}
    return [*reads(own), *(name for one in inside(step) for name in _read({key: value for key, value in one.items() if key != "on_error"}))]


def _leaving(step: Step) -> Iterator[Edge]:
    source = step["id"]
    match step.get("next"):
        case str(target):
            yield Edge(source, target, "after")
        case [{}, *_] as rules:
            for number, rule in enumerate(rules):
                yield from (Edge(source, target, "rule", str(number)) for target in targets(rule.get("to")))
                yield from (Edge(source, target, "rule", f"{number}!") for target in targets(rule.get("on_max")))
        case list(several):
            yield from (Edge(source, target, "after") for target in several)
        case {"choose": list(chosen), **rest}:
            yield from (Edge(source, target, "rule", target) for target in chosen)
            yield from (Edge(source, target, "rule", "default") for target in targets(rest.get("default")))
        case dict(ports):
            for port, to in ports.items():
                how = "after" if port == "success" else "port"
                yield from (Edge(source, target, how, "" if how == "after" else port) for target in targets(to))


def targets(to: Json) -> list[str]:
    """The ids that an entry of `next` leads to."""
    if isinstance(to, dict):
        to = to.get("to")
    return [to] if isinstance(to, str) else list(to or ())


def _entries(names: list[str], edges: Sequence[Edge]) -> list[str]:
    """Those to which nothing leads; and as long as some can't be reached, the first of them."""
    entries = [name for name in names if not any(edge.target == name for edge in edges)]
    while unreached := [name for name in names if name not in _reached(entries, edges, "")]:
        entries.append(unreached[0])
    return entries


def _reached(entries: Sequence[str], edges: Sequence[Edge], without: str) -> set[str]:
    """All that can be reached from `entries` on ways that do not touch `without`."""
    found = {name for name in entries if name != without}
    while more := {edge.target for edge in edges if edge.source in found and edge.target not in found and edge.target != without}:
        found |= more
    return found


def _cycles(names: list[str], edges: Sequence[Edge], entries: Sequence[str]) -> list[Cycle]:
    """Natural loops, those with one head as one."""
    dominated = {name: set(names) - _reached(entries, edges, name) for name in names}
    back = [edge for edge in edges if edge.source in dominated[edge.target]]
    return [_cycle(head, frozenset(edge for edge in back if edge.target == head), edges) for head in dict.fromkeys(edge.target for edge in back)]


def _cycle(head: str, back: frozenset[Edge], edges: Sequence[Edge]) -> Cycle:
    members = {head, *(edge.source for edge in back)}
    while more := {edge.source for edge in edges if edge.target in members - {head} and edge.source not in members}:
        members |= more
    return Cycle(head, frozenset(members), back)
