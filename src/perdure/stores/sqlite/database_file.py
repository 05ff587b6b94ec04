"""The database file: opens connections to it, and translates the errors of SQLite and the system.

Every connection is made here. Nothing else may open the file or its neighbours ``-wal`` and ``-shm``, not even to read a byte: closing any descriptor
of a file drops all locks that the process has on it (POSIX), and SQLite relies on such locks.
"""

import ctypes
import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from perdure.core.errors import StoreDamaged, StoreError, StoreMoved, StoreUnavailable
from perdure.stores.sqlite.file_permissions import PROCESSES
from perdure.stores.sqlite.process_liveness import other_pids
from perdure.stores.sqlite.write_ahead_log import log_mismatch

APPLICATION_ID = 0x50657264
SYNCHRONOUS = ("FULL", "NORMAL", "OFF")
DATABASE_ERRORS = (sqlite3.Error, OSError, MemoryError)
"""The errors that say that the file can't be used now. Python raises SQLITE_NOMEM as a MemoryError."""
BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
LOCK_IO_CODES = {
    sqlite3.SQLITE_IOERR_LOCK,
    sqlite3.SQLITE_IOERR_RDLOCK,
    sqlite3.SQLITE_IOERR_UNLOCK,
    sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK,
    sqlite3.SQLITE_IOERR_SHMLOCK,
    sqlite3.SQLITE_IOERR_SHMMAP,
}
CACHE_KIB, WRITING_CACHE_KIB = 2_048, 8_192

Execute = Callable[..., sqlite3.Cursor]
"""Executes one statement on some connection."""


