"""Loans: pieces of work that somebody outside of this process has for a while, and how each of them has ended.

A loan is open until it is answered, its time is over, or nobody wants its answer any more; what comes later is told which of these it was.

Lending: work of queues is lent to borrowers outside of this process, who speak whatever language. Nothing here knows by which transport they come.

The lender is one holder at the store, and has in its name all that is lent; when it dies, all of it goes back. A loan is kept by its borrower's
heartbeats. One that runs out is told to its execution as an interruption, so what may be done twice is done by somebody else.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from hashlib import sha256
from math import inf
from secrets import token_urlsafe
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from perdure.code.exception_data import error_info
from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import ErrorInfo, LogDamaged, ProgrammingError, StoreError
from perdure.core.messages import LostMessage, TaskMessage
from perdure.core.operations import Failure, Outcome, Success
from perdure.core.paths import UNDO
from perdure.core.secret_masks import NO_MASK, Mask, SecretFinder
from perdure.core.thread_calls import without_stop_iteration
from perdure.core.values import ENCODED_NONE, Blob
from perdure.runtime import attempt_reports
from perdure.runtime.attempt_reports import HeartbeatThrottle, TaskAnswer
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.call_secrets import SecretSource, secret_finder, with_secrets
from perdure.runtime.holder import HOLDER_LEASE_S, STORE_POLL_S, WANTED_POLL_S, Holder, TaskClaims, process_info_here, retry_with_backoff
from perdure.runtime.step_runner import failure_of_exception, load_value, undo_arguments
from perdure.stores.protocol import Committed, Post, Store

TASK_LEASE_S, TASK_LEASE_MAX_S = 60.0, 3600.0
"""How long a borrower may be silent, unless it asks for another time; and for how long it may ask."""

TASK_WAIT_MAX_S = 30.0
"""How long a borrower may wait for work in one request."""

TASKS_PER_REQUEST_MAX = 100
"""How many pieces of work are lent in one request."""

PAST_LEASES_MAX = 10_000
"""How many loans that have ended are remembered, to tell those who come late how."""

LeaseEndKind = Literal["answered", "ran_out", "timed_out", "unwanted", "lost", "stopping", "given_back", "unknown"]


class TaskWorker(NamedTuple):
    """Who has loans: `owner` is how they have shown who they are, `name` what they call themselves."""

    owner: str
    name: str


class LeaseEnd(msgspec.Struct, frozen=True):
    """A loan is open no longer: how it ended, and in words."""

    end: LeaseEndKind
    why: str


LEASE_END_TEXTS: dict[LeaseEndKind, str] = {
    "answered": "it was answered otherwise before",
    "ran_out": "nothing was heard of it for longer than its lease, so it was given back, and may be with another worker",
    "timed_out": "the time that this try has is over",
    "unwanted": "nobody waits for it any more: the execution was cancelled, has ended, or goes on without it",
    "lost": "the process that had lent it has lost touch with the store, so it was given back, and may be with another worker",
    "stopping": "the process that had lent it is stopping, and has given it back",
    "given_back": "it was given back",
    "unknown": "there is no such loan here, or it is somebody else's; the process that had lent it may have ended",
}
UNKNOWN_LEASE = LeaseEnd("unknown", LEASE_END_TEXTS["unknown"])


class HeartbeatReply(msgspec.Struct, frozen=True):
    """What a borrower is told that says it is alive: whether the answer is still wanted, if not why, and for how long it may now be silent."""

    wanted: bool
    why: str = ""
    lease_s: float = 0.0


class TaskInput(NamedTuple):
    """What is to be done with: the positional and the named arguments, and what the last try said of how far it was."""

    args: list[Any]
    named: dict[str, Any]
    progress: Any


class TaskLease:
    """A piece of work that is lent. `ended` is done when there is no use in going on with it, `cancelled` when nobody waits for it any more; between the
    two, it may still be answered. Times are the event loop's.

    Its borrower may be silent for `lease_s` (None: for as long as it likes), or for as long as the work itself says; this try has `left_s`.
    """

    __slots__ = (
        "answer",
        "heartbeats",
        "cancelled",
        "ended",
        "input",
        "id",
        "lease_s",
        "queued",
        "mask",
        "sent",
        "silent_until_s",
        "task_worker",
        "timer",
        "until_s",
        "until_store_s",
        "work",
    )

    def __init__(self, id: str, task_worker: TaskWorker, queued: QueuedMessage, work: TaskMessage, lease_s: float | None, left_s: float = inf) -> None:
        loop = asyncio.get_running_loop()
        self.id, self.task_worker, self.queued, self.work = id, task_worker, queued, work
        times_s = [one_s for one_s in (lease_s, work.heartbeat_s) if one_s is not None]
        self.lease_s = min(times_s, default=inf)
        self.silent_until_s = loop.time() + self.lease_s
        self.until_s = loop.time() + left_s
        self.until_store_s: float | None = None
        self.input, self.mask = TaskInput([], {}, None), NO_MASK
        self.ended: asyncio.Future[LeaseEnd] = loop.create_future()
        self.cancelled: asyncio.Future[LeaseEnd] = loop.create_future()
        self.answer: bytes | None = None
        self.sent: asyncio.Task[bool] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.heartbeats: HeartbeatThrottle | None = None

    @property
    def due_s(self) -> float:
        """When something becomes of it though nobody says anything."""
        return min(self.silent_until_s, self.until_s)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for its answer, as far as is known."""
        return not self.cancelled.done()

    def cancel(self, end: "LeaseEndKind") -> None:
        """Nobody waits for it any more."""
        if not self.cancelled.done():
            self.cancelled.set_result(LeaseEnd(end, LEASE_END_TEXTS[end]))

    @property
    def ack(self) -> Ack:
        """Its place in the mail."""
        return Ack(self.queued.to, self.queued.key)

    def alive(self) -> None:
        """Its borrower was heard."""
        self.silent_until_s = asyncio.get_running_loop().time() + self.lease_s


