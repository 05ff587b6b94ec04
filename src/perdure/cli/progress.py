"""How far something is that takes long: counted on standard error, on one line that is written again and again, and is gone in the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import click

UNCOUNTED_MAX = 10
"""So few are done before anybody could read how far that is."""


def counting(total: int | None, *, between: bool = False) -> AbstractContextManager[Callable[[int], None]]:
    """What counts so many more, if standard error is a terminal, and there is much to be done. Where something else is printed `between` that is left alone."""
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
        click.echo(f"\r{self._done:,} of {self._total:,}", err=True, nl=False)

    def __exit__(self, *_: object) -> None:
        click.echo("\r\x1b[K", err=True, nl=False)
