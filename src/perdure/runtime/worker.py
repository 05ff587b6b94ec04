"""The worker: does calls that wait on queues, for executions that any engine advances. It knows steps, and nothing of workflows.

A call is leased while it is done; its answer and its acknowledgement are one post. Should the worker die, the call is leased to
another, and the answer that comes first counts.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple

from perdure.code.declarations import Step, UndoHandler
from perdure.code.step_environment import StepControl, StepInfo, current_resources
from perdure.core import error_codes, limits
from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import ErrorInfo, StoreError
from perdure.core.messages import TaskMessage, attempt_answer_key
from perdure.core.operations import Failure, Outcome
from perdure.core.secret_masks import NO_MASK
from perdure.runtime import attempt_reports
from perdure.runtime.attempt_reports import HeartbeatThrottle, WorkAnswer
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.call_secrets import SecretSource, secret_finder
from perdure.runtime.holder import HOLDER_LEASE_S, STORE_POLL_S, WANTED_POLL_S, Holder, WorkClaims, process_info_here, retry_with_backoff
from perdure.runtime.registrations import declare_queues, declared_queues, resolve_type_hints
from perdure.runtime.step_resources import DaemonThreads, OpenResources
from perdure.runtime.step_runner import failure_of_generator_exit, ignore_own_cancellation, is_transactional, run_step, run_transactional_step
from perdure.stores.protocol import Post, Store, TransactionGuard

logger = logging.getLogger("perdure.worker")


class Worker:
    """Does calls on `queues` with `steps`, at most `limit` at a time, until stopped. `secrets` finds those that calls are given."""

    def __init__(
        self,
        store: Store,
        steps: Iterable[Step[Any, Any, Any]],
        *,
        queues: Iterable[str],
        limit: int = 10,
        holder: str | None = None,
        lease_s: float = HOLDER_LEASE_S,
        poll_s: float = STORE_POLL_S,
        threaded: bool = False,
        secrets: SecretSource | None = None,
    ) -> None:
        self.store = store
        self._secrets = secrets
        self._payloads = BlobCache(store)
        known = list(steps)
        resolve_type_hints(known)
        self._given = known
        handlers = [handler for one in known for handler in one.handlers]
        self.steps: Mapping[str, Step[Any, Any, Any] | UndoHandler] = {**{one.name: one for one in known}, **{one.step.name: one for one in handlers}}
        self.queues = frozenset(queues)
        self._limit = limit
        self._membership = Holder(store, holder, process_info_here("worker", queues=self.queues), lease_s, threaded=threaded)
        self._claims = WorkClaims(store, self._membership, poll_s, self._on_lease_lost)
        self._at_work: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._cancellable: dict[asyncio.Task[None], _CancellableAttempt] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._threads: Executor | None = None
        self._resources = OpenResources(store)
        self.variables = Context()  # empty, as in any other process that may do the same calls
        self._stopping = False
        self._grace_ends_s = 0.0

    async def run(self) -> None:
        """Lease and do calls until cancelled or stopped; what is being done then is done again elsewhere."""
        self._threads = DaemonThreads()
        self._resources.begin()
        self.variables.run(current_resources.set, self._resources)
        try:
            async with self._claims.alive():
                await retry_with_backoff(lambda: declare_queues(self.store, declared_queues((), self._given)))
                looking = asyncio.create_task(self._poll_wanted())
                try:
                    await self._serve()
                finally:
                    tasks = [looking, *self._at_work.values()]
                    self._at_work.clear()
                    for task in tasks:
                        task.cancel()
                    _ = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self._threads.shutdown()
            await self._resources.close()

    async def _serve(self) -> None:
        while not self._stopping:
            await self._claim()
            await self._claims.wait()
        while self._at_work and (left_s := self._grace_ends_s - asyncio.get_running_loop().time()) > 0:
            _ = await asyncio.wait(self._at_work.values(), timeout=min(left_s, 0.05))

    def stop(self, grace_s: float = 0.0) -> None:
        """Make `run` return. Nothing more is leased; what is being done may end within `grace_s`, and is then done again elsewhere.

        A later call may shorten that.
        """
        self._grace_ends_s = asyncio.get_running_loop().time() + grace_s
        self._stopping = True
        self._claims.ring()

    def _on_lease_lost(self) -> None:
        """Drop what is being done, which will be done again."""
        for task in self._at_work.values():
            task.cancel()
        self._at_work.clear()

    async def _poll_wanted(self) -> None:
        """Look now and then whether somebody still waits for what is being done."""
        while True:
            await asyncio.sleep(WANTED_POLL_S)
            looked = [(task, one) for task, one in self._cancellable.items() if not one.life.over]
            if not looked:
                continue
            try:
                there = await self.store.are_queued([one.mark for _, one in looked])
            except StoreError as error:
                logger.info("could not look whether what is being done is still wanted: %s", error)
                continue
            for (task, one), is_there in zip(looked, there, strict=True):
                if not is_there and task in self._cancellable:
                    one.life.over = True
                    _ = asyncio.get_running_loop().call_later(one.grace_s, self._interrupt, task)

    def _interrupt(self, task: "asyncio.Task[None]") -> None:
        if task in self._cancellable:
            self._at_work = {lease: one for lease, one in self._at_work.items() if one is not task}
            task.cancel()

    async def _claim(self) -> None:
        self._claims.check()
        if (free := self._limit - len(self._at_work)) <= 0:
            return
        for mail, work in await self._claims.claim(self.queues, free):
            lease = (self._membership.name, mail.number)
            if lease not in self._at_work:
                self._at_work[lease] = task = asyncio.create_task(self._do(mail, work), context=self.variables.copy())
                task.add_done_callback(lambda task, lease=lease: self._done(lease, task))  # type: ignore[misc]  # mypy can't infer the default

    def _done(self, lease: tuple[str, int], task: "asyncio.Task[None]") -> None:
        if self._at_work.get(lease) is task:
            del self._at_work[lease]
        if not self._claims.ended(task) and not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the worker failed; this is a defect of Perdure", exc_info=error)
        self._claims.ring()

    async def _do(self, mail: QueuedMessage, work: TaskMessage) -> None:
        epoch = self._membership.epoch
        blobs: dict[str, bytes] = {}
        unreported: bytes | None = None
        step = self.steps.get(work.target)
        if step is not None and is_transactional(step) and mail.deliveries <= limits.INTERRUPTIONS_MAX:
            failed = await self._transact(step, work, mail)
            if not isinstance(failed, Failure):
                return
            answer: WorkAnswer = attempt_reports.answer_of_outcome(work, failed, blobs)
        elif (given_up := attempt_reports.answer_of_given_up(work, mail.deliveries)) is not None:
            answer = given_up
        else:
            beats, me = HeartbeatThrottle(partial(self._tell, work)), asyncio.current_task()
            try:
                outcome = await self._outcome(work, beats, Ack(mail.to, mail.key))
            except GeneratorExit as error:
                outcome = failure_of_generator_exit(step, error, me, NO_MASK)
            finally:
                unreported = beats.take()
            answer = attempt_reports.answer_of_not_begun(work, mail.deliveries) if outcome is None else attempt_reports.answer_of_outcome(work, outcome, blobs)
        post = attempt_reports.answer_post(mail, work, answer, epoch, unreported, blobs)
        await retry_with_backoff(lambda: self.store.commit([post]))

    async def _transact(self, step: Step[Any, Any, Any] | UndoHandler, work: TaskMessage, mail: QueuedMessage) -> Outcome | None:
        """Do a call in a transaction, which also answers and acknowledges it, unless it fails; None if the call is somebody else's by now."""
        info = StepInfo(work.execution, work.path, work.attempt, life=self._life(work, lambda _: None))
        member, answer = self._membership, attempt_answer_key(work.path, work.attempt)
        lease = TransactionGuard(key=work.execution, holder=member.name, epoch=member.epoch, answer=answer, work=Ack(mail.to, mail.key))
        return await run_transactional_step(self.store, (step, work.args), info, lease, self._threads)

    async def _outcome(self, work: TaskMessage, beats: HeartbeatThrottle, mark: Ack) -> Outcome | None:
        """What a try comes to; None, if its function was not called before nobody wanted that any more."""
        step = self.steps.get(work.target)
        if step is None:
            why = f"no worker here has step {work.target}; start one that has it on this queue"
            return Failure("failed", 1, ErrorInfo(error_codes.UNKNOWN_STEP, why))
        life, task = self._life(work, beats.beat), asyncio.current_task()
        assert task is not None
        self._cancellable[task] = _CancellableAttempt(life, mark, work.grace_s)
        info = StepInfo(work.execution, work.path, work.attempt, work.progress, life, work.timeout_s)

        def trying() -> Coroutine[Any, Any, Outcome]:
            return run_step(step, work.args, info, self._payloads, self._threads, lambda thread: thread.add_done_callback(_retrieve_exception))

        try:
            outcome = await _run_within(trying, life, work.timeout_s, lambda: task in self._at_work.values())
            return outcome if life.begun or not life.over else None
        except TimeoutError:
            return attempt_reports.timeout_failure(work)
        finally:
            life.over = True
            del self._cancellable[task]

    def _life(self, work: TaskMessage, beat: Callable[[bytes], None]) -> StepControl:
        return StepControl(beat, work.secrets, secret_finder(self._secrets, work.execution.tenant))

    def _tell(self, work: TaskMessage, said: bytes) -> None:
        """Tell the execution how far a try is; what does not get through is told with the next."""
        send = attempt_reports.progress_message(work, said)
        telling = asyncio.create_task(self._post(Post(epoch=self._membership.epoch, messages=(send,))))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _post(self, post: Post) -> None:
        with suppress(StoreError):
            await self.store.commit([post])


