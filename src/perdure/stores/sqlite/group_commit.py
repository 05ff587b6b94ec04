"""Group commit: the writes that are requested in one turn of an event loop share one transaction.

The statements run on the thread of the loop; on another thread each would wait for the GIL. Only the COMMIT, which waits for the disk, runs on another
thread, and not even that for a single change, since switching threads would cost more than it saves. Writes that are requested meanwhile form the next
transaction. While another process or another loop of this process writes, the loop continues and checks again each millisecond.
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
from perdure.stores.protocol import TransactionRaised
from perdure.stores.sqlite.database_file import DATABASE_ERRORS, WRITING_CACHE_KIB, DatabaseFile, is_busy, is_data_error
from perdure.stores.sqlite.forks_and_threads import start_daemon_thread
from perdure.stores.sqlite.log_growth import LogGrowth
from perdure.stores.sqlite.store_tables import SqliteTables
from perdure.stores.sqlite.transactional_steps import TransactionLost
from perdure.stores.sqlite.write_lock_queue import LOCK_RETRY_S, WriteLockQueue

T = TypeVar("T")
logger = logging.getLogger("perdure.stores")

WRITE_WAIT_MAX_S = 10.0
"""How long a transaction waits for the transactions of others."""
SINGLE_CALLER_S = 0.001
"""How long one task may write inline before the other tasks of its loop run. Yielding each time would cost a fifth of a change."""
FILE_CHECK_S = 0.001
"""How often transactions check that the file is still there. The check costs more than the rest of beginning a transaction."""


class GroupCommitWriter:
    """Writes to `file` through the tables that `make_tables` creates on a connection. `written` is called after each commit, in the committing thread."""

    def __init__(self, file: DatabaseFile, make_tables: Callable[[sqlite3.Connection], SqliteTables], written: Callable[[SqliteTables, int], None]) -> None:
        self._file, self._make_tables, self._written = file, make_tables, written
        self._connection: sqlite3.Connection | None = None
        self._tables: SqliteTables | None = None
        self._turns = WriteLockQueue(file.processes)
        self.growth = LogGrowth(file.wal)
        self._queues: dict[asyncio.AbstractEventLoop, _LoopQueue] = {}
        self._queue: _LoopQueue | None = None
        self._wanted_by: _LoopQueue | GroupCommitWriter | None = None
        self._unsynced = False
        self._checked_s = 0.0
        self._ended = False
        self._lock = Lock()
        self._committer = _CommitThread()

    def adopt(self, connection: sqlite3.Connection) -> None:
        """Writes on this connection until it fails."""
        self._connection = connection
        self._unsynced = False
        self._tables = self._make_tables(connection)

    async def write_now(self, do: Callable[[SqliteTables], T], *, synced: bool) -> tuple[T] | None:
        """Runs `do` in a transaction of its own; returns None if another process writes, so that the caller can find out whether `do` is still needed.

        With `synced` False, a loss of power may undo the transaction until the next one is durable, which makes both durable. The death of a process does not.
        """
        queue = self._queue_of(asyncio.get_running_loop())
        if queue.flushing or self._lock.locked():
            return (await self.write(do),)
        job = _WriteJob(do, 1)
        return (job.outcome(),) if self._write_inline(job, synced=synced, waits=False) else None

    async def write(self, do: Callable[[SqliteTables], T], changes: int = 1) -> T:
        """Runs `do` in the next transaction, and returns its result when that is durable."""
        loop = asyncio.get_running_loop()
        queue = self._queue
        if queue is None or queue.loop is not loop:
            queue = self._queue = self._queue_of(loop)
        if queue.alone and changes == 1 and not queue.flushing:
            queue.alone = False  # Further writes of this turn are queued, so that they share a transaction.
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
        """Keeps this process from writing within the block, and asks other processes to give way."""
        self._wanted_by = self
        with self._lock:
            self._wanted_by = None
            self._turns.wait()
            try:
                yield
            finally:
                self._turns.go()

    def pause(self) -> None:
        """Waits until no transaction is open, and lets none begin."""
        self._lock.acquire()

    def resume(self) -> None:
        """Lets transactions begin again."""
        self._lock.release()

    def close(self) -> None:
        """Closes the connection. Later writes are refused."""
        self._ended = True
        self._committer.close()
        self._turns.close()
        self._drop()

    def abandon(self) -> None:
        """Closes what a forked child has inherited. No transaction is open then."""
        self._turns.close()
        self._drop()

    def _queue_of(self, loop: asyncio.AbstractEventLoop) -> "_LoopQueue":
        queue = self._queues.get(loop)
        if queue is None:  # Whatever waited in a closed loop has ended with it.
            self._queues = {other: its for other, its in self._queues.items() if not other.is_closed()}
            queue = self._queues[loop] = _LoopQueue(loop)
        return queue

    def _write_inline(self, job: "_WriteJob", *, synced: bool = True, waits: bool = True) -> bool:
        """Runs the job and commits without queueing it; returns False if that is not possible now."""
        if self._wanted_by is not None or not self._lock.acquire(blocking=False):
            return False
        try:
            now_s = monotonic()
            tables = None if self._turns.gives_way(now_s) else self._begin(now_s, synced=synced, waits=waits)
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

    # A transaction, from its beginning until the waiting tasks have their results.

    def _flush(self, queue: "_LoopQueue") -> None:
        """Runs everything that is queued in one transaction. What is queued meanwhile goes into the next."""
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

    def _begin(self, now_s: float, *, synced: bool = True, waits: bool = True) -> SqliteTables:
        """Begins a transaction, on a new connection if the last one has failed. If another process writes, this one `waits`, and shows it to the others."""
        if self._ended:
            raise StoreUnavailable(f"{self._file.path} has been closed; open a new store on it")
        if now_s - self._checked_s > FILE_CHECK_S:
            self._file.check()
            self._checked_s = now_s
        if self._tables is None or self._connection is None:
            self.adopt(self._file.connect(cache_kib=WRITING_CACHE_KIB))
        assert self._tables is not None and self._connection is not None, "adopt has set both"
        try:
            if self._unsynced is synced and self._file.synchronous == "FULL":
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
                self._unsynced = not synced
            self._connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, MemoryError) as error:
            if is_busy(error):
                if waits:
                    self._turns.wait()
            else:
                self._drop()
            raise
        self._turns.go()
        return self._tables

    def _apply(self, tables: SqliteTables, jobs: "list[_WriteJob]") -> bool:
        """Runs the jobs in the open transaction; returns False if it was rolled back and there is nothing to commit."""
        try:
            tables.begin()
            for job in jobs:
                job.result = job.do(tables)
            tables.end()
        except TransactionLost as lost:  # by one of the jobs; in transactions of their own, the others succeed
            self._roll_back(tables, lost)
            if len(jobs) > 1:
                self._apply_each(jobs)
            else:
                jobs[0].result = TransactionRaised(lost.error)
            return False
        except BaseException as error:  # any error leaves the transaction open, and goes to the callers that wait
            self._roll_back(tables, error)
            if len(jobs) == 1 or not is_data_error(error):
                self._fail(jobs, error)
            else:  # One job has data that can't be stored. In transactions of their own, the others succeed.
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
        """Commits, and lets others write."""
        try:
            self._commit(tables, jobs)
        finally:
            self._turns.ended(monotonic())
            self._lock.release()

    def _commit_in_thread(self, tables: SqliteTables, queue: "_LoopQueue", jobs: "list[_WriteJob]") -> None:
        """Commits in the other thread, then hands the results to the loop."""
        try:
            self._commit_and_release(tables, jobs)
        finally:
            with suppress(RuntimeError):  # The loop was closed, so no task waits.
                queue.loop.call_soon_threadsafe(self._finish, queue, jobs)

    def _commit(self, tables: SqliteTables, jobs: "list[_WriteJob]") -> None:
        try:
            assert self._connection is not None, "a transaction is open on it"
            if tables.has_changed:
                self.growth.grow()
            self._connection.execute("COMMIT")
        except BaseException as error:  # as above
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
            except (sqlite3.Error, MemoryError):  # SQLite may have rolled back itself; a new connection is in a known state.
                self._drop()

    def _drop(self) -> None:
        """Closes a connection that has failed."""
        connection, self._connection, self._tables = self._connection, None, None
        if connection is not None:
            with suppress(sqlite3.Error, MemoryError):
                connection.rollback()  # The traceback of a stored error may keep a statement open, which would keep the locks after close().
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
    """A function to run in a transaction, and its result or failure."""

    __slots__ = ("changes", "do", "failure", "future", "result")

    def __init__(self, do: Callable[[SqliteTables], Any], changes: int, future: asyncio.Future[Any] | None = None) -> None:
        self.do, self.changes, self.future = do, changes, future
        self.result: Any = None
        self.failure: BaseException | None = None

    def outcome(self) -> Any:
        """Returns the result, or raises the failure."""
        if self.failure is not None:
            raise self.failure
        return self.result

    def settle(self) -> None:
        """Gives the result or failure to the waiting task, unless it was cancelled."""
        if self.future is None or self.future.done():
            return
        if self.failure is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.failure)


class _LoopQueue:
    """The queued jobs of one event loop. `alone` is set while the loop writes one job at a time, so that the next may run inline."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: list[_WriteJob] = []
        self.flushing = False
        self.alone = False
        self._since_s: float | None = None
        self._turn_s = 0.0

    def take(self) -> list[_WriteJob]:
        """Removes and returns all queued jobs."""
        jobs, self.waiting, self._since_s = self.waiting, [], None
        return jobs

    def must_yield(self, now_s: float) -> bool:
        """Whether the other tasks of the loop have not run for `SINGLE_CALLER_S`, so that they must run now."""
        if now_s - self._turn_s < SINGLE_CALLER_S:
            return False
        self._turn_s = now_s
        return True

    def has_time(self, now_s: float) -> bool:
        """Whether the jobs have waited less than `WRITE_WAIT_MAX_S` for the transactions of others."""
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s < WRITE_WAIT_MAX_S


class _CommitThread:
    """The thread that commits and so waits for the disk. It starts when it is first needed."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def put(self, commit: Callable[[], None]) -> bool:
        """Runs `commit` in the thread; returns False if no thread can be started."""
        if self._thread is None:
            self._thread = start_daemon_thread(self._work, "perdure-sqlite")
        if self._thread is not None:
            self._asked.put(commit)
        return self._thread is not None

    def close(self) -> None:
        """Ends the thread after the queued commits."""
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (commit := self._asked.get()) is not None:
            try:
                commit()
            except Exception:  # logged, because the commit is done and a listener can't undo it
                logger.exception(
                    "a listener failed after a commit: the error follows. This is a defect of Perdure or of the listener; the commit itself is durable"
                )
            del commit  # while the thread waits, it would keep the jobs with all that they refer to
