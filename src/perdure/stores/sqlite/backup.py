"""Backups: a copy of one moment, made while others go on writing. Opening it begins a new epoch, so that what was decided after it is refused.

Restoring a backup: it is checked, copied beside the database, given a new epoch, and takes the place of the database in one step.

Whatever interrupts this leaves the database as it was, until the copy has got its name. What is left of the old one from then on is its write-ahead log,
which does not belong to the copy: opening refuses the two together, and restoring again removes it.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock

import msgspec

from perdure.core import payload_header
from perdure.core.errors import LogDamaged, StoreDamaged, StoreError, StoreUnavailable
from perdure.stores.sqlite.database_file import DatabaseFile, is_busy, sqlite_code
from perdure.stores.sqlite.database_setup import begin_epoch_of_backup, existing_file, read_only_file, upgrade_lock
from perdure.stores.sqlite.file_permissions import FILE_MODE, directory_mode, make_database_file, make_directories, neighbour_mode
from perdure.stores.sqlite.process_liveness import other_pids

PAGES_PER_STEP = 1_000
"""How many pages are copied at a time."""


def back_up(source: Path, target: Path) -> None:
    """Copy the database of `source` into the new file `target`, which is there only once it is complete and on the disk.

    Raises:
        StoreError: there is a `target`, or one of them can't be used.
    """
    _back_up(DatabaseFile(source.absolute()), target.absolute())


class BackupCopies:
    """Backups of a file that is open here. A fork waits for them, since a child could not close what they have open."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._lock = Lock()

    def copy(self, target: Path) -> None:
        """See `backup`."""
        with self._lock:
            _back_up(self._file, target.absolute())

    def pause(self) -> None:
        """Wait until none is made, and let none begin."""
        self._lock.acquire()

    def resume(self) -> None:
        """Backups may be made again."""
        self._lock.release()


