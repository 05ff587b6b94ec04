"""The calls in flight: attempts that an engine performs itself. They begin once the decision is durable, and end when they are answered or dropped."""

import asyncio
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from perdure.code.declarations import Step
from perdure.code.step_environment import StepControl, StepInfo
from perdure.core import events as e
from perdure.core import messages
from perdure.core.carried import Carried
from perdure.core.envelopes import QueuedMessage
from perdure.core.execution import Execution
from perdure.core.operations import CallOperation, Failure
from perdure.core.paths import Path
from perdure.core.secret_masks import SecretFinder
from perdure.core.values import Value
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.runtime.attempt_reports import HeartbeatThrottle
from perdure.runtime.call_secrets import secret_finder
from perdure.runtime.engine_services import EngineServices
from perdure.runtime.resident_executions import InFlightAttempt, ResidentExecution, UndecidedMessage
from perdure.runtime.step_runner import (
    failure_of_generator_exit,
    form_of_attempt,
    ignore_own_cancellation,
    is_transactional,
    run_step,
    run_transactional_step,
)
from perdure.runtime.unbegun_attempts import LoggedAttempt
from perdure.stores.protocol import TransactionGuard

Call = tuple[Any, CallOperation, Value, Carried, int]
"""What an attempt performs: the function, its operation, the progress of the attempt before, what the execution carries, and how many attempts directly before
were interrupted."""


def act_on_events(engine: EngineServices, resident: ResidentExecution, events: Iterable[e.Event]) -> None:
    """Acts on committed events: begins the attempts of this engine, and ends those that are no longer needed."""
    for event in events:
        act = _ACTIONS.get(type(event))
        if act is not None:
            act(engine, resident, event)


def attempts_of(events: Iterable[e.Event]) -> Iterator[LoggedAttempt]:
    """Yields the attempts that `act_on_events` would begin in the engine that has made these events."""
    for event in events:
        if isinstance(event, e.OpenedEvent) and event.by is not None and isinstance(event.op, CallOperation):
            yield event.by, event.path, 1
        elif isinstance(event, e.AttemptStartedEvent) and event.by is not None:
            yield event.by, event.path, event.attempt


def _act_on_opened(engine: EngineServices, resident: ResidentExecution, event: e.OpenedEvent) -> None:
    if event.by == engine.holder and isinstance(event.op, CallOperation):
        _begin_attempt(engine, resident, event.path, 1)


def _act_on_attempt(engine: EngineServices, resident: ResidentExecution, event: e.AttemptStartedEvent) -> None:
    if event.by == engine.holder:
        _begin_attempt(engine, resident, event.path, event.attempt)


def _act_on_dropped(_: EngineServices, resident: ResidentExecution, event: e.DroppedEvent) -> None:
    if event.until_s is None:
        end_attempt(resident, event.path)
    elif (running := resident.in_flight.get(event.path)) is not None:
        running.cancel()


def _act_on_attempt_end(_: EngineServices, resident: ResidentExecution, event: e.SettledEvent | e.RetryingEvent | e.InterruptedEvent) -> None:
    end_attempt(resident, event.path)


def _act_on_evicted(_: EngineServices, resident: ResidentExecution, __: e.EvictedEvent) -> None:
    resident.drop_when_released = True
    give_back_attempts(resident, resident.threads.keys() | _paths_in_grace(resident))


def _act_on_end(_: EngineServices, resident: ResidentExecution, __: e.EndedEvent | e.ReopenedEvent) -> None:
    for path in list(resident.in_flight):
        end_attempt(resident, path)


_ACTIONS: Mapping[type[e.Event], Callable[[EngineServices, ResidentExecution, Any], None]] = {
    e.OpenedEvent: _act_on_opened,
    e.AttemptStartedEvent: _act_on_attempt,
    e.DroppedEvent: _act_on_dropped,
    e.SettledEvent: _act_on_attempt_end,
    e.RetryingEvent: _act_on_attempt_end,
    e.InterruptedEvent: _act_on_attempt_end,
    e.EvictedEvent: _act_on_evicted,
    e.EndedEvent: _act_on_end,
    e.ReopenedEvent: _act_on_end,
}


