"""Starts daemon threads, and makes open stores safe against forks.

A forked child inherits the descriptors and the memory of SQLite and can use neither: SQLite in the child would believe that it has the locks and
transactions of the parent. Therefore a fork waits until no store of the process is inside SQLite, and the child closes its copies at once, which does
not affect the parent. The child may then open the same file anew.
"""

import logging
import os
from collections.abc import Callable
from threading import Lock, Thread
from typing import Protocol
from weakref import WeakSet

logger = logging.getLogger("perdure.stores")


def start_daemon_thread(work: Callable[..., None], name: str, *arguments: object) -> Thread | None:
    """Starts a daemon thread that runs `work`. Returns None if no thread can be started; the caller then works without it, more slowly."""
    thread = Thread(target=work, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        logger.warning("no thread could be started for %s: %s. Raise the limit of threads of this process", name, error)
        return None
    return thread


class Forkable(Protocol):
    """A part of a store that must be idle during a fork."""

    def pause(self) -> None:
        """Wait until nothing is in progress, and let nothing begin."""
        ...

    def resume(self) -> None:
        """Let work begin again."""
        ...


class Inheritable(Forkable, Protocol):
    """A store, which a forked child inherits and can't use."""

    def abandon(self) -> None:
        """In the child: close what was inherited, and refuse all use."""
        ...


class ForkLock:
    """A lock that a forking thread holds during the fork, so that the child inherits it released.

    A fork takes these locks when the open stores are idle. So a thread that works inside of a store may wait for one, and a
    thread that holds one must not wait for a store.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        _fork_locks.append(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def pause(self) -> None:
        """Before a fork."""
        self._lock.acquire()

    def resume(self) -> None:
        """After a fork, in the parent."""
        self._lock.release()

    def abandon(self) -> None:
        """After a fork, in the child."""
        self._lock.release()


_open_stores: WeakSet[Inheritable] = WeakSet()
_fork_locks: list[Inheritable] = []
_paused: list[Inheritable] = []


def watch_forks(store: Inheritable) -> None:
    """Calls the methods of `store` at forks from now on."""
    _open_stores.add(store)


def unwatch_forks(store: Inheritable) -> None:
    """Ends the calls of `watch_forks`."""
    _open_stores.discard(store)


def _before_fork() -> None:
    for part in (*sorted(_open_stores, key=id), *_fork_locks):
        part.pause()
        _paused.append(part)


def _after_fork_in_parent() -> None:
    while _paused:
        _paused.pop().resume()


def _after_fork_in_child() -> None:
    while _paused:
        _paused.pop().abandon()
    _open_stores.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
