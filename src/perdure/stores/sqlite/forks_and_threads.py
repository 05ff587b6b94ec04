"""Threads that wait for something outside. A process that can have no more of them goes on without: slower, or told later.

Forking: a child inherits descriptors and the memory of SQLite, and can use neither.

SQLite takes the child's copies for its own: locks that only the parent has, transactions that only the parent may end. So a fork
waits until no store of the process is within SQLite, and the child closes its copies at once, which the parent does not notice.
It may then open the same file anew.
"""

import logging
import os
from collections.abc import Callable
from threading import Thread
from typing import Protocol
from weakref import WeakSet

logger = logging.getLogger("perdure.stores")


def start_daemon_thread(work: Callable[..., None], name: str, *arguments: object) -> Thread | None:
    """A thread that does `work`, and that the process does not wait for at its end; None if there can be none."""
    thread = Thread(target=work, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        logger.warning("no thread could be started for %s: %s; let this process have more of them", name, error)
        return None
    return thread


class Forkable(Protocol):
    """What must be at rest during a fork."""

    def pause(self) -> None:
        """Wait for what is going on, and let nothing begin."""
        ...

    def resume(self) -> None:
        """Things may begin again."""
        ...


class Inheritable(Forkable, Protocol):
    """What a child inherits and can't use."""

    def abandon(self) -> None:
        """This is the child: let go of what was inherited, and refuse to be used."""
        ...


_open_stores: WeakSet[Inheritable] = WeakSet()
_quiet_stores: list[Inheritable] = []


def watch_forks(store: Inheritable) -> None:
    """From now on it is told of forks."""
    _open_stores.add(store)


def unwatch_forks(store: Inheritable) -> None:
    """It needs not be told any more."""
    _open_stores.discard(store)


def _before_fork() -> None:
    for store in sorted(_open_stores, key=id):
        store.pause()
        _quiet_stores.append(store)


def _after_fork_in_parent() -> None:
    while _quiet_stores:
        _quiet_stores.pop().resume()


def _after_fork_in_child() -> None:
    while _quiet_stores:
        _quiet_stores.pop().abandon()
    _open_stores.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
