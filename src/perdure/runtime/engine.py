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

from perdure.code.declared_queues import Queue
from perdure.code.step_environment import current_resources
from perdure.core import limits, messages
from perdure.core.decision import DecisionContext
from perdure.core.envelopes import Ack
from perdure.core.error_text import exception_text, shorten_text
from perdure.core.errors import MissingCapabilities, ProgrammingError, SealedPayload, StoreDamaged, StoreError, StoreUnavailable, UnknownWorkflow
from perdure.core.events import EndedEvent
from perdure.core.messages import ExecutionMessage
from perdure.core.paths import Key
from perdure.core.program import claimable_programs, program_base
from perdure.definitions.graph.requirements import capabilities_text
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.call_secrets import SecretSource
from perdure.runtime.change_watcher import ChangeWatcher
from perdure.runtime.decision_loop import LacksCapabilities, LostRace, StoreEpochChanged, advance_execution
from perdure.runtime.execution_results import EndWaiters, recorded_seed
from perdure.runtime.holder import HOLDER_LEASE_S, STORE_POLL_S, Backoff, Holder, LeaseRenewal, process_info_here, retry_with_backoff, set_on_notification
from perdure.runtime.in_flight import give_back_attempts
from perdure.runtime.maintenance import StoreMaintenance
from perdure.runtime.quarantine import SEALED_RETRY_S, UNREADABLE, QuarantineReports, postponement, quarantine_retry_s, release_execution
from perdure.runtime.registrations import BUILT_IN_WORKFLOWS, definition_releases, engine_toolboxes, runnable_workflows
from perdure.runtime.resident_executions import InHandMessage, ResidentCache, ResidentExecution
from perdure.runtime.step_resources import DaemonThreads, OpenResources
from perdure.runtime.step_runner import StepRunner, run_step
from perdure.runtime.store_clock import StoreAlarm, StoreClock
from perdure.runtime.workflow_programs import Workflow
from perdure.stores.protocol import Claim, ClaimedExecution, HeadFilter, Store

logger = logging.getLogger("perdure.engine")

GIVE_BACK_S = 2.0
"""How long an engine that stops waits for the store to take note of what it gives back."""

CLAIM_MAX = 100
"""How many executions are claimed at a time."""


