"""The default store: one SQLite file, one process, nothing to set up.

What is asked for in one turn of the event loop is done in one transaction (group commit). Its statements run at once, on the
thread of the loop: in another they would wait for the GIL one by one. Only the last, which waits for the disk, is left to
another thread, and not even that if there is a single change to wait for: changing threads would cost more than it saves. What
is asked for meanwhile is the next transaction. Reading has a connection of its own, and never waits for writing.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from perdure.core.errors import StoreError, StoreInUse, StoreUnavailable
from perdure.core.mail import Mail
from perdure.core.paths import Address, Key
from perdure.stores.base import ALL, Answer, Claim, Claimed, Commit, Filter, Head, Lease, Log, Moment, Post
from perdure.stores.sqlite_tables import APPLICATION_ID, SCHEMA, SCHEMA_VERSION, Execute, Tables, read_blob, read_heads, read_log, read_mail

T = TypeVar("T")
BUSY_S = 0.5
SYNCHRONOUS = ("FULL", "NORMAL", "OFF")


class SqliteStore:
    """A `Store` in the SQLite file at `path`, which it makes if there is none, with the directory.

    The file belongs to one process at a time, and to one event loop at a time. `synchronous` is SQLite's: with FULL what is
    acknowledged survives a loss of power, with NORMAL or OFF (far faster on slow disks) only the death of the process.

    Raises:
        StoreInUse: another process, or another store in this one, has the file.
        StoreUnavailable: the file can't be opened.
        StoreError: the file is damaged, is no store, or is one of a newer Perdure.
    """

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.time, synchronous: str = "FULL") -> None:
        if synchronous not in SYNCHRONOUS:
            raise ValueError(f"synchronous={synchronous!r}: give one of {', '.join(SYNCHRONOUS)}")
        self._file = Path(path).absolute()
        self._clock = clock
        self._rings: list[Callable[[], None]] = []
        self._news_rings: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[_Job] = []
        self._flushing = False
        self._closed = False
        self._writing, self._reading = Lock(), Lock()
        with ExitStack() as opened, _said_clearly(self._file):
            opened.callback(os.close, _lock(self._file))
            self._writer = _connect(self._file, synchronous)
            opened.callback(self._writer.close)
            _prepare(self._file, self._writer)
            self._reader = _connect(self._file, synchronous)
            opened.callback(self._reader.close)
            self._tables = Tables(self._writer)
            self._rolled_back = False
            self._opened = opened.pop_all()
        self._committer = ThreadPoolExecutor(1, "perdure-sqlite")

    # What the protocol asks for.

    async def commit(self, changes: Sequence[Commit | Post]) -> list[Answer]:
        """See `Store.commit`."""

        asked = tuple(changes)

        def carry_out() -> list[Answer]:
            now_s = self._clock()
            return [self._tables.change(change, now_s) for change in asked]

        return await self._write(carry_out, len(asked))

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`."""
        return await self._write(lambda: self._tables.claim(claim, self._clock()))

    async def read(self, key: Key, after: int = 0) -> Log | None:
        """See `Store.read`."""
        return self._read(lambda execute: read_log(execute, key, after))

    async def heads(self, which: Filter = ALL) -> list[Head]:
        """See `Store.heads`."""
        return self._read(lambda execute: read_heads(execute, which))

    async def mail(self, to: Address) -> list[Mail]:
        """See `Store.mail`."""
        return self._read(lambda execute: read_mail(execute, to))

    async def moment(self) -> Moment:
        """See `Store.moment`."""
        return Moment(self._clock(), self._tables.epoch)

    async def leases(self) -> list[Lease]:
        """See `Store.leases`."""
        return await self._write(lambda: self._tables.leases(self._clock()))

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> Moment:
        """See `Store.renew`."""
        holders = self._tables.holders
        if about:
            self._tables.about[holder] = about
        if lease_s <= 0:
            holders.pop(holder, None)
            self._tables.about.pop(holder, None)
            self._ring()
        else:
            if holder not in holders:
                await self._write(lambda: self._tables.let_go(holder, self._clock()))
            holders[holder] = self._clock() + lease_s
        return Moment(self._clock(), self._tables.epoch)

    async def relay(self, limit: int = 100) -> int:
        """There is one reach, so nothing ever leaves it."""
        return 0

    async def sweep(self, limit: int = 100) -> list[Mail]:
        """See `Store.sweep`."""
        return await self._write(lambda: self._tables.sweep(self._clock(), limit))

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        return await self._write(self._tables.raise_epoch)

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return self._read(lambda execute: read_blob(execute, sha256))

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_wake`."""
        self._rings.append(ring)
        return lambda: self._rings.remove(ring) if ring in self._rings else None

    def on_news(self, ring: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_news`."""
        self._news_rings.append(ring)
        return lambda: self._news_rings.remove(ring) if ring in self._news_rings else None

    async def close(self) -> None:
        """See `Store.close`. What was asked for before is done before."""
        if self._closed:
            return
        await self._write(lambda: None)
        self._closed = True
        self._committer.shutdown()
        with self._writing, self._reading:
            self._opened.close()

    # Group commit.

    async def _write(self, do: Callable[[], T], changes: int = 1) -> T:
        """Do it in the next transaction, and wait until that is durable."""
        self._must_be_open()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # What waited in another loop has ended with it.
            self._loop, self._waiting, self._flushing = loop, [], False
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_Job(do, changes, future))
        if not self._flushing:
            self._flushing = True
            loop.call_soon(self._flush, loop)
        return await future

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do what waits in one transaction, then what has come to wait meanwhile in the next."""
        jobs, self._waiting = self._waiting, []
        self._writing.acquire()
        before = self._writer.total_changes
        if not self._apply(jobs):
            self._writing.release()
            self._done(loop, jobs)
        elif sum(job.changes for job in jobs) > 1 and self._writer.total_changes > before:
            committed = loop.run_in_executor(self._committer, self._conclude, jobs)
            committed.add_done_callback(lambda _: self._done(loop, jobs))
        else:
            self._conclude(jobs)
            self._done(loop, jobs)

    def _done(self, loop: asyncio.AbstractEventLoop, jobs: list[_Job]) -> None:
        if loop is self._loop:
            self._flushing = bool(self._waiting)
            if self._flushing:
                loop.call_soon(self._flush, loop)
        for job in jobs:
            job.tell()
        if any(job.stirred and job.failure is None for job in jobs):
            self._ring()
        if self._tables.news:
            self._tables.news = False
            for ring in tuple(self._news_rings):
                ring()

    def _apply(self, jobs: list[_Job]) -> bool:
        """Do everything in a transaction that is left open; False if there is none left to commit."""
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            if self._rolled_back:
                self._tables.reload()
                self._rolled_back = False
            for job in jobs:
                self._tables.stirred = False
                job.result = job.do()
                job.stirred = self._tables.stirred
        except BaseException as error:
            self._roll_back()
            if len(jobs) == 1 or isinstance(error, sqlite3.Error):
                self._fail(jobs, error)
            else:  # One has brought what can't be stored. Each in a transaction of its own, nobody suffers for another.
                for job in jobs:
                    if self._apply([job]):
                        self._commit([job])
            return False
        return True

    def _conclude(self, jobs: list[_Job]) -> None:
        """Commit, and let others write. Done by either thread."""
        try:
            self._commit(jobs)
        finally:
            self._writing.release()

    def _commit(self, jobs: list[_Job]) -> None:
        try:
            self._writer.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            self._fail(jobs, error)

    def _roll_back(self) -> None:
        self._rolled_back = True
        with suppress(sqlite3.Error):  # SQLite may have done it itself; and if it can't, then beginning the next one fails.
            self._writer.execute("ROLLBACK")

    def _fail(self, jobs: list[_Job], error: BaseException) -> None:
        for job in jobs:
            job.failure = error
            if isinstance(error, sqlite3.Error):
                job.failure = _trouble(self._file, error)
                job.failure.__cause__ = error

    # Reading.

    def _read(self, read: Callable[[Execute], T]) -> T:
        self._must_be_open()
        with self._reading, _said_clearly(self._file):
            self._reader.execute("BEGIN")
            try:
                return read(self._reader.execute)
            finally:
                self._reader.rollback()

    def _must_be_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self._file} has been closed; open a new store on it")

    def _ring(self) -> None:
        for ring in tuple(self._rings):
            ring()