def end_attempt(resident: ResidentExecution, path: Path) -> None:
    """Ends the attempt in flight at `path`, if there is one."""
    running = resident.in_flight.pop(path, None)
    if resident.step_controls:
        resident.step_controls.pop(path, None)
    if running is not None and running.end():
        resident.has_cancelled_step = True


def _paths_in_grace(resident: ResidentExecution) -> set[Path]:
    """Returns the paths of dropped calls in their grace. They stay here, because no other engine could continue them."""
    return set() if resident.execution is None else {pending.path for pending in resident.execution.opened.cancelled()}


def end_stale_attempts(resident: ResidentExecution, execution: Execution) -> None:
    """Ends attempts in flight that the log, read again, shows as settled, and cancels those that are in their grace."""
    for path, running in list(resident.in_flight.items()):
        pending = execution.open.get(path)
        if pending is None or pending.attempt != running.attempt or pending.state != "performing":
            end_attempt(resident, path)
        elif pending.grace_until_s is not None:
            running.cancel()


def give_back_attempts(resident: ResidentExecution, but: Container[Path] = ()) -> None:
    """Ends the attempts in flight, except at the paths `but`, and reports them as given back: an orderly stop does not count as an interruption.

    A step that has begun and is not idempotent ends as interrupted all the same, since it is not known how far it came.
    """
    for path, running in list(resident.in_flight.items()):
        if not running.is_answered and path not in but:
            end_attempt(resident, path)
            begun = running.control is not None and running.control.begun
            resident.put(UndecidedMessage(messages.LostMessage(path, running.attempt, 0, begun)))


def _begin_attempt(engine: EngineServices, resident: ResidentExecution, path: Path, attempt: int) -> None:
    execution = resident.execution
    pending = None if execution is None else execution.open.get(path)
    if execution is None or pending is None or pending.attempt != attempt or pending.state != "performing" or resident.program is None:
        return
    if engine.stopping or resident.drop_when_released or pending.grace_until_s is not None:  # the last: a call that the commit which opened it also dropped
        resident.put(UndecidedMessage(messages.LostMessage(path, attempt, 0, begun=False)))
        return
    fn, op = resident.program.steps.get(path), pending.op
    if fn is not None and isinstance(op, CallOperation):
        if path in resident.in_flight:
            end_attempt(resident, path)
        resident.in_flight[path] = running = InFlightAttempt(attempt)
        call = (fn, op, pending.progress, execution.carried, pending.interruptions)
        if is_transactional(fn) and engine.perform is run_step:
            running.task = engine.spawn(_run_transactional_attempt(engine, resident, path, running, call))
        elif isinstance(fn, Step) and fn.form is not None and engine.perform is run_step:
            running.task = engine.spawn(_run_attempt_in_its_form(engine, resident, path, running, call))
        else:
            engine.begin(partial(_run_attempt, engine, resident, path, running, call))


async def _run_attempt(engine: EngineServices, resident: ResidentExecution, path: Path, running: InFlightAttempt, call: Call) -> None:
    def is_wanted() -> bool:  # ending an attempt removes it from `in_flight` before it cancels its task
        return resident.in_flight.get(path) is running

    def busy(thread: "asyncio.Future[Any]") -> None:
        resident.threads[path] = thread
        thread.add_done_callback(lambda _: _thread_ended(engine, resident, path, thread))

    if resident.has_cancelled_step:  # such as the one that this step undoes: its CancelledError comes first, in the next turn of the event loop
        resident.has_cancelled_step = False
        await asyncio.sleep(0)
    if not is_wanted():
        return
    (fn, op, reported, carried, interruptions), attempt = call, running.attempt
    running.task = me = asyncio.current_task()
    heartbeats = HeartbeatThrottle(lambda said: engine.deliver(resident, messages.ProgressMessage(path, attempt, said)))
    control = running.attach_control(StepControl(heartbeats.beat, op.secrets, _secret_finder(engine, resident)))
    if op.timeout_s is not None or op.heartbeat_s is not None:
        control.began_s = asyncio.get_running_loop().time()
        resident.step_controls[path] = control
    info = StepInfo(resident.key, path, attempt, reported, control, op.timeout_s, carried, interruptions)
    observed, outcome = None if engine.observer is None else engine.observer.begin_attempt(info, op.target, ""), None
    try:
        trying = engine.perform(fn, op.args, info, engine.payloads, engine.threads, busy)
        outcome = await ignore_own_cancellation(trying, is_wanted, me)
    except GeneratorExit as error:
        outcome = failure_of_generator_exit(fn, error, me, info.mask)
    finally:
        control.over = True
        heartbeats.close()
        if observed is not None:
            observed.ended(outcome)
    if control.keeps or isinstance(outcome, Failure):
        heartbeats.flush()
    if is_wanted():
        running.answer()
    was_begun = control.begun or not running.is_cancelled
    resident.put(UndecidedMessage(messages.SettleMessage(path, attempt, outcome) if was_begun else messages.LostMessage(path, attempt, 0, begun=False)))
    engine.schedule(resident)


