"""The steps of a definition at any depth, numbered in the order of the document, and the lists that contain them.

`placed_steps` accepts any data and skips what it can't use, so it works on invalid documents too; `StepOutline` takes a canonical definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec

from perdure.definitions.format import model
from perdure.definitions.format.definition_findings import joined_pointer


class PlacedStep(msgspec.Struct, frozen=True):
    """A step with its location: the list `container` and `index`. `around` are the steps that hold it, outermost first, each with the field."""

    pointer: str
    step: dict[str, Any]
    container: str
    index: int
    around: tuple[tuple[PlacedStep, str], ...] = ()

    @property
    def id(self) -> str:
        """Its id; empty if it has none that is text."""
        found = self.step.get("id")
        return found if isinstance(found, str) else ""


def placed_steps(document: Any) -> Iterator[PlacedStep]:
    """Yields every step in the order of the document, a block before its steps."""
    if isinstance(document, dict) and isinstance(steps := document.get("steps"), list):
        yield from _placed_in("/steps", steps, ())


def nested_lists(step: dict[str, Any]) -> Iterator[tuple[str, str, list[Any]]]:
    """The lists of steps directly in a step: the field, the pointer in the step, and the list."""
    for field in ("then", "else", "do", "parallel", "race", "on_error"):
        value = step.get(field)
        if isinstance(value, list):
            yield field, f"/{field}", value
        elif field == "parallel" and isinstance(value, dict) and isinstance(inner := value.get("steps"), list):
            yield field, "/parallel/steps", inner


def verbs_of(step: dict[str, Any]) -> list[str]:
    """The verbs that a step names, in the order in which it names them."""
    return [name for name in step if name in model.verbs_by_name()]


def verb_of(step: dict[str, Any]) -> str:
    """The verb of a step; empty if it names none."""
    return next((name for name in step if name in model.verbs_by_name()), "")


def _placed_in(container: str, steps: list[Any], around: tuple[tuple[PlacedStep, str], ...]) -> Iterator[PlacedStep]:
    for index, step in enumerate(steps):
        if isinstance(step, dict):
            one = PlacedStep(joined_pointer(container, index), step, container, index, around)
            yield one
            for field, where, inner in nested_lists(step):
                yield from _placed_in(one.pointer + where, inner, (*around, (one, field)))


ListKind = Literal["steps", "then", "else", "do", "parallel", "race", "on_error"]
ListOrder = Literal["refs", "listed", "ports", "free"]


class StepSite(NamedTuple):
    """A step: its number, its verb, and the number of its list."""

    number: int
    id: str
    verb: str
    step: dict[str, Any]
    list: int
    depth: int
    pointer: str

    @property
    def value(self) -> Any:
        """The value of the verb."""
        return self.step.get(self.verb)


class StepList(NamedTuple):
    """One list of steps: the step whose block it is (-1: the definition's own), how it orders its steps, and which they are."""

    kind: ListKind
    owner: int
    order: ListOrder
    pointer: str
    members: list[int]


class StepOutline:
    """All steps and lists of a definition. The list 0 is its own; the lists of one step have consecutive numbers."""

    def __init__(self, canonical: Mapping[str, Any]) -> None:
        self.order: ListOrder = canonical.get("order", "refs")
        self.sites: list[StepSite] = []
        self.lists: list[StepList] = []
        self.inner: dict[int, dict[ListKind, int]] = {}
        self.numbers: dict[str, int] = {}
        self.repeated: list[StepSite] = []
        self._gather(canonical.get("steps") or [])

    def place(self, number: int) -> StepList:
        """The list that contains a step."""
        return self.lists[self.sites[number].list]

    def above(self, number: int) -> int:
        """The step whose block contains a step, or -1."""
        return self.place(number).owner

    def side_by_side(self, one: int, other: int) -> tuple[int, int]:
        """The two steps of one list that are, or contain, the two given; the same step twice if that is one block."""
        while self.sites[one].list != self.sites[other].list:
            depth, other_depth = self.sites[one].depth, self.sites[other].depth
            if depth >= other_depth:
                one = self.above(one)
            if other_depth >= depth:
                other = self.above(other)
        return one, other

    def _gather(self, steps: Sequence[Any]) -> None:
        waiting = [self._listed("steps", -1, "/steps", steps)]
        while waiting:
            place, depth, rest = waiting[-1]
            position, step = next(rest, (-1, None))
            if position < 0:
                waiting.pop()
                continue
            site = self._site(step, place, depth, f"{self.lists[place].pointer}/{position}")
            nested = [self._listed(kind, site.number, site.pointer + where, steps, depth + 1) for kind, where, steps in _blocks(site)]
            waiting.extend(reversed(nested))

    def _listed(self, kind: ListKind, owner: int, pointer: str, steps: Sequence[Any], depth: int = 0) -> tuple[int, int, Iterator[tuple[int, Any]]]:
        nested: ListOrder = "free" if kind in ("parallel", "race") else "refs" if self.order == "refs" else "listed"
        self.lists.append(StepList(kind, owner, self.order if owner < 0 else nested, pointer, []))
        number = len(self.lists) - 1
        if owner >= 0:
            self.inner.setdefault(owner, {})[kind] = number
        return number, depth, iter(enumerate(steps))

    def _site(self, step: Any, place: int, depth: int, pointer: str) -> StepSite:
        number = len(self.sites)
        fields: dict[str, Any] = step if isinstance(step, dict) else {}
        verb = verb_of(fields)
        site = StepSite(number, str(fields.get("id") or f"{verb or 'step'}_{number + 1}"), verb, fields, place, depth, pointer)
        self.sites.append(site)
        self.lists[place].members.append(number)
        if self.numbers.setdefault(site.id, number) != number:
            self.repeated.append(site)
        return site


def _blocks(site: StepSite) -> Iterator[tuple[ListKind, str, Sequence[Any]]]:
    """The lists of steps in a step: kind, pointer and steps. An `if` has both of its lists, however it is written."""
    found = {field: (where, steps) for field, where, steps in nested_lists(site.step)}
    if site.verb == "if":
        found = {"then": ("/then", []), "else": ("/else", []), **found}
    for kind, (where, steps) in found.items():
        yield cast(ListKind, kind), where, steps