class DatabaseFile:
    """The database file at `path`. It checks that the file is not replaced. `synchronous` is SQLite's; with `only_read`, SQLite refuses to write.

    A test injects faults through the `factory` of connections.
    """

    factory: type[sqlite3.Connection] = sqlite3.Connection

    def __init__(self, path: Path, synchronous: str = "FULL", only_read: bool = False) -> None:
        self.path = path
        self.processes = path.with_name(f"{path.name}{PROCESSES}")
        self.wal = path.with_name(f"{path.name}-wal")
        self.synchronous = synchronous
        self._only_read = only_read
        self._name = str(path)
        self._identity: tuple[int, int] | None = None
        self._damage = ""

    def connect(self, *, creates: bool = False, wait_s: float = 0.0, cache_kib: int = CACHE_KIB) -> sqlite3.Connection:
        """Opens a connection in autocommit mode that any thread may use. It waits `wait_s` for locks; with `creates` it creates a missing file.

        Raises:
            StoreDamaged: the write-ahead log belongs to another database. This is checked until `remember` is called; checkpoints check it afterwards.
        """
        if self._identity is None:
            self.check_log()
        connection = sqlite3.connect(
            f"file:{quote(bytes(self.path))}?mode={'ro' if self._only_read else 'rwc' if creates else 'rw'}",
            uri=True,
            timeout=wait_s,
            isolation_level=None,
            check_same_thread=False,
            factory=self.factory,
            cached_statements=256,
        )
        try:
            for setting in (f"synchronous = {self.synchronous}", "wal_autocheckpoint = 0", f"cache_size = -{cache_kib}", "temp_store = MEMORY"):
                connection.execute(f"PRAGMA {setting}")
            connection.execute("PRAGMA fullfsync = 1")  # On macOS fsync alone does not reach the disk.
            connection.execute("PRAGMA checkpoint_fullfsync = 1")
            connection.execute(f"PRAGMA query_only = {int(self._only_read)}")
        except BaseException:
            connection.close()
            raise
        return connection

    def remember(self) -> None:
        """Takes the file that is there now as the one that `check` expects."""
        self._identity = self._look()

    def check(self) -> None:
        """Checks that the file is still there.

        Raises:
            StoreError: it was deleted or replaced, so that new writes would be lost.
            StoreDamaged: its content was replaced while it was open.
        """
        if self._damage:
            raise StoreDamaged(self._damage)
        if self._look() != self._identity:
            raise StoreError(
                f"{self.path} was deleted or replaced while it was open, and new writes would be lost; put the original file back, or restart this process"
            )

    def check_log(self) -> None:
        """Checks that the write-ahead log belongs to the file.

        Raises:
            StoreDamaged: it does not. From now on `check` raises this as well.
        """
        if why := log_mismatch(self.path, self.wal):
            self._damage = (
                f"{self.path} and its write-ahead log {self.wal.name} do not belong together: {why}. One of them was replaced or restored without the other; "
                "opened together, they would be mixed. Put back the one that is missing, or restore a backup: perdure db restore FILE --replace"
            )
            raise StoreDamaged(self._damage)

    def close(self, connection: sqlite3.Connection) -> None:
        """Closes a connection, unless the content of the file was replaced: the last close would write the old log into the new content."""
        if self._damage:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # leaked on purpose, so that not even the end of the process closes it
        else:
            connection.close()

    @property
    def identity(self) -> tuple[int, int] | None:
        """The device and inode of the file that is there now; None if there is none."""
        return self._look()

    def _look(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._name)  # noqa: PTH116  # takes half the time of Path.stat, and runs in each transaction
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raises the errors of SQLite and of the system as store errors that say what to do."""
        try:
            yield
        except DATABASE_ERRORS as error:
            raise self.trouble(error) from error

    def trouble(self, error: sqlite3.Error | OSError | MemoryError) -> StoreError:
        """Returns the store error for an error of SQLite or the system: what failed, and what to do."""
        if isinstance(error, OSError) and error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            return StoreUnavailable(f"files can't be locked in {self.processes} ({error.strerror}); put the database on a local disk, not on a network's")
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StoreUnavailable(f"there is no room for {error.filename or self.path} ({error.strerror}); free some space on its disk")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return StoreUnavailable(f"{error.filename or self.path} can't be opened ({error.strerror}); close some, or raise the limit (ulimit -n)")
        if isinstance(error, OSError):
            return StoreUnavailable(f"{error.filename or self.path} can't be opened ({error.strerror}); name another file with db= or PERDURE_DB")
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED:
            return StoreError(f"{self.path} was deleted or replaced while it was open; put the original file back, or restart this process")
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT_TRIGGER:  # of all triggers on these tables, only those of a move refuse anything
            return StoreMoved(f"{self.path}: {error}")
        no_text = isinstance(error, sqlite3.OperationalError) and sqlite_code(error) == 0  # Python raises this itself for text that it can't decode.
        match sqlite3.SQLITE_CORRUPT if no_text else sqlite3.SQLITE_NOMEM if isinstance(error, MemoryError) else sqlite_code(error):
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return StoreDamaged(
                    f"{self.path} is damaged, or no SQLite database ({error}); restore it from a backup (perdure db restore), "
                    "or name another file with db= or PERDURE_DB"
                )
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
                pids = ", ".join(map(str, self._others()))
                by = f"perhaps by process {pids}, or by" if pids else "by"
                return StoreUnavailable(f"{self.path} is locked by another program ({error}), {by} a database shell; end what writes to it, or wait for it")
            case sqlite3.SQLITE_FULL:
                return StoreUnavailable(f"there is no room for {self.path} ({error}); free some space on its disk")
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                return StoreUnavailable(
                    f"{self.path} can't be written ({error}); let this user write the file and its directory, or name another file with db= or PERDURE_DB"
                )
            case sqlite3.SQLITE_IOERR if getattr(error, "sqlite_errorcode", 0) in LOCK_IO_CODES:
                return StoreUnavailable(f"{self.path} can't be locked or shared ({error}); put it on a local disk, not on a network's")
            case sqlite3.SQLITE_IOERR:
                return StoreUnavailable(f"the disk of {self.path} failed ({error}); look at the system's log, and restore from a backup if it is broken")
            case sqlite3.SQLITE_NOMEM:
                return StoreUnavailable(f"{self.path}: no memory is left ({error}); end something, or give this machine more")
            case sqlite3.SQLITE_INTERRUPT | sqlite3.SQLITE_ABORT:
                return StoreUnavailable(f"{self.path}: SQLite interrupted the operation ({error}); try again")
            case _:
                return StoreError(f"{self.path}: SQLite refuses this: {error}; run perdure db check to find out whether the file is intact")

    def _others(self) -> list[int]:
        try:
            return other_pids(self.processes)
        except OSError:  # The pids only add detail to an error that is raised anyway.
            return []


def sqlite_code(error: BaseException) -> int:
    """SQLite's primary code of an error; 0 if the error is not SQLite's."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether an error says that another connection holds a lock on the file."""
    return sqlite_code(error) in BUSY_CODES


def is_data_error(error: BaseException) -> bool:
    """Whether an error is about the data and not about the file, so that other writes can succeed."""
    return not isinstance(error, sqlite3.Error | MemoryError) or isinstance(error, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.InterfaceError)
