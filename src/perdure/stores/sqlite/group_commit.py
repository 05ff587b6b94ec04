"""Writing: group commit. What is asked for in one turn of an event loop is done in one transaction.

Its statements run at once, on the thread of the loop: in another they would wait for the GIL one by one. Only the last, which waits
for the disk, is left to another thread, and not even that if there is a single change to wait for: changing threads would cost more
than it saves. What is asked for meanwhile is the next transaction. Where another process writes, or another loop of this one, the
loop goes on, and looks again each millisecond.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import Any, TypeVar

from perdure.core.errors import StoreError, StoreUnavailable
from perdure.stores.sqlite.database_file import DATABASE_ERRORS, WRITING_CACHE_KIB, DatabaseFile, is_busy, is_data_error
from perdure.stores.sqlite.forks_and_threads import start_daemon_thread
from perdure.stores.sqlite.store_tables import SqliteTables
from perdure.stores.sqlite.write_lock_queue import LOCK_RETRY_S, WriteLockQueue

T = TypeVar("T")
logger = logging.getLogger("perdure.stores")

WRITE_WAIT_MAX_S = 10.0
"""How long a transaction waits for others to end theirs."""
SINGLE_CALLER_S = 0.001
"""How long a task may change one thing after another before the others of its loop run: a turn of the loop costs a fifth of a change."""
FILE_CHECK_S = 0.001
"""How long ago the file may have been deleted without a transaction's noticing: looking costs more than the rest of beginning one."""


