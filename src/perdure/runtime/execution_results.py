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
"""The states from which nothing goes on by itself."""

LIFECYCLE_EVENTS = (e.EndedEvent, e.ReopenedEvent, e.UndoingEvent, e.ParkedEvent, e.ResumedEvent)
"""The events after which an execution does or doesn't go on; the last of them in a log says which."""

LifecycleEvent = e.EndedEvent | e.ReopenedEvent | e.UndoingEvent | e.ParkedEvent | e.ResumedEvent

READ_BACK_EVENTS = (1, 256, sys.maxsize)
"""How far the log is read back for the last turn: mostly it is the last commit."""


Ending = asyncio.Future[e.EndedEvent | None]
"""The next end of an execution in an engine; None if the execution leaves the engine, or is parked."""


class EndWaiters:
    """Those who wait, in the process of an engine, for executions to end in it. A future is kept by those who wait for it."""

    def __init__(self) -> None:
        self._futures: WeakValueDictionary[Key, Ending] = WeakValueDictionary()
        self._failure: Exception | None = None

    @property
    def failure(self) -> Exception | None:
        """Why the engine has failed, if it has."""
        return self._failure

    def of(self, key: Key) -> "asyncio.Future[e.EndedEvent | None]":
        """A future that is done when the execution next ends or (then with None) is not gone on with here, and fails if the engine does."""
        future = self._futures.get(key)
        if future is None or future.done():
            future = self._futures[key] = asyncio.get_running_loop().create_future()
            if self._failure is not None:
                future.set_exception(self._failure)
                future.exception()
        return future

    def tell(self, key: Key, ended: e.EndedEvent | None = None) -> None:
        """An execution has ended, or is not gone on with here."""
        future = self._futures.pop(key, None)
        if future is not None and not future.done():
            future.set_result(ended)

    def fail_one(self, key: Key, error: BaseException) -> None:
        """An execution can't go on here."""
        future = self._futures.pop(key, None)
        if future is not None and not future.done():
            future.set_exception(error)
            future.exception()  # nobody may be waiting any more, which is no defect

    def fail(self, error: Exception) -> None:
        """The engine has failed."""
        self._failure = error
        for key in list(self._futures):
            self.fail_one(key, error)


async def wait_for_result(watch: ChangeWatcher, store: Store, key: Key, after: int = 0, *, through_pauses: bool = True) -> bytes:
    """Wait for an execution's end and return its encoded result; what happened up to version `after` is of no interest.

    Without `through_pauses`, a pause is an ending too, for whoever waits where nobody else could resume it.

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
    """The last event after version `after` that says whether the execution goes on; None if none does."""
    for back in READ_BACK_EVENTS:
        first = max(after, head.version - back)
        found = await store.read(head.key, after=first)
        rows = () if found is None else found.rows
        turn = next(
            (event for row in reversed(rows) for event in reversed(log_format.decode_row(row)) if isinstance(event, (*LIFECYCLE_EVENTS, e.RemovedEvent))), None
        )
        if turn is not None or first == after:
            return ended_event_of(turn) if isinstance(turn, e.RemovedEvent) else turn
    return None


async def result_of_ended(store: Store, key: Key, ended: e.EndedEvent) -> bytes:
    """The encoded result of an execution that has ended.

    Raises:
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled: it has none.
        Removed: it had one, which is not kept any more.
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
    """The seed with which an execution was started, as its log says."""
    found = await store.read(key)
    return None if found is None else next((event.seed for event in log_format.decode_rows(found.rows) if isinstance(event, e.StartedEvent)), None)
