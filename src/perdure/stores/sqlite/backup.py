"""Backup and restore.

A backup is a snapshot, copied while others continue to write. Opening it begins a new epoch, so that changes decided after the backup are refused.

A restore checks the backup, copies it beside the database, begins a new epoch in the copy, and replaces the database in one step. An interruption before
that step leaves the database as it was. An interruption after it may leave the write-ahead log of the old database, which does not belong to the copy:
opening refuses the two together, and another restore removes the log.
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
from perdure.stores.sqlite.statements import SQL

PAGES_PER_STEP = 1_000
"""How many pages are copied at a time."""


def back_up(source: Path, target: Path) -> None:
    """Copies the database `source` into the new file `target`, which appears only once it is complete and on the disk.

    Raises:
        StoreError: `target` exists, or one of the files can't be used.
    """
    _back_up(DatabaseFile(source.absolute()), target.absolute())


class BackupCopies:
    """Makes backups of a file that is open in this process. A fork waits for them, since a child could not close their connections."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._lock = Lock()

    def copy(self, target: Path) -> None:
        """See `back_up`."""
        with self._lock:
            _back_up(self._file, target.absolute())

    def pause(self) -> None:
        """Waits until no backup is in progress, and lets none begin."""
        self._lock.acquire()

    def resume(self) -> None:
        """Lets backups begin again."""
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
    """Copies a snapshot of the database into the new file `partial`, with the permissions `mode` and a new database name (`meta.file`)."""
    make_database_file(partial, mode, directories=False)
    with closing(file.connect(wait_s=1.0)) as source, closing(DatabaseFile(partial).connect(creates=True)) as copied:
        source.execute("BEGIN")  # One snapshot: without it, every write by another process would restart the copy.
        source.execute(SQL.read_epoch).fetchone()
        source.backup(copied, pages=PAGES_PER_STEP)
        source.execute("ROLLBACK")
        copied.execute("PRAGMA journal_mode = DELETE")
        copied.execute(SQL.mark_as_backup, (secrets.token_hex(16),))


def _publish(partial: Path, target: Path) -> None:
    """Gives the complete copy its name."""
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
    """Flushes a file, or the entries of a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exists(target: Path) -> StoreError:
    return StoreError(f"{target} exists already, and a backup replaces no file; name a new file")


RESTORE_WAIT_S = 1.0
"""How long a restore waits for others to close the database."""


class RestoreResult(msgspec.Struct, frozen=True):
    """The restored database: its epoch, its number of executions, how many log rows, messages and blobs are damaged, and its size."""

    epoch: int
    executions: int
    unreadable: int
    size_bytes: int


def restore(backup: Path, target: Path, *, replace: bool = False) -> RestoreResult:
    """Restores `backup` as the database `target`, in a new epoch. Without `replace`, `target` must not exist.

    Raises:
        StoreDamaged: SQLite finds the backup damaged. A row that can't be decoded affects one execution only, and is counted instead.
        StoreError: the backup is not of this version of Perdure, `target` exists, or another process uses it.
    """
    source = _usable(backup)
    target = target.absolute()
    file = DatabaseFile(target)
    if target.exists() and target.samefile(backup):
        raise StoreError(f"{backup} is the database itself; name a backup of it")
    if not replace and target.exists():
        raise StoreError(f"{target} exists already; give --replace to replace it. Its content is lost then: copy it first with perdure db backup")
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
    """Returns the backup after checking that its tables have this version."""
    if not backup.exists():
        raise StoreError(f"there is no file {backup}; name a file that perdure db backup has made")
    return read_only_file(backup.absolute())


def _prepare(source: DatabaseFile, partial: Path, target: DatabaseFile) -> RestoreResult:
    """Copies the backup, checks the whole copy, and begins a new epoch in it."""
    with source.translated_errors():
        copy_snapshot(source, partial, neighbour_mode(target.path) if target.path.exists() else FILE_MODE)
    with closing(DatabaseFile(partial).connect()) as connection:
        if damage := _damage(connection):
            raise StoreDamaged(f"the backup {source.path} is damaged: {damage}; {target.path} was not changed. Restore another backup")
        unreadable = sum(1 for _ in _unreadable(connection))
        begin_epoch_of_backup(connection, _epoch(target) + 1)
        (epoch,) = connection.execute(SQL.read_epoch).fetchone()
        (executions,) = connection.execute(SQL.count_heads).fetchone()
    sync_to_disk(partial)
    return RestoreResult(epoch, executions, unreadable, partial.stat().st_size)


def _damage(connection: sqlite3.Connection) -> str:
    """Returns the damage that SQLite finds; "" if there is none."""
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if sqlite_code(error) != sqlite3.SQLITE_CORRUPT:
            raise
        return str(error)
    return "" if found == "ok" else str(found).splitlines()[-1]


def _unreadable(connection: sqlite3.Connection) -> Iterator[str]:
    """Yields the payloads whose checksums are wrong. Encoded payloads are not checked, since that takes the keys of their codec."""
    for table, column in (("log", "row"), ("mail", "body")):
        for row, stored in connection.execute(SQL.payloads.format(table=table, column=column)):
            try:
                payload_header.check_payload(stored)
            except LogDamaged:
                yield f"row {row} of {table}"
    for name, stored in connection.execute(SQL.blobs):
        if not payload_header.is_encoded(stored) and sha256(stored).hexdigest() != name:
            yield f"blob {name}"


def _epoch(target: DatabaseFile) -> int:
    """Returns the epoch of the database that is replaced; 0 if it does not exist or can't be read."""
    with suppress(StoreError), closing(read_only_file(target.path).connect()) as connection, target.translated_errors():
        return int(connection.execute(SQL.read_epoch).fetchone()[0])
    return 0


def _refuse_others(file: DatabaseFile) -> None:
    if pids := other_pids(file.processes):
        raise StoreUnavailable(f"process {', '.join(map(str, pids))} has {file.path} open; end all that use it, and restore again")


@contextmanager
def _exclusive_lock(file: DatabaseFile) -> Iterator[None]:
    """Keeps every other program from opening the database. A database too damaged to be opened needs no lock: no process of Perdure uses it."""
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
        connection.execute("COMMIT")  # in this locking mode the lock stays after the commit
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise StoreUnavailable(f"another program has {file.path} open, perhaps a database shell; end all that use it, and restore again") from error
        if sqlite_code(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise


def _shared(target: Path) -> Path:
    return target.with_name(f"{target.name}-shm")


def _leftovers(target: Path) -> list[Path]:
    """Returns the files that interrupted restores have left. The caller holds the upgrade lock, so no restore is in progress."""
    begins = f".{target.name}.", f"..{target.name}."  # a copy, and the file that `make_database_file` renames to one
    return [one for one in target.parent.iterdir() if one.name.startswith(begins) and ".restoring" in one.name]
