"""The engine: claims executions whose programs it knows, advances them, and performs their calls.

Everything it holds in memory may be lost at any instant. It acts on a decision only once that is durable, and what it was
performing when it died is found by whoever takes over.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from heapq import heappop, heappush
from typing import Any

from perdure.core import events as e
from perdure.core import messages
from perdure.core.decide import Host
from perdure.core.errors import LogDamaged, StoreError, UnknownProgram
from perdure.core.execution import Execution
from perdure.core.messages import Message, Settle
from perdure.core.ops import Call
from perdure.core.paths import Key, Path
from perdure.core.values import Value
from perdure.programs.code.declare import CodeWorkflow
from perdure.programs.code.info import StepInfo
from perdure.programs.code.instance import Instance
from perdure.runtime.advance import LostRace, NewEpoch, advance
from perdure.runtime.clock import StoreClock
from perdure.runtime.holder import Holder, bell
from perdure.runtime.housekeeping import Housekeeping
from perdure.runtime.payloads import Payloads
from perdure.runtime.perform import perform
from perdure.runtime.warm import Item, Warm
from perdure.stores.base import Assignment, Claim, Moment, Store

logger = logging.getLogger("perdure.engine")

POLL_S = 1.0
"""How often an idle engine asks the store: the net under the rings."""

LEASE_S = 15.0
"""How long a holder that has fallen silent is taken to be alive."""

CLAIM_MAX = 100
"""How many executions are claimed at a time."""


class Engine:
    """Advances the executions of some workflows on a store, until stopped.

    With `root`, only that execution and its descendants. `idle_s` is how long a waiting execution stays in memory; with 0 every
    execution leaves memory after each commit, and is rebuilt for the next (always suspend).
    """

    def __init__(
        self,
        store: Store,
        workflows: Iterable[CodeWorkflow],
        *,
        queues: Iterable[str] = (),
        holder: str | None = None,
        root: Key | None = None,
        lease_s: float = LEASE_S,
        poll_s: float = POLL_S,
        idle_s: float = 60.0,
        seed: Callable[[], int] = lambda: secrets.randbits(62),
    ) -> None:
        self.store = store
        self.payloads = Payloads(store)
        self.workflows: Mapping[str, CodeWorkflow] = {one.name: one for one in workflows}
        self.versions = {one.name: one.version for one in self.workflows.values()}
        self.queues = frozenset(("", *queues))
        self.root = root
        self._programs = frozenset(name for one in self.workflows.values() for name in one.programs)
        self._membership = Holder(store, holder, "engine", lease_s)
        self._housekeeping = Housekeeping(store)
        self._poll_s = poll_s
        self._idle_s = idle_s
        self._seed = seed
        self._dues: list[float] = []
        self._evict_at_s = 0.0
        self._warm: dict[Key, Warm] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._endings: dict[Key, asyncio.Future[None]] = {}
        self._threads: Executor | None = None
        self._stopping = False
        self._is_ready = asyncio.Event()
        self._ring = asyncio.Event()

    # its life

    @property
    def holder(self) -> str:
        """The name under which it holds executions at present."""
        return self._membership.name

    @property
    def epoch(self) -> int:
        """The epoch of the store that it works in."""
        return self._membership.epoch

    @property
    def lapsed(self) -> bool:
        """Whether its lease may have run out, so that what it holds may be others'."""
        return self._membership.lapsed

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
        self._threads = ThreadPoolExecutor(thread_name_prefix="perdure-step")
        silence = bell(self.store, self._ring)
        try:
            self._joined(await self._membership.join())
            _ = self._spawn(self._membership.keep_alive(self._renewed))
            self._is_ready.set()
            while not self._stopping:
                await self._claim()
                await self._housekeeping.turn(self.clock.now_s())
                await self._wait()
        finally:
            silence()
            await self._leave()

    def stop(self) -> None:
        """Make `run` return; what is in flight is abandoned, uncounted, and goes on elsewhere."""
        self._stopping = True
        self._ring.set()

    async def _leave(self) -> None:
        self._abandon_all()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        await self._membership.leave()

    def _joined(self, moment: Moment) -> None:
        self.clock.told(moment.now_s)
        self.host = Host(self.holder, self.queues, self.versions)

    async def _renewed(self, moment: Moment) -> None:
        self.clock.told(moment.now_s)
        await self._enter(moment.epoch)

    async def _enter(self, epoch: int) -> None:
        """If the store has begun a new epoch, it may have lost commits: what is known here is void."""
        if epoch > self.epoch:
            self._membership.epoch = epoch
            logger.warning("the store is in a new epoch; all executions are read again")
            self._abandon_all()
            await self._begin_anew()

    async def _let_go(self) -> None:
        """Hold nothing any more. What is being committed comes first: written afterwards, nobody would be woken to go on with it."""
        held = list(self._warm.values())
        self._abandon_all()
        while any(warm.busy for warm in held):  # noqa: ASYNC110  # rare and short; an event for it would cost every commit
            await asyncio.sleep(0.01)
        await self._membership.let_go()

    async def _begin_anew(self) -> None:
        """Come back as another holder, holding nothing."""
        self._abandon_all()
        self._joined(await self._membership.anew())
        self._ring.set()

    def _abandon_all(self) -> None:
        for warm in self._warm.values():
            warm.abandon()
        self._warm.clear()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the engine failed; this is a defect of Perdure", exc_info=error)

    # what it takes on

    async def _claim(self) -> None:
        self._ring.clear()
        try:
            claimed = await self.store.claim(Claim(holder=self.holder, epoch=self.epoch, programs=self._programs, root=self.root, limit=CLAIM_MAX))
        except StoreError as error:
            logger.warning("could not claim: %s; what the store may have given is let go", error)
            await self._let_go()
            await self._begin_anew()
            return
        self.clock.told(claimed.now_s)
        for assignment in claimed.executions:
            self._take(assignment)
        if len(claimed.executions) == CLAIM_MAX:
            self._ring.set()

    def _take(self, assignment: Assignment) -> None:
        head = assignment.head
        warm = self._warm.get(head.key)
        if warm is None:
            warm = self._warm[head.key] = Warm(head.key, exists=True)
        elif not warm.busy and warm.version != head.version:
            warm.forget()
        warm.held = True
        warm.taken += 1
        for mail in assignment.mail:
            message = messages.decode(mail.body)
            if isinstance(message, messages.Work):
                raise LogDamaged(f"mail {mail.number} to execution {head.key} is work for a queue")
            warm.put(Item(message, mail))
        warm.undecided.append(Item(messages.Tick()))
        self._kick(warm)

    async def _wait(self) -> None:
        """Wait for a ring, for the next time at which something given back from here is due, or for the net."""
        now_s = self.clock.now_s()
        if now_s >= self._evict_at_s:
            self._evict(now_s)
            self._evict_at_s = now_s + self._poll_s
        while self._dues and self._dues[0] <= now_s:
            heappop(self._dues)
            self._ring.set()
        wait_s = min(self._poll_s, self._dues[0] - now_s) if self._dues else self._poll_s
        try:
            await asyncio.wait_for(self._ring.wait(), wait_s)
        except TimeoutError:
            return

    def _evict(self, now_s: float) -> None:
        """Let executions that have waited for long leave memory; what is to happen next to each, the store knows."""
        idle = [warm for warm in self._warm.values() if not (warm.busy or warm.held or warm.undecided) and now_s - warm.touched_s >= self._idle_s]
        for warm in idle:
            warm.abandon()
            del self._warm[warm.key]

    # how an execution goes on

    def _kick(self, warm: Warm) -> None:
        if not warm.busy and warm.undecided and not self._stopping:
            warm.busy = True
            _ = self._spawn(self._advance(warm))

    def deliver(self, warm: Warm, message: Message) -> None:
        """Take a message in hand that did not come by mail."""
        warm.put(Item(message))
        self._kick(warm)

    async def _advance(self, warm: Warm) -> None:
        wait_s = 0.05
        try:
            while warm.undecided and self._warm.get(warm.key) is warm:
                taken = warm.taken
                try:
                    await advance(self, warm)
                    wait_s = 0.05
                    if warm.born is not None and not warm.born.done():
                        warm.born.set_result(True)
                except StoreError as error:
                    logger.warning("could not advance %s: %s; reading it again in %.2g s", warm.key, error, wait_s)
                    warm.forget()
                    await asyncio.sleep(wait_s)
                    wait_s = min(wait_s * 2, 5.0)
                except LostRace as lost:
                    warm.forget()
                    if self.lapsed:
                        await self._renewed(await self._membership.renew())
                    if warm.born is not None and not warm.born.done():
                        warm.born.set_result(False)
                    if not lost.ours and warm.taken == taken:
                        warm.abandon()
                        self._warm.pop(warm.key, None)
                except NewEpoch as new:
                    await self._enter(new.epoch)
        finally:
            warm.busy = False
        if self._warm.get(warm.key) is warm:
            self._settle_down(warm)
        else:
            warm.abandon()  # it was, while it was being read or written, and must not come back to life

    def _settle_down(self, warm: Warm) -> None:
        """After a commit: watch the time for what is held, let go of what has ended or should leave memory."""
        execution = warm.execution
        warm.touched_s = self.clock.now_s()
        warm.stop_timer()
        if execution is not None and warm.held:
            due_s = execution.wake_at(frozenset(warm.threads))
            if due_s is not None:
                warm.timer = asyncio.get_running_loop().call_at(self.clock.at(due_s), self.deliver, warm, messages.Tick())
        if execution is not None and (execution.ended is not None or execution.parked is not None):
            self._tell(warm.key)
        if execution is not None and execution.ended is not None and not warm.undecided:
            warm.abandon()
            self._warm.pop(warm.key, None)
        elif execution is not None and not warm.held and (due_s := execution.wake_at()) is not None:
            heappush(self._dues, due_s)
        if self._idle_s <= 0 and not warm.undecided:
            warm.forget()

    def parks(self, warm: Warm) -> bool:
        """Whether the coming commit leaves nothing for this process to do for the execution, so that it is given back with it."""
        return warm.execution is not None and not warm.undecided and not warm.threads and not warm.execution.performs

    def act(self, warm: Warm, events: Iterable[e.Event]) -> None:
        """Do what durable events ask of this process: begin tries that are its own, end those that nobody wants any more."""
        for event in events:
            match event:
                case e.Opened(path, Call(), by) if by == self.holder:
                    self._fly(warm, path, 1)
                case e.Tried(path, attempt, _, by) if by == self.holder:
                    self._fly(warm, path, attempt)
                case e.Dropped(path) | e.Settled(path) | e.Retrying(path) | e.Interrupted(path):
                    self._ground(warm, path)
                case e.Ended() | e.Reopened():
                    for path in list(warm.flights):
                        self._ground(warm, path)

    def ground_stale(self, warm: Warm, execution: Execution) -> None:
        """End the tries in flight that are over, as the log that was read again says."""
        for path, (attempt, _) in list(warm.flights.items()):
            promise = execution.open.get(path)
            if promise is None or promise.attempt != attempt or promise.state != "performing":
                self._ground(warm, path)

    def _ground(self, warm: Warm, path: Path) -> None:
        flight = warm.flights.pop(path, None)
        if flight is not None and flight[1] is not None:
            flight[1].cancel()

    def _fly(self, warm: Warm, path: Path, attempt: int) -> None:
        promise = None if warm.execution is None else warm.execution.open.get(path)
        if promise is None or promise.attempt != attempt or promise.state != "performing" or not isinstance(warm.program, Instance):
            return
        fn, op = warm.program.steps.get(path), promise.op
        if fn is not None and isinstance(op, Call):
            warm.flights[path] = (attempt, self._spawn(self._perform(warm, path, attempt, fn, op.args)))

    async def _perform(self, warm: Warm, path: Path, attempt: int, fn: Any, args: Value) -> None:
        def busy(thread: "asyncio.Future[Any]") -> None:
            warm.threads[path] = thread
            thread.add_done_callback(lambda _: self._thread_ended(warm, path, thread))

        outcome = await perform(fn, args, StepInfo(warm.key, path, attempt), self.payloads, self._threads, busy)
        flight = warm.flights.get(path)
        if flight is not None and flight[0] == attempt:
            warm.flights[path] = (attempt, None)  # landed: from here on there is nothing to cancel
        warm.put(Item(Settle(path, attempt, outcome)))
        if not warm.busy and not self._stopping:
            warm.busy = True
            await self._advance(warm)  # in this task, which saves one

    def _thread_ended(self, warm: Warm, path: Path, thread: "asyncio.Future[Any]") -> None:
        if not thread.cancelled():
            thread.exception()
        if warm.threads.get(path) is thread:
            del warm.threads[path]
            if path not in warm.flights and warm.held:
                self.deliver(warm, messages.Tick())

    # what people ask of it

    async def start(self, key: Key, value: bytes) -> bool:
        """Start an execution here, unless there is one of this key; return whether it was created.

        Raises:
            UnknownProgram: this engine does not know the workflow.
        """
        workflow = self.workflows.get(key.workflow)
        if workflow is None:
            raise UnknownProgram(key.workflow, list(self.workflows))
        if key in self._warm:
            return False
        warm = self._warm[key] = Warm(key, exists=False)
        warm.born = asyncio.get_running_loop().create_future()
        seed = self._seed()
        self.deliver(warm, messages.Start(workflow.version, value, seed, None, workflow.deadline_s))
        return await warm.born

    def ending(self, key: Key) -> "asyncio.Future[None]":
        """A future that is done when the execution next ends or parks here."""
        future = self._endings.get(key)
        if future is None or future.done():
            future = self._endings[key] = asyncio.get_running_loop().create_future()
        return future

    def _tell(self, key: Key) -> None:
        future = self._endings.pop(key, None)
        if future is not None and not future.done():
            future.set_result(None)
