"""Detects the death of other processes at once, by file locks.

Each process that others need to know of holds a lock on a file of its own, which the kernel releases when the process ends, however it ends. No process
polls: for each other process, one thread waits in the kernel until it gets that lock.
"""

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from perdure.core.errors import StoreError
from perdure.stores.sqlite.file_permissions import database_of_processes, directory_mode, make_directories, neighbour_mode, open_neighbour
from perdure.stores.sqlite.forks_and_threads import ForkLock, start_daemon_thread

logger = logging.getLogger("perdure.stores")

LOCK_NAME = re.compile(r"\d+-[0-9a-f]{16}")
"""The name of a lock file: the id of its process, and a random part."""

_watch_guard = ForkLock()
_own_locks: dict[Path, int] = {}
_watched: dict[Path, "_Watch"] = {}


class ProcessLock:
    """A file in `directory` that is locked until `end` is called or this process ends.

    Raises:
        StoreError: the file system has no locks.
        OSError: no file can be created there.
    """

    def __init__(self, directory: Path) -> None:
        self._database = database_of_processes(directory)
        make_directories(directory, directory_mode(neighbour_mode(self._database)))
        with _watch_guard:
            while not self._begin(directory):
                os.close(self._descriptor)  # Another process took it for the file of a dead process before it was locked.
            _own_locks[self.path] = self._descriptor

    def _begin(self, directory: Path) -> bool:
        self.name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self.path = directory / self.name
        self._descriptor = open_neighbour(self.path, os.O_RDWR | os.O_EXCL, self._database)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            self.end()
            raise StoreError(f"files can't be locked in {directory} ({error.strerror}); put the database on a local disk, not on a network's") from error
        return self.goes_on()

    def goes_on(self) -> bool:
        """Whether the file is still there, so that others can see it."""
        try:
            found, own = self.path.stat(), os.fstat(self._descriptor)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)

    def end(self) -> None:
        """Removes the file and releases the lock."""
        _own_locks.pop(self.path, None)
        with suppress(OSError):  # The disk may have become read-only. Others still see that the lock is released.
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


def is_process_alive(path: Path) -> bool:
    """Whether a process holds the lock of this file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:  # Another user's file, or nothing can be opened now: assume that it is alive.
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # Locked, or it can't be determined; in that case its lease decides.
        return True
    finally:
        os.close(descriptor)
    return False


def other_pids(directory: Path) -> list[int]:
    """Returns the ids of the live processes in `directory`, without this one."""
    return sorted({pid_of(path.name) for path in _files(directory) if path not in _own_locks and is_process_alive(path)})


def pid_of(name: str) -> int:
    """Returns the process id in the name of a lock file."""
    return int(name.partition("-")[0])


def remove_dead_files(directory: Path, names: Iterable[str]) -> None:
    """Removes the lock files of dead processes."""
    for name in names:
        with suppress(OSError):  # The file may belong to another user, whose processes will remove it.
            (directory / name).unlink(missing_ok=True)


def unknown_dead_files(directory: Path, known: Iterable[str]) -> list[str]:
    """Returns the names of files of dead processes that are not `known`: they died before they were added to the table of processes."""
    unknown = {path.name: path for path in _files(directory)}
    for name in known:
        unknown.pop(name, None)
    return [name for name, path in unknown.items() if not is_process_alive(path)]


def _files(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return [path for path in directory.iterdir() if LOCK_NAME.fullmatch(path.name)]


# Waiting for the death of a process.


class _Watch:
    """The callbacks for the death of one process, and the descriptor on which a thread waits for it."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []
        self.descriptor: int | None = None


def watch_process(path: Path, callback: Callable[[], None]) -> Callable[[], None]:
    """Calls `callback`, in a thread of its own, when the process of this file has ended; returns a function that ends this. Ignores files of this process."""
    if path in _own_locks:
        return lambda: None
    with _watch_guard:
        watched = _watched.get(path)
        if watched is None:
            watched = _watched[path] = _Watch()
            start_daemon_thread(_wait_for_death, "perdure-death", path, watched)
        callbacks = watched.callbacks
        callbacks.append(callback)
    return lambda: callbacks.remove(callback) if callback in callbacks else None


def _wait_for_death(path: Path, watched: _Watch) -> None:
    try:
        watched.descriptor = os.open(path, os.O_RDONLY)
        fcntl.flock(watched.descriptor, fcntl.LOCK_SH)
    except FileNotFoundError:  # The process ended normally and removed its file.
        pass
    except OSError as error:
        logger.debug("cannot wait for the death of process %s, which polling will detect: %s", path.name, error)
    finally:
        with _watch_guard:
            _watched.pop(path, None)
            callbacks = tuple(watched.callbacks)
        if watched.descriptor is not None:
            os.close(watched.descriptor)
    for callback in callbacks:
        callback()


def _forget_in_child() -> None:
    """Closes the inherited lock files in a forked child: open there, they would keep the parent's locks after its death. No thread waits there either."""
    descriptors = [*_own_locks.values(), *(watched.descriptor for watched in _watched.values())]
    _own_locks.clear()
    _watched.clear()
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)


os.register_at_fork(after_in_child=_forget_in_child)
