"""Finds the operations of a path, segment by segment. Where a literal segment and a parameter both fit, the literal one comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perdure.api.request_arguments import RequestArguments
from perdure.operations.operation_table import Operation


class Route(NamedTuple):
    """An operation with what reads its arguments at one of its routes."""

    operation: Operation
    reader: RequestArguments


class RouteTree:
    """Paths of operations. `methods` are those of the path that ends here, `literals` what goes on by the next segment, and `parameter` with any segment."""

    def __init__(self) -> None:
        self.methods: dict[str, Route] = {}
        self.literals: dict[str, RouteTree] = {}
        self.parameter: RouteTree | None = None

    def add(self, route: Route) -> None:
        """Adds the path of an operation."""
        here = self
        for part in route.reader.path.strip("/").split("/"):
            if part.startswith("{"):
                here.parameter = here.parameter or RouteTree()
                here = here.parameter
            else:
                here = here.literals.setdefault(part, RouteTree())
        here.methods[route.reader.method] = route

    def matches(self, segments: Sequence[str], given: tuple[str, ...] = ()) -> list[tuple[dict[str, Route], tuple[str, ...]]]:
        """Returns the methods of each path that fits, the one with more literals at its beginning first, and what it has in the places of parameters."""
        if not segments:
            return [(self.methods, given)] if self.methods else []
        first, rest = segments[0], segments[1:]
        literal = self.literals.get(first)
        found = [] if literal is None else literal.matches(rest, given)
        return found if self.parameter is None else found + self.parameter.matches(rest, (*given, first))