class GroupCommitWriter:
    """Writes to `file` through the tables that `lay` makes of a connection. `written` hears of each transaction, in the thread that committed it."""

    def __init__(self, file: DatabaseFile, make_tables: Callable[[sqlite3.Connection], SqliteTables], written: Callable[[SqliteTables, int], None]) -> None:
        self._file, self._make_tables, self._written = file, make_tables, written
        self._connection: sqlite3.Connection | None = None
        self._tables: SqliteTables | None = None
        self._turns = WriteLockQueue(file.processes)
        self._queues: dict[asyncio.AbstractEventLoop, _LoopQueue] = {}
        self._queue: _LoopQueue | None = None
        self._wanted_by: _LoopQueue | GroupCommitWriter | None = None
        self._checked_s = 0.0
        self._ended = False
        self._lock = Lock()
        self._committer = _CommitThread()

    def adopt(self, connection: sqlite3.Connection) -> None:
        """Write on this connection, until it fails."""
        self._connection = connection
        self._tables = self._make_tables(connection)

    async def write(self, do: Callable[[SqliteTables], T], changes: int = 1) -> T:
        """Do it in the next transaction, and wait until that is durable."""
        loop = asyncio.get_running_loop()
        queue = self._queue
        if queue is None or queue.loop is not loop:
            queue = self._queue = self._queue_of(loop)
        if queue.alone and changes == 1 and not queue.flushing:
            queue.alone = False  # Whoever else comes in this turn waits for the others.
            job = _WriteJob(do, 1)
            if self._write_inline(job):
                if queue.must_yield(monotonic()):
                    await asyncio.sleep(0)
                queue.alone = not queue.flushing
                done: T = job.outcome()
                return done
        future: asyncio.Future[T] = loop.create_future()
        queue.waiting.append(_WriteJob(do, changes, future))
        if not queue.flushing:
            queue.flushing = True
            loop.call_soon(self._flush, queue)
        return await future

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within, nothing else is written here, and other processes give way."""
        self._wanted_by = self
        with self._lock:
            self._wanted_by = None
            self._turns.wait()
            try:
                yield
            finally:
                self._turns.go()

    def pause(self) -> None:
        """Wait until no transaction is open, and let none begin."""
        self._lock.acquire()

    def resume(self) -> None:
        """Transactions may begin again."""
        self._lock.release()

    def close(self) -> None:
        """Close the connection. Nothing is written any more."""
        self._ended = True
        self._committer.close()
        self._turns.close()
        self._drop()

    def abandon(self) -> None:
        """In a forked child: close what it has inherited, between transactions."""
        self._turns.close()
        self._drop()

    def _queue_of(self, loop: asyncio.AbstractEventLoop) -> "_LoopQueue":
        queue = self._queues.get(loop)
        if queue is None:  # What waited in a loop that was closed has ended with it.
            self._queues = {other: its for other, its in self._queues.items() if not other.is_closed()}
            queue = self._queues[loop] = _LoopQueue(loop)
        return queue

    def _write_inline(self, job: "_WriteJob") -> bool:
        """Do it here and now; False if something stands in the way."""
        if self._wanted_by is not None or not self._lock.acquire(blocking=False):
            return False
        try:
            now_s = monotonic()
            tables = None if self._turns.gives_way(now_s) else self._begin(now_s)
        except (*DATABASE_ERRORS, StoreError):
            tables = None
        if tables is None:
            self._lock.release()
            return False
        if self._apply(tables, [job]):
            self._commit_and_release(tables, [job])
        else:
            self._lock.release()
        return True

    # A transaction, from its beginning to the moment when whoever waits is told.

    def _flush(self, queue: "_LoopQueue") -> None:
        """Do what waits in one transaction, then what has come to wait meanwhile in the next."""
        now_s = monotonic()
        if self._wanted_by not in (None, queue):
            self._wanted_by = None
            queue.loop.call_later(2 * LOCK_RETRY_S, self._flush, queue)
            return
        if not self._lock.acquire(blocking=False):
            self._wanted_by = queue
            queue.loop.call_later(LOCK_RETRY_S, self._flush, queue)
            return
        self._wanted_by = None
        if self._turns.gives_way(now_s):
            self._lock.release()
            queue.loop.call_later(LOCK_RETRY_S, self._flush, queue)
            return
        try:
            tables = self._begin(now_s)
        except (*DATABASE_ERRORS, StoreError) as error:
            self._lock.release()
            if is_busy(error) and queue.has_time(now_s):
                queue.loop.call_later(LOCK_RETRY_S, self._flush, queue)
            else:
                jobs = queue.take()
                self._fail(jobs, error)
                self._finish(queue, jobs)
            return
        jobs = queue.take()
        if not self._apply(tables, jobs):
            self._lock.release()
            self._finish(queue, jobs)
        elif sum(job.changes for job in jobs) <= 1 or not self._committer.put(lambda: self._commit_in_thread(tables, queue, jobs)):
            try:
                self._commit_and_release(tables, jobs)
            finally:
                self._finish(queue, jobs)

    def _begin(self, now_s: float) -> SqliteTables:
        """Begin a transaction, on a new connection if the last has failed."""
        if self._ended:
            raise StoreUnavailable(f"{self._file.path} has been closed; open a new store on it")
        if now_s - self._checked_s > FILE_CHECK_S:
            self._file.check()
            self._checked_s = now_s
        if self._tables is None or self._connection is None:
            self.adopt(self._file.connect(cache_kib=WRITING_CACHE_KIB))
        assert self._tables is not None and self._connection is not None, "there is a connection"
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, MemoryError) as error:
            if is_busy(error):
                self._turns.wait()
            else:
                self._drop()
            raise
        self._turns.go()
        return self._tables

    def _apply(self, tables: SqliteTables, jobs: "list[_WriteJob]") -> bool:
        """Do everything in the transaction that was begun, and leave it open; False if there is none left to commit."""
        try:
            tables.begin()
            for job in jobs:
                job.result = job.do(tables)
            tables.end()
        except BaseException as error:
            self._roll_back(tables, error)
            if len(jobs) == 1 or not is_data_error(error):
                self._fail(jobs, error)
            else:  # One has brought what can't be stored. Each in a transaction of its own, nobody suffers for another.
                self._apply_each(jobs)
            return False
        return True

    def _apply_each(self, jobs: "list[_WriteJob]") -> None:
        for job in jobs:
            try:
                tables = self._begin(monotonic())
            except (*DATABASE_ERRORS, StoreError) as error:
                self._fail([job], error)
                continue
            if self._apply(tables, [job]):
                self._commit(tables, [job])

    def _commit_and_release(self, tables: SqliteTables, jobs: "list[_WriteJob]") -> None:
        """Commit, and let others write."""
        try:
            self._commit(tables, jobs)
        finally:
            self._turns.ended(monotonic())
            self._lock.release()

    def _commit_in_thread(self, tables: SqliteTables, queue: "_LoopQueue", jobs: "list[_WriteJob]") -> None:
        """The same in the other thread."""
        try:
            self._commit_and_release(tables, jobs)
        finally:
            with suppress(RuntimeError):  # The loop was closed: nobody waits.
                queue.loop.call_soon_threadsafe(self._finish, queue, jobs)

    def _commit(self, tables: SqliteTables, jobs: "list[_WriteJob]") -> None:
        try:
            assert self._connection is not None, "a transaction is open on it"
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back(tables, error)
            self._fail(jobs, error)
            return
        self._written(tables, sum(job.changes for job in jobs))

    def _roll_back(self, tables: SqliteTables, error: BaseException) -> None:
        tables.forget()
        if not is_data_error(error):
            self._drop()
        elif self._connection is not None:
            try:
                self._connection.execute("ROLLBACK")
            except (sqlite3.Error, MemoryError):  # SQLite may have done it itself; whatever it is, a new connection knows nothing of it.
                self._drop()

    def _drop(self) -> None:
        """Let go of a connection that has failed."""
        connection, self._connection, self._tables = self._connection, None, None
        if connection is not None:
            with suppress(sqlite3.Error, MemoryError):
                connection.rollback()  # While somebody keeps the error, a statement of its traceback is open, and would keep the locks after the closing.
            with suppress(sqlite3.Error, MemoryError):
                self._file.close(connection)

    def _fail(self, jobs: "list[_WriteJob]", error: BaseException) -> None:
        for job in jobs:
            job.failure = error
            if isinstance(error, DATABASE_ERRORS):
                job.failure = self._file.trouble(error)
                job.failure.__cause__ = error

    def _finish(self, queue: "_LoopQueue", jobs: "list[_WriteJob]") -> None:
        queue.flushing = bool(queue.waiting)
        queue.alone = len(jobs) == 1 and not queue.flushing
        if queue.flushing:
            queue.loop.call_soon(self._flush, queue)
        for job in jobs:
            job.settle()


class _WriteJob:
    """Something to be done in a transaction, and what became of it."""

    __slots__ = ("changes", "do", "failure", "future", "result")

    def __init__(self, do: Callable[[SqliteTables], Any], changes: int, future: asyncio.Future[Any] | None = None) -> None:
        self.do, self.changes, self.future = do, changes, future
        self.result: Any = None
        self.failure: BaseException | None = None

    def outcome(self) -> Any:
        """What it returned, or raised."""
        if self.failure is not None:
            raise self.failure
        return self.result

    def settle(self) -> None:
        """Let go on who waits for it, if they still do."""
        if self.future is None or self.future.done():
            return
        if self.failure is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.failure)


class _LoopQueue:
    """What waits to be done for the tasks of one event loop; `alone` if the last thing was asked for by a task that nobody had joined."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: list[_WriteJob] = []
        self.flushing = False
        self.alone = False
        self._since_s: float | None = None
        self._turn_s = 0.0

    def take(self) -> list[_WriteJob]:
        """All that waits."""
        jobs, self.waiting, self._since_s = self.waiting, [], None
        return jobs

    def must_yield(self, now_s: float) -> bool:
        """Whether the other tasks of the loop have not run for so long that they are to."""
        if now_s - self._turn_s < SINGLE_CALLER_S:
            return False
        self._turn_s = now_s
        return True

    def has_time(self, now_s: float) -> bool:
        """Whether it has not yet waited too long for others to end their transactions."""
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s < WRITE_WAIT_MAX_S


class _CommitThread:
    """The thread that waits for the disk; there is none until it is needed."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def put(self, commit: Callable[[], None]) -> bool:
        """Do it there; False if there can be no thread."""
        if self._thread is None:
            self._thread = start_daemon_thread(self._work, "perdure-sqlite")
        if self._thread is not None:
            self._asked.put(commit)
        return self._thread is not None

    def close(self) -> None:
        """End, after what was asked for."""
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (commit := self._asked.get()) is not None:
            try:
                commit()
            except Exception:
                logger.exception("what follows a commit failed; this is a defect of Perdure, or of who listens to its store")
