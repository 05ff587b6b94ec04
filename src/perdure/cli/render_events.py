"""Public events, a line each; and the same as a story, with the errors and tracebacks of what failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from perdure.cli import words
from perdure.cli.render import Cell, cell
from perdure.core.errors import ErrorInfo
from perdure.core.views import PublicEvent

STYLES = {"completed": "good", "failed": "bad", "retrying": "warn", "waiting": "live", "cancelled": "dim"}
"""By the last word of the type of an event."""

TYPE_COLUMNS, SUBJECT_COLUMNS = 20, 12
"""Events come one by one, so their columns have a width that mostly suits."""


def cells(event: PublicEvent) -> tuple[Cell, ...]:
    """One event: its number, its time, its type, what it is about, and what it says."""
    style = STYLES.get(event.type.rpartition(".")[2], "")
    said = (f"{name.removesuffix('_s')}={_said(name, value)}" for name, value in event.data.items())
    return (
        Cell(f"{event.id:>5}", "dim"),
        Cell(words.moment(event.time_s), "dim"),
        Cell(event.type.ljust(TYPE_COLUMNS), style),
        Cell(words.clean(event.subject).ljust(SUBJECT_COLUMNS), "strong"),
        cell(", ".join(said)),
    )


def story(event: PublicEvent, error_at: Callable[[str], ErrorInfo | None]) -> Iterator[tuple[Cell, ...]]:
    """The lines that tell of one event; `error_at` finds errors by path (the execution's own: the empty path)."""
    yield cells(event)
    error = error_at(event.subject) if event.type in ("step.failed", "execution.failed") else None
    if error is not None:
        yield (Cell(" " * 5), cell(f"{error.type}: {words.first_line(error.message)}", "bad"))
        for line in _theirs(error.traceback.splitlines()):
            yield (Cell(" " * 5), cell(line, "dim"))


def _said(name: str, value: str | float) -> str:
    return words.moment(value) if name.endswith("_s") and not isinstance(value, str) else str(value)


def _theirs(traceback: Iterable[str]) -> Iterator[str]:
    """The lines of a traceback that are about users' own code: the frames of what calls it say nothing to them."""
    ours = False
    for line in traceback:
        if not line.startswith("    "):
            ours = _OURS.match(line) is not None
        if not ours:
            yield line


_OURS = re.compile(r'  File ".*[/\\]perdure[/\\](runtime|programs|core)[/\\]')
