"""Endings: how an execution ended, as whoever waits for its result is told."""

import asyncio
import sys
from collections.abc import Set as AbstractSet

from perdure.core import events as e
from perdure.core import log
from perdure.core.errors import DeadlineExceeded, ErrorInfo, ExecutionCancelled, ExecutionFailed, NeedsAttention, NotFound, Removed
from perdure.core.ops import Err, Ok
from perdure.core.paths import Key
from perdure.core.removal import end_of
from perdure.core.values import Blob
from perdure.runtime.payloads import Payloads
from perdure.runtime.watch import Fits, Watch
from perdure.stores.base import Head, Store

ENDED = frozenset(("completed", "failed", "cancelled"))
"""The states from which nothing goes on by itself."""

TURNS = (e.Ended, e.Reopened, e.Undoing, e.Parked, e.Resumed)
"""The events after which an execution does or doesn't go on; the last of them in a log says which."""

Turn = e.Ended | e.Reopened | e.Undoing | e.Parked | e.Resumed

EVENTS_BACK = (1, 256, sys.maxsize)
"""How far the log is read back for the last turn: mostly it is the last commit."""


class Endings:
    """Whoever waits, in the process of an engine, for executions to end in it."""

    def __init__(self) -> None:
        self._futures: dict[Key, asyncio.Future[e.Ended | None]] = {}
        self._failure: Exception | None = None

    def of(self, key: Key) -> "asyncio.Future[e.Ended | None]":
        """A future that is done when the execution next ends or (then with None) is not gone on with here, and fails if the engine does."""
        future = self._futures.get(key)
        if future is None or future.done():
            future = self._futures[key] = asyncio.get_running_loop().create_future()
            if self._failure is not None:
                future.set_exception(self._failure)
                future.exception()
        return future

    def tell(self, key: Key, ended: e.Ended | None = None) -> None:
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


async def result(watch: Watch, store: Store, key: Key, after: int = 0, *, through_pauses: bool = True) -> bytes:
    """Wait for an execution's end and return its encoded result; what happened up to version `after` is of no interest.

    Without `through_pauses`, a pause is an ending too, for whoever waits where nobody else could resume it.

    Raises:
        NotFound: there is no such execution.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled: how it ended.
        NeedsAttention: it is parked.
    """
    stops = ENDED | {"needs_attention"} if through_pauses else ENDED | {"needs_attention", "paused"}
    while True:
        head = await watch.until(key, _stands(stops, after))
        if head is None:
            raise NotFound(key)
        match await last_turn(store, head, after):
            case e.Ended() as ended:
                return await outcome(store, key, ended)
            case e.Parked("paused", _, detail) if not through_pauses:
                raise NeedsAttention(key, "paused", "; ".join((*detail, "it waits to be resumed")))
            case e.Parked(reason, _, detail) if reason != "paused":
                raise NeedsAttention(key, reason, "; ".join(detail))
        after = head.version


def _stands(stops: AbstractSet[str], after: int) -> Fits:
    return lambda head: head is None or (head.version > after and head.status in stops)


async def last_turn(store: Store, head: Head, after: int = 0) -> Turn | None:
    """The last event after version `after` that says whether the execution goes on; None if none does."""
    for back in EVENTS_BACK:
        first = max(after, head.version - back)
        found = await store.read(head.key, after=first)
        rows = () if found is None else found.rows
        turn = next((event for row in reversed(rows) for event in reversed(log.decode(row)) if isinstance(event, (*TURNS, e.Removed))), None)
        if turn is not None or first == after:
            return end_of(turn) if isinstance(turn, e.Removed) else turn
    return None


async def outcome(store: Store, key: Key, ended: e.Ended) -> bytes:
    """The encoded result of an execution that has ended.

    Raises:
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled: it has none.
        Removed: it had one, which is not kept any more.
    """
    match ended.outcome:
        case Ok(Blob() as blob):
            return await Payloads(store).get(blob.sha256)
        case Ok(bytes() as raw):
            return raw
        case Err("removed", _, ErrorInfo() as error):
            raise Removed(key, error.message)
        case Err(kind, _, ErrorInfo() as error):
            if ended.status == "cancelled":
                raise ExecutionCancelled(key, error.message)
            raise (DeadlineExceeded if kind == "deadline_exceeded" else ExecutionFailed)(key, error)
    raise TypeError(f"{ended.outcome!r} is no outcome")


async def seed_of(store: Store, key: Key) -> int | None:
    """The seed with which an execution was started, as its log says."""
    found = await store.read(key)
    return None if found is None else next((event.seed for event in log.decode_all(found.rows) if isinstance(event, e.Started)), None)