async def _run_within(trying: Callable[[], Coroutine[Any, Any, Outcome]], life: StepControl, timeout_s: float | None, is_wanted: Callable[[], bool]) -> Outcome:
    """Make a try and await it for so long, counted from when its step began, as the process may have stood still. What it does to its own task is an outcome.

    Raises:
        TimeoutError: it was not done by then, and is over.
    """
    loop, is_over = asyncio.get_running_loop(), False

    async def tried() -> Outcome:
        return await ignore_own_cancellation(trying(), lambda: not is_over and is_wanted(), asyncio.current_task())

    life.began_s, task = loop.time(), loop.create_task(tried())
    try:
        while not task.done():
            left_s = None if timeout_s is None else life.began_s + timeout_s - loop.time()
            if left_s is not None and left_s <= 0:
                raise TimeoutError
            await asyncio.wait((task,), timeout=left_s)
        return task.result()
    finally:
        is_over = True
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


class _CancellableAttempt(NamedTuple):
    """A step that is being done: its life, its place in the mail, and how long it may go on once nobody waits for it any more."""

    life: StepControl
    mark: Ack
    grace_s: float


def _retrieve_exception(thread: "asyncio.Future[Any]") -> None:
    """Hear how a thread has ended, should nobody wait for it any more."""
    if not thread.cancelled():
        thread.exception()