class PastLease(NamedTuple):
    """A loan that has ended: whose it was, how it ended, and what it was answered with."""

    task_worker: TaskWorker
    gone: LeaseEnd
    answer: bytes | None


class TaskLeases:
    """All loans of a process: those that are open, and the last of those that were."""

    def __init__(self) -> None:
        self.open: dict[str, TaskLease] = {}
        self.past: dict[str, PastLease] = {}

    def find(self, task_worker: TaskWorker, id: str) -> TaskLease | PastLease | None:
        """The loan of this id, if it is the borrower's."""
        task_lease = self.open.get(id)
        if task_lease is not None:
            return task_lease if task_lease.task_worker.owner == task_worker.owner and task_worker.name in ("", task_lease.task_worker.name) else None
        past = self.past.get(id)
        return past if past is not None and past.task_worker.owner == task_worker.owner else None

    def end(self, task_lease: TaskLease, end: LeaseEndKind) -> None:
        """A loan is open no longer."""
        if self.open.pop(task_lease.id, None) is None:
            return
        gone = LeaseEnd(end, LEASE_END_TEXTS[end])
        self.past[task_lease.id] = PastLease(task_lease.task_worker, gone, task_lease.answer)
        while len(self.past) > PAST_LEASES_MAX:
            del self.past[next(iter(self.past))]
        if task_lease.timer is not None:
            task_lease.timer.cancel()
        if task_lease.heartbeats is not None:
            task_lease.heartbeats.close()
        task_lease.cancel(end)
        if not task_lease.ended.done():
            task_lease.ended.set_result(gone)

    def watch(self, task_lease: TaskLease, due: Callable[[TaskLease], None]) -> None:
        """Have `due` called once nothing was heard of a loan for too long, or its time is over."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            if loop.time() >= task_lease.due_s:
                due(task_lease)
            else:
                self.watch(task_lease, due)

        task_lease.timer = None if task_lease.due_s == inf else loop.call_at(task_lease.due_s, look)


def outcome_fingerprint(outcome: Outcome) -> bytes:
    """What tells answers to a loan apart."""
    return sha256(msgspec.msgpack.encode(outcome)).digest()


async def task_input(work: TaskMessage, payloads: BlobCache, find: SecretFinder) -> tuple[TaskInput, Mask]:
    """What work is to be done with, as plain data with its secrets in their places, ready for whoever does it outside of this process: nothing else
    makes it so. With it, what hides those secrets in all that comes back.

    Raises:
        Undecodable, LogDamaged: it can't be read.
        MissingSecret: nothing finds a secret that it is to be given.
    """
    raw, mask = await load_value(work.args, payloads), NO_MASK
    args, named = msgspec.msgpack.decode(raw)
    if work.path[:1] == (UNDO,) and not isinstance(named, dict):  # the handler of a step, whose result comes before its arguments
        raw = await undo_arguments(raw, payloads)
    if work.secrets:
        raw, mask = await asyncio.get_running_loop().run_in_executor(None, without_stop_iteration(with_secrets), raw, work.secrets, find)
    args, named = msgspec.msgpack.decode(raw)
    progress = None if work.progress == ENCODED_NONE or isinstance(work.progress, Blob) else msgspec.msgpack.decode(work.progress)
    return TaskInput(args, named, progress), mask


logger = logging.getLogger("perdure.worker")

T = TypeVar("T")

TASK_CLAIM_MAX = 1000
"""How many pieces of work are claimed at a time, however many are asked for."""

TIMER_TOLERANCE_S = 0.001
"""By how much a timer may be early."""


class LeaseRequest:
    """What a borrower asks for: work of these queues, of these tenants alone (None: of all), up to `limit` pieces, and until when it waits for a first."""

    __slots__ = ("granted", "lease_s", "limit", "queues", "tenants", "until_s")

    def __init__(self, queues: Iterable[str], tenants: frozenset[str] | None = None, *, limit: int = 1, wait_s: float = 0.0, lease_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        self.queues, self.tenants, self.limit, self.lease_s = frozenset(queues), tenants, limit, lease_s
        self.until_s = loop.time() + wait_s
        self.granted: asyncio.Future[list[tuple[QueuedMessage, TaskMessage]] | LeaseEnd] = loop.create_future()


class TaskBroker:
    """Lends the work of `queues` until stopped, with the secrets that it is to be input, which `secrets` finds."""

    def __init__(
        self,
        store: Store,
        queues: Iterable[str],
        *,
        holder: str | None = None,
        lease_s: float = HOLDER_LEASE_S,
        poll_s: float = STORE_POLL_S,
        threaded: bool = False,
        secrets: SecretSource | None = None,
    ) -> None:
        self.store = store
        self._secrets = secrets
        self.queues = frozenset(queues)
        self.task_leases = TaskLeases()
        self._payloads = BlobCache(store)
        self._holder = Holder(store, holder, process_info_here("worker", queues=self.queues), lease_s, threaded=threaded)
        self._claims = TaskClaims(store, self._holder, poll_s, self._on_lease_lost)
        self._waiting: list[LeaseRequest] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._grace_ends_s = 0.0
        self.joined = asyncio.Event()

    @property
    def stopping(self) -> bool:
        """Whether nothing more is lent."""
        return self._stopping

    async def run(self) -> None:
        """Lend until cancelled or stopped; what is lent then is given back."""
        async with self._claims.joined():
            self.joined.set()
            polling = asyncio.create_task(self._poll_wanted())
            try:
                while not self._stopping:
                    await self._grant_requests()
                    await self._claims.wait()
                self._refuse_requests()
                await self._until_answered()
            finally:
                self._stopping = True
                self._refuse_requests()
                self._end_all("stopping")
                tasks = [polling, *self._tasks]
                for task in tasks:
                    task.cancel()
                _ = await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self, grace_s: float = 0.0) -> None:
        """Make `run` return. Nothing more is lent, and who waits for work is told so at once; what is lent may be answered within `grace_s`.

        A later call may shorten that.
        """
        self._grace_ends_s = asyncio.get_running_loop().time() + grace_s
        self._stopping = True
        self._claims.wake()

    # What borrowers ask.

    async def lease(self, task_worker: TaskWorker, wanted: LeaseRequest) -> list[TaskLease] | LeaseEnd:
        """Lend work as soon as there is any; nothing, if there is none in time. `LeaseEnd`, if nothing more is lent here."""
        if self._stopping:
            return LeaseEnd("stopping", "nothing more is lent here")
        self._waiting.append(wanted)
        self._claims.wake()
        timer = asyncio.get_running_loop().call_at(wanted.until_s, self._claims.wake)
        task_leases = list[TaskLease]()
        try:
            granted = await wanted.granted
            if isinstance(granted, LeaseEnd):
                return granted
            task_leases += [self._grant(task_worker, wanted, queued, work) for queued, work in granted]
            return [task_lease for task_lease in task_leases if await self._has_input(task_lease)]
        except asyncio.CancelledError:
            self.give_back(task_leases)
            if not task_leases and wanted.granted.done() and not wanted.granted.cancelled() and isinstance(found := wanted.granted.result(), list):
                self._return(found)
            raise
        finally:
            timer.cancel()

    async def heartbeat(self, task_worker: TaskWorker, id: str, progress: bytes | None = None) -> HeartbeatReply | LeaseEnd:
        """Keep a loan for as long again, and take what the borrower says of how far it is (encoded)."""
        match self.task_leases.find(task_worker, id):
            case TaskLease() as task_lease:
                task_lease.alive()
                if progress is not None and task_lease.heartbeats is not None:
                    task_lease.heartbeats.beat(task_lease.mask.value(progress) if task_lease.mask else progress)
                return (
                    HeartbeatReply(True, lease_s=task_lease.lease_s)
                    if task_lease.is_wanted
                    else HeartbeatReply(False, task_lease.cancelled.result().why, task_lease.lease_s)
                )
            case PastLease(_, LeaseEnd("unwanted" | "timed_out", why)):
                return HeartbeatReply(False, why)
            case PastLease(_, gone):
                return gone
        return UNKNOWN_LEASE

    async def complete(self, task_worker: TaskWorker, id: str, value: bytes, port: str = "success") -> LeaseEnd | None:
        """Take the result of a loan (encoded), and the port by which a graph goes on; return None once it is durable, and if it was before."""
        return await self._take(task_worker, id, Success(value, port))

    async def fail(self, task_worker: TaskWorker, id: str, error: ErrorInfo, *, retry: bool = True, after_s: float | None = None) -> LeaseEnd | None:
        """Take the failure of a loan, as `complete` takes a result. Without `retry` it is not tried again; else as its step says, not before `after_s`."""
        return await self._take(task_worker, id, Failure("failed" if retry else "fatal", 1, error, after_s=after_s))

    def interrupt(self, task_leases: Iterable[TaskLease]) -> None:
        """Whoever had these is gone, and will not answer."""
        for task_lease in [task_lease for task_lease in task_leases if task_lease.id in self.task_leases.open and task_lease.answer is None]:
            self._finish(task_lease, LostMessage(task_lease.work.path, task_lease.work.attempt, task_lease.queued.deliveries), "ran_out")

    def give_back(self, task_leases: Iterable[TaskLease]) -> None:
        """Nobody has begun with these; that is no interruption."""
        for task_lease in [task_lease for task_lease in task_leases if task_lease.id in self.task_leases.open and task_lease.answer is None]:
            self._finish(task_lease, LostMessage(task_lease.work.path, task_lease.work.attempt, 0), "given_back")

    # Handing out.

    async def _grant_requests(self) -> None:
        """Claim for those who wait, and for all who want the same at once; whose time is over gets nothing."""
        groups: dict[tuple[frozenset[str], frozenset[str] | None], list[LeaseRequest]] = {}
        asked = [one for one in self._waiting if not one.granted.done()]
        for one in asked:
            groups.setdefault((one.queues, one.tenants), []).append(one)
        for (queues, tenants), waiting in groups.items():
            claimed = await self._claims.claim(queues, min(sum(one.limit for one in waiting), TASK_CLAIM_MAX), tenants)
            found = [(queued, work) for queued, work in claimed if self._is_performable(queued, work)]
            for one in waiting:
                if found and not one.granted.done():
                    one.granted.set_result(found[: one.limit])
                    found = found[one.limit :]
            self._return(found)  # those for whom it was claimed have left meanwhile
        now_s = asyncio.get_running_loop().time() + TIMER_TOLERANCE_S
        for one in asked:
            if not one.granted.done() and one.until_s <= now_s:
                one.granted.set_result([])
        self._waiting = [one for one in self._waiting if not one.granted.done()]

    def _return(self, found: Iterable[tuple[QueuedMessage, TaskMessage]]) -> None:
        """Give back work that nobody was lent."""
        for queued, work in found:
            _ = self._spawn(self._answer(queued, work, LostMessage(work.path, work.attempt, 0)))

    def _is_performable(self, queued: QueuedMessage, work: TaskMessage) -> bool:
        """Whether work is to be lent; what is not is answered."""
        if (answer := attempt_reports.answer_of_given_up(work, queued.deliveries)) is None:
            return True
        _ = self._spawn(self._answer(queued, work, answer))
        return False

    def _grant(self, task_worker: TaskWorker, wanted: LeaseRequest, queued: QueuedMessage, work: TaskMessage) -> TaskLease:
        left_s, now_s = inf, self._claims.clock.now().earliest_s
        if work.timeout_s is not None:  # which counts from when the try was asked for, as its execution counts it
            left_s = min(work.timeout_s, queued.due_at_s + work.timeout_s - now_s)
        task_lease = TaskLease(token_urlsafe(24), task_worker, queued, work, wanted.lease_s, left_s)
        task_lease.heartbeats = HeartbeatThrottle(partial(self._report_progress, work))
        task_lease.until_store_s = None if work.timeout_s is None else now_s + left_s
        self.task_leases.open[task_lease.id] = task_lease
        self.task_leases.watch(task_lease, self._due)
        return task_lease

    async def _has_input(self, task_lease: TaskLease) -> bool:
        """Have what a loan is to be done with at hand; what has none that can be read has failed."""
        try:
            task_lease.input, task_lease.mask = await task_input(
                task_lease.work, self._payloads, secret_finder(self._secrets, task_lease.work.execution.tenant)
            )
        except (ProgrammingError, LogDamaged, ValueError) as error:
            self.refuse(task_lease, error)
        except BaseException as error:  # what finds a secret may raise anything
            if isinstance(error, StoreError) or ((task := asyncio.current_task()) is not None and task.cancelling()):
                raise
            self._finish(task_lease, attempt_reports.answer_of_outcome(task_lease.work, failure_of_exception(None, error, task_lease.mask), {}), "answered")
        return task_lease.id in self.task_leases.open

    def refuse(self, task_lease: TaskLease, error: Exception) -> None:
        """A loan can't be handed to anybody as it is, so it has failed for good."""
        failed = Failure("fatal", 1, error_info(error, task_lease.mask))
        self._finish(task_lease, attempt_reports.answer_of_outcome(task_lease.work, failed, {}), "answered")

    # Answers.

    async def _take(self, task_worker: TaskWorker, id: str, outcome: Outcome) -> LeaseEnd | None:
        match self.task_leases.find(task_worker, id):
            case PastLease(_, gone, before):
                return None if gone.end == "answered" and before == outcome_fingerprint(outcome) else gone
            case TaskLease() as task_lease:
                pass
            case _:
                return UNKNOWN_LEASE
        if task_lease.answer is None:
            blobs: dict[str, bytes] = {}
            task_lease.answer = outcome_fingerprint(outcome)
            answer = attempt_reports.answer_of_outcome(task_lease.work, task_lease.mask.outcome(outcome) if task_lease.mask else outcome, blobs)
            task_lease.sent = self._spawn(self._answered(task_lease, answer, blobs))
        if task_lease.sent is None or task_lease.answer != outcome_fingerprint(outcome):
            return LeaseEnd("answered", LEASE_END_TEXTS["answered"])
        _ = await asyncio.wait([task_lease.sent])
        if task_lease.sent.cancelled():
            return LeaseEnd("stopping", LEASE_END_TEXTS["stopping"])
        return None if task_lease.sent.result() else LeaseEnd("lost", LEASE_END_TEXTS["lost"])

    async def _answered(self, task_lease: TaskLease, answer: TaskAnswer, blobs: dict[str, bytes]) -> bool:
        """Post a borrower's answer, and say whether the store has taken it; one that could not be posted may be given again."""
        unreported = None if task_lease.heartbeats is None else task_lease.heartbeats.take()
        try:
            was_taken = await self._answer(task_lease.queued, task_lease.work, answer, unreported, blobs)
        except StoreError:
            task_lease.answer = None
            self.task_leases.watch(task_lease, self._due)
            raise
        self.task_leases.end(task_lease, "answered" if was_taken else "lost")
        return was_taken

    def _finish(self, task_lease: TaskLease, answer: TaskAnswer, end: LeaseEndKind) -> None:
        """End a loan that its borrower has not answered, and answer in its place."""
        unreported = None if task_lease.heartbeats is None else task_lease.heartbeats.take()
        self.task_leases.end(task_lease, end)
        _ = self._spawn(self._answer(task_lease.queued, task_lease.work, answer, unreported))

    def _due(self, task_lease: TaskLease) -> None:
        """A loan's time is over, or its borrower is silent for too long."""
        if task_lease.answer is not None:
            return
        if task_lease.until_s <= task_lease.silent_until_s:
            self._finish(task_lease, attempt_reports.answer_of_outcome(task_lease.work, attempt_reports.timeout_failure(task_lease.work), {}), "timed_out")
        else:
            logger.warning(
                "nothing was heard of %s of queue %s from %s for %g s",
                task_lease.work.key,
                task_lease.queued.to[1],
                task_lease.task_worker.name,
                task_lease.lease_s,
            )
            self.interrupt([task_lease])

    async def _answer(
        self, queued: QueuedMessage, work: TaskMessage, answer: TaskAnswer, unreported: bytes | None = None, blobs: dict[str, bytes] | None = None
    ) -> bool:
        """Post an answer, and say whether the store has taken it; it has not in a new epoch."""
        post = attempt_reports.answer_post(queued, work, answer, self._holder.epoch, unreported, blobs)
        (taken,) = await retry_with_backoff(lambda: self.store.commit([post]))
        return isinstance(taken, Committed)

    def _report_progress(self, work: TaskMessage, said: bytes) -> None:
        _ = self._spawn(self._post_progress(work, said))

    async def _post_progress(self, work: TaskMessage, said: bytes) -> None:
        try:
            _ = await self.store.commit([Post(epoch=self._holder.epoch, messages=(attempt_reports.progress_message(work, said),))])
        except StoreError as error:
            logger.info("how far %s is could not be told, and is with the next heartbeat: %s", work.key, error)

    # What ends loans without anybody's saying so.

    async def _poll_wanted(self) -> None:
        """Look now and then whether what is lent is still wanted."""
        while True:
            await asyncio.sleep(WANTED_POLL_S)
            task_leases = [task_lease for task_lease in self.task_leases.open.values() if task_lease.answer is None and task_lease.is_wanted]
            if not task_leases:
                continue
            try:
                there = await self.store.are_queued([task_lease.ack for task_lease in task_leases])
            except StoreError as error:
                logger.info("could not look whether what is lent is still wanted: %s", error)
                continue
            for task_lease, is_there in zip(task_leases, there, strict=True):
                if not is_there and task_lease.answer is None:
                    self._cancel(task_lease)

    def _cancel(self, task_lease: TaskLease) -> None:
        """Nobody waits for a loan any more. If its execution has failed or was cancelled, it may still be answered for a while."""
        task_lease.cancel("unwanted")
        if task_lease.work.grace_s > 0:
            _ = asyncio.get_running_loop().call_later(task_lease.work.grace_s, self.task_leases.end, task_lease, "unwanted")
        else:
            self.task_leases.end(task_lease, "unwanted")

    def _on_lease_lost(self) -> None:
        self._end_all("lost")

    def _end_all(self, end: LeaseEndKind) -> None:
        for task_lease in [task_lease for task_lease in self.task_leases.open.values() if task_lease.answer is None]:
            self.task_leases.end(task_lease, end)

    def _refuse_requests(self) -> None:
        """Tell those who wait that nothing more is lent."""
        for one in self._waiting:
            if not one.granted.done():
                one.granted.set_result(LeaseEnd("stopping", "nothing more is lent here"))
        self._waiting.clear()

    async def _until_answered(self) -> None:
        loop = asyncio.get_running_loop()
        while (left := [*(task_lease.ended for task_lease in self.task_leases.open.values()), *self._tasks]) and (
            left_s := self._grace_ends_s - loop.time()
        ) > 0:
            _ = await asyncio.wait(left, timeout=min(left_s, 0.05))

    def _spawn(self, doing: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not self._claims.ended(task) and not task.cancelled() and (error := task.exception()) is not None:
            logger.error("what was said of a loan did not reach the store: %s", error)
