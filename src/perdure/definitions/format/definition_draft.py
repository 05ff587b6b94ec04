"""A definition during compilation: its outline, the edges added so far, and the findings."""

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.definitions.format.definition_findings import DefinitionFinding, closest_name, error_finding, readable_location, warning_finding
from perdure.definitions.format.dialect_rules import RULES
from perdure.definitions.format.step_routes import StepRoutes
from perdure.definitions.format.step_tree import StepOutline
from perdure.definitions.graph.ir import RoutingRule

SUGGESTIONS_MAX = 20
"""The most unknown names for which a similar one is suggested, because the search is slow."""


class DefinitionDraft:
    """The state that the parts of the compiler share. Edges are numbered in the order in which they are added, without duplicates."""

    def __init__(self, canonical: Mapping[str, Any]) -> None:
        self.canonical = canonical
        self.dialect_rules = RULES[str(canonical.get("dialect") or "")]
        self.expressions = self.dialect_rules.expressions
        self.outline = StepOutline(canonical)
        self.found: list[DefinitionFinding] = []
        self.edges: list[tuple[int, int, str]] = []
        self.turns: dict[int, int] = {}
        self.endless: set[int] = set()
        self.rules: dict[int, tuple[RoutingRule, ...]] = {}
        self.choose: dict[int, tuple[str, ...]] = {}
        self.default: dict[int, tuple[int, ...]] = {}
        self.port_maps: dict[int, StepRoutes] = {}
        self.left_by_max: set[int] = set()
        self._joined: set[tuple[int, int]] = set()
        self._numbers: dict[tuple[int, int, str], int] = {}
        self._suggested = 0

    def edge(self, source: int, target: int, port: str) -> int:
        """The number of the edge between two steps by a port, added if it is not there."""
        key = source, target, port
        if (number := self._numbers.get(key)) is None:
            number = self._numbers[key] = len(self.edges)
            self.edges.append(key)
            self._joined.add((source, target))
        return number

    def joins(self, source: int, target: int) -> bool:
        """Whether some edge leads from one step to another."""
        return (source, target) in self._joined

    def isolate(self, nodes: Iterable[int]) -> None:
        """Removes all edges that leave these nodes, and renumbers the others."""
        gone = set(nodes)
        kept = [number for number, (source, _, _) in enumerate(self.edges) if source not in gone]
        now = {before: after for after, before in enumerate(kept)}
        self.edges = [self.edges[number] for number in kept]
        self._numbers = {key: number for number, key in enumerate(self.edges)}
        self.turns = {now[number]: turns for number, turns in self.turns.items() if number in now}
        self.endless = {now[number] for number in self.endless if number in now}
        self.choose = {node: ids for node, ids in self.choose.items() if node not in gone}
        self.default = {node: _renumbered(edges, now) for node, edges in self.default.items() if node not in gone}
        self.rules = {
            node: tuple(RoutingRule(rule.when, _renumbered(rule.edges, now), rule.max, _renumbered(rule.on_max, now)) for rule in rules)
            for node, rules in self.rules.items()
            if node not in gone
        }

    def error(self, code: str, pointer: str, message: str, suggestion: str = "") -> None:
        """Reports an error; the location is put before `message`."""
        self.found.append(error_finding(code, pointer, f"{readable_location(self.canonical, pointer)}: {message}", suggestion))

    def warning(self, code: str, pointer: str, message: str, suggestion: str = "") -> None:
        """Reports a warning."""
        self.found.append(warning_finding(code, pointer, f"{readable_location(self.canonical, pointer)}: {message}", suggestion))

    def suggestion(self, name: str, known: Iterable[str]) -> str:
        """Returns the known name that is most similar to an unknown one; empty if none is similar, or too many names are unknown."""
        self._suggested += 1
        return closest_name(name, known) if self._suggested <= SUGGESTIONS_MAX else ""

    def step(self, id: str, pointer: str, meaning: str) -> int:
        """Returns the number of the step with this id; if there is none, reports that and returns -1."""
        number = self.outline.numbers.get(id, -1)
        if number < 0:
            meant = self.suggestion(id, self.outline.numbers)
            self.error("unknown_step", pointer, f"{meaning} {id!r}, and there is no such step{did_you_mean(meant)}", meant)
        return number

    def name(self, number: int) -> str:
        """The id of a step."""
        return self.outline.sites[number].id


def did_you_mean(meant: str, mark: str = "") -> str:
    """The end of a sentence about an unknown name."""
    return f"; did you mean '{mark}{meant}'?" if meant else ""


def _renumbered(edges: tuple[int, ...], now: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(now[number] for number in edges)
