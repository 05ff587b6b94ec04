"""Opens, creates, upgrades and checks database files.

A new file gets its tables, an older one is upgraded if no other process has it open, and anything else is refused unchanged. Each step of an upgrade is
one transaction that also sets the version number, so a killed upgrade leaves the previous version.
"""

import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from perdure.core.errors import StoreError, StoreUnavailable
from perdure.stores.sqlite.database_file import APPLICATION_ID, WRITING_CACHE_KIB, DatabaseFile, is_busy, sqlite_code
from perdure.stores.sqlite.file_permissions import make_database_file, open_neighbour
from perdure.stores.sqlite.process_liveness import other_pids
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.table_schema import OLDEST_SCHEMA_VERSION, SCHEMA_STEPS, SCHEMA_VERSION, create_tables, schema_differences

OPEN_WAIT_S = 10.0
"""How long opening waits for others that create, upgrade or recover the same file."""

SILENT_WAIT_S = 0.5
"""The longest time between taking the lock and writing into it that an upgrade is in progress."""


class DatabaseHealth(msgspec.Struct, frozen=True):
    """The health of a database file. `mode` is ``wal`` and `damage` is empty in a healthy file; `processes` are the other ones that use it."""

    version: int
    version_known: int
    epoch: int | None
    size_bytes: int
    wal_bytes: int
    free_bytes: int
    mode: str
    damage: tuple[str, ...]
    processes: tuple[int, ...]


def open_database(file: DatabaseFile) -> sqlite3.Connection:
    """Opens a connection to the file, with the tables of this version. The first connection to a restored backup begins a new epoch.

    Raises:
        StoreUnavailable: the file can't be opened now.
        StoreError: it is damaged, is not a store, belongs to a newer Perdure, or must be upgraded while other processes have it open.
    """
    with file.translated_errors():
        make_database_file(file.path)
        if file.path.exists() and file.path.stat().st_size == 1:  # SQLite takes a file of one byte for a new one.
            raise StoreError(f"{file.path} is damaged, or no SQLite database; restore it from a backup, or name another file with db= or PERDURE_DB")
        identity = file.identity
        connection = file.connect(creates=True, wait_s=OPEN_WAIT_S, cache_kib=WRITING_CACHE_KIB)
        try:
            version = _version(file, connection)
            if identity not in (None, file.identity):  # from here on no restore can replace it: this connection has a lock on it
                raise StoreUnavailable(f"{file.path} was replaced while it was being opened; open it again")
            if version == 0:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            elif version == SCHEMA_VERSION:  # before WAL mode is set, so that the new name is in the file itself and not only in the log
                _compare(file, connection)
                begin_epoch_of_backup(connection)
            _write_ahead(file, connection)
            if version == 0:
                _create(connection)
            elif version < SCHEMA_VERSION:
                _upgrade(file, connection)
            _compare(file, connection)
            begin_epoch_of_backup(connection)
            connection.execute("PRAGMA busy_timeout = 0")
            _try_to_write(connection)
        except BaseException:
            connection.close()
            raise
        file.remember()
    return connection


def read_only_file(path: Path) -> DatabaseFile:
    """Opens a file with the tables of this version, for connections on which SQLite refuses to write.

    Raises:
        StoreUnavailable: the file can't be read now.
        StoreError: it does not exist, is damaged, is not a store, or has tables of another version.
    """
    file = DatabaseFile(existing_file(path).path, only_read=True)
    with file.translated_errors(), closing(file.connect(wait_s=OPEN_WAIT_S)) as connection:
        if _version(file, connection) < SCHEMA_VERSION:
            raise StoreError(f"{file.path} must be upgraded before it can be read, and read-only access does not upgrade it; run `perdure db upgrade`")
        _compare(file, connection)
        file.remember()
    return file


def upgrade_database(path: Path) -> list[str]:
    """Upgrades the tables of a file to this version; returns the steps carried out. See `open_database` for the errors."""
    file = existing_file(path)
    with file.translated_errors(), closing(file.connect(wait_s=OPEN_WAIT_S)) as connection:
        version = _version(file, connection)
        if version == 0:
            raise StoreError(f"{file.path} has no tables yet; they are made when it is first used")
        return _upgrade(file, connection) if version < SCHEMA_VERSION else []


