"""The engine: claims executions whose programs it knows, advances them, and performs their calls.

Everything it holds in memory may be lost at any instant. It acts on a decision only once that is durable, and what it was
performing when it died is found by whoever takes over.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context
from secrets import randbits
from typing import Any

import msgspec

from perdure.core import limits, messages
from perdure.core.decision import Host
from perdure.core.error_text import said_by, shortened
from perdure.core.errors import MissingCapabilities, ProgrammingError, SealedPayload, StoreDamaged, StoreError, StoreUnavailable, UnknownProgram
from perdure.core.events import Ended
from perdure.core.mail import Ack
from perdure.core.messages import Message
from perdure.core.paths import Key
from perdure.core.program import base, claimable
from perdure.programs.code.queues import Queue
from perdure.programs.code.resources import opened
from perdure.programs.graph.needs import described
from perdure.programs.workflows import Workflow
from perdure.runtime.advance import Incapable, LostRace, NewEpoch, advance
from perdure.runtime.clock import Alarm, StoreClock
from perdure.runtime.endings import Endings, seed_of
from perdure.runtime.flights import give_back
from perdure.runtime.holder import LEASE_S, POLL_S, Holder, Patience, Renewal, bell, persistently
from perdure.runtime.housekeeping import Housekeeping
from perdure.runtime.known import OWN, releases, runnable, toolboxes
from perdure.runtime.payloads import Payloads
from perdure.runtime.perform import Performer, perform
from perdure.runtime.presence import here
from perdure.runtime.quarantine import SEALED_RETRY_S, UNREADABLE, Reports, postponed, release, retry_s
from perdure.runtime.resources import Resources
from perdure.runtime.secrets import Secrets
from perdure.runtime.threads import DaemonThreads
from perdure.runtime.warm import Item, Residents, Warm
from perdure.runtime.watch import Watch
from perdure.stores.base import Assignment, Claim, Filter, Store

logger = logging.getLogger("perdure.engine")

GIVE_BACK_S = 2.0
"""How long an engine that stops waits for the store to take note of what it gives back."""

CLAIM_MAX = 100
"""How many executions are claimed at a time."""


class Engine:
    """Advances the executions of some workflows on a store, until stopped.

    With `root`, only that execution and its descendants. `idle_s` is how long a waiting execution stays in memory; with 0 every execution leaves memory
    after each commit, and is rebuilt for the next (always suspend). `secrets` finds those that calls are given, unless their definition finds them itself.
    """

    def __init__(
        self,
        store: Store,
        workflows: Iterable[Workflow],
        *,
        queues: Iterable[str] = (),
        declares: Iterable[Queue] = (),
        holder: str | None = None,
        root: Key | None = None,
        lease_s: float = LEASE_S,
        poll_s: float = POLL_S,
        idle_s: float = 60.0,
        memory_bytes_max: int = 256 * 2**20,
        threaded: bool = False,
        seed: Callable[[], int] = lambda: randbits(62),
        secrets: Secrets | None = None,
    ) -> None:
        self.store = store
        self.payloads = Payloads(store)
        given = tuple(workflows)
        self.known = runnable(given)
        self.releases, self._toolboxes = releases(given), toolboxes(given)
        self.workflows: Mapping[str, Workflow] = {**self.known, **runnable(OWN)}
        self.versions = {one.name: one.version for one in self.workflows.values()}
        self.queues = frozenset(("", *queues))
        self.root = root
        self._programs = _programs(self.workflows)
        self._membership = Holder(store, holder, here("engine", _programs(self.known), self.queues - {""}, root, self._toolboxes), lease_s, threaded=threaded)
        declares = (*declares, *(one.calling.line for one in self.known.values() if one.calling.line is not None))
        self._housekeeping = Housekeeping(store, declares, self.queues - {""}, self._serve)
        self._poll_s, self._idle_s = poll_s, idle_s
        self._seed, self.secrets = seed, secrets
        self._evict_at_s = 0.0
        self._endings = Endings()
        self._warm = Residents(memory_bytes_max, self._endings.tell)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.watch = Watch(store, self._holds)
        self.threads: Executor | None = None
        self.resources = Resources(store)
        self.variables = Context()  # empty, as it is where a recovery goes on
        self.perform: Performer = perform  # what tries are made by; tests put something else here
        self.settled_mail: set[tuple[Key, int]] = set()  # since the last claim was asked for, whose answer may still have it
        self.stopping = self._closed = False
        self._grace_ends_s = 0.0
        self._is_ready = asyncio.Event()
        self._ring = asyncio.Event()
        self._damage: StoreDamaged | None = None
        self._patience = Patience()
        self._reports = Reports(logger)

    # its life

    @property
    def holder(self) -> str:
        """The name under which it holds executions at present."""
        return self._membership.name

    @property
    def epoch(self) -> int:
        """The epoch of the store that it works in."""
        return self._membership.epoch

    def held_since(self, since_s: float) -> bool:
        """Whether its lease has surely held since then, so that nobody else can have gone on with what it holds."""
        return self._membership.unbroken(since_s)

    @property
    def joined(self) -> bool:
        """Whether it has joined the store; only then can executions be started."""
        return self._is_ready.is_set()

    async def ready(self) -> None:
        """Wait until it has."""
        _ = await self._is_ready.wait()

    async def run(self) -> None:
        """Claim and advance until cancelled or stopped. What it holds is let go at the end."""
        self.clock = StoreClock(asyncio.get_running_loop().time)
        self._alarm = Alarm(self.clock, self._ring)
        self.threads = DaemonThreads()
        self.resources.begin()
        self.variables.run(opened.set, self.resources)
        silence = bell(self.store, self._ring)
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
                    keeping.result()  # raises why it is not alive any more
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
        """Make `run` return. Nothing new is begun; what is in flight may end within `grace_s`, and then goes on elsewhere, uncounted.

        A later call may shorten that.
        """
        self._grace_ends_s = asyncio.get_running_loop().time() + grace_s
        self.stopping = True
        self._ring.set()

    async def _leave(self) -> None:
        self.stopping = True
        self._alarm.cancel()
        loop = asyncio.get_running_loop()
        while any(warm.flights or warm.threads for warm in self._warm) and (left_s := self._grace_ends_s - loop.time()) > 0:
            _ = await asyncio.wait(self._tasks, timeout=min(left_s, 0.05), return_when=asyncio.FIRST_COMPLETED)
        self._closed = True
        if self._damage is None:
            await self._give_back()
        self._warm.clear()
        await self._end_tasks()
        if self.threads is not None:
            self.threads.shutdown()
        await self.resources.close()
        await self._membership.leave()

    async def _end_tasks(self) -> None:
        """End what runs in tasks. A step that goes on though it is cancelled is left where it stands: whoever takes over runs it again."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=GIVE_BACK_S)
            for task in left:
                logger.warning("%s goes on though it was cancelled, and is left behind; let CancelledError leave the step", task.get_name())

    async def _give_back(self) -> None:
        """Have the log say what is given back unfinished, if the store answers in time."""
        flying = [warm for warm in self._warm if warm.flights]
        for warm in flying:
            give_back(warm)
            if warm.undecided and not warm.busy:
                warm.busy = True
                _ = self.spawn(self._advance(warm))
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + GIVE_BACK_S
        while any(warm.busy for warm in flying) and loop.time() < ends_s:
            _ = await asyncio.wait(self._tasks, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)

    def _as_host(self) -> Host:
        archives = frozenset(one.name for one in self.workflows.values() if one.archive)
        return Host(self.holder, self.queues, self.versions, archives=archives)

    def _serve(self, queues: frozenset[str]) -> None:
        self.queues = queues | {""}
        self.host = self._as_host()

    async def _renewed(self, renewal: Renewal) -> None:
        self.clock.take(renewal.reading)
        await self._enter(renewal.moment.epoch)

    async def _enter(self, epoch: int) -> None:
        """If the store has begun a new epoch, it may have lost commits: what is known here is void."""
        if epoch > self.epoch:
            self._membership.epoch = epoch
            logger.warning("the store is in a new epoch; all executions are read again")
            self._warm.clear()
            await self._begin_anew()

    async def _let_go(self) -> None:
        """Hold nothing any more. What is being committed comes first: written afterwards, nobody would be woken to go on with it."""
        held = list(self._warm)
        self._warm.clear()
        while any(warm.busy for warm in held):  # noqa: ASYNC110  # rare and short; an event for it would cost every commit
            await asyncio.sleep(0.01)
        await self._membership.let_go()

    async def _begin_anew(self) -> None:
        """Come back as another holder, holding nothing."""
        self._warm.clear()
        self._membership.rename()
        self.host = self._as_host()  # before anything can be held under the new name
        self.clock.take((await self._membership.join()).reading)
        self._ring.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run `work` as a task that ends with the engine, and whose failure is reported. What others do to context variables is nothing to it."""
        task = asyncio.create_task(work, context=self.variables.copy())
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, StoreDamaged):
            self._break_off(error)
        else:
            logger.error("a task of the engine failed; this is a defect of Perdure", exc_info=error)

    # what it takes on

    async def _claim(self) -> None:
        self._ring.clear()
        self.settled_mail.clear()
        asked_s = asyncio.get_running_loop().time()
        try:
            wanted = Claim(holder=self.holder, epoch=self.epoch, programs=self._programs, root=self.root, limit=CLAIM_MAX, toolboxes=self._toolboxes)
            claimed = await self.store.claim(wanted)
        except StoreDamaged:
            raise
        except StoreError as error:
            logger.warning("could not claim: %s; what the store may have given is let go", error)
            await self._let_go()
            await self._begin_anew()
            await self._patience.wait()
            return
        self._patience = Patience()
        self.clock.take_answer(claimed.now_s, asked_s)
        self._alarm.at(claimed.next_at_s)
        for assignment in claimed.executions:
            self._take(assignment)
        if len(claimed.executions) == CLAIM_MAX:  # there may be more, and nobody rings for them
            self._ring.set()

    def _take(self, assignment: Assignment) -> None:
        head = assignment.head
        warm = self._warm.get(head.key)
        if warm is None:
            warm = self._warm.add(Warm(head.key, exists=True))
        elif not warm.busy and warm.version != head.version:
            warm.forget()
        warm.held = True
        warm.taken += 1
        for mail in assignment.mail:
            if (head.key, mail.number) in self.settled_mail:
                continue
            try:
                warm.put(Item(messages.decode_message(mail.body), mail))
            except StoreError as error:
                self._reports.report(head.key, mail.key, error)
                warm.postponing.append(postponed(mail, self.clock.now().latest_s, error))
        warm.undecided.append(Item(messages.Tick()))
        self._kick(warm)

    async def _wait(self) -> None:
        """Wait for a ring, for a time at which something is known to be due, or for the net."""
        if (now_s := asyncio.get_running_loop().time()) >= self._evict_at_s:
            self._warm.evict(now_s, self._idle_s)
            self._evict_at_s = now_s + self._poll_s
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ring.wait(), self._poll_s)

    # how an execution goes on

    def _kick(self, warm: Warm) -> None:
        if not warm.busy and warm.undecided and not self._closed:
            warm.busy = True
            _ = self.spawn(self._advance(warm))

    def deliver(self, warm: Warm, message: Message) -> None:
        """Take a message in hand that did not come by mail."""
        warm.put(Item(message))
        self._kick(warm)

    async def go_on(self, warm: Warm) -> None:
        """Advance an execution with what is in hand, unless that is being done."""
        if not warm.busy and not self._closed:
            warm.busy = True
            await self._advance(warm)

    async def _advance(self, warm: Warm) -> None:
        wait_s = 0.05
        try:
            while warm.undecided and self._warm.get(warm.key) is warm:
                taken = warm.taken
                try:
                    await advance(self, warm)
                    wait_s = 0.05
                    warm.bear()
                except UNREADABLE as error:
                    await self._set_aside(warm, error)
                except Incapable as incapable:
                    await self._hand_on(warm, incapable)
                except StoreDamaged as damage:
                    warm.forget()
                    self._break_off(damage)
                    return
                except StoreError as error:
                    logger.warning("could not advance %s: %s; reading it again in %.2g s", warm.key, error, wait_s)
                    warm.forget()
                    await asyncio.sleep(wait_s)
                    wait_s = min(wait_s * 2, 5.0)
                except LostRace as lost:
                    warm.forget()
                    if self._membership.lapsed:
                        await self._renewed(await self._membership.renew())
                    if not lost.ours and warm.taken == taken:
                        self._warm.drop(warm)
                except NewEpoch as new:
                    await self._enter(new.epoch)
                except asyncio.CancelledError as error:
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        raise
                    self._note_defect(warm, error)  # nothing has cancelled this task: it came out of the program, and would again
                except Exception as defect:
                    self._note_defect(warm, defect)
        except asyncio.CancelledError:
            if not self._closed:  # by code of a step that knows the task in which it ran: another goes on
                warm.forget()
                asyncio.get_running_loop().call_soon(self._kick, warm)
            raise
        finally:
            warm.busy = False
        if self._warm.get(warm.key) is warm:
            self._settle_down(warm)
        else:
            warm.abandon()  # it was, while it was being read or written, and must not come back to life

    def _note_defect(self, warm: Warm, defect: BaseException) -> None:
        """Has an execution parked that can't be advanced, in its next decision; raises the defect if that is not possible either."""
        if warm.defect or not warm.exists:
            self._doom(warm, defect)
            if isinstance(defect, asyncio.CancelledError):  # raised as it is, it would be taken for a cancel of this task, and tried again for ever
                raise RuntimeError(f"the program of {warm.key} was cancelled from within; this is a defect of Perdure") from defect
            raise defect
        if not isinstance(defect, ProgrammingError):
            logger.error("%s can't go on and is parked; this is a defect of Perdure", warm.key, exc_info=defect)
        warm.defect = shortened(said_by(defect), limits.ERROR_MESSAGE_CHARACTERS_MAX)
        warm.forget()

    async def _set_aside(self, warm: Warm, error: StoreError) -> None:
        """Give an execution back whose log can't be read here, so that it is seen, and is tried again by who can."""
        self._reports.report(warm.key, "", error)
        if not warm.exists:
            self._doom(warm, error)
            return
        changed: dict[str, Any] = {} if isinstance(error, SealedPayload) else {"status": "needs_attention"}
        await self._give_back_to(warm, changed, retry_s(error))

    async def _hand_on(self, warm: Warm, incapable: Incapable) -> None:
        """Give an execution to engines that have what it needs. Its head says so, and this one claims it no more, unless it has that for another
        definition of its name."""
        self._reports.incapable(warm.key, described(incapable.lacking))
        if not warm.exists:
            self._doom(warm, MissingCapabilities(str(warm.key), described(incapable.lacking)))
            return
        program = "\n".join((base(warm.pinned), *sorted(incapable.needs)))
        has_elsewhere = claimable([program], self._toolboxes)
        await self._give_back_to(warm, {"program": program}, SEALED_RETRY_S if has_elsewhere else 0.0)

    async def _give_back_to(self, warm: Warm, changed: Mapping[str, Any], wait_s: float) -> None:
        """Give back an execution that can't go on here; with `wait_s`, neither time nor the mail that is here wakes it before."""
        now_s = self.clock.now().latest_s
        mail = (item.mail for item in warm.undecided if item.mail is not None)
        postponing = [*warm.postponing, *(Ack(one.to, one.key, postpone_to_s=now_s + wait_s) for one in mail if wait_s)]
        try:
            (head,) = await self.store.heads(Filter(keys=(warm.key,), limit=1)) or (None,)
            if head is not None and head.holder == self.holder:
                head = msgspec.structs.replace(head, **({} if head.ended_at_s is not None else changed))
                _ = await release(self.store, (self.holder, self.epoch), head, postponing, now_s + wait_s)
        except StoreDamaged as damage:
            self._break_off(damage)
        except StoreError as trouble:
            logger.warning("could not give %s back: %s; trying again", warm.key, trouble)
            await self._patience.wait()
            return
        self._warm.drop(warm)

    def _break_off(self, damage: StoreDamaged) -> None:
        """Have `run` fail: what is read from now on may be wrong, and what is written may make the damage worse."""
        self._damage = damage
        self._ring.set()

    def _doom(self, warm: Warm, defect: BaseException) -> None:
        """Whoever waits for this execution is told of the defect that ended its task, rather than left waiting."""
        if warm.born is not None and not warm.born.done():
            warm.born.set_exception(defect)
        self._endings.fail_one(warm.key, defect)
        self._warm.drop(warm)

    def _settle_down(self, warm: Warm) -> None:
        """After a commit: watch the time for what is held, let go of what has ended or should leave memory."""
        execution = warm.execution
        loop = asyncio.get_running_loop()
        warm.touched_s = loop.time()
        warm.stop_timer()
        if execution is not None and warm.held and not self.stopping:
            due_s = warm.wake_at(self.clock, warm.touched_s)
            if due_s is not None:
                warm.timer = loop.call_at(self.clock.at(due_s), self.deliver, warm, messages.Tick())
        if execution is not None and (execution.ended is not None or execution.parked is not None or not warm.held):
            self._endings.tell(warm.key, execution.ended)
        if execution is not None and not warm.held:
            self._alarm.at(execution.wake_at())
        if execution is not None and (execution.ended is not None or warm.leaving) and not warm.held and not warm.undecided:
            self._warm.drop(warm)
        self._warm.weigh(warm)
        if self._idle_s <= 0 and not warm.undecided:
            warm.forget()

    # what people ask of it

    async def start(self, key: Key, value: bytes) -> bool:
        """Start an execution here, unless there is one of this key; return whether it was created.

        Raises:
            UnknownProgram: this engine does not know the workflow.
        """
        workflow = self.workflows.get(key.workflow)
        if workflow is None:
            raise UnknownProgram(key.workflow, list(self.workflows))
        start = messages.Start(workflow.version, value, self._seed(), None, workflow.deadline_s, definition=workflow.definition, grace_s=workflow.grace_s)
        while not self.stopping:
            warm = self._warm.get(key)
            ours = warm is None
            if warm is None:
                warm = self._warm.add(Warm(key, exists=False))
                warm.born = asyncio.get_running_loop().create_future()
                self.deliver(warm, start)
            seed = None if warm.born is None else await asyncio.shield(warm.born)
            if seed is not None or warm.exists:
                return ours and start.seed == (seed if seed is not None else await persistently(lambda: seed_of(self.store, key)))
            await asyncio.sleep(0)  # it was given up before it was durable: once more
        raise StoreUnavailable(f"the engine has stopped before {key} was started; start it again")

    def ending(self, key: Key) -> "asyncio.Future[Ended | None]":
        """A future that is done when the execution next ends here or (then with None) is not gone on with, and fails if the engine does."""
        return self._endings.of(key)

    def _holds(self, key: Key) -> bool:
        warm = self._warm.get(key)
        return warm is not None and warm.held


def _programs(workflows: Mapping[str, Workflow]) -> frozenset[str]:
    return frozenset(name for one in workflows.values() for name in one.programs)
