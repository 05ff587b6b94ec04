"""Backups: a copy of one moment, made while others go on writing. Opening it begins a new epoch, so that what was decided after it is refused."""

import os
import secrets
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock

from perdure.core.errors import StoreError
from perdure.stores.sqlite.file import DatabaseFile
from perdure.stores.sqlite.modes import make_database_file, of_neighbour

PAGES = 1_000
"""How many pages are copied at a time."""


def backup(source: Path, target: Path) -> None:
    """Copy the database of `source` into the new file `target`, which is there only once it is complete and on the disk.

    Raises:
        StoreError: there is a `target`, or one of them can't be used.
    """
    _back_up(DatabaseFile(source.absolute()), target.absolute())


class Copies:
    """Backups of a file that is open here. A fork waits for them, since a child could not close what they have open."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._lock = Lock()

    def copy(self, target: Path) -> None:
        """See `backup`."""
        with self._lock:
            _back_up(self._file, target.absolute())

    def quiet(self) -> None:
        """Wait until none is made, and let none begin."""
        self._lock.acquire()

    def go_on(self) -> None:
        """Backups may be made again."""
        self._lock.release()


def _back_up(file: DatabaseFile, target: Path) -> None:
    if target.exists():
        raise _exists(target)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with file.said_clearly():
            copy_of_one_moment(file, partial, of_neighbour(file.path))
        with DatabaseFile(target).said_clearly():
            _publish(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def copy_of_one_moment(file: DatabaseFile, partial: Path, mode: int) -> None:
    """Copy the database, as it is at this moment, into the new file `partial`, which gets the permissions `mode` and a name of its own."""
    make_database_file(partial, mode, directories=False)
    with closing(file.connect(wait_s=1.0)) as source, closing(DatabaseFile(partial).connect(creates=True)) as copied:
        source.execute("BEGIN")  # One moment: without it, whoever writes makes the copy begin anew.
        source.execute("SELECT epoch FROM meta").fetchone()
        source.backup(copied, pages=PAGES)
        source.execute("ROLLBACK")
        copied.execute("PRAGMA journal_mode = DELETE")
        copied.execute("UPDATE meta SET restored = 1, file = ?", (secrets.token_hex(16),))


def _publish(partial: Path, target: Path) -> None:
    """Give the complete copy its name."""
    sync(partial)
    try:
        target.hardlink_to(partial)
    except FileExistsError:
        raise _exists(target) from None
    except OSError:  # This file system has no links.
        partial.rename(target)
    with suppress(PermissionError):
        sync(target.parent)


def sync(path: Path) -> None:
    """Have a file, or the names in a directory, be on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exists(target: Path) -> StoreError:
    return StoreError(f"{target} is there already, and a backup replaces nothing; name a new file")
