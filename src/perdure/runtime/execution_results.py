"""Waits for the end of executions, and turns it into a result or an error."""

import asyncio
import sys
from collections.abc import Set as AbstractSet
from weakref import WeakValueDictionary

from perdure.core import events as e
from perdure.core import log_format
from perdure.core.errors import DeadlineExceeded, ErrorInfo, ExecutionCancelled, ExecutionFailed, NeedsAttention, NotFound, Removed
from perdure.core.events import ended_event_of
from perdure.core.operations import Failure, Success
from perdure.core.paths import Key
from perdure.core.values import Blob
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.change_watcher import ChangeWatcher, HeadPredicate
from perdure.stores.protocol import Head, Store

ENDED_STATUSES = frozenset(("completed", "failed", "cancelled"))
"""The statuses of executions that have ended."""

LIFECYCLE_EVENTS = (e.EndedEvent, e.ReopenedEvent, e.UndoingEvent, e.ParkedEvent, e.ResumedEvent)
"""The events that begin or stop the progress of an execution. The last of them in a log says whether it continues."""

LifecycleEvent = e.EndedEvent | e.ReopenedEvent | e.UndoingEvent | e.ParkedEvent | e.ResumedEvent

READ_BACK_EVENTS = (1, 256, sys.maxsize)
"""How many versions of the log are read back for the last lifecycle event, step by step. Mostly it is in the last commit."""


Ending = asyncio.Future[e.EndedEvent | None]
"""The next end of an execution in an engine; None if the execution leaves the engine, or is parked."""


class EndWaiters:
    """The futures of those who wait, in the process of an engine, for executions to end in it. The waiters alone keep them in memory."""

    def __init__(self) -> None:
        self._futures: WeakValueDictionary[Key, Ending] = WeakValueDictionary()
        self._failure: Exception | None = None

    @property
    def failure(self) -> Exception | None:
        """Why the engine has failed, if it has."""
        return self._failure

    def future_for(self, key: Key) -> Ending:
        """Returns a future for the next end of the execution. Its result is None if the execution leaves the engine; it fails if the engine does."""
        future = self._futures.get(key)
        if future is None or future.done():
            future = self._futures[key] = asyncio.get_running_loop().create_future()
            if self._failure is not None:
                future.set_exception(self._failure)
                future.exception()
        return future

    def resolve(self, key: Key, ended: e.EndedEvent | None = None) -> None:
        """Resolves the future of an execution that has ended or, with None, has left the engine."""
        future = self._futures.pop(key, None)
        if future is not None and not future.done():
            future.set_result(ended)

    def fail_one(self, key: Key, error: BaseException) -> None:
        """Fails the future of an execution that this engine can't advance."""
        future = self._futures.pop(key, None)
        if future is not None and not future.done():
            future.set_exception(error)
            future.exception()  # marks the exception as retrieved: the last waiter may have left

    def fail(self, error: Exception) -> None:
        """Fails all futures, present and later ones, because the engine has failed."""
        self._failure = error
        for key in list(self._futures):
            self.fail_one(key, error)


async def wait_for_result(watch: ChangeWatcher, store: Store, key: Key, after: int = 0, *, through_pauses: bool = True) -> bytes:
    """Waits for the end of an execution and returns its encoded result. Events up to version `after` are ignored.

    Without `through_pauses`, a pause ends the wait as well; this is for processes in which nothing else could resume the execution.

    Raises:
        NotFound: there is no such execution.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled: how it ended.
        NeedsAttention: it is parked.
    """
    stops = ENDED_STATUSES | {"needs_attention"} if through_pauses else ENDED_STATUSES | {"needs_attention", "paused"}
    while True:
        head = await watch.until(key, _has_stopped(stops, after))
        if head is None:
            raise NotFound(key)
        match await last_lifecycle_event(store, head, after):
            case e.EndedEvent() as ended:
                return await result_of_ended(store, key, ended)
            case e.ParkedEvent("paused", _, detail) if not through_pauses:
                raise NeedsAttention(key, "paused", "; ".join((*detail, "it waits to be resumed")))
            case e.ParkedEvent(reason, _, detail) if reason != "paused":
                raise NeedsAttention(key, reason, "; ".join(detail))
        after = head.version


def _has_stopped(stops: AbstractSet[str], after: int) -> HeadPredicate:
    return lambda head: head is None or (head.version > after and head.status in stops)


async def last_lifecycle_event(store: Store, head: Head, after: int = 0) -> LifecycleEvent | None:
    """Returns the last event after version `after` that says whether the execution continues, or None."""
    for back in READ_BACK_EVENTS:
        first = max(after, head.version - back)
        found = await store.read(head.key, after=first)
        rows = () if found is None else found.payloads
        turn = next(
            (event for row in reversed(rows) for event in reversed(log_format.decode_row(row)) if isinstance(event, (*LIFECYCLE_EVENTS, e.RemovedEvent))), None
        )
        if turn is not None or first == after:
            return ended_event_of(turn) if isinstance(turn, e.RemovedEvent) else turn
    return None


async def result_of_ended(store: Store, key: Key, ended: e.EndedEvent) -> bytes:
    """Returns the encoded result of an execution that has ended.

    Raises:
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled: it has none.
        Removed: its result was removed by retention.
    """
    match ended.outcome:
        case Success(Blob() as blob):
            return await BlobCache(store).get(blob.sha256)
        case Success(bytes() as raw):
            return raw
        case Failure("removed", _, ErrorInfo() as error):
            raise Removed(key, error.message)
        case Failure(kind, _, ErrorInfo() as error):
            if ended.status == "cancelled":
                raise ExecutionCancelled(key, error.message)
            raise (DeadlineExceeded if kind == "deadline_exceeded" else ExecutionFailed)(key, error)
    raise TypeError(f"{ended.outcome!r} is no outcome")


async def recorded_seed(store: Store, key: Key) -> int | None:
    """Returns the seed with which an execution was started, from its log."""
    found = await store.read(key)
    return None if found is None else next((event.seed for event in log_format.decode_rows(found.payloads) if isinstance(event, e.StartedEvent)), None)
