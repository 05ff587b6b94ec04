"""Leases tasks of queues to workers outside of this process, in any language. The broker does not depend on the transport by which they connect.

A lease is open until its task is answered, its time is over, or the execution no longer needs the answer. The broker remembers how the last leases ended,
and answers late requests with it.

At the store, the broker is one holder, which holds all tasks that it has leased out; if it dies, all of them return to their queues. Heartbeats of a worker
renew its lease. A lease that expires is reported to its execution as an interruption, so another worker performs the task if it may run twice.
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
from perdure.code.retried_errors import classified_outcome
from perdure.code.step_environment import StepInfo
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
from perdure.runtime.holder import HOLDER_LEASE_S, STORE_POLL_S, WANTED_POLL_S, Holder, ProcessInfo, TaskClaims, process_info_here, retry_with_backoff
from perdure.runtime.observed_store import ObservedStore
from perdure.runtime.observer import Observer
from perdure.runtime.step_runner import failure_of_exception, load_value, undo_arguments
from perdure.stores.protocol import Committed, Post, Store

TASK_LEASE_S, TASK_LEASE_MAX_S = 60.0, 3600.0
"""How long a lease lasts without a heartbeat, unless the worker asks for another time, and the longest time that it may ask for."""

TASK_WAIT_MAX_S = 30.0
"""How long a worker may wait for tasks in one request."""

TASKS_PER_REQUEST_MAX = 100
"""How many tasks are leased in one request."""

PAST_LEASES_MAX = 10_000
"""How many ended leases are remembered, so that late requests learn how they ended."""

LeaseEndKind = Literal["answered", "ran_out", "timed_out", "unwanted", "lost", "stopping", "given_back", "unknown"]


class TaskWorker(NamedTuple):
    """A worker that holds leases: `owner` is the identity that it has proved, `name` the name that it gives itself."""

    owner: str
    name: str


class LeaseEnd(msgspec.Struct, frozen=True):
    """How a lease has ended: the kind of end, and the reason in words."""

    end: LeaseEndKind
    why: str


LEASE_END_TEXTS: dict[LeaseEndKind, str] = {
    "answered": "the task was answered with another outcome before",
    "ran_out": "no heartbeat arrived within the lease, so the task was queued again and another worker may have it",
    "timed_out": "the timeout of this attempt has passed",
    "unwanted": "the result is no longer needed: the execution was cancelled, has ended, or continues without it",
    "lost": "the process that leased it lost its connection to the store, so the task was queued again and another worker may have it",
    "stopping": "the process that leased it is stopping, so the task was queued again",
    "given_back": "the task was given back and queued again",
    "unknown": "there is no such lease here, or it belongs to another worker; the process that granted it may have ended",
}
NO_MORE_LEASES = "this process is stopping and grants no more leases; ask again later or ask another process"
UNKNOWN_LEASE = LeaseEnd("unknown", LEASE_END_TEXTS["unknown"])


class HeartbeatReply(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: whether the result is still wanted, if not why, and how long the renewed lease lasts."""

    wanted: bool
    why: str = ""
    lease_s: float = 0.0


class TaskInput(NamedTuple):
    """The input of a task: the positional and the named arguments, and the progress that the last attempt reported."""

    args: list[Any]
    named: dict[str, Any]
    progress: Any


