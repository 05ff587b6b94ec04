"""The steps of a document of seed 001 before they are read: each with its id, which its path makes if it has none, and with what it stores."""

from __future__ import annotations

from typing import Any, NamedTuple

from perdure.programs.format.dialects.reading import Fields, Names, Notes, kind
from perdure.programs.format.dialects.variables001 import Variables, Writer

NESTED = ("then", "else", "steps")
BRANCHES = ("then", "else")


class Listed(NamedTuple):
    """A step, what it is called, and the lists of steps in it, by the fields that hold them."""

    called: str
    step: Fields
    inside: dict[str, list[Listed]]


class _Around(NamedTuple):
    """What holds a list of steps: whether that repeats it, and whether it may pass it over."""

    path: str = "step"
    looped: bool = False
    maybe: bool = False


class Listing:
    """Goes through all steps of a document, nested ones too, and checks of each what is checked of any."""

    def __init__(self, top: Fields, names: Names, variables: Variables, notes: Notes) -> None:
        self._names, self._variables, self._notes = names, variables, notes
        self.steps = self._list(top.listed("steps"), top.at("steps"), _Around())

    def _list(self, steps: list[Any], pointer: str, around: _Around) -> list[Listed]:
        found = []
        for index, value in enumerate(steps):
            step = Fields(value, f"{pointer}/{index}", self._notes)
            path = f"{around.path}[{index}]"
            given = step.text("id") or path
            called = self._names.give(given, step.at("id"))
            if around.maybe:
                self._variables.maybe.add(called)
            if name := step.text("outputVariable"):
                self._variables.writers.setdefault(name, []).append(Writer(called, around.looped, around.maybe))
            type_name = step.any("type")
            if not isinstance(type_name, str) or not type_name:
                self._notes.error("missing_field", step.at("type"), f"each step has a type, as text; found {kind(type_name)}")
            looped = around.looped or type_name == "loop"
            maybe = around.maybe or step.has("when") or type_name == "loop"
            inside = {
                field: self._list(step.listed(field), step.at(field), _Around(f"{path}.{field}", looped, maybe or field in BRANCHES))
                for field in NESTED
                if step.has(field)
            }
            found.append(Listed(called, step, inside))
        return found