def _back_up(file: DatabaseFile, target: Path) -> None:
    if target.exists():
        raise _exists(target)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with file.translated_errors():
            copy_snapshot(file, partial, neighbour_mode(file.path))
        with DatabaseFile(target).translated_errors():
            _publish(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def copy_snapshot(file: DatabaseFile, partial: Path, mode: int) -> None:
    """Copy the database, as it is at this moment, into the new file `partial`, which gets the permissions `mode` and a name of its own."""
    make_database_file(partial, mode, directories=False)
    with closing(file.connect(wait_s=1.0)) as source, closing(DatabaseFile(partial).connect(creates=True)) as copied:
        source.execute("BEGIN")  # One moment: without it, whoever writes makes the copy begin anew.
        source.execute("SELECT epoch FROM meta").fetchone()
        source.backup(copied, pages=PAGES_PER_STEP)
        source.execute("ROLLBACK")
        copied.execute("PRAGMA journal_mode = DELETE")
        copied.execute("UPDATE meta SET restored = 1, file = ?", (secrets.token_hex(16),))


def _publish(partial: Path, target: Path) -> None:
    """Give the complete copy its name."""
    sync_to_disk(partial)
    try:
        target.hardlink_to(partial)
    except FileExistsError:
        raise _exists(target) from None
    except OSError:  # This file system has no links.
        partial.rename(target)
    with suppress(PermissionError):
        sync_to_disk(target.parent)


def sync_to_disk(path: Path) -> None:
    """Have a file, or the names in a directory, be on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exists(target: Path) -> StoreError:
    return StoreError(f"{target} is there already, and a backup replaces nothing; name a new file")


RESTORE_WAIT_S = 1.0
"""How long it is waited for others to let go of the database."""


class RestoreResult(msgspec.Struct, frozen=True):
    """How the database is that was restored: its epoch, how many executions it has, how many log rows, messages and large values are damaged, and its size."""

    epoch: int
    executions: int
    unreadable: int
    size_bytes: int


def restore(backup: Path, target: Path, *, replace: bool = False) -> RestoreResult:
    """Put a copy of `backup` in the place of the database `target`, with a new epoch. Without `replace` there must be none.

    Raises:
        StoreDamaged: SQLite finds the backup damaged. A row that can't be read costs one execution, and is only counted.
        StoreError: it is none of this version of Perdure, there is a `target`, or somebody uses it.
    """
    source = _usable(backup)
    target = target.absolute()
    file = DatabaseFile(target)
    if target.exists() and target.samefile(backup):
        raise StoreError(f"{backup} is the database itself; name a backup of it")
    if not replace and target.exists():
        raise StoreError(f"{target} is there already; --replace has the backup replace it, and what it has is lost then: perdure db backup copies it first")
    make_directories(target.parent, directory_mode(FILE_MODE))
    with (
        file.translated_errors(),
        upgrade_lock(file, lambda: StoreUnavailable(f"another process restores or upgrades {target}; wait for it, and restore again")),
    ):
        _refuse_others(file)
        for leftover in _leftovers(target):
            leftover.unlink(missing_ok=True)
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.restoring")
        try:
            restored = _prepare(source, partial, file)
            with _exclusive_lock(file):
                partial.replace(target)
                sync_to_disk(target.parent)
                for remains in (file.wal, _shared(target)):
                    remains.unlink(missing_ok=True)
                sync_to_disk(target.parent)
        finally:
            for leftover in _leftovers(target):
                leftover.unlink(missing_ok=True)
    return restored


def _usable(backup: Path) -> DatabaseFile:
    """The backup, which has tables of this version."""
    if not backup.exists():
        raise StoreError(f"there is no file {backup}; name a file that perdure db backup has made")
    return read_only_file(backup.absolute())


def _prepare(source: DatabaseFile, partial: Path, target: DatabaseFile) -> RestoreResult:
    """Copy the backup, check all of the copy, and begin a new epoch in it."""
    with source.translated_errors():
        copy_snapshot(source, partial, neighbour_mode(target.path) if target.path.exists() else FILE_MODE)
    with closing(DatabaseFile(partial).connect()) as connection:
        if damage := _damage(connection):
            raise StoreDamaged(f"the backup {source.path} is damaged: {damage}; {target.path} is as it was. Restore another one")
        unreadable = sum(1 for _ in _unreadable(connection))
        begin_epoch_of_backup(connection, _epoch(target) + 1)
        (epoch,) = connection.execute("SELECT epoch FROM meta").fetchone()
        (executions,) = connection.execute("SELECT count(*) FROM heads").fetchone()
    sync_to_disk(partial)
    return RestoreResult(epoch, executions, unreadable, partial.stat().st_size)


def _damage(connection: sqlite3.Connection) -> str:
    """What SQLite finds damaged; empty if nothing is."""
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if sqlite_code(error) != sqlite3.SQLITE_CORRUPT:
            raise
        return str(error)
    return "" if found == "ok" else str(found).splitlines()[-1]


def _unreadable(connection: sqlite3.Connection) -> Iterator[str]:
    """The payloads that were changed since they were written, by their checksums; a codec has its own, which takes its keys."""
    for table, column in (("log", "row"), ("mail", "body")):
        for row, stored in connection.execute(f"SELECT rowid, {column} FROM {table}"):
            try:
                payload_header.check_payload(stored)
            except LogDamaged:
                yield f"row {row} of {table}"
    for name, stored in connection.execute("SELECT sha256, bytes FROM blobs"):
        if not payload_header.is_encoded(stored) and sha256(stored).hexdigest() != name:
            yield f"blob {name}"


def _epoch(target: DatabaseFile) -> int:
    """The epoch of the database that is replaced; 0 if there is none, or if it can't be read."""
    with suppress(StoreError), closing(read_only_file(target.path).connect()) as connection, target.translated_errors():
        return int(connection.execute("SELECT epoch FROM meta").fetchone()[0])
    return 0


def _refuse_others(file: DatabaseFile) -> None:
    if pids := other_pids(file.processes):
        raise StoreUnavailable(f"process {', '.join(map(str, pids))} has {file.path} open; end all that use it, and restore again")


@contextmanager
def _exclusive_lock(file: DatabaseFile) -> Iterator[None]:
    """Keep all others, whatever program they are, from opening the database. One that can't be opened at all is used by none of Perdure's processes."""
    connection = _connected(file) if file.path.exists() else None
    try:
        if connection is not None:
            _lock(file, connection)
        _refuse_others(file)
        yield
    finally:
        if connection is not None:
            connection.close()


def _connected(file: DatabaseFile) -> sqlite3.Connection | None:
    try:
        with file.translated_errors():
            return existing_file(file.path).connect(wait_s=RESTORE_WAIT_S)
    except StoreDamaged:
        return None


def _lock(file: DatabaseFile, connection: sqlite3.Connection) -> None:
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")  # the lock stays
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise StoreUnavailable(f"another program has {file.path} open, perhaps a database shell; end all that use it, and restore again") from error
        if sqlite_code(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise


def _shared(target: Path) -> Path:
    return target.with_name(f"{target.name}-shm")


def _leftovers(target: Path) -> list[Path]:
    """What restorings that were interrupted have left. The lock is held, so that none is being made."""
    begins = f".{target.name}.", f"..{target.name}."  # a copy, and the file that becomes one
    return [one for one in target.parent.iterdir() if one.name.startswith(begins) and ".restoring" in one.name]
