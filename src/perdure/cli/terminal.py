"""The terminal: whether there is one, its size, and what it can show; and a progress counter on standard error.

The counter rewrites one line and removes it at the end.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TextIO

import click


@dataclass(frozen=True)
class Screen:
    """The target of printed text. `columns` and `rows` are those of a terminal; without one, nothing is cut."""

    terminal: bool = False
    columns: int = 80
    rows: int = 24
    color: bool = False
    unicode: bool = True


def screen(stream: TextIO | None = None) -> Screen:
    """The properties of `stream` (default: standard output). NO_COLOR with any value turns colours off; so does TERM=dumb."""
    stream = stream or sys.stdout
    terminal = stream.isatty()
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    size = shutil.get_terminal_size()
    return Screen(terminal, size.columns, size.lines, terminal and not plain, _shows("✓└…", stream))


def _shows(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


UNCOUNTED_MAX = 10
"""So few are done before anybody could read how far that is."""


def progress_counter(total: int | None, *, between: bool = False) -> AbstractContextManager[Callable[[int], None]]:
    """A counter of processed items, shown if standard error is a terminal and there are many. `between` says that other text is printed meanwhile.

    With `sys.maxsize`, their number is unknown.
    """
    if total is None or total <= UNCOUNTED_MAX or not sys.stderr.isatty() or (between and sys.stdout.isatty()):
        return nullcontext(lambda _: None)
    return _Counter(total)


class _Counter:
    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def __enter__(self) -> Callable[[int], None]:
        return self._count

    def _count(self, more: int) -> None:
        self._done += more
        of = "" if self._total == sys.maxsize else f" of {self._total:,}"
        click.echo(f"\r{self._done:,}{of}", err=True, nl=False)

    def __exit__(self, *_: object) -> None:
        click.echo("\r\x1b[K", err=True, nl=False)