def _secret_finder(engine: EngineServices, resident: ResidentExecution) -> SecretFinder:
    """Returns the resolver of the secrets of an execution: that of its definition, or else that of the process."""
    workflow = resident.workflow
    return secret_finder(engine.secrets, resident.key.tenant, workflow.secrets if isinstance(workflow, GraphWorkflow) else None)


async def _run_attempt_in_its_form(engine: EngineServices, resident: ResidentExecution, path: Path, running: InFlightAttempt, call: Call) -> None:
    """Runs a step that may be transactional, as one if that applies to its arguments."""
    fn, op, _, carried, _ = call
    life = StepControl(lambda _: None, op.secrets, _secret_finder(engine, resident))
    info = StepInfo(resident.key, path, running.attempt, life=life, carried=carried)
    step = await form_of_attempt(fn, op.args, info, engine.payloads)
    run = _run_transactional_attempt if step.transaction else _run_attempt
    await run(engine, resident, path, running, (step, *call[1:]))


async def _run_transactional_attempt(engine: EngineServices, resident: ResidentExecution, path: Path, running: InFlightAttempt, call: Call) -> None:
    """Runs a transactional step. The execution is busy from its beginning until its outcome is decided on, so that no timeout or cancel comes between."""

    def is_wanted() -> bool:
        return resident.in_flight.get(path) is running

    while resident.busy and is_wanted():  # noqa: ASYNC110  # a commit is under way and short; an event for it would cost every commit
        await asyncio.sleep(0.0005)
    if not is_wanted():
        return
    (fn, op, _, carried, _), attempt = call, running.attempt
    life = StepControl(lambda _: None, op.secrets, _secret_finder(engine, resident))
    info = StepInfo(resident.key, path, attempt, life=life, timeout_s=op.timeout_s, carried=carried)
    guard = TransactionGuard(key=resident.key, holder=engine.holder, epoch=engine.epoch, answer=messages.attempt_answer_key(path, attempt))
    resident.busy = True
    observed, outcome = None if engine.observer is None else engine.observer.begin_attempt(info, op.target, ""), None
    try:
        performing = run_transactional_step(engine.store, (fn, op.args), info, guard, engine.threads)
        outcome = await ignore_own_cancellation(performing, is_wanted, asyncio.current_task())
    finally:
        resident.busy = False
        if observed is not None:
            observed.ended(outcome)
    if is_wanted():
        running.answer()
    if outcome is not None:  # None: the answer is among the messages, or another engine holds the execution
        answered = None if isinstance(outcome, Failure) else QueuedMessage(0, resident.key, guard.answer, b"", 0.0)
        resident.undecided.appendleft(UndecidedMessage(messages.SettleMessage(path, attempt, outcome), answered))
    engine.schedule(resident)


def _thread_ended(engine: EngineServices, resident: ResidentExecution, path: Path, thread: "asyncio.Future[Any]") -> None:
    if not thread.cancelled():
        thread.exception()
    if resident.threads.get(path) is thread:
        del resident.threads[path]
        if path not in resident.in_flight and resident.held:
            engine.deliver(resident, messages.TickMessage())
