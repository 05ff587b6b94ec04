"""What names mean: each reference is to a step, to a root, or to what an `each` around it calls its items."""

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.programs.format.draft import Draft, did_you_mean
from perdure.programs.format.outline import Site
from perdure.programs.format.reads import Reading, readings, template, unordered

ROOTS = frozenset("input vars secrets execution trigger item index loop last last_turn self error state steps".split())  # noqa: SIM905  # it reads as one line


class Known:
    """The names that may be read: in the whole definition, and in each list of steps the items of what repeats it."""

    def __init__(self, draft: Draft) -> None:
        self.steps = draft.outline.numbers
        declared, variables = draft.canonical.get("input"), draft.canonical.get("vars")
        self.inputs: frozenset[str] = frozenset(declared) if isinstance(declared, Mapping) else frozenset()
        given = [site.value for site in draft.outline.sites if site.verb == "set"]
        self.variables = frozenset(variables if isinstance(variables, Mapping) else ()).union(*(value for value in given if isinstance(value, Mapping)))
        self.items: list[frozenset[str]] = []
        for listing in draft.outline.lists:
            self.items.append(frozenset() if listing.owner < 0 else self.around(draft.outline.sites[listing.owner]))

    def around(self, site: Site) -> frozenset[str]:
        """The names that `each` gives at a step, by its own and those around it."""
        outer = self.items[site.list]
        each = site.step.get("each")
        return outer | {str(each.get("as", "item")), str(each.get("index", "index"))} if isinstance(each, Mapping) else outer


def read_by(draft: Draft, known: Known, site: Site) -> Iterator[tuple[int, bool, str]]:
    """The steps that a step reads before it goes on: their numbers, whether only once it has run, and where. Notes what is unknown."""
    for reading in readings(site):
        if (number := _meant(draft, known, reading, site)) >= 0:
            yield number, reading.late, reading.pointer
    for reading in unordered(site):
        _meant(draft, known, reading, site)


def check_output(draft: Draft, output: Any) -> None:
    """Note what the definition's output reads that there is not."""
    known = Known(draft)
    for reading in template(output, "/output"):
        _meant(draft, known, reading, None)


def _meant(draft: Draft, known: Known, reading: Reading, site: Site | None) -> int:
    """The number of the step that is read, or -1: it is something else, or unknown."""
    items = known.around(site) if site else frozenset()
    if reading.root == "step" and (reading.name in ROOTS or reading.name in items):
        _check_declared(draft, known, reading)
        return -1
    if (number := known.steps.get(reading.name, -1)) >= 0:
        return number
    if reading.root == "steps":
        meant = draft.suggestion(reading.name, known.steps)
        draft.error("unknown_reference", reading.pointer, f"'@steps.{reading.name}' is not a step{did_you_mean(meant, '@steps.')}", meant)
    else:
        meant = draft.suggestion(reading.name, {*known.steps, *ROOTS, *items})
        draft.error("unknown_reference", reading.pointer, f"'@{reading.name}' is not a step or a root{did_you_mean(meant, '@')}", meant)
    return -1


def _check_declared(draft: Draft, known: Known, reading: Reading) -> None:
    """Note an input or a variable that nobody declared, where some are."""
    declared = {"input": known.inputs, "vars": known.variables}.get(reading.name)
    if declared and reading.path and str(reading.path[0]) not in declared:
        meant = draft.suggestion(str(reading.path[0]), declared)
        what = "an input" if reading.name == "input" else "a variable"
        draft.warning(
            "unknown_reference", reading.pointer, f"'@{reading.name}.{reading.path[0]}' is not {what}{did_you_mean(meant, f'@{reading.name}.')}", meant
        )