class Engine:
    """Advances the executions of some workflows on a store, until stopped.

    With `roots`, it advances only these executions and their descendants; `admit` and `dismiss` change which these are. A waiting execution stays in memory
    for `idle_s`; with 0 each is evicted after every commit and rebuilt for the next. `secrets` finds the secrets of calls, unless their definition has a
    finder of its own.
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
        lease_s: float = HOLDER_LEASE_S,
        poll_s: float = STORE_POLL_S,
        idle_s: float = 60.0,
        memory_bytes_max: int = 256 * 2**20,
        threaded: bool = False,
        seed: Callable[[], int] = lambda: randbits(62),
        secrets: SecretSource | None = None,
    ) -> None:
        self.store = store
        self.payloads = BlobCache(store)
        self.roots = None if roots is None else frozenset(roots)
        self._know(tuple(workflows))
        self.queues = frozenset(("", *queues))
        self._about = process_info_here("engine", _program_names(self.known), self.queues - {""}, self.roots, self._toolboxes)
        self._membership = Holder(store, holder, self._about, lease_s, threaded=threaded)
        self._housekeeping = StoreMaintenance(store, (*declares, *_declared_queues(self.known.values())), self.queues - {""}, self._serve)
        self._poll_s, self._idle_s = poll_s, idle_s
        self._seed, self.secrets = seed, secrets
        self._evict_at_s = 0.0
        self._endings = EndWaiters()
        self._residents = ResidentCache(memory_bytes_max, self._endings.tell)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.watch = ChangeWatcher(store, self.holds)
        self.threads: Executor | None = None
        self.resources = OpenResources(store)
        self.variables = Context()  # empty, as it is when an execution is recovered
        self.perform: StepRunner = run_step  # performs attempts; tests replace it
        self.settled_messages: set[tuple[Key, int]] = set()  # since the last claim was asked for: its answer may still contain these
        self.stopping = self._closed = False
        self._grace_ends_s = 0.0
        self._claim_waiters: list[asyncio.Future[None]] = []
        self._is_ready = asyncio.Event()
        self._ring = asyncio.Event()
        self._damage: StoreDamaged | None = None
        self._backoff = Backoff()
        self._reports = QuarantineReports(logger)

    def _know(self, workflows: tuple[Workflow, ...]) -> None:
        self.known = runnable_workflows(workflows)
        self.releases, self._toolboxes = definition_releases(workflows), engine_toolboxes(workflows)
        self.workflows: Mapping[str, Workflow] = {**self.known, **runnable_workflows(BUILT_IN_WORKFLOWS)}
        self.versions = {one.name: one.version for one in self.workflows.values()}
        self._programs = _program_names(self.workflows)

    def register(self, workflows: Iterable[Workflow]) -> None:
        """Replaces the workflows that the engine knows. Executions that are resident go on with what they began with here.

        Raises:
            UnsupportedType: one of them has a type that can't be decoded; the engine knows what it knew.
        """
        self._know(tuple(workflows))
        if self.joined:
            self.host = self._as_host()

    def publish(self) -> None:
        """Says in the store, with the next renewal of the lease, which workflows and roots the engine has by now."""
        roots = None if self.roots is None else sorted(self.roots)
        self._about = msgspec.structs.replace(self._about, programs=sorted(_program_names(self.known)), roots=roots, toolboxes=self._toolboxes)
        self._membership.describe(self._about)

    async def publish_now(self) -> None:
        """Says so at once."""
        self.publish()
        await self._renewed(await self._membership.renew())

    def admit(self, root: Key) -> None:
        """Has an engine that is restricted to roots advance this execution and its descendants as well, from its next claim on."""
        self.roots = frozenset((*(self.roots or ()), root))

    async def dismiss(self, root: Key) -> None:
        """Stops advancing an execution and its descendants: gives back their attempts in flight, uncounted, and releases them.

        A sync step that is running ends first; its execution is released after that.
        """
        self.roots = (self.roots or frozenset()) - {root}
        ends_s = asyncio.get_running_loop().time() + GIVE_BACK_S
        while (left := self._family(root)) and not self._closed and asyncio.get_running_loop().time() < ends_s:
            for resident in left:
                if not resident.busy and not resident.held:
                    self._residents.drop(resident)
                elif not resident.busy and not resident.leaving:
                    resident.leaving = True
                    self.deliver(resident, messages.EvictMessage("what it ran for has gone"))
            if all(resident.leaving and resident.threads and not resident.busy for resident in self._family(root)):
                return
            await asyncio.sleep(0.005)

    def _family(self, root: Key) -> list[ResidentExecution]:
        """The resident executions of a root; one that is about to be read again is of any."""
        return [one for one in self._residents if root in (one.key, one.execution.root if one.execution is not None else root)]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is resident."""
        return not len(self._residents)

    async def claim_now(self) -> None:
        """Has the engine claim what is ready for it, and waits until that is in its hands."""
        claimed = asyncio.get_running_loop().create_future()
        self._claim_waiters.append(claimed)
        self._ring.set()
        if not self._closed:
            await claimed

    @property
    def holder(self) -> str:
        """The name under which the engine holds executions at present."""
        return self._membership.name

    @property
    def epoch(self) -> int:
        """The epoch of the store that the engine works in."""
        return self._membership.epoch

    def held_since(self, since_s: float) -> bool:
        """Whether the lease has surely held since then, so that no other engine can have advanced what this one holds."""
        return self._membership.unbroken(since_s)

    @property
    def joined(self) -> bool:
        """Whether the engine has joined the store; only then can executions be started."""
        return self._is_ready.is_set()

    async def ready(self) -> None:
        """Waits until the engine has joined the store."""
        _ = await self._is_ready.wait()

    async def run(self) -> None:
        """Claims and advances executions until cancelled or stopped, and releases them at the end."""
        self.clock = StoreClock(asyncio.get_running_loop().time)
        self._alarm = StoreAlarm(self.clock, self._ring)
        self.threads = DaemonThreads()
        self.resources.begin()
        self.variables.run(current_resources.set, self.resources)
        silence = set_on_notification(self.store, self._ring)
        self.watch.listen()
        try:
            self.host = self._as_host()
            self.clock.take((await self._membership.join()).reading)
            await self._housekeeping.begin()
            keeping = self.spawn(self._membership.keep_alive(self._renewed))
            keeping.add_done_callback(lambda _: self._ring.set())
            self._is_ready.set()
            while not self.stopping:
                if keeping.done():
                    keeping.result()  # raises the reason why the lease is no longer renewed
                if self._damage is not None:
                    raise self._damage
                await self._claim()
                await self._housekeeping.turn(asyncio.get_running_loop().time())
                await self._wait()
        except Exception as error:
            self._endings.fail(error)
            raise
        finally:
            silence()
            self.watch.close()
            await self._leave()

    def stop(self, grace_s: float = 0.0) -> None:
        """Make `run` return. Nothing new begins; attempts in flight may end within `grace_s`, and are then given back, uncounted.

        A later call may shorten the grace.
        """
        self._grace_ends_s = asyncio.get_running_loop().time() + grace_s
        self.stopping = True
        self._ring.set()

    async def _leave(self) -> None:
        self.stopping = True
        self._alarm.cancel()
        loop = asyncio.get_running_loop()
        while any(resident.flights or resident.threads for resident in self._residents) and (left_s := self._grace_ends_s - loop.time()) > 0:
            _ = await asyncio.wait(self._tasks, timeout=min(left_s, 0.05), return_when=asyncio.FIRST_COMPLETED)
        self._closed = True
        self._tell_claimed(list(self._claim_waiters))
        if self._damage is None:
            await self._give_back()
        self._residents.clear()
        await self._end_tasks()
        if self.threads is not None:
            self.threads.shutdown()
        await self.resources.close()
        await self._membership.leave()

    async def _end_tasks(self) -> None:
        """Cancels all tasks. A step that ignores its cancellation is left running; the engine that takes over runs it again."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=GIVE_BACK_S)
            for task in left:
                logger.warning("a step ignores its cancellation and is left running (%s). Let CancelledError propagate out of the step", task.get_name())

    async def _give_back(self) -> None:
        """Records the attempts that are given back, if the store answers in time."""
        flying = [resident for resident in self._residents if resident.flights]
        for resident in flying:
            give_back_attempts(resident)
            if resident.undecided and not resident.busy:
                resident.busy = True
                _ = self.spawn(self._advance(resident))
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + GIVE_BACK_S
        while any(resident.busy for resident in flying) and loop.time() < ends_s:
            _ = await asyncio.wait(self._tasks, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)

    def _as_host(self) -> DecisionContext:
        archives = frozenset(one.name for one in self.workflows.values() if one.archive)
        return DecisionContext(self.holder, self.queues, self.versions, archives=archives)

    def _serve(self, queues: frozenset[str]) -> None:
        self.queues = queues | {""}
        self.host = self._as_host()

    async def _renewed(self, renewal: LeaseRenewal) -> None:
        self.clock.take(renewal.reading)
        await self._enter(renewal.moment.epoch)

    async def _enter(self, epoch: int) -> None:
        """Drops everything in memory if the store has begun a new epoch, because the store may have lost commits."""
        if epoch > self.epoch:
            self._membership.epoch = epoch
            logger.warning("the store has begun a new epoch; all executions are read again")
            self._residents.clear()
            await self._begin_anew()

    async def _let_go(self) -> None:
        """Releases everything. Commits under way end first: written afterwards, no engine would be woken to go on with them."""
        held = list(self._residents)
        self._residents.clear()
        while any(resident.busy for resident in held):  # noqa: ASYNC110  # rare and short; an event for it would cost every commit
            await asyncio.sleep(0.01)
        await self._membership.let_go()

    async def _begin_anew(self) -> None:
        """Joins the store again under another name, holding nothing."""
        self._residents.clear()
        self._membership.rename()
        self.host = self._as_host()  # before anything can be held under the new name
        self.clock.take((await self._membership.join()).reading)
        self._ring.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs `work` as a task that ends with the engine, with its failure logged and with context variables of its own."""
        task = asyncio.create_task(work, context=self.variables.copy())
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, StoreDamaged):
            self._fail_run(error)
        else:
            logger.error("a task of the engine failed. This is a defect of Perdure; please report it", exc_info=error)

    async def _claim(self) -> None:
        self._ring.clear()
        self.settled_messages.clear()
        waiters = list(self._claim_waiters)
        asked_s = asyncio.get_running_loop().time()
        try:
            wanted = Claim(holder=self.holder, epoch=self.epoch, programs=self._programs, roots=self.roots, limit=CLAIM_MAX, toolboxes=self._toolboxes)
            claimed = await self.store.claim(wanted)
        except StoreDamaged:
            raise
        except StoreError as error:
            logger.warning("could not claim executions: %s. Joining again under another name, because the store may have handed some over", error)
            await self._let_go()
            await self._begin_anew()
            await self._backoff.wait()
            return
        self._backoff = Backoff()
        self.clock.take_answer(claimed.now_s, asked_s)
        self._alarm.at(claimed.next_at_s)
        for assignment in claimed.executions:
            self._take(assignment)
            if self.roots is not None and assignment.head.root not in self.roots:  # it was dismissed while the store was asked
                _ = self.spawn(self.dismiss(assignment.head.root))
        self._tell_claimed(waiters)
        if len(claimed.executions) == CLAIM_MAX:  # there may be more, and no notification follows for them
            self._ring.set()

    def _tell_claimed(self, waiters: list[asyncio.Future[None]]) -> None:
        for one in waiters:
            self._claim_waiters.remove(one)
            if not one.done():
                one.set_result(None)

    def _take(self, assignment: ClaimedExecution) -> None:
        head = assignment.head
        resident = self._residents.get(head.key)
        if resident is None:
            resident = self._residents.add(ResidentExecution(head.key, exists=True))
        elif not resident.busy and resident.version != head.version:
            resident.forget()
        resident.held = True
        resident.taken += 1
        for mail in assignment.mail:
            if (head.key, mail.number) in self.settled_messages:
                continue
            try:
                resident.put(InHandMessage(messages.decode_execution_message(mail.body), mail))
            except StoreError as error:
                self._reports.report(head.key, mail.key, error)
                resident.postponing.append(postponement(mail, self.clock.now().latest_s, error))
        resident.undecided.append(InHandMessage(messages.TickMessage()))
        self._schedule(resident)

    async def _wait(self) -> None:
        """Waits for a notification, for the next due time, or for the poll interval."""
        if (now_s := asyncio.get_running_loop().time()) >= self._evict_at_s:
            self._residents.evict(now_s, self._idle_s)
            self._evict_at_s = now_s + self._poll_s
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ring.wait(), self._poll_s)

    def _schedule(self, resident: ResidentExecution) -> None:
        if not resident.busy and resident.undecided and not self._closed:
            resident.busy = True
            _ = self.spawn(self._advance(resident))

    def deliver(self, resident: ResidentExecution, message: ExecutionMessage) -> None:
        """Adds a message that does not come from the store, and schedules the execution."""
        resident.put(InHandMessage(message))
        self._schedule(resident)

    async def go_on(self, resident: ResidentExecution) -> None:
        """Advances an execution with the messages in hand, unless that is being done."""
        if not resident.busy and not self._closed:
            resident.busy = True
            await self._advance(resident)

    async def _advance(self, resident: ResidentExecution) -> None:
        wait_s = 0.05
        try:
            while resident.undecided and self._residents.get(resident.key) is resident:
                taken = resident.taken
                try:
                    await advance_execution(self, resident)
                    wait_s = 0.05
                    resident.bear()
                except UNREADABLE as error:
                    await self._set_aside(resident, error)
                except LacksCapabilities as incapable:
                    await self._hand_over_incapable(resident, incapable)
                except StoreDamaged as damage:
                    resident.forget()
                    self._fail_run(damage)
                    return
                except StoreError as error:
                    logger.warning("could not advance %s: %s. Reading it again in %.2g s", resident.key, error, wait_s)
                    resident.forget()
                    await asyncio.sleep(wait_s)
                    wait_s = min(wait_s * 2, 5.0)
                except LostRace as lost:
                    resident.forget()
                    if self._membership.lapsed:
                        await self._renewed(await self._membership.renew())
                    if not lost.ours and resident.taken == taken:
                        self._residents.drop(resident)
                except StoreEpochChanged as new:
                    await self._enter(new.epoch)
                except asyncio.CancelledError as error:
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        raise
                    self._note_defect(resident, error)  # nothing has cancelled this task: it came out of the program, and would again
                except Exception as defect:
                    self._note_defect(resident, defect)
        except asyncio.CancelledError:
            if not self._closed:  # a step cancelled the task that it ran in; another task goes on
                resident.forget()
                asyncio.get_running_loop().call_soon(self._schedule, resident)
            raise
        finally:
            resident.busy = False
        if self._residents.get(resident.key) is resident:
            self._settle_down(resident)
        else:
            resident.abandon()  # it was dropped while it was read or written, and must not come back

    def _note_defect(self, resident: ResidentExecution, defect: BaseException) -> None:
        """Has an execution parked that can't be advanced, in its next decision; raises the defect if that is not possible either."""
        if resident.defect or not resident.exists:
            self._fail_waiters(resident, defect)
            if isinstance(defect, asyncio.CancelledError):  # raised as it is, it would be taken for a cancel of this task, and tried again for ever
                raise RuntimeError(f"the program of {resident.key} was cancelled from within; this is a defect of Perdure") from defect
            raise defect
        if not isinstance(defect, ProgrammingError):
            logger.error("%s can't go on and is parked. This is a defect of Perdure; please report it", resident.key, exc_info=defect)
        resident.defect = shorten_text(exception_text(defect), limits.ERROR_MESSAGE_CHARACTERS_MAX)
        resident.forget()

    async def _set_aside(self, resident: ResidentExecution, error: StoreError) -> None:
        """Releases an execution whose log can't be read here, marked in its head, so that it is noticed and tried again by an engine that can."""
        self._reports.report(resident.key, "", error)
        if not resident.exists:
            self._fail_waiters(resident, error)
            return
        changed: dict[str, Any] = {} if isinstance(error, SealedPayload) else {"status": "needs_attention"}
        await self._give_back_to(resident, changed, quarantine_retry_s(error))

    async def _hand_over_incapable(self, resident: ResidentExecution, incapable: LacksCapabilities) -> None:
        """Releases an execution to engines that have the capabilities it needs.

        Its head lists them, so this engine does not claim it again, unless it has them for another definition of its name.
        """
        self._reports.incapable(resident.key, capabilities_text(incapable.lacking))
        if not resident.exists:
            self._fail_waiters(resident, MissingCapabilities(str(resident.key), capabilities_text(incapable.lacking)))
            return
        program = "\n".join((program_base(resident.pinned), *sorted(incapable.needs)))
        has_elsewhere = claimable_programs([program], self._toolboxes)
        await self._give_back_to(resident, {"program": program}, SEALED_RETRY_S if has_elsewhere else 0.0)

    async def _give_back_to(self, resident: ResidentExecution, changed: Mapping[str, Any], wait_s: float) -> None:
        """Releases an execution that can't go on here; with `wait_s`, neither timers nor the messages in hand wake it before."""
        now_s = self.clock.now().latest_s
        mail = (item.mail for item in resident.undecided if item.mail is not None)
        postponing = [*resident.postponing, *(Ack(one.to, one.key, postpone_to_s=now_s + wait_s) for one in mail if wait_s)]
        try:
            (head,) = await self.store.heads(HeadFilter(keys=(resident.key,), limit=1)) or (None,)
            if head is not None and head.holder == self.holder:
                head = msgspec.structs.replace(head, **({} if head.ended_at_s is not None else changed))
                _ = await release_execution(self.store, (self.holder, self.epoch), head, postponing, now_s + wait_s)
        except StoreDamaged as damage:
            self._fail_run(damage)
        except StoreError as trouble:
            logger.warning("could not release %s: %s. Trying again", resident.key, trouble)
            await self._backoff.wait()
            return
        self._residents.drop(resident)

    def _fail_run(self, damage: StoreDamaged) -> None:
        """Makes `run` fail: reads from a damaged store may be wrong, and writes may make the damage worse."""
        self._damage = damage
        self._ring.set()

    def _fail_waiters(self, resident: ResidentExecution, defect: BaseException) -> None:
        """Fails the waits for this execution with the defect that ended its task."""
        if resident.born is not None and not resident.born.done():
            resident.born.set_exception(defect)
        self._endings.fail_one(resident.key, defect)
        self._residents.drop(resident)

    def _settle_down(self, resident: ResidentExecution) -> None:
        """After a commit: sets the wake-up timer of a held execution, and drops one that has ended or should leave memory."""
        execution = resident.execution
        loop = asyncio.get_running_loop()
        resident.touched_s = loop.time()
        resident.stop_timer()
        if execution is not None and resident.held and not self.stopping:
            due_s = resident.wake_at(self.clock, resident.touched_s)
            if due_s is not None:
                resident.timer = loop.call_at(self.clock.at(due_s), self.deliver, resident, messages.TickMessage())
        if execution is not None and (execution.ended is not None or execution.parked is not None or not resident.held):
            self._endings.tell(resident.key, execution.ended)
        if execution is not None and not resident.held:
            self._alarm.at(execution.wake_at())
        if execution is not None and (execution.ended is not None or resident.leaving) and not resident.held and not resident.undecided:
            self._residents.drop(resident)
        self._residents.weigh(resident)
        if self._idle_s <= 0 and not resident.undecided:
            resident.forget()

    async def start(self, key: Key, value: bytes, workflow: Workflow | None = None) -> bool:
        """Start an execution, unless there is one of this key; return whether it was created.

        With `workflow`, its version, deadline, grace and definition count, and not those of what the engine knows under this name.

        Raises:
            UnknownWorkflow: this engine does not know the workflow.
        """
        known = self.workflows.get(key.workflow)
        if known is None:
            raise UnknownWorkflow(key.workflow, list(self.workflows))
        code = workflow or known
        return await self.begin(
            key, messages.StartMessage(code.version, value, self._seed(), None, code.deadline_s, definition=code.definition, grace_s=code.grace_s)
        )

    async def begin(self, key: Key, start: messages.StartMessage) -> bool:
        """Start an execution of a known workflow with this message, unless there is one of this key; return whether it was created."""
        while not self.stopping:
            resident = self._residents.get(key)
            ours = resident is None
            if resident is None:
                resident = self._residents.add(ResidentExecution(key, exists=False))
                resident.born = asyncio.get_running_loop().create_future()
                self.deliver(resident, start)
            seed = None if resident.born is None else await asyncio.shield(resident.born)
            if seed is not None or resident.exists:
                return ours and start.seed == (seed if seed is not None else await retry_with_backoff(lambda: recorded_seed(self.store, key)))
            await asyncio.sleep(0)  # the start was given up before it was durable: try again
        if self._endings.failure is not None:
            raise self._endings.failure
        raise StoreUnavailable(f"the engine has stopped before {key} was started; start it again")

    def ending(self, key: Key) -> "asyncio.Future[EndedEvent | None]":
        """Returns a future for the end of the execution here. Its result is None if the execution leaves the engine; it fails if the engine does."""
        return self._endings.of(key)

    def holds(self, key: Key) -> bool:
        """Whether the engine holds an execution at present, so that `ending` says what becomes of it."""
        resident = self._residents.get(key)
        return resident is not None and resident.held


def _declared_queues(workflows: Iterable[Workflow]) -> Iterator[Queue]:
    """Yields the limits of concurrency and rate that workflows declare for themselves."""
    return (one.calling.line for one in workflows if one.calling.line is not None)


def _program_names(workflows: Mapping[str, Workflow]) -> frozenset[str]:
    return frozenset(name for one in workflows.values() for name in one.programs)
