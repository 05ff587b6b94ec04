"""The steps of a document, wherever they are nested. Whatever has no sense is passed over, so this works on any data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.programs.format import model
from perdure.programs.format.finding import joined


class Placed(msgspec.Struct, frozen=True):
    """A step where it stands: in the list `container` at `index`. `around` are the steps that hold it, outermost first, each with the field by which."""

    pointer: str
    step: dict[str, Any]
    container: str
    index: int
    around: tuple[tuple[Placed, str], ...] = ()

    @property
    def id(self) -> str:
        """Its id; empty if it has none that is text."""
        found = self.step.get("id")
        return found if isinstance(found, str) else ""


def placed(document: Any) -> Iterator[Placed]:
    """Every step in the order in which they are written, a block before what is in it."""
    if isinstance(document, dict) and isinstance(steps := document.get("steps"), list):
        yield from _of("/steps", steps, ())


def lists(step: dict[str, Any]) -> Iterator[tuple[str, str, list[Any]]]:
    """The lists of steps directly in a step: the field, where the list stands in the step, and the list."""
    for field in ("then", "else", "do", "parallel", "race", "on_error"):
        value = step.get(field)
        if isinstance(value, list):
            yield field, f"/{field}", value
        elif field == "parallel" and isinstance(value, dict) and isinstance(inner := value.get("steps"), list):
            yield field, "/parallel/steps", inner


def verbs_of(step: dict[str, Any]) -> list[str]:
    """The verbs that a step names, in the order in which it names them."""
    return [name for name in step if name in model.verbs()]


def verb_of(step: dict[str, Any]) -> str:
    """The verb of a step; empty if it names none."""
    return next((name for name in step if name in model.verbs()), "")


def _of(container: str, steps: list[Any], around: tuple[tuple[Placed, str], ...]) -> Iterator[Placed]:
    for index, step in enumerate(steps):
        if isinstance(step, dict):
            one = Placed(joined(container, index), step, container, index, around)
            yield one
            for field, where, inner in lists(step):
                yield from _of(one.pointer + where, inner, (*around, (one, field)))
