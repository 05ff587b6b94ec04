"""Forking: a child inherits descriptors and the memory of SQLite, and can use neither.

SQLite takes the child's copies for its own: locks that only the parent has, transactions that only the parent may end. So a fork
waits until no store of the process is within SQLite, and the child closes its copies at once, which the parent does not notice.
It may then open the same file anew.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """What must be at rest during a fork."""

    def quiet(self) -> None:
        """Wait for what is going on, and let nothing begin."""
        ...

    def go_on(self) -> None:
        """Things may begin again."""
        ...


class Inheritable(Forkable, Protocol):
    """What a child inherits and can't use."""

    def abandon(self) -> None:
        """This is the child: let go of what was inherited, and refuse to be used."""
        ...


_open: WeakSet[Inheritable] = WeakSet()
_quiet: list[Inheritable] = []


def opened(store: Inheritable) -> None:
    """From now on it is told of forks."""
    _open.add(store)


def closed(store: Inheritable) -> None:
    """It needs not be told any more."""
    _open.discard(store)


def _before() -> None:
    for store in sorted(_open, key=id):
        store.quiet()
        _quiet.append(store)


def _after_in_parent() -> None:
    while _quiet:
        _quiet.pop().go_on()


def _after_in_child() -> None:
    while _quiet:
        _quiet.pop().abandon()
    _open.clear()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
