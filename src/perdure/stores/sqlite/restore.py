"""Restoring a backup: it is checked, copied beside the database, given a new epoch, and takes the place of the database in one step.

Whatever interrupts this leaves the database as it was, until the copy has got its name. What is left of the old one from then on is its write-ahead log,
which does not belong to the copy: opening refuses the two together, and restoring again removes it.
"""

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from perdure.core import wire
from perdure.core.errors import LogDamaged, StoreDamaged, StoreError, StoreUnavailable
from perdure.stores.sqlite.backup import copy_of_one_moment, sync
from perdure.stores.sqlite.file import DatabaseFile, code, is_busy
from perdure.stores.sqlite.lives import others
from perdure.stores.sqlite.modes import FILE, make_directories, of_directory, of_neighbour
from perdure.stores.sqlite.opening import existing, file_to_look_at, locked, recover

WAIT_S = 1.0
"""How long it is waited for others to let go of the database."""


class Restored(msgspec.Struct, frozen=True):
    """How the database is that was restored: its epoch, how many executions it has, how many log rows, messages and large values are damaged, and its size."""

    epoch: int
    executions: int
    unreadable: int
    size_bytes: int


def restore(backup: Path, target: Path, *, replace: bool = False) -> Restored:
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
    make_directories(target.parent, of_directory(FILE))
    with file.said_clearly(), locked(file, lambda: StoreUnavailable(f"another process restores or upgrades {target}; wait for it, and restore again")):
        _refuse_others(file)
        for leftover in _leftovers(target):
            leftover.unlink(missing_ok=True)
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.restoring")
        try:
            restored = _prepare(source, partial, file)
            with _alone(file):
                partial.replace(target)
                sync(target.parent)
                for remains in (file.wal, _shared(target)):
                    remains.unlink(missing_ok=True)
                sync(target.parent)
        finally:
            for leftover in _leftovers(target):
                leftover.unlink(missing_ok=True)
    return restored


def _usable(backup: Path) -> DatabaseFile:
    """The backup, which has tables of this version."""
    if not backup.exists():
        raise StoreError(f"there is no file {backup}; name a file that perdure db backup has made")
    return file_to_look_at(backup.absolute())


def _prepare(source: DatabaseFile, partial: Path, target: DatabaseFile) -> Restored:
    """Copy the backup, check all of the copy, and begin a new epoch in it."""
    with source.said_clearly():
        copy_of_one_moment(source, partial, of_neighbour(target.path) if target.path.exists() else FILE)
    with closing(DatabaseFile(partial).connect()) as connection:
        if damage := _damage(connection):
            raise StoreDamaged(f"the backup {source.path} is damaged: {damage}; {target.path} is as it was. Restore another one")
        unreadable = sum(1 for _ in _unreadable(connection))
        recover(connection, _epoch(target) + 1)
        (epoch,) = connection.execute("SELECT epoch FROM meta").fetchone()
        (executions,) = connection.execute("SELECT count(*) FROM heads").fetchone()
    sync(partial)
    return Restored(epoch, executions, unreadable, partial.stat().st_size)


def _damage(connection: sqlite3.Connection) -> str:
    """What SQLite finds damaged; empty if nothing is."""
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if code(error) != sqlite3.SQLITE_CORRUPT:
            raise
        return str(error)
    return "" if found == "ok" else str(found).splitlines()[-1]


def _unreadable(connection: sqlite3.Connection) -> Iterator[str]:
    """The payloads that were changed since they were written, by their checksums; a codec has its own, which takes its keys."""
    for table, column in (("log", "row"), ("mail", "body")):
        for row, stored in connection.execute(f"SELECT rowid, {column} FROM {table}"):
            try:
                wire.check(stored)
            except LogDamaged:
                yield f"row {row} of {table}"
    for name, stored in connection.execute("SELECT sha256, bytes FROM blobs"):
        if not wire.is_coded(stored) and sha256(stored).hexdigest() != name:
            yield f"blob {name}"


def _epoch(target: DatabaseFile) -> int:
    """The epoch of the database that is replaced; 0 if there is none, or if it can't be read."""
    with suppress(StoreError), closing(file_to_look_at(target.path).connect()) as connection, target.said_clearly():
        return int(connection.execute("SELECT epoch FROM meta").fetchone()[0])
    return 0


def _refuse_others(file: DatabaseFile) -> None:
    if pids := others(file.processes):
        raise StoreUnavailable(f"process {', '.join(map(str, pids))} has {file.path} open; end all that use it, and restore again")


@contextmanager
def _alone(file: DatabaseFile) -> Iterator[None]:
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
        with file.said_clearly():
            return existing(file.path).connect(wait_s=WAIT_S)
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
        if code(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise


def _shared(target: Path) -> Path:
    return target.with_name(f"{target.name}-shm")


def _leftovers(target: Path) -> list[Path]:
    """What restorings that were interrupted have left. The lock is held, so that none is being made."""
    begins = f".{target.name}.", f"..{target.name}."  # a copy, and the file that becomes one
    return [one for one in target.parent.iterdir() if one.name.startswith(begins) and ".restoring" in one.name]
