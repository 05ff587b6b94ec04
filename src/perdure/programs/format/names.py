"""What names mean: each reference is to a step, to a root, or to what an `each` around it calls its items."""

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.programs.format.draft import Draft, did_you_mean
from perdure.programs.format.model import ROOTS
from perdure.programs.format.outline import Site
from perdure.programs.format.port_scopes import port_scopes
from perdure.programs.format.reads import Found, Reading, Unreadable, of_template, readings, readings_later

WITH_LOOPS = ("003", "004")
"""The dialects in which items are also those of loops made by edges."""


class Known:
    """The names that may be read: in the whole definition, and in each list of steps the items of what repeats it."""

    def __init__(self, draft: Draft) -> None:
        self.steps = draft.outline.numbers
        declared, variables = draft.canonical.get("input"), draft.canonical.get("vars")
        self.inputs: frozenset[str] = frozenset(declared) if isinstance(declared, Mapping) else frozenset()
        given = [site.value for site in draft.outline.sites if site.verb == "set"]
        self.variables = frozenset(variables if isinstance(variables, Mapping) else ()).union(*(value for value in given if isinstance(value, Mapping)))
        self.items: list[frozenset[str]] = []
        self._scopes = port_scopes(draft.canonical)
        for listing in draft.outline.lists:
            self.items.append(frozenset() if listing.owner < 0 else self.around(draft.outline.sites[listing.owner]))

    def around(self, site: Site) -> frozenset[str]:
        """The names that are given at a step: by its own `each`, by those around it, and by the loop in whose cycle it stands."""
        outer = self.items[site.list] if site.list else self._scopes.get(site.id, frozenset())
        each = site.step.get("each")
        return outer | {str(each.get("as", "item")), str(each.get("index", "index"))} if isinstance(each, Mapping) else outer


def read_by(draft: Draft, known: Known, site: Site) -> Iterator[tuple[int, bool, str]]:
    """The steps that a step reads before others may go on: their numbers, whether only once it has run, and where. Notes what is unknown."""
    items = known.around(site)
    yield from _steps(draft, known, items, readings(site, draft.expressions))
    for _ in _steps(draft, known, items, readings_later(site, draft.expressions)):
        pass


def check_output(draft: Draft, output: Any) -> None:
    """Note what the definition's output reads that there is not."""
    for _ in _steps(draft, Known(draft), frozenset(), of_template(output, "/output", draft.expressions)):
        pass


def _steps(draft: Draft, known: Known, items: frozenset[str], found: Found) -> Iterator[tuple[int, bool, str]]:
    for reading in found:
        match reading:
            case Unreadable(pointer, what):
                draft.error("bad_expression", pointer, what)
            case Reading(root="step" | "steps", name=name) if (number := known.steps.get(name, -1)) >= 0:
                yield number, reading.late, reading.pointer
            case Reading():
                _check(draft, known, items, reading)


def _check(draft: Draft, known: Known, items: frozenset[str], reading: Reading) -> None:
    """Note a reference to what is no step, unless it means something else."""
    name = reading.name
    if reading.root == "steps":
        if name and not draft.braces:
            meant = draft.suggestion(name, known.steps)
            draft.error("unknown_reference", reading.pointer, f"'@steps.{name}' is not a step{did_you_mean(meant, '@steps.')}", meant)
    elif reading.root == "item":
        if "item" not in items and draft.dialect not in WITH_LOOPS:
            called = f"; what is repeated here calls its items {' and '.join(f'@{one}' for one in sorted(items))}" if items else ""
            draft.error("unknown_reference", reading.pointer, f"'@item' stands outside of any each{called}")
    elif reading.root != "step":
        if not draft.braces:
            _check_declared(draft, known, reading)
    elif name not in ROOTS and name not in items:
        meant = draft.suggestion(name, {*known.steps, *ROOTS, *items})
        draft.error("unknown_reference", reading.pointer, f"'@{name}' is not a step or a root{did_you_mean(meant, '@')}", meant)


def _check_declared(draft: Draft, known: Known, reading: Reading) -> None:
    """Note an input or a variable that nobody declared, where some are."""
    declared = {"input": known.inputs, "vars": known.variables}.get(reading.root)
    if declared and reading.path and (name := str(reading.path[0])) not in declared:
        meant = draft.suggestion(name, declared)
        what = "an input" if reading.root == "input" else "a variable"
        text = f"'@{reading.root}.{name}' is not {what} of this definition{did_you_mean(meant, f'@{reading.root}.')}"
        draft.warning("unknown_reference", reading.pointer, text, meant)