class TaskLease:
    """The lease of one task to one worker. Times are those of the event loop.

    The future `cancelled` is resolved when the execution no longer needs the result, and `ended` when the lease is over; in between, the task may still be
    answered. The lease lasts `lease_s` after each heartbeat (None: without limit), or the heartbeat timeout of the step if that is shorter. The attempt has
    `left_s` until its timeout.
    """

    __slots__ = (
        "answer",
        "cancelled",
        "ended",
        "heartbeats",
        "id",
        "input",
        "lease_s",
        "mask",
        "outcome",
        "queued",
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
        self.outcome: Outcome | None = None
        self.sent: asyncio.Task[bool] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.heartbeats: HeartbeatThrottle | None = None

    @property
    def due_s(self) -> float:
        """When the lease ends without a further request."""
        return min(self.silent_until_s, self.until_s)

    @property
    def is_wanted(self) -> bool:
        """Whether the execution still needs the result, as far as the broker knows."""
        return not self.cancelled.done()

    def cancel(self, end: "LeaseEndKind") -> None:
        """Records that the execution no longer needs the result."""
        if not self.cancelled.done():
            self.cancelled.set_result(LeaseEnd(end, LEASE_END_TEXTS[end]))

    @property
    def ack(self) -> Ack:
        """The acknowledgement that removes the task from its queue."""
        return Ack(self.queued.to, self.queued.key)

    def renew(self) -> None:
        """Renews the lease, after a heartbeat."""
        self.silent_until_s = asyncio.get_running_loop().time() + self.lease_s


class PastLease(NamedTuple):
    """A lease that has ended: its worker, how it ended, and the fingerprint of the answer."""

    task_worker: TaskWorker
    gone: LeaseEnd
    answer: bytes | None


class TaskLeases:
    """All leases of a process: those that are open, and the last that have ended."""

    def __init__(self) -> None:
        self.open: dict[str, TaskLease] = {}
        self.past: dict[str, PastLease] = {}

    def find(self, task_worker: TaskWorker, id: str) -> TaskLease | PastLease | None:
        """Returns the lease of this id, if it belongs to this worker."""
        task_lease = self.open.get(id)
        if task_lease is not None:
            return task_lease if task_lease.task_worker.owner == task_worker.owner and task_worker.name in ("", task_lease.task_worker.name) else None
        past = self.past.get(id)
        return past if past is not None and past.task_worker.owner == task_worker.owner else None

    def end(self, task_lease: TaskLease, end: LeaseEndKind) -> None:
        """Ends a lease, unless it has ended already."""
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
        """Calls `due` when a lease has expired or its attempt has timed out. Heartbeats in the meantime postpone it."""
        loop = asyncio.get_running_loop()

        def check() -> None:
            if loop.time() >= task_lease.due_s:
                due(task_lease)
            else:
                self.watch(task_lease, due)

        task_lease.timer = None if task_lease.due_s == inf else loop.call_at(task_lease.due_s, check)


def outcome_fingerprint(outcome: Outcome) -> bytes:
    """Returns a hash that distinguishes a repeated answer from a different one."""
    return sha256(msgspec.msgpack.encode(outcome)).digest()


async def task_input(work: TaskMessage, payloads: BlobCache, find: SecretFinder) -> tuple[TaskInput, Mask]:
    """Returns the input of a task as plain data with its secrets, for a worker outside of this process, and the mask that hides these secrets in answers.

    This is the only place where the secrets of a leased task are resolved.

    Raises:
        Undecodable, LogDamaged: the input can't be read.
        MissingSecret: no source has one of the secrets.
    """
    raw, mask = await load_value(work.args, payloads), NO_MASK
    args, named = msgspec.msgpack.decode(raw)
    if work.path[:1] == (UNDO,) and not isinstance(named, dict):  # an undo handler: its arguments begin with the result of its step
        raw = await undo_arguments(raw, payloads)
    if work.secrets:
        raw, mask = await asyncio.get_running_loop().run_in_executor(None, without_stop_iteration(with_secrets), raw, work.secrets, find)
    args, named = msgspec.msgpack.decode(raw)
    progress = None if work.progress == ENCODED_NONE or isinstance(work.progress, Blob) else msgspec.msgpack.decode(work.progress)
    return TaskInput(args, named, progress), mask


logger = logging.getLogger("perdure.worker")

T = TypeVar("T")

TASK_CLAIM_MAX = 1000
"""How many tasks are claimed at a time at most."""

QUEUES_KNOWN_MAX = 1000
"""How many queues a broker that serves any queue makes known."""

TIMER_TOLERANCE_S = 0.001
"""By how much a timer of the event loop may be early."""


class LeaseRequest:
    """A request of a worker for up to `limit` tasks of some queues and tenants (None: of all tenants). It waits `wait_s` for the first task."""

    __slots__ = ("granted", "lease_s", "limit", "queues", "tenants", "until_s")

    def __init__(self, queues: Iterable[str], tenants: frozenset[str] | None = None, *, limit: int = 1, wait_s: float = 0.0, lease_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        self.queues, self.tenants, self.limit, self.lease_s = frozenset(queues), tenants, limit, lease_s
        self.until_s = loop.time() + wait_s
        self.granted: asyncio.Future[list[tuple[QueuedMessage, TaskMessage]] | LeaseEnd] = loop.create_future()


class TaskBroker:
    """Leases the tasks of `queues` to workers until stopped; with `tenants`, only those of these. `secrets` resolves the secrets of their calls.

    Without `queues` (None), each request names its own, and the broker is known to serve those that were asked for. An `observer` is
    told of each lease as an attempt, which ends with the lease.
    """

    def __init__(
        self,
        store: Store,
        queues: Iterable[str] | None,
        *,
        tenants: Iterable[str] | None = None,
        holder: str | None = None,
        lease_s: float = HOLDER_LEASE_S,
        poll_s: float = STORE_POLL_S,
        threaded: bool = False,
        secrets: SecretSource | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.store = store = store if observer is None else ObservedStore.of(store, observer)
        self._observer = observer
        self._tenants = None if tenants is None else frozenset(tenants)
        self._secrets = secrets
        self.queues = None if queues is None else frozenset(queues)
        self.served = self.queues or frozenset[str]()
        self.task_leases = TaskLeases()
        self._payloads = BlobCache(store)
        self._holder = Holder(store, holder, self._info(), lease_s, threaded=threaded)
        self._claims = TaskClaims(store, self._holder, poll_s, self._on_lease_lost)
        self._waiting: list[LeaseRequest] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._grace_ends_s = 0.0
        self.joined = asyncio.Event()

    def serve(self, queues: frozenset[str]) -> None:
        """Makes known to others that tasks of these queues are leased here, from the next renewal of its lease at the store on."""
        if not queues <= self.served and len(self.served) < QUEUES_KNOWN_MAX:
            self.served |= queues
            self._holder.describe(self._info())

    def _info(self) -> ProcessInfo:
        return process_info_here("worker", queues=self.served, tenants=self._tenants)

    @property
    def stopping(self) -> bool:
        """Whether the broker grants no more leases."""
        return self._stopping

    async def run(self) -> None:
        """Grants leases until cancelled or stopped, and then gives back the tasks that are still leased."""
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
        """Makes `run` return. Grants no more leases, and refuses waiting requests at once. Leased tasks may be answered within `grace_s`.

        A later call may shorten the grace.
        """
        self._grace_ends_s = asyncio.get_running_loop().time() + grace_s
        self._stopping = True
        self._claims.wake()

    # Requests of workers.

    async def lease(self, task_worker: TaskWorker, wanted: LeaseRequest) -> list[TaskLease] | LeaseEnd:
        """Leases tasks as soon as there are any. Returns an empty list if there are none in time, and `LeaseEnd` if the broker is stopping."""
        if self._stopping:
            return LeaseEnd("stopping", NO_MORE_LEASES)
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
        """Renews a lease, and reports `progress` (encoded) to the execution."""
        match self.task_leases.find(task_worker, id):
            case TaskLease() as task_lease:
                task_lease.renew()
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
        """Completes a task with an encoded result, and the port by which a graph continues. Returns None once the result is durable, also when repeated."""
        return await self._take(task_worker, id, Success(value, port))

    async def fail(self, task_worker: TaskWorker, id: str, error: ErrorInfo, *, retry: bool = True, after_s: float | None = None) -> LeaseEnd | None:
        """Fails a task, with the guarantee of `complete`. It is retried by its retry policy, not before `after_s`; without `retry`, it is not retried.

        If the call says which errors are retried, the type of the error decides as well, by its name.
        """
        return await self._take(task_worker, id, Failure("failed" if retry else "fatal", 1, error, after_s=after_s))

    def interrupt(self, task_leases: Iterable[TaskLease]) -> None:
        """Reports these tasks as interrupted, because their worker is gone."""
        for task_lease in [task_lease for task_lease in task_leases if task_lease.id in self.task_leases.open and task_lease.answer is None]:
            self._finish(task_lease, LostMessage(task_lease.work.path, task_lease.work.attempt, task_lease.queued.deliveries), "ran_out")

    def give_back(self, task_leases: Iterable[TaskLease]) -> None:
        """Gives back tasks that no worker has begun, which does not count as an interruption."""
        for task_lease in [task_lease for task_lease in task_leases if task_lease.id in self.task_leases.open and task_lease.answer is None]:
            self._finish(task_lease, attempt_reports.answer_of_not_begun(task_lease.work, task_lease.queued.deliveries), "given_back")

    # Granting leases.

    async def _grant_requests(self) -> None:
        """Claims tasks for the waiting requests, with one claim for all that want the same. Requests whose time is over get an empty list."""
        groups: dict[tuple[frozenset[str], frozenset[str] | None], list[LeaseRequest]] = {}
        requests = [one for one in self._waiting if not one.granted.done()]
        for one in requests:
            groups.setdefault((one.queues, one.tenants), []).append(one)
        for (queues, granted), waiting in groups.items():
            tenants = granted if self._tenants is None else self._tenants if granted is None else self._tenants & granted
            claimed = await self._claims.claim(queues, min(sum(one.limit for one in waiting), TASK_CLAIM_MAX), tenants)
            found = [(queued, work) for queued, work in claimed if self._is_performable(queued, work)]
            for one in waiting:
                if found and not one.granted.done():
                    one.granted.set_result(found[: one.limit])
                    found = found[one.limit :]
            self._return(found)  # their requests were cancelled meanwhile
        now_s = asyncio.get_running_loop().time() + TIMER_TOLERANCE_S
        for one in requests:
            if not one.granted.done() and one.until_s <= now_s:
                one.granted.set_result([])
        self._waiting = [one for one in self._waiting if not one.granted.done()]

    def _return(self, found: Iterable[tuple[QueuedMessage, TaskMessage]]) -> None:
        """Gives back tasks that were claimed and not leased."""
        for queued, work in found:
            _ = self._spawn(self._answer(queued, work, attempt_reports.answer_of_not_begun(work, queued.deliveries)))

    def _is_performable(self, queued: QueuedMessage, work: TaskMessage) -> bool:
        """Whether a task may be leased. If not, it is answered as given up."""
        if (answer := attempt_reports.answer_of_given_up(work, queued.deliveries)) is None:
            return True
        _ = self._spawn(self._answer(queued, work, answer))
        return False

    def _grant(self, task_worker: TaskWorker, wanted: LeaseRequest, queued: QueuedMessage, work: TaskMessage) -> TaskLease:
        left_s, now_s = inf, self._claims.clock.now().earliest_s
        if work.timeout_s is not None:  # it counts from the time at which the attempt was queued, as for the execution
            left_s = min(work.timeout_s, queued.due_at_s + work.timeout_s - now_s)
        task_lease = TaskLease(token_urlsafe(24), task_worker, queued, work, wanted.lease_s, left_s)
        task_lease.heartbeats = HeartbeatThrottle(partial(self._report_progress, work))
        task_lease.until_store_s = None if work.timeout_s is None else now_s + left_s
        self.task_leases.open[task_lease.id] = task_lease
        if self._observer is not None:
            info = StepInfo(work.execution, work.path, work.attempt, carried=work.carried)
            observed = self._observer.begin_attempt(info, work.target, str(queued.to[1]))
            if observed is not None:
                task_lease.ended.add_done_callback(lambda _: observed.ended(task_lease.outcome))
        self.task_leases.watch(task_lease, self._due)
        return task_lease

    async def _has_input(self, task_lease: TaskLease) -> bool:
        """Loads the input of a leased task. Fails the task and returns False if the input can't be loaded."""
        try:
            task_lease.input, task_lease.mask = await task_input(
                task_lease.work, self._payloads, secret_finder(self._secrets, task_lease.work.execution.tenant)
            )
        except (ProgrammingError, LogDamaged, ValueError) as error:
            self.refuse(task_lease, error)
        except BaseException as error:  # a source of secrets may raise anything
            if isinstance(error, StoreError) or ((task := asyncio.current_task()) is not None and task.cancelling()):
                raise
            self._finish(task_lease, attempt_reports.answer_of_outcome(task_lease.work, failure_of_exception(None, error, task_lease.mask), {}), "answered")
        return task_lease.id in self.task_leases.open

    def refuse(self, task_lease: TaskLease, error: Exception) -> None:
        """Fails a task for good, because it can't be sent to any worker."""
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
            found = task_lease.outcome = classified_outcome(outcome, task_lease.work.errors)
            answer = attempt_reports.answer_of_outcome(task_lease.work, task_lease.mask.outcome(found) if task_lease.mask else found, blobs)
            task_lease.sent = self._spawn(self._answered(task_lease, answer, blobs))
        if task_lease.sent is None or task_lease.answer != outcome_fingerprint(outcome):
            return LeaseEnd("answered", LEASE_END_TEXTS["answered"])
        _ = await asyncio.wait([task_lease.sent])
        if task_lease.sent.cancelled():
            return LeaseEnd("stopping", LEASE_END_TEXTS["stopping"])
        return None if task_lease.sent.result() else LeaseEnd("lost", LEASE_END_TEXTS["lost"])

    async def _answered(self, task_lease: TaskLease, answer: TaskAnswer, blobs: dict[str, bytes]) -> bool:
        """Posts the answer of a worker, and returns whether the store has accepted it. If the post fails, the worker may repeat the answer."""
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
        """Ends a lease that its worker has not answered, and answers in its place."""
        unreported = None if task_lease.heartbeats is None else task_lease.heartbeats.take()
        self.task_leases.end(task_lease, end)
        _ = self._spawn(self._answer(task_lease.queued, task_lease.work, answer, unreported))

    def _due(self, task_lease: TaskLease) -> None:
        """Ends a lease whose attempt has timed out or that has expired without a heartbeat."""
        if task_lease.answer is not None:
            return
        if task_lease.until_s <= task_lease.silent_until_s:
            self._finish(task_lease, attempt_reports.answer_of_outcome(task_lease.work, attempt_reports.timeout_failure(task_lease.work), {}), "timed_out")
        else:
            logger.warning(
                "the lease of %s of queue %s has expired: worker %s sent no heartbeat for %g s. The task counts as interrupted",
                task_lease.work.key,
                task_lease.queued.to[1],
                task_lease.task_worker.name,
                task_lease.lease_s,
            )
            self.interrupt([task_lease])

    async def _answer(
        self, queued: QueuedMessage, work: TaskMessage, answer: TaskAnswer, unreported: bytes | None = None, blobs: dict[str, bytes] | None = None
    ) -> bool:
        """Posts an answer, and returns whether the store has accepted it: in a new epoch it does not."""
        post = attempt_reports.answer_post(queued, work, answer, self._holder.epoch, unreported, blobs)
        (taken,) = await retry_with_backoff(lambda: self.store.commit([post]))
        return isinstance(taken, Committed)

    def _report_progress(self, work: TaskMessage, said: bytes) -> None:
        _ = self._spawn(self._post_progress(work, said))

    async def _post_progress(self, work: TaskMessage, said: bytes) -> None:
        try:
            _ = await self.store.commit([Post(epoch=self._holder.epoch, messages=(attempt_reports.progress_message(work, said),))])
        except StoreError as error:
            logger.info("could not report the progress of %s: %s. The next heartbeat reports it", work.key, error)

    # Leases that end without a request.

    async def _poll_wanted(self) -> None:
        """Polls whether the leased tasks are still queued, and cancels those that are not: their executions no longer need them."""
        while True:
            await asyncio.sleep(WANTED_POLL_S)
            task_leases = [task_lease for task_lease in self.task_leases.open.values() if task_lease.answer is None and task_lease.is_wanted]
            if not task_leases:
                continue
            try:
                there = await self.store.are_queued([task_lease.ack for task_lease in task_leases])
            except StoreError as error:
                logger.info("could not check whether the leased tasks are still wanted: %s. Perdure checks again in %g s", error, WANTED_POLL_S)
                continue
            for task_lease, is_there in zip(task_leases, there, strict=True):
                if not is_there and task_lease.answer is None:
                    self._cancel(task_lease)

    def _cancel(self, task_lease: TaskLease) -> None:
        """Cancels a leased task that its execution no longer needs. It may still be answered within its grace."""
        task_lease.cancel("unwanted")
        if task_lease.work.grace_s > 0:
            _ = asyncio.get_running_loop().call_later(task_lease.work.grace_s, self.task_leases.end, task_lease, "unwanted")
        else:
            self.task_leases.end(task_lease, "unwanted")

    def _on_lease_lost(self) -> None:
        if self._observer is not None:
            self._observer.lost_lease("worker")
        self._end_all("lost")

    def _end_all(self, end: LeaseEndKind) -> None:
        for task_lease in [task_lease for task_lease in self.task_leases.open.values() if task_lease.answer is None]:
            self.task_leases.end(task_lease, end)

    def _refuse_requests(self) -> None:
        """Refuses all waiting requests, because the broker is stopping."""
        for one in self._waiting:
            if not one.granted.done():
                one.granted.set_result(LeaseEnd("stopping", NO_MORE_LEASES))
        self._waiting.clear()

    async def _until_answered(self) -> None:
        loop = asyncio.get_running_loop()
        while (left := [*(task_lease.ended for task_lease in self.task_leases.open.values()), *self._tasks]) and (
            left_s := self._grace_ends_s - loop.time()
        ) > 0:
            _ = await asyncio.wait(left, timeout=min(left_s, 0.05))

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not self._claims.ended(task) and not task.cancelled() and (error := task.exception()) is not None:
            logger.error("could not store the answer of a leased task: %s. The task is leased again when its lease expires", error)
