"""Performs the calls that wait on queues, for executions that any engine advances. A worker knows steps and no workflows.

A task is leased while it is performed; its answer and its acknowledgement are one post. If the worker dies, the task is leased to another worker, and the
first answer that arrives counts.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple

from perdure.code.declarations import Step, UndoHandler
from perdure.code.declared_queues import Queue
from perdure.code.retried_errors import step_of_task
from perdure.code.step_environment import StepControl, StepInfo, current_resources
from perdure.core import error_codes, limits
from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import ErrorInfo, StoreError, StoreMoved
from perdure.core.messages import TaskMessage, attempt_answer_key
from perdure.core.operations import Failure, Outcome, RetriedErrors
from perdure.core.secret_masks import NO_MASK
from perdure.runtime import attempt_reports
from perdure.runtime.attempt_reports import HeartbeatThrottle, TaskAnswer
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.call_secrets import SecretSource, secret_finder
from perdure.runtime.holder import HOLDER_LEASE_S, MOVE_GRACE_S, STORE_POLL_S, WANTED_POLL_S, Holder, TaskClaims, process_info_here, retry_with_backoff
from perdure.runtime.observed_store import ObservedStore
from perdure.runtime.observer import Observer
from perdure.runtime.registrations import declare_queues, declared_queues, resolve_type_hints, worker_limits
from perdure.runtime.step_resources import DaemonThreads, OpenResources
from perdure.runtime.step_runner import failure_of_generator_exit, ignore_own_cancellation, is_transactional, run_step, run_transactional_step
from perdure.stores.move_mark import is_draining
from perdure.stores.protocol import Post, Store, TransactionGuard

logger = logging.getLogger("perdure.worker")

CALLS_AT_A_TIME = 10
"""How many calls a worker performs at a time of all queues that have no limit of their own in a worker."""


class Worker:
    """Performs calls of `queues` with `steps` until stopped; with `tenants`, only those of these tenants.

    At most `limit` calls are performed at a time; a queue that declares a `worker_concurrency`, on a step or in `declares`, has that limit of its own instead.
    `secrets` resolves the secrets of calls. An `observer` is told what the worker does.
    """

    def __init__(
        self,
        store: Store,
        steps: Iterable[Step[Any, Any, Any]],
        *,
        queues: Iterable[str],
        tenants: Iterable[str] | None = None,
        declares: Iterable[Queue] = (),
        limit: int = CALLS_AT_A_TIME,
        holder: str | None = None,
        lease_s: float = HOLDER_LEASE_S,
        poll_s: float = STORE_POLL_S,
        threaded: bool = False,
        secrets: SecretSource | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.store = store = store if observer is None else ObservedStore.of(store, observer)
        self._observer, self._secrets = observer, secrets
        self._payloads = BlobCache(store)
        known = list(steps)
        resolve_type_hints(known)
        self._given = known
        handlers = [handler for one in known for handler in one.handlers]
        self.steps: Mapping[str, Step[Any, Any, Any] | UndoHandler] = {**{one.name: one for one in known}, **{one.step.name: one for one in handlers}}
        self.queues = frozenset(queues)
        self._tenants = None if tenants is None else frozenset(tenants)
        self._limit = limit
        self._selective: dict[tuple[str, RetriedErrors], Step[Any, Any, Any]] = {}
        self._limits = worker_limits((*declares, *declared_queues((), known)))
        self._holder = Holder(store, holder, process_info_here("worker", queues=self.queues, tenants=self._tenants), lease_s, threaded=threaded)
        self._claims = TaskClaims(store, self._holder, poll_s, self._on_lease_lost)
        self._running: dict[_Lease, asyncio.Task[None]] = {}
        self._cancellable: dict[asyncio.Task[None], _CancellableAttempt] = {}
        self._progress_posts: set[asyncio.Task[None]] = set()
        self._threads: Executor | None = None
        self._resources = OpenResources(store)
        self.variables = Context()  # empty, as in any other process that may perform the same calls
        self._stopping = False
        self._grace_ends_s = 0.0

    async def run(self) -> None:
        """Claims and performs tasks until cancelled or stopped. Tasks that have not ended by then are performed again elsewhere."""
        self._threads = DaemonThreads()
        self._resources.begin()
        self.variables.run(current_resources.set, self._resources)
        try:
            async with self._claims.joined():
                await retry_with_backoff(lambda: declare_queues(self.store, declared_queues((), self._given)))
                polling = asyncio.create_task(self._poll_wanted())
                try:
                    await self._serve()
                finally:
                    tasks = [polling, *self._running.values()]
                    self._running.clear()
                    for task in tasks:
                        task.cancel()
                    _ = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self._threads.shutdown()
            await self._resources.close()

    async def _serve(self) -> None:
        try:
            while not self._stopping:
                await self._claim()
                await self._claims.wait()
        except StoreMoved:
            if await is_draining(self.store):
                self.stop(MOVE_GRACE_S)
                await self._wait_for_running()
            raise
        await self._wait_for_running()

    async def _wait_for_running(self) -> None:
        """Waits until the attempts in flight have ended, or the grace has."""
        while self._running and (left_s := self._grace_ends_s - asyncio.get_running_loop().time()) > 0:
            _ = await asyncio.wait(self._running.values(), timeout=min(left_s, 0.05))

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return. Claims no more tasks. Those in flight may end within `grace_s`, and are otherwise performed again elsewhere.

        A later call may shorten the grace.
        """
        self._grace_ends_s = asyncio.get_running_loop().time() + grace_s
        self._stopping = True
        self._claims.wake()

    def _on_lease_lost(self) -> None:
        """Cancels all attempts in flight. Their tasks are leased again, here or elsewhere."""
        if self._observer is not None:
            self._observer.lost_lease("worker")
        for task in self._running.values():
            task.cancel()
        self._running.clear()

    async def _poll_wanted(self) -> None:
        """Polls whether the tasks in flight are still queued, and cancels those that are not: their executions no longer need them."""
        while True:
            await asyncio.sleep(WANTED_POLL_S)
            checked = [(task, one) for task, one in self._cancellable.items() if not one.control.over]
            if not checked:
                continue
            try:
                there = await self.store.are_queued([one.ack for _, one in checked])
            except StoreError as error:
                logger.info("could not check whether the tasks in flight are still wanted: %s. Perdure checks again in %g s", error, WANTED_POLL_S)
                continue
            for (task, one), is_there in zip(checked, there, strict=True):
                if not is_there and task in self._cancellable:
                    one.control.over = True
                    _ = asyncio.get_running_loop().call_later(one.grace_s, self._interrupt, task)

    def _interrupt(self, task: "asyncio.Task[None]") -> None:
        if task in self._cancellable:
            self._running = {lease: one for lease, one in self._running.items() if one is not task}
            task.cancel()

    async def _claim(self) -> None:
        self._claims.check()
        for queues, free in self._room():
            for queued, work in await self._claims.claim(queues, free, self._tenants):
                lease = _Lease(self._holder.name, queued.number, queued.to[1])
                if lease not in self._running:
                    self._running[lease] = task = asyncio.create_task(self._perform(queued, work), context=self.variables.copy())
                    task.add_done_callback(lambda task, lease=lease: self._task_ended(lease, task))  # type: ignore[misc]  # mypy can't infer the default

    def _room(self) -> list[tuple[frozenset[str], int]]:
        """Returns how many more calls may be performed: of all queues together that have no limit of their own, and of each other queue."""
        running = Counter(lease.queue for lease in self._running)
        shared = self.queues - self._limits.keys()
        room = [(shared, self._limit - sum(running[name] for name in shared))] if shared else []
        room += [(frozenset((name,)), self._limits[name] - running[name]) for name in sorted(self.queues & self._limits.keys())]
        return [(queues, free) for queues, free in room if free > 0]

    def _task_ended(self, lease: "_Lease", task: "asyncio.Task[None]") -> None:
        if self._running.get(lease) is task:
            del self._running[lease]
        if not self._claims.ended(task) and not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the worker failed. This is a defect of Perdure; please report it", exc_info=error)
        self._claims.wake()

    def _step_of(self, work: TaskMessage) -> Step[Any, Any, Any] | UndoHandler | None:
        """Returns the step of a task, with the errors that its call retries; None if this worker has no such step."""
        step = self.steps.get(work.target)
        if work.errors is None or not isinstance(step, Step):
            return step
        if (known := self._selective.get((work.target, work.errors))) is None:
            known = self._selective[work.target, work.errors] = step_of_task(step, work.errors)
        return known

    async def _perform(self, queued: QueuedMessage, work: TaskMessage) -> None:
        epoch = self._holder.epoch
        blobs: dict[str, bytes] = {}
        unreported: bytes | None = None
        step = self._step_of(work)
        if step is not None and is_transactional(step) and queued.deliveries <= limits.INTERRUPTIONS_MAX:
            failed = await self._perform_in_transaction(step, work, queued)
            if not isinstance(failed, Failure):
                return
            answer: TaskAnswer = attempt_reports.answer_of_outcome(work, failed, blobs)
        elif (given_up := attempt_reports.answer_of_given_up(work, queued.deliveries)) is not None:
            answer = given_up
        else:
            heartbeats, me = HeartbeatThrottle(partial(self._report_progress, work)), asyncio.current_task()
            try:
                outcome = await self._attempt_outcome(work, heartbeats, Ack(queued.to, queued.key))
            except GeneratorExit as error:
                outcome = failure_of_generator_exit(step, error, me, NO_MASK)
            finally:
                unreported = heartbeats.take()
            answer = (
                attempt_reports.answer_of_not_begun(work, queued.deliveries) if outcome is None else attempt_reports.answer_of_outcome(work, outcome, blobs)
            )
        post = attempt_reports.answer_post(queued, work, answer, epoch, unreported, blobs)
        await retry_with_backoff(lambda: self.store.commit([post]))

    async def _perform_in_transaction(self, step: Step[Any, Any, Any] | UndoHandler, work: TaskMessage, queued: QueuedMessage) -> Outcome | None:
        """Performs a call in a transaction that also answers and acknowledges it, unless it fails. Returns None if another holder has the task by now."""
        info = StepInfo(work.execution, work.path, work.attempt, life=self._step_control(work, lambda _: None), carried=work.carried)
        holder, answer = self._holder, attempt_answer_key(work.path, work.attempt)
        guard = TransactionGuard(key=work.execution, holder=holder.name, epoch=holder.epoch, answer=answer, work=Ack(queued.to, queued.key))
        observed, outcome = None if self._observer is None else self._observer.begin_attempt(info, work.target, queued.to[1]), None
        try:
            outcome = await run_transactional_step(self.store, (step, work.args), info, guard, self._threads)
        finally:
            if observed is not None:
                observed.ended(outcome)
        return outcome

    async def _attempt_outcome(self, work: TaskMessage, heartbeats: HeartbeatThrottle, ack: Ack) -> Outcome | None:
        """Performs an attempt and returns its outcome. Returns None if the attempt was cancelled before its function was called."""
        step = self._step_of(work)
        if step is None:
            why = f"this worker has no step {work.target}; start a worker on this queue that has it"
            return Failure("failed", 1, ErrorInfo(error_codes.UNKNOWN_STEP, why))
        control, task = self._step_control(work, heartbeats.beat), asyncio.current_task()
        assert task is not None
        self._cancellable[task] = _CancellableAttempt(control, ack, work.grace_s)
        info = StepInfo(work.execution, work.path, work.attempt, work.progress, control, work.timeout_s, work.carried)

        def attempt() -> Coroutine[Any, Any, Outcome]:
            return run_step(step, work.args, info, self._payloads, self._threads, lambda thread: thread.add_done_callback(_retrieve_exception))

        observed, outcome = None if self._observer is None else self._observer.begin_attempt(info, work.target, str(ack.to[1])), None
        try:
            outcome = await _run_within(attempt, control, work.timeout_s, lambda: task in self._running.values())
        except TimeoutError:
            outcome = attempt_reports.timeout_failure(work)
            return outcome
        finally:
            control.over = True
            del self._cancellable[task]
            if observed is not None:
                observed.ended(outcome)
        return outcome if control.begun or not control.over else None

    def _step_control(self, work: TaskMessage, beat: Callable[[bytes], None]) -> StepControl:
        return StepControl(beat, work.secrets, secret_finder(self._secrets, work.execution.tenant))

    def _report_progress(self, work: TaskMessage, said: bytes) -> None:
        """Reports the progress of an attempt to its execution. If that fails, the next report makes up for it."""
        send = attempt_reports.progress_message(work, said)
        posting = asyncio.create_task(self._post(Post(epoch=self._holder.epoch, messages=(send,))))
        self._progress_posts.add(posting)
        posting.add_done_callback(self._progress_posts.discard)

    async def _post(self, post: Post) -> None:
        with suppress(StoreError):
            await self.store.commit([post])


