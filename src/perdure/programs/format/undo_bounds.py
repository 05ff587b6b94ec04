"""Bounds of what is to be undone: a loop without end forgets its turns, and keeps at most so many operations of them to undo."""

from collections.abc import Iterable

from perdure.core import limits
from perdure.programs.format.cycles import Loops
from perdure.programs.format.draft import Draft
from perdure.programs.format.finding import joined
from perdure.programs.format.outline import Site


def check_undo_bounds(draft: Draft, found: Loops) -> None:
    """Warn of loops without end in which steps are undone, and nothing says how far back."""
    for site in draft.outline.sites:
        repeat = site.step.get("repeat")
        if isinstance(repeat, dict) and repeat.get("endless") is True and "undo" not in repeat:
            inside = [one for one in draft.outline.sites if one is site or one.pointer.startswith(site.pointer + "/")]
            _warn(draft, inside, joined(site.pointer, "repeat"), "add undo: {keep: N} to the repeat, or commit: true to a step in it")
    for number in sorted(draft.endless):
        source, head = draft.edges[number][:2]
        inside = [one for one in draft.outline.sites if _lies_in(found, one.number, head)]
        _warn(draft, inside, joined(draft.outline.sites[source].pointer, "next"), "add commit: true to a step in it")


def _lies_in(found: Loops, number: int, head: int) -> bool:
    while number not in (head, -1):
        number = found.head[number]
    return number == head


def _warn(draft: Draft, inside: Iterable[Site], pointer: str, remedy: str) -> None:
    steps = [site.step for site in inside]
    undone = [site.id for site in inside if site.step.get("undo")]
    if undone and not any(step.get("commit") is True for step in steps):
        why = f"{undone[0]!r} is undone, in turns without end: more than {limits.UNDO_ENTRIES_MAX:,} steps to undo park the execution"
        draft.warning("undo_unbounded", pointer, f"{why}; {remedy}")