def tables_version(path: Path) -> int:
    """Returns the version of the tables of a file, 0 if there are none. See `open_database` for the errors."""
    file = existing_file(path)
    with file.translated_errors(), closing(file.connect(wait_s=OPEN_WAIT_S)) as connection:
        return _version(file, connection)


def create_beside_application_tables(path: Path) -> None:
    """Creates Perdure's tables in the database of another program, unless they are there already.

    Raises:
        StoreError: that program has tables of the same names, or uses the fields that identify Perdure's files and versions. See `open_database` for others.
    """
    file = existing_file(path)
    with file.translated_errors(), closing(file.connect(wait_s=OPEN_WAIT_S)) as connection:
        if connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,):
            return
        _has_room(file, connection)
        _write_ahead(file, connection)
        with _transaction(connection):
            _has_room(file, connection)
            create_tables(connection)


def _has_room(file: DatabaseFile, connection: sqlite3.Connection) -> None:
    (application,), (version,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if application or version:
        uses = f"application_id ({application})" if application else f"user_version ({version})"
        raise StoreError(f"{file.path} uses {uses}, which Perdure needs for itself; name another file with db= or PERDURE_DB")
    with closing(sqlite3.connect(":memory:")) as ours:
        create_tables(ours)
        named = _names(ours)
    if taken := sorted(named & _names(connection)):
        raise StoreError(f"{file.path} has a {taken[0]} of its own, which is the name of one of Perdure's tables; name another file with db= or PERDURE_DB")


def _names(connection: sqlite3.Connection) -> set[str]:
    return {name.lower() for (name,) in connection.execute(SQL.table_names)}


def expect_schema_version(file: DatabaseFile, connection: sqlite3.Connection) -> None:
    """Checks that the tables have this version.

    Raises:
        StoreError: they have another version.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != SCHEMA_VERSION:
        raise StoreError(f"the tables of {file.path} have version {version}, and this Perdure needs {SCHEMA_VERSION}; run perdure db upgrade if they are older")


def check_database(path: Path) -> DatabaseHealth:
    """Checks a whole file without changing it. See `open_database` for the errors."""
    file = existing_file(path)
    with file.translated_errors(), closing(file.connect(wait_s=OPEN_WAIT_S)) as connection:
        version = _version(file, connection)

        def pragma(name: str) -> int:
            (value,) = connection.execute(f"PRAGMA {name}").fetchone()
            return int(value)

        damage = _damage(connection)
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        epoch = connection.execute(SQL.read_epoch).fetchone()[0] if version == SCHEMA_VERSION else None
        size_bytes, free_bytes = (pragma("page_size") * pragma(pages) for pages in ("page_count", "freelist_count"))
        wal_bytes = file.wal.stat().st_size if file.wal.exists() else 0
        return DatabaseHealth(version, SCHEMA_VERSION, epoch, size_bytes, wal_bytes, free_bytes, mode, damage, tuple(other_pids(file.processes)))


def _damage(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Returns the damage that SQLite finds, which includes the error that ends its check."""
    found = list[str]()
    try:
        found += [line for (line,) in connection.execute("PRAGMA quick_check") if line != "ok"]
    except sqlite3.DatabaseError as error:
        if sqlite_code(error) != sqlite3.SQLITE_CORRUPT:
            raise
        found.append(str(error))
    return tuple(found)


def existing_file(path: Path) -> DatabaseFile:
    """Returns the file at `path`.

    Raises:
        StoreError: it does not exist.
    """
    if not path.exists():
        raise StoreError(f"there is no file {path}; name the database with db= or PERDURE_DB")
    return DatabaseFile(path.absolute())


def _version(file: DatabaseFile, connection: sqlite3.Connection) -> int:
    """Returns the version of the tables, 0 if there are none. A file of another program, or of a newer Perdure, is refused unchanged."""
    with _transaction(connection, "DEFERRED"):  # One snapshot of both: another process may be creating the tables.
        (application,), (version,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
        (tables,) = connection.execute(SQL.count_tables).fetchone()
    if application not in (0, APPLICATION_ID) or (application == 0 and tables):
        raise StoreError(
            f"{file.path} is the database of another program; name another file with db= or PERDURE_DB, "
            "or have Perdure's tables made beside its own: perdure db init"
        )
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{file.path} was written by a newer Perdure (its tables have version {version}, and this one knows {SCHEMA_VERSION}); upgrade perdure to open it"
        )
    if application and version < OLDEST_SCHEMA_VERSION:
        raise StoreError(
            f"{file.path} was written by a development version of Perdure (its tables have version {version}, and this one knows {SCHEMA_VERSION}); "
            "name a new file with db= or PERDURE_DB, or use the version that wrote it"
        )
    return int(version) if application else 0


def _compare(file: DatabaseFile, connection: sqlite3.Connection) -> None:
    """Checks that the tables are those of this version."""
    if found := schema_differences(connection):
        raise StoreError(
            f"{file.path} has tables of version {SCHEMA_VERSION} that differ from those of this Perdure, at {', '.join(found[:5])}: "
            "a development version made them, or they were changed by hand; name a new file with db= or PERDURE_DB, or restore it from a backup"
        )


def _write_ahead(file: DatabaseFile, connection: sqlite3.Connection) -> None:
    ends_s = time.monotonic() + OPEN_WAIT_S
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:  # SQLite does not wait for this lock itself.
            if not is_busy(error) or time.monotonic() > ends_s:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise StoreUnavailable(f"{file.path} can't be written ahead (journal mode {mode}); put it on a local disk")


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _try_to_write(connection: sqlite3.Connection) -> None:
    """Fails if the file can't be written. A file that another process is writing is fine."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise


def _create(connection: sqlite3.Connection) -> None:
    with _transaction(connection):
        if connection.execute("PRAGMA application_id").fetchone() == (0,):  # No other process has created them meanwhile.
            create_tables(connection)


def _upgrade(file: DatabaseFile, connection: sqlite3.Connection) -> list[str]:
    done = []
    with upgrade_lock(file, lambda: _in_use(file, [])):
        if _version(file, connection) == SCHEMA_VERSION:  # The process that had the lock has upgraded the file and uses it now.
            return []
        if pids := other_pids(file.processes):
            raise _in_use(file, pids)
        for step in SCHEMA_STEPS:
            with _transaction(connection):
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version < step.version:
                    step.carry_out(connection)
                    connection.execute(SQL.set_tables_version, (step.version,))
                    connection.execute(f"PRAGMA user_version = {step.version}")
                    done.append(f"version {step.version}: {step.title}")
    return done


@contextmanager
def upgrade_lock(file: DatabaseFile, in_use: Callable[[], StoreError]) -> Iterator[None]:
    """Holds the lock of the process that upgrades or restores the file.

    Raises:
        StoreError: another process has held it for too long; `in_use` makes the error.
    """
    lock = file.path.with_name(f"{file.path.name}.lock")
    descriptor = open_neighbour(lock, os.O_RDWR, file.path)
    try:
        began_s = time.monotonic()
        while not _lock(descriptor):
            upgrading = os.fstat(descriptor).st_size > 0
            if time.monotonic() - began_s > (OPEN_WAIT_S if upgrading else SILENT_WAIT_S):
                raise in_use()
            time.sleep(0.02)
        os.write(descriptor, b"upgrading")  # Processes that see this text wait longer. If this process is killed, the next one to get the lock upgrades.
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _in_use(file: DatabaseFile, pids: list[int]) -> StoreError:
    who = f"process {', '.join(map(str, pids))} has" if pids else "another process has"
    return StoreError(f"{file.path} must be upgraded, and {who} it open; end all that use it, and run `perdure db upgrade`")


def begin_epoch_of_backup(connection: sqlite3.Connection, epoch: int = 0) -> None:
    """Begins a new epoch, at least `epoch`, if the file is a backup that was never opened. Changes that were decided after the backup are then refused."""
    if connection.execute(SQL.is_restored).fetchone() == (0,):
        return
    with _transaction(connection):
        if connection.execute(SQL.is_restored).fetchone() == (1,):
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":  # otherwise the new name would be in the log alone
                connection.execute(SQL.set_file_name, (secrets.token_hex(16),))
            connection.execute(SQL.begin_epoch_of_backup, (max(epoch, int(time.time())),))
            connection.execute(SQL.end_all_leases)
            connection.execute(SQL.remove_processes)