async def _run_within(
    attempt: Callable[[], Coroutine[Any, Any, Outcome]], control: StepControl, timeout_s: float | None, is_wanted: Callable[[], bool]
) -> Outcome:
    """Makes an attempt within `timeout_s`, counted from the beginning of its step, because the process may have been suspended before.

    A step that cancels its own task has failed; this is an outcome.

    Raises:
        TimeoutError: the attempt took longer, and was cancelled.
    """
    loop, is_over = asyncio.get_running_loop(), False

    async def attempted() -> Outcome:
        return await ignore_own_cancellation(attempt(), lambda: not is_over and is_wanted(), asyncio.current_task())

    control.began_s, task = loop.time(), loop.create_task(attempted())
    try:
        while not task.done():
            left_s = None if timeout_s is None else control.began_s + timeout_s - loop.time()
            if left_s is not None and left_s <= 0:
                raise TimeoutError
            await asyncio.wait((task,), timeout=left_s)
        return task.result()
    finally:
        is_over = True
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


class _Lease(NamedTuple):
    """A task that is leased: the holder, the number of the task, and its queue."""

    holder: str
    number: int
    queue: str


class _CancellableAttempt(NamedTuple):
    """A step in flight: its control, the acknowledgement of its task, and its grace after a cancellation."""

    control: StepControl
    ack: Ack
    grace_s: float


def _retrieve_exception(thread: "asyncio.Future[Any]") -> None:
    """Retrieves the exception of a thread, so that asyncio does not warn when the attempt was cancelled before its thread ended."""
    if not thread.cancelled():
        thread.exception()
