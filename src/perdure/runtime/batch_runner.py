"""Advances all executions that are ready, in passes: decides on each, commits all decisions in one call of the store, then begins the attempts they open.

A *runner* is a task that does everything that does not wait: it decides, and it performs steps until they end or first wait for something. Only when it has
to wait itself, for the store or inside a step, and something else is ready, another runner is started; each ends when nothing is left for it. So a step that
does not wait costs no task, and executions that are ready together cost one call of the store.

An execution is `busy` from the moment when it is queued here until its decision is committed and acted upon.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from functools import partial
from types import coroutine
from typing import Any, Protocol, TypeVar

from perdure.code import deterministic_loop
from perdure.runtime.decision_loop import (
    act_on_decision,
    begin_unlogged,
    commit_of,
    compact_execution,
    decide_on_messages,
    is_still_held,
    may_be_held_again,
    read_clock_of,
    record_answer,
    restore_execution,
    wants_compaction,
)
from perdure.runtime.engine_services import EngineServices
from perdure.runtime.in_flight import attempts_of
from perdure.runtime.resident_executions import PendingDecision, ResidentExecution
from perdure.stores.protocol import Commit, Committed

T = TypeVar("T")

BATCH_MAX = 256
"""How many decisions are committed at most in one call of the store: meanwhile the next ones can be made."""

TURNS_MAX = 32
"""How many batches and steps follow each other at most before the event loop gets a turn, where none of them waits."""


class BatchOwner(EngineServices, Protocol):
    """The services that a runner needs from its engine, besides those for decisions and attempts."""

    def is_resident(self, resident: ResidentExecution) -> bool:
        """Whether the execution is still in the cache."""
        ...

    async def recover(self, resident: ResidentExecution, error: BaseException) -> None:
        """Handle an error of an execution that is busy: report it, wait, release or park it. Then `finish` is called."""
        ...

    def finish(self, resident: ResidentExecution) -> None:
        """Take note that an execution is no longer busy, and queue it again if messages have arrived."""
        ...


class BatchRunner:
    """The queue of executions and attempts that are ready, and the runners that work on it."""

    def __init__(self, engine: BatchOwner) -> None:
        self._engine = engine
        self._ready: deque[ResidentExecution] = deque()
        self._attempts: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._awaiting_listeners: dict[str, list[ResidentExecution]] = {}
        self._is_requested = self._is_starting = False
        self.choose: Callable[[int], int] | None = None  # which of so many is next, in place of the first; simulations explore orders with it

    def add(self, resident: ResidentExecution) -> None:
        """Queues an execution, which is busy from now on, to be decided on."""
        resident.busy = True
        self._ready.append(resident)
        self._request_runner()

    def begin(self, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Queues an attempt; `attempt` makes the coroutine that performs it."""
        self._attempts.append(attempt)
        self._request_runner()

    def _request_runner(self) -> None:
        """Has a runner started in the next turn of the event loop, if the one that runs now, if any, leaves something: then it waits for something."""
        if not self._is_requested:
            self._is_requested = True
            asyncio.get_running_loop().call_soon(self._start_runner)

    def _start_runner(self) -> None:
        self._is_requested = False
        if (self._ready or self._attempts) and not self._is_starting:
            self._is_starting = True
            _ = self._engine.spawn(self._run())

    async def _run(self) -> None:
        self._is_starting = False
        me, turns = asyncio.current_task(), 0
        assert me is not None, "it runs in a task"
        try:
            # A step may have cancelled its task and ended all the same: nothing else may run in a task that is being cancelled.
            while not me.cancelling():
                if self._attempts:
                    attempt = self._next(self._attempts)
                    self._request_runner_for_rest()
                    try:
                        if await run_in_context(attempt(), self._engine.variables.copy()):
                            return  # while it waited, something may have learned of this task that will cancel it later, such as a timer
                    except GeneratorExit:
                        # Something that the step awaited has raised it. Python then closes all coroutines down to this one; the attempt has recorded it.
                        if not _is_current(me):
                            raise  # this coroutine itself is being closed
                elif self._ready:
                    await self._advance_batch()
                else:
                    return
                turns += 1
                if turns % TURNS_MAX == 0:
                    await asyncio.sleep(0)
        finally:
            self._request_runner_for_rest()

    def _request_runner_for_rest(self) -> None:
        if self._ready or self._attempts:
            self._request_runner()

    def _next(self, queue: deque[T]) -> T:
        if self.choose is not None:
            queue.rotate(-self.choose(len(queue)))
        return queue.popleft()

    async def _advance_batch(self) -> None:
        decided = await _outside_of_tasks(self._decide_batch) if deterministic_loop.ONE_TASK_PER_THREAD else self._decide_batch()
        if not decided:
            return
        self._request_runner_for_rest()
        asked_s = asyncio.get_running_loop().time()
        try:
            answers = await self._engine.store.commit([commit for _, commit in decided])
        except asyncio.CancelledError:
            for pending, _ in decided:
                self._note_unbegun(pending)
                self._give_up(pending.resident)
                self._engine.finish(pending.resident)  # a step may have had this task cancelled; its executions go on
            raise
        except Exception as error:  # the engine handles it: it repeats the decisions or parks the executions
            for pending, _ in decided:
                self._note_unbegun(pending)
                self._fail(pending.resident, error)
            return
        is_surely_ours = read_clock_of(self._engine, answers, asked_s)
        for (pending, commit), answer in zip(decided, answers, strict=True):
            try:
                record_answer(self._engine, pending.resident, commit, answer, is_surely_ours)
                if may_be_held_again(pending.resident, commit):
                    _ = self._engine.spawn(self._act_if_held(pending))
                else:
                    self._act(pending)
            except Exception as error:  # the engine handles it for this execution; the others of the batch are recorded
                if not is_surely_ours and isinstance(answer, Committed):
                    self._note_unbegun(pending)
                self._fail(pending.resident, error)

    def _decide_batch(self) -> list[tuple[PendingDecision, Commit]]:
        """Decides on executions that are ready. Those that must be restored, or need a blob, are queued again when that is done."""
        decided: list[tuple[PendingDecision, Commit]] = []
        while self._ready and len(decided) < BATCH_MAX:
            resident = self._next(self._ready)
            try:
                if not self._engine.is_resident(resident):
                    self._give_up(resident)
                    self._engine.finish(resident)
                elif resident.execution is None and resident.exists:
                    self._wait_for([resident], partial(restore_execution, self._engine, resident))
                else:
                    if resident.execution is None:
                        begin_unlogged(self._engine, resident)
                    pending = resident.pending = resident.pending or PendingDecision(resident)
                    if (blob := decide_on_messages(self._engine, pending)) is not None:
                        self._wait_for([resident], partial(self._load_blob, pending, blob))
                    elif pending.batch and self._lacks_listeners(pending):
                        self._wait_for_listeners(resident)
                    elif pending.batch:
                        decided.append((pending, commit_of(self._engine, resident, pending)))
                    else:
                        resident.pending = None
                        self._engine.finish(resident)
            except (Exception, asyncio.CancelledError) as error:  # a program may raise the second: no task is being cancelled here
                self._fail(resident, error)
        return decided

    def _act(self, pending: PendingDecision) -> None:
        resident = pending.resident
        resident.pending = None
        if self._engine.unbegun:
            self._engine.unbegun.forget(resident.key)
        act_on_decision(self._engine, pending)
        resident.resolve_start_seed()
        resident.retry_wait_s = 0.0
        if wants_compaction(resident):
            self._wait_for([resident], partial(compact_execution, self._engine, resident), self._engine.finish)
        else:
            self._engine.finish(resident)

    async def _act_if_held(self, pending: PendingDecision) -> None:
        try:
            if not await is_still_held(self._engine, pending.resident):
                pending.resident.drop_undecided()
            self._act(pending)
        except Exception as error:  # the engine handles it for this execution
            self._fail(pending.resident, error)

    def _lacks_listeners(self, pending: PendingDecision) -> bool:
        execution, announcer = pending.resident.execution, self._engine.announcer
        if pending.decision.is_routine or announcer is None or execution is None:
            return False
        return announcer.lacks_listeners(execution, pending.decision.events)

    def _wait_for_listeners(self, resident: ResidentExecution) -> None:
        """Has a busy execution wait until it is read who listens to its tenant, once for all executions that need it now."""
        tenant = resident.key.tenant
        if (waiting := self._awaiting_listeners.get(tenant)) is not None:
            waiting.append(resident)
        else:
            self._awaiting_listeners[tenant] = [resident]
            self._wait_for(self._awaiting_listeners[tenant], partial(self._read_listeners, tenant))

    async def _read_listeners(self, tenant: str) -> None:
        try:
            if self._engine.announcer is not None:
                await self._engine.announcer.read_listeners(tenant)
        finally:
            del self._awaiting_listeners[tenant]

    async def _load_blob(self, pending: PendingDecision, sha256: str) -> None:
        pending.payload = await self._engine.payloads.get(sha256)

    def _wait_for(
        self, waiting: list[ResidentExecution], work: Callable[[], Coroutine[Any, Any, None]], then: Callable[[ResidentExecution], None] | None = None
    ) -> None:
        """Performs `work` for busy executions in a task of its own, and queues those again that are `waiting` by then, or calls `then` for each."""

        async def wait() -> None:
            try:
                await work()
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    for resident in waiting:
                        self._give_up(resident)
                    raise
                for resident in waiting:
                    self._fail(resident, error)  # a program raised it as it was replayed
            except Exception as error:  # of a store, a program or user code; the engine handles it for these executions
                for resident in waiting:
                    self._fail(resident, error)
            else:
                for resident in waiting:
                    (then or self.add)(resident)

        _ = self._engine.spawn(wait())

    def _note_unbegun(self, pending: PendingDecision) -> None:
        """Remembers that nothing is begun of a decision that may be durable."""
        self._engine.unbegun.add(pending.resident.key, attempts_of(pending.decision.events))

    def _give_up(self, resident: ResidentExecution) -> None:
        """Returns the messages of a decision that is not committed. State and program are ahead of the store, so they are discarded."""
        pending, resident.pending = resident.pending, None
        if pending is not None:
            resident.put_back(pending.batch)
        resident.discard_state()
        resident.busy = False

    def _fail(self, resident: ResidentExecution, error: BaseException) -> None:
        """Has an error handled by the engine. Nothing of the decision is acted upon; its messages are decided on again."""
        pending, resident.pending = resident.pending, None
        if pending is not None:
            resident.put_back(pending.batch)
        _ = self._engine.spawn(self._engine.recover(resident, error))


@coroutine
def run_in_context(work: Coroutine[Any, Any, object], context: Context) -> Generator[Any, Any, bool]:
    """Awaits `work` in a context of its own: what it sets in context variables is seen by nothing else that runs in the same task.

    Returns whether it has waited for something.
    """
    run, has_waited = context.run, False
    try:
        waits_for = run(work.send, None)
        while True:
            has_waited = True
            try:
                sent = yield waits_for
            except GeneratorExit:
                run(work.close)
                raise
            except BaseException as error:  # any exception, since it is thrown into the awaited coroutine
                waits_for = run(work.throw, error)
            else:
                waits_for = run(work.send, sent)
    except StopIteration:
        return has_waited


def _is_current(task: "asyncio.Task[Any]") -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no event loop runs here
        return False


async def _outside_of_tasks(work: Callable[[], T]) -> T:
    """Calls `work` in a callback and not in a task, where a deterministic loop may be driven from Python 3.14 on."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def call() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # passed on by the future, of any class
            done.set_exception(error)

    loop.call_soon(call)
    return await done