class _Job:
    """Something to be done in a transaction, and what became of it."""

    __slots__ = ("changes", "do", "failure", "future", "result", "stirred")

    def __init__(self, do: Callable[[], Any], changes: int, future: asyncio.Future[Any]) -> None:
        self.do, self.changes, self.future = do, changes, future
        self.stirred = False
        self.result: Any = None
        self.failure: BaseException | None = None

    def tell(self) -> None:
        """Let go on who waits for it, if they still do."""
        if self.future.done():
            return
        if self.failure is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.failure)


def _lock(file: Path) -> int:
    """Take the lock beside the file; it is let go when the descriptor is closed, at the latest by the end of the process."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreInUse(str(file)) from None
    return descriptor


def _connect(file: Path, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA fullfsync = 1")  # On macOS fsync alone does not reach the disk.
        connection.execute("PRAGMA checkpoint_fullfsync = 1")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(file: Path, connection: sqlite3.Connection) -> None:
    """Make the tables in a new file; refuse one that is not ours, before it is changed."""
    (application,), (version,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application not in (0, APPLICATION_ID) or (application == 0 and tables):
        raise StoreError(f"{file} is the database of another program; name another file with db= or PERDURE_DB")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{file} was written by a newer Perdure (its tables are of version {version}, known here is {SCHEMA_VERSION}); upgrade perdure to open it"
        )
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreUnavailable(f"{file} can't be written ahead (journal mode {mode}); put it on a local disk")
    made = "" if application else SCHEMA
    connection.executescript(f"BEGIN IMMEDIATE; {made} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")  # A file that may not be written is refused here.


@contextmanager
def _said_clearly(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _trouble(file, error) from error
    except OSError as error:
        raise StoreUnavailable(f"{error.filename or file} can't be opened ({error.strerror}); name another file with db= or PERDURE_DB") from error


def _trouble(file: Path, error: sqlite3.Error) -> StoreError:
    """What is the matter, and what to do about it."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreError(f"{file} is damaged, or no SQLite database ({error}); restore it from a backup, or name another file with db= or PERDURE_DB")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnavailable(f"{file} is locked by another program ({error}); end what writes to it, such as a database shell")
        case sqlite3.SQLITE_FULL:
            return StoreUnavailable(f"there is no room for {file} ({error}); free some space on its disk")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StoreUnavailable(
                f"{file} can't be written ({error}); let this user write the file and its directory, or name another with db= or PERDURE_DB"
            )
        case sqlite3.SQLITE_IOERR:
            return StoreUnavailable(f"the disk of {file} failed ({error}); look at the system's log, and restore from a backup if it is broken")
        case _:
            return StoreUnavailable(f"{file}: SQLite refuses: {error}")
