"""The engine: claims executions whose programs it knows, advances them, and performs their calls.

Everything in its memory may be lost at any instant. It acts on a decision only once that is durable, so the engine that takes over finds the attempts that
were in flight in the log.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context
from secrets import randbits
from typing import Any

import msgspec

from perdure.code.declarations import CodeWorkflow
from perdure.code.declared_queues import Queue
from perdure.code.step_environment import current_resources
from perdure.core import limits, messages
from perdure.core.carried import Carried
from perdure.core.decision import DecisionContext
from perdure.core.envelopes import Ack
from perdure.core.error_text import exception_text, shorten_text
from perdure.core.errors import (
    UNREADABLE,
    MissingCapabilities,
    ProgrammingError,
    SealedPayload,
    StoreError,
    StoreMoved,
    StoreUnavailable,
    StoreUnusable,
    UnknownWorkflow,
)
from perdure.core.events import EndedEvent
from perdure.core.messages import ExecutionMessage
from perdure.core.paths import Key
from perdure.core.program import claimable_programs, program_base
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.requirements import capabilities_text
from perdure.runtime.announcer import Announcer
from perdure.runtime.batch_runner import BatchRunner
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.call_secrets import SecretSource
from perdure.runtime.change_watcher import ChangeWatcher
from perdure.runtime.decision_loop import LacksCapabilities, LostRace, StoreEpochChanged, take_unread_answers
from perdure.runtime.execution_results import EndWaiters, recorded_seed
from perdure.runtime.holder import (
    HOLDER_LEASE_S,
    MOVE_GRACE_S,
    STORE_POLL_S,
    Backoff,
    Holder,
    LeaseRenewal,
    ProcessInfo,
    process_info_here,
    retry_with_backoff,
    set_on_notification,
)
from perdure.runtime.in_flight import give_back_attempts
from perdure.runtime.maintenance import StoreMaintenance
from perdure.runtime.observed_store import ObservedStore
from perdure.runtime.observer import Observer
from perdure.runtime.quarantine import SEALED_RETRY_S, QuarantineReports, postponement, quarantine_retry_s, release_execution
from perdure.runtime.registrations import BUILT_IN_WORKFLOWS, definition_releases, engine_toolboxes, runnable_workflows, told_schemas
from perdure.runtime.replies import ReplyWait, ReplyWaits
from perdure.runtime.resident_executions import ResidentCache, ResidentExecution, UndecidedMessage
from perdure.runtime.step_resources import DaemonThreads, OpenResources
from perdure.runtime.step_runner import StepRunner, run_step
from perdure.runtime.store_clock import StoreClock, WakeUpTimer
from perdure.runtime.unbegun_attempts import UnbegunAttempts
from perdure.runtime.workflow_programs import Workflow
from perdure.stores.move_mark import is_draining
from perdure.stores.protocol import Claim, ClaimedExecution, HeadFilter, NothingClaimed, Store

logger = logging.getLogger("perdure.engine")

GIVE_BACK_S = 2.0
"""How long an engine that stops waits for the store to record the attempts that it gives back."""

CLAIM_MAX = 100
"""How many executions are claimed at a time."""

RETRY_WAIT_MIN_S, RETRY_WAIT_MAX_S = 0.05, 5.0
"""How long an execution waits after an error of the store before it is read again: twice as long each time."""


class Engine:
    """Advances the executions of some workflows on a store, until stopped.

    With `roots`, it advances only these executions and their descendants; `admit` and `dismiss` change which these are. With `tenants`, it advances only
    executions of these. A waiting execution stays in memory for `idle_s`; with 0 each is evicted after every commit and rebuilt for the next. `secrets`
    resolves the secrets of calls, unless their definition has a resolver of its own. An `observer` is told what the engine does.
    `built_in` are workflows of Perdure's own besides those of every engine. An `announcer` tells triggers of events.
    """

    def __init__(
        self,
        store: Store,
        workflows: Iterable[Workflow],
        *,
        queues: Iterable[str] = (),
        declares: Iterable[Queue] = (),
        holder: str | None = None,
        roots: Iterable[Key] | None = None,
        tenants: Iterable[str] | None = None,
        lease_s: float = HOLDER_LEASE_S,
        poll_s: float = STORE_POLL_S,
        idle_s: float = 60.0,
        memory_bytes_max: int = 256 * 2**20,
        threaded: bool = False,
        seed: Callable[[], int] = lambda: randbits(62),
        secrets: SecretSource | None = None,
        observer: Observer | None = None,
        built_in: Iterable[Workflow] = (),
        announcer: Announcer | None = None,
    ) -> None:
        self.store, self.observer = store if observer is None else ObservedStore.of(store, observer), observer
        self.payloads = BlobCache(self.store)
        self.roots = None if roots is None else frozenset(roots)
        self._built_in = (*BUILT_IN_WORKFLOWS, *built_in)
        self._know(tuple(workflows))
        self.queues = frozenset(("", *queues))
        self._tenants = None if tenants is None else frozenset(tenants)
        self._process = process_info_here("engine", queues=self.queues - {""}, tenants=self._tenants)
        self._holder = Holder(self.store, holder, self._about(), lease_s, threaded=threaded)
        self._maintenance = StoreMaintenance(self.store, (*declares, *_declared_queues(self.known.values())), self.queues - {""}, self._set_queues)
        self._poll_s, self._idle_s = poll_s, idle_s
        self._seed, self.secrets, self.announcer = seed, secrets, announcer
        self._evict_at_s = self._grace_ends_s = 0.0
        self._end_waiters, self.replies, self.unbegun = EndWaiters(), ReplyWaits(), UnbegunAttempts()
        self._residents = ResidentCache(memory_bytes_max, self._note_dropped)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.runner = BatchRunner(self)
        self.watch = ChangeWatcher(self.store, self.holds)
        self.threads: Executor | None = None
        self.resources = OpenResources(self.store)
        self.variables = Context()  # empty, as it is when an execution is recovered
        self.perform: StepRunner = run_step  # performs attempts; tests replace it
        self.settled_messages: set[tuple[Key, int]] = set()  # since the last claim was asked for: its answer may still contain these
        self.stopping = self._closed = False
        self._claim_waiters: list[asyncio.Future[None]] = []
        self._joined, self._wake_up = asyncio.Event(), asyncio.Event()
        self._damage: StoreUnusable | None = None
        self._backoff = Backoff()
        self._reports = QuarantineReports(logger)

    def _know(self, workflows: tuple[Workflow, ...]) -> None:
        self.known = runnable_workflows(workflows)
        self.releases, self._toolboxes = definition_releases(workflows), engine_toolboxes(workflows)
        self.workflows: Mapping[str, Workflow] = {**self.known, **runnable_workflows(self._built_in)}
        self.versions = {one.name: one.version for one in self.workflows.values()}
        self._programs = _program_names(self.workflows)

    def register(self, workflows: Iterable[Workflow]) -> None:
        """Replaces the workflows that the engine knows. Resident executions continue with the code that they began with here.

        Raises:
            UnsupportedType: one of them has a type that can't be decoded; the engine then keeps the workflows that it knew.
        """
        self._know(tuple(workflows))
        if self.joined:
            self.decision_context = self._make_decision_context()

    def _about(self) -> ProcessInfo:
        roots = None if self.roots is None else sorted(self.roots)
        definitions = tuple(name for name, one in self.known.items() if isinstance(one, GraphWorkflow))
        inputs, receives = ({}, {}) if roots is not None else told_schemas(self.known.values())
        own = msgspec.structs.replace(self._process, programs=sorted(self._programs), roots=roots, toolboxes=self._toolboxes)
        scheduled = tuple(one.name for one in self.known.values() if isinstance(one, CodeWorkflow) and one.schedule is not None)
        return msgspec.structs.replace(own, definitions=definitions, inputs=inputs, messages=receives, scheduled=scheduled)

    def publish(self) -> None:
        """Has the next renewal of the lease tell other processes which workflows and roots the engine has now."""
        self._holder.describe(self._about())

    async def publish_now(self) -> None:
        """Tells other processes at once which workflows and roots the engine has now."""
        self.publish()
        try:
            await self._renewed(await self._holder.renew())
        except StoreUnavailable as error:
            logger.warning("could not tell other processes what this engine runs: %s. The next renewal of its lease does", error)

    def admit(self, root: Key) -> None:
        """Adds a root: from its next claim on, the engine advances this execution and its descendants as well."""
        self.roots = frozenset((*(self.roots or ()), root))

    async def dismiss(self, root: Key) -> None:
        """Stops advancing an execution and its descendants: gives back their attempts in flight, uncounted, and releases them.

        An execution with a sync step in a thread is released when that step has ended; this method does not wait for it. It also returns when the root is
        admitted again, or when the store does not answer in time.
        """
        self.roots = (self.roots or frozenset()) - {root}
        ends_s = asyncio.get_running_loop().time() + GIVE_BACK_S
        while not self._closed and root not in self.roots and asyncio.get_running_loop().time() < ends_s:
            for resident in self._family(root):
                if not resident.busy and not resident.held:
                    self._residents.drop(resident)
                elif not resident.busy and not resident.drop_when_released:
                    resident.drop_when_released = True
                    self.deliver(resident, messages.EvictMessage("the run that it belongs to has ended"))
            if all(resident.drop_when_released and resident.threads and not resident.busy for resident in self._family(root)):
                return  # also where none is left
            await asyncio.sleep(0.005)

    def _family(self, root: Key) -> list[ResidentExecution]:
        """Returns the resident executions of a root, with those whose root is not known because their log is about to be read again."""
        return [one for one in self._residents if root in (one.key, one.execution.root if one.execution is not None else root)]

    @property
    def is_empty(self) -> bool:
        """Whether no execution is resident."""
        return not len(self._residents)

    async def claim_now(self) -> None:
        """Claims what is ready for the engine, and waits until that is resident."""
        claimed = asyncio.get_running_loop().create_future()
        self._claim_waiters.append(claimed)
        self._wake_up.set()
        if not self._closed:
            await claimed

    @property
    def holder(self) -> str:
        """The name under which the engine holds executions at present."""
        return self._holder.name

    @property
    def epoch(self) -> int:
        """The epoch of the store that the engine works in."""
        return self._holder.epoch

    def held_since(self, since_s: float) -> bool:
        """Whether the lease has surely held since then, so that no other engine can have advanced what this one holds."""
        return self._holder.held_since(since_s)

    @property
    def joined(self) -> bool:
        """Whether the engine has joined the store; only then can executions be started."""
        return self._joined.is_set()

    async def ready(self) -> None:
        """Waits until the engine has joined the store."""
        _ = await self._joined.wait()

    async def run(self) -> None:
        """Claims and advances executions until cancelled or stopped, and releases them at the end."""
        self.clock = StoreClock(asyncio.get_running_loop().time)
        self._wake_up_timer = WakeUpTimer(self.clock, self._wake_up)
        self.threads = DaemonThreads()
        self.resources.begin()
        self.variables.run(current_resources.set, self.resources)
        unsubscribe = set_on_notification(self.store, self._wake_up)
        self.watch.listen()
        try:
            self.decision_context = self._make_decision_context()
            self.clock.take((await self._holder.join()).reading)
            await self._maintenance.begin()
            renewing = self.spawn(self._holder.keep_alive(self._renewed))
            renewing.add_done_callback(lambda _: self._wake_up.set())
            self._joined.set()
            while not self.stopping:
                if renewing.done():
                    renewing.result()  # raises the reason why the lease is no longer renewed
                if self._damage is not None:
                    raise self._damage
                await self._claim()
                await self._maintenance.run_due(asyncio.get_running_loop().time())
                await self._wait()
        except Exception as error:
            await self._grant_grace(error)
            self._end_waiters.fail(error)
            raise
        finally:
            unsubscribe()
            self.watch.close()
            await self._shut_down()

    async def _grant_grace(self, error: Exception) -> None:
        """Lets attempts in flight end if the run fails because the store is about to be moved."""
        if isinstance(error, StoreMoved) and await is_draining(self.store):
            self._damage = None
            self.stop(MOVE_GRACE_S)

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return. Nothing new begins; attempts in flight may end within `grace_s`, and are then given back, uncounted.

        A later call may shorten the grace.
        """
        self._grace_ends_s = asyncio.get_running_loop().time() + grace_s
        self.stopping = True
        self._wake_up.set()

    async def _shut_down(self) -> None:
        self.stopping = True
        self._wake_up_timer.cancel()
        loop = asyncio.get_running_loop()
        while self._damage is None and any(one.in_flight or one.threads for one in self._residents) and (left_s := self._grace_ends_s - loop.time()) > 0:
            await self._wait_for_task(min(left_s, 0.05))
        self._closed = True
        self._resolve_claim_waiters(list(self._claim_waiters))
        if self._damage is None:
            await self._give_back_attempts()
        self._residents.clear()
        await self._end_tasks()
        if self.threads is not None:
            self.threads.shutdown()
        await self.resources.close()
        await self._holder.leave()

    async def _end_tasks(self) -> None:
        """Cancels all tasks. A step that ignores its cancellation is left running; the engine that takes over runs it again."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=GIVE_BACK_S)
            for task in left:
                logger.warning(
                    "could not stop %s: its step ignores the cancellation and is left running. Let CancelledError propagate out of the step", task.get_name()
                )

    async def _give_back_attempts(self) -> None:
        """Gives back the attempts in flight, uncounted. They are recorded if the store answers in time; otherwise another engine counts them as interrupted."""
        interrupted = [resident for resident in self._residents if resident.in_flight]
        for resident in interrupted:
            give_back_attempts(resident)
            if resident.undecided and not resident.busy:
                self.runner.add(resident)
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + GIVE_BACK_S
        while any(resident.busy for resident in interrupted) and loop.time() < ends_s:
            await self._wait_for_task(0.05)

    async def _wait_for_task(self, limit_s: float) -> None:
        """Waits until one of the tasks has ended, `limit_s` at most. There may be none for a moment, or any more, if the event loop is being closed."""
        if self._tasks:
            _ = await asyncio.wait(self._tasks, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(min(limit_s, 0.01))

    def _make_decision_context(self) -> DecisionContext:
        archives = frozenset(one.name for one in self.workflows.values() if one.archive)
        return DecisionContext(self.holder, self.queues, self.versions, archives=archives)

    def _set_queues(self, queues: frozenset[str]) -> None:
        self.queues = queues | {""}
        self.decision_context = self._make_decision_context()

    async def _renewed(self, renewal: LeaseRenewal) -> None:
        self.clock.take(renewal.reading)
        await self._enter_epoch(renewal.moment.epoch)

    async def _enter_epoch(self, epoch: int) -> None:
        """Drops everything in memory if the store has begun a new epoch, because the store may have lost commits."""
        if epoch > self.epoch:
            self._holder.epoch = epoch
            logger.warning("the store has begun a new epoch, so all executions are read again")
            self._residents.clear()
            self.unbegun.clear()
            await self._rejoin()

    async def _settle_unbegun(self) -> None:
        """Waits, as long as the lease holds, until executions have gone on of which this engine knows that an attempt in their log has not begun.

        An engine that takes them over does not know it.
        """
        while not (self._closed or self._holder.lapsed) and any(map(self._is_settling, self.unbegun)):  # noqa: ASYNC110  # rare and short; as below
            await asyncio.sleep(0.01)

    def _is_settling(self, key: Key) -> bool:
        resident = self._residents.get(key)
        return resident is not None and resident.held and resident.busy

    async def _release_all(self) -> None:
        """Releases all executions. Commits under way end first: a commit after the release would wake no engine to continue with it."""
        held = list(self._residents)
        self._residents.clear()
        while any(resident.busy for resident in held):  # noqa: ASYNC110  # rare and short; an event for it would cost every commit
            await asyncio.sleep(0.01)
        await self._holder.release_all()

    async def _rejoin(self) -> None:
        """Joins the store again under another name, which holds nothing."""
        if self.observer is not None:
            self.observer.lost_lease("engine")
        self._residents.clear()
        self._holder.rename()
        self.decision_context = self._make_decision_context()  # before anything can be held under the new name
        self.clock.take((await self._holder.join()).reading)
        self._wake_up.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs `work` as a task that ends with the engine, with its failure logged and with context variables of its own."""
        task = asyncio.create_task(work, context=self.variables.copy())
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, StoreUnusable):
            self._fail_run(error)
        else:
            logger.error("a task of the engine failed. This is a defect of Perdure; please report it", exc_info=error)

    async def _claim(self) -> None:
        self._wake_up.clear()
        self.settled_messages.clear()
        waiters = list(self._claim_waiters)
        asked_s = asyncio.get_running_loop().time()
        try:
            wanted = Claim(
                holder=self.holder,
                epoch=self.epoch,
                programs=self._programs,
                roots=self.roots,
                tenants=self._tenants,
                limit=CLAIM_MAX,
                toolboxes=self._toolboxes,
            )
            claimed = await self.store.claim(wanted)
        except StoreUnusable:
            raise
        except NothingClaimed as error:
            logger.warning("could not claim executions: %s. Perdure retries it in %.2g s", error, self._backoff.wait_s)
            await self._backoff.wait()
            self._wake_up.set()
            return
        except StoreError as error:
            logger.warning("could not claim executions: %s. Joining again under another name, because the store may have assigned some", error)
            await self._settle_unbegun()
            await self._release_all()
            await self._rejoin()
            await self._backoff.wait()
            return
        self._backoff = Backoff()
        self.clock.take_answer(claimed.now_s, asked_s)
        self._wake_up_timer.at(claimed.next_at_s)
        for assignment in claimed.executions:
            self._receive_claimed(assignment)
            if self.roots is not None and assignment.head.root not in self.roots:  # it was dismissed while the store was asked
                _ = self.spawn(self.dismiss(assignment.head.root))
        self._resolve_claim_waiters(waiters)
        if len(claimed.executions) == CLAIM_MAX:  # there may be more, for which no notification follows
            self._wake_up.set()

    def _resolve_claim_waiters(self, waiters: list[asyncio.Future[None]]) -> None:
        for one in waiters:
            self._claim_waiters.remove(one)
            if not one.done():
                one.set_result(None)

    def _receive_claimed(self, assignment: ClaimedExecution) -> None:
        head = assignment.head
        resident = self._residents.get(head.key)
        if resident is None:
            resident = self._residents.add(ResidentExecution(head.key, exists=True))
        elif not resident.busy and resident.version != head.version:
            resident.discard_state()
        resident.held = True
        resident.claim_count += 1
        if self.observer is not None:
            resident.claimed_at_s = asyncio.get_running_loop().time()
        for queued in assignment.messages:
            if (head.key, queued.number) in self.settled_messages:
                continue
            try:
                resident.put(UndecidedMessage(messages.decode_execution_message(queued.body), queued))
            except StoreError as error:
                self._reports.report(head.key, queued.key, error)
                resident.postponing.append(postponement(queued, self.clock.now().latest_s, error))
        resident.undecided.append(UndecidedMessage(messages.TickMessage()))
        self.schedule(resident)

    async def _wait(self) -> None:
        """Waits for a notification, for the next due time, or for the poll interval."""
        if (now_s := asyncio.get_running_loop().time()) >= self._evict_at_s:
            self._residents.evict(now_s, self._idle_s)
            self._evict_at_s = now_s + self._poll_s
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake_up.wait(), self._poll_s)

    def schedule(self, resident: ResidentExecution) -> None:
        """Has an execution advanced with the messages that it has received, unless it is busy; then that happens afterwards."""
        if not resident.busy and resident.undecided and not self._closed:
            self.runner.add(resident)

    def deliver(self, resident: ResidentExecution, message: ExecutionMessage) -> None:
        """Adds a message that does not come from the store, and schedules the execution."""
        resident.put(UndecidedMessage(message))
        self.schedule(resident)

    def begin(self, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Performs an attempt, as soon as those that were begun before it have ended or wait."""
        self.runner.begin(attempt)

    def is_resident(self, resident: ResidentExecution) -> bool:
        """Whether this object is the one in the cache."""
        return self._residents.get(resident.key) is resident

    def finish(self, resident: ResidentExecution) -> None:
        """Takes note that an execution is no longer busy, and queues it again if messages have arrived."""
        resident.busy = False
        if not self.is_resident(resident):
            resident.discard()  # it was dropped while it was read or written, and must not come back
        elif resident.undecided and not self._closed:
            self.runner.add(resident)
        else:
            self._after_advance(resident)

    async def recover(self, resident: ResidentExecution, error: BaseException) -> None:
        """Handles what kept a busy execution from being advanced; its messages are received again. Afterwards it is no longer busy."""
        try:
            match error:
                case LostRace():
                    resident.discard_state()
                    if resident.exists:
                        resident.drop_late_start()
                    if error.ours and error.unread_answers:
                        await take_unread_answers(self, resident, error.unread_answers)
                    if self._holder.lapsed:
                        await self._renewed(await self._holder.renew())
                    if not error.ours and resident.claim_count == resident.claims_before:
                        self._residents.drop(resident)
                    elif resident.exists and not resident.undecided:  # the start was dropped, because it had taken effect: what it began is in the log
                        resident.put(UndecidedMessage(messages.TickMessage()))
                case StoreEpochChanged():
                    resident.discard_state()  # joining the store again may have entered the epoch already, and then nothing is dropped below
                    await self._enter_epoch(error.epoch)
                case LacksCapabilities():
                    await self._release_incapable(resident, error)
                case StoreUnusable():
                    resident.discard_state()
                    self._fail_run(error)
                case _ if isinstance(error, UNREADABLE):
                    await self._quarantine(resident, error)
                case StoreError():
                    resident.discard_state()
                    await self._wait_before_retry(resident, error)
                case _:
                    self._note_defect(resident, error)
        except StoreError as trouble:  # while this one was handled
            resident.discard_state()
            await self._wait_before_retry(resident, trouble)
        finally:
            self.finish(resident)

    async def _wait_before_retry(self, resident: ResidentExecution, error: StoreError) -> None:
        resident.retry_wait_s = min(resident.retry_wait_s * 2, RETRY_WAIT_MAX_S) or RETRY_WAIT_MIN_S
        logger.warning("could not advance %s: %s. Reading it again in %.2g s", resident.key, error, resident.retry_wait_s)
        await asyncio.sleep(resident.retry_wait_s)

    def _note_defect(self, resident: ResidentExecution, defect: BaseException) -> None:
        """Marks an execution that can't be advanced, so that its next decision parks it; raises the defect if that is not possible either."""
        if resident.defect or not resident.exists:
            self._fail_waiters(resident, defect)
            if isinstance(defect, asyncio.CancelledError):  # raised unchanged, it would be taken for a cancellation of this task and retried for ever
                raise RuntimeError(f"could not advance {resident.key}: its program cancelled itself. This is a defect of Perdure; please report it") from defect
            raise defect
        if not isinstance(defect, ProgrammingError):
            logger.error("could not advance %s, so it is parked. This is a defect of Perdure; please report it", resident.key, exc_info=defect)
        resident.defect = shorten_text(exception_text(defect), limits.ERROR_MESSAGE_CHARACTERS_MAX)
        resident.discard_state()

    async def _quarantine(self, resident: ResidentExecution, error: StoreError) -> None:
        """Releases an execution whose log can't be read here. Its head says so, so that people notice and an engine that can read it retries it."""
        self._reports.report(resident.key, "", error)
        if not resident.exists:
            self._fail_waiters(resident, error)
            return
        changed: dict[str, Any] = {} if isinstance(error, SealedPayload) else {"status": "needs_attention"}
        await self._release(resident, changed, quarantine_retry_s(error))

    async def _release_incapable(self, resident: ResidentExecution, incapable: LacksCapabilities) -> None:
        """Releases an execution to engines that have the capabilities it needs.

        Its head lists them, so this engine does not claim it again, unless it has them for another definition of its name.
        """
        self._reports.incapable(resident.key, capabilities_text(incapable.lacking))
        if not resident.exists:
            self._fail_waiters(resident, MissingCapabilities(str(resident.key), capabilities_text(incapable.lacking)))
            return
        program = "\n".join((program_base(resident.pinned), *sorted(incapable.needs)))
        has_elsewhere = claimable_programs([program], self._toolboxes)
        await self._release(resident, {"program": program}, SEALED_RETRY_S if has_elsewhere else 0.0)

    async def _release(self, resident: ResidentExecution, changed: Mapping[str, Any], wait_s: float) -> None:
        """Releases an execution that this engine can't advance. With `wait_s`, neither timers nor the messages received so far wake it before then."""
        now_s = self.clock.now().latest_s
        deliveries = (item.queued for item in resident.undecided if item.queued is not None)
        postponing = [*resident.postponing, *(Ack(one.to, one.key, postpone_to_s=now_s + wait_s) for one in deliveries if wait_s)]
        try:
            (head,) = await self.store.heads(HeadFilter(keys=(resident.key,), limit=1)) or (None,)
            if head is not None and head.holder == self.holder:
                head = msgspec.structs.replace(head, **({} if head.ended_at_s is not None else changed))
                _ = await release_execution(self.store, (self.holder, self.epoch), head, postponing, now_s + wait_s)
        except StoreUnusable as damage:
            self._fail_run(damage)
        except StoreError as trouble:
            logger.warning("could not release %s: %s. Perdure retries it", resident.key, trouble)
            await self._backoff.wait()
            return
        self._residents.drop(resident)

    def _fail_run(self, damage: StoreUnusable) -> None:
        """Makes `run` fail. Reads from a damaged store may be wrong, and writes may make the damage worse; one that was moved refuses them."""
        self._damage = damage
        self._wake_up.set()

    def _fail_waiters(self, resident: ResidentExecution, defect: BaseException) -> None:
        """Fails the waits for this execution with the defect that ended its task."""
        if resident.start_seed is not None and not resident.start_seed.done():
            resident.start_seed.set_exception(defect)
        self._end_waiters.fail_one(resident.key, defect)
        self._residents.drop(resident)

    def _after_advance(self, resident: ResidentExecution) -> None:
        """Sets the wake-up timer of a held execution after a commit, and drops an execution that has ended or should leave memory."""
        execution = resident.execution
        loop = asyncio.get_running_loop()
        resident.last_active_s = loop.time()
        resident.stop_timer()
        if execution is not None:
            if resident.held and not resident.is_timeless and not self.stopping and (due_s := resident.wake_at(self.clock, loop.time)) is not None:
                resident.timer = loop.call_at(self.clock.at(due_s), self.deliver, resident, messages.TickMessage())
            if execution.ended is not None or execution.parked is not None or not resident.held:
                self._end_waiters.resolve(resident.key, execution.ended)
            if not resident.held:
                self._wake_up_timer.at(execution.wake_at())
                if (execution.ended is not None or resident.drop_when_released) and not resident.undecided:
                    self._residents.drop(resident)
        self._residents.weigh(resident)
        if self._idle_s <= 0 and not resident.undecided:
            resident.discard_state()

    async def start(self, key: Key, value: bytes, workflow: Workflow | None = None, carried: Carried = ()) -> bool:
        """Starts an execution, unless there is one of this key, and returns whether it was created.

        With `workflow`, its version, deadline, grace and definition apply, instead of those of the workflow that the engine knows under this name.

        Raises:
            UnknownWorkflow: this engine does not know the workflow.
        """
        known = self.workflows.get(key.workflow)
        if known is None:
            raise UnknownWorkflow(key.workflow, list(self.workflows))
        code = workflow or known
        start = messages.StartMessage(code.version, value, self._seed(), None, code.deadline_s, definition=code.definition, grace_s=code.grace_s)
        return await self.begin_execution(key, start if not carried else msgspec.structs.replace(start, carried=carried))

    async def begin_execution(self, key: Key, start: messages.StartMessage) -> bool:
        """Starts an execution of a known workflow with this message, unless there is one of this key, and returns whether it was created.

        Raises:
            StoreUnavailable: the engine has not joined the store, so it does not know the time there, or has stopped.
        """
        if not self.joined:
            raise StoreUnavailable(f"could not start {key}: the engine has not joined the store yet. Start it again")
        while not self.stopping:
            resident = self._residents.get(key)
            ours = resident is None
            if resident is None:
                resident = self._residents.add(ResidentExecution(key, exists=False))
                resident.start_seed = asyncio.get_running_loop().create_future()
                self.deliver(resident, start)
            seed = None if resident.start_seed is None else await asyncio.shield(resident.start_seed)
            if seed is not None or resident.exists:
                return ours and start.seed == (seed if seed is not None else await retry_with_backoff(lambda: recorded_seed(self.store, key)))
            await asyncio.sleep(0)  # the start was given up before it was durable: repeat it
        if self._end_waiters.failure is not None:
            raise self._end_waiters.failure
        raise StoreUnavailable(f"could not start {key}: the engine has stopped. Start it again")

    def ask(self, key: Key, signal: messages.SignalMessage) -> ReplyWait | None:
        """Delivers a message to an execution that is in memory here, before those that wait for it in the store, and returns the wait for the reply.

        Returns None if it is not in memory here. The message may be lost with the process until it has `arrived`. Whoever asks removes the wait from
        `replies` at the end.
        """
        resident = self._residents.get(key)
        if resident is None or resident.execution is None or resident.execution.ended is not None or resident.drop_when_released or self.stopping:
            return None
        wait = ReplyWait(key, signal)
        self.replies.add(wait)
        self.deliver(resident, signal)
        return wait

    def _note_dropped(self, key: Key) -> None:
        self._end_waiters.resolve(key)
        self.replies.leave(key)

    def ending(self, key: Key) -> "asyncio.Future[EndedEvent | None]":
        """Returns a future for the end of the execution here. Its result is None if the execution leaves the engine; it fails if the engine does."""
        return self._end_waiters.future_for(key)

    def holds(self, key: Key) -> bool:
        """Whether the engine holds an execution at present, so that `ending` resolves when it ends or leaves the engine."""
        resident = self._residents.get(key)
        return resident is not None and resident.held


def _declared_queues(workflows: Iterable[Workflow]) -> Iterator[Queue]:
    """Yields the limits of concurrency and rate that workflows declare for themselves."""
    return (one.calling.line for one in workflows if one.calling.line is not None)


def _program_names(workflows: Mapping[str, Workflow]) -> frozenset[str]:
    return frozenset(name for one in workflows.values() for name in one.programs)
