"""Flights: the tries that an engine performs itself. They begin once the decision to begin them is durable, and end when nobody wants them."""

import asyncio
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any

from perdure.core import events as e
from perdure.core import messages
from perdure.core.execution import Execution
from perdure.core.mail import Mail
from perdure.core.masks import Find
from perdure.core.ops import Call, Err
from perdure.core.paths import Path
from perdure.core.values import Value
from perdure.programs.code.info import StepInfo, StepLife
from perdure.programs.graph.declare import GraphWorkflow
from perdure.runtime.beats import Beats
from perdure.runtime.perform import failed_from_outside, perform, uncancelled
from perdure.runtime.secrets import finding
from perdure.runtime.transact import in_transaction, transact
from perdure.runtime.warm import Flight, Item, Warm
from perdure.stores.base import Guard

if TYPE_CHECKING:
    from perdure.runtime.engine import Engine


def act(engine: "Engine", warm: Warm, events: Iterable[e.Event]) -> None:
    """Do what durable events ask of this process: begin tries that are its own, end those that nobody wants any more."""
    for event in events:
        match event:
            case e.Opened(path, Call(), by) if by == engine.holder:
                _begin(engine, warm, path, 1)
            case e.Tried(path, attempt, _, by) if by == engine.holder:
                _begin(engine, warm, path, attempt)
            case e.Dropped(path, float()):
                if (flight := warm.flights.get(path)) is not None:
                    flight.cancel()
            case e.Dropped(path) | e.Settled(path) | e.Retrying(path) | e.Interrupted(path):
                end(warm, path)
            case e.Evicted():
                warm.leaving = True
                give_back(warm, warm.threads.keys() | _in_grace(warm))
            case e.Ended() | e.Reopened():
                for path in list(warm.flights):
                    end(warm, path)


def end(warm: Warm, path: Path) -> None:
    """End the try in flight at `path`, if there is one."""
    flight = warm.flights.pop(path, None)
    warm.lives.pop(path, None)
    if flight is not None:
        flight.end()


def _in_grace(warm: Warm) -> set[Path]:
    """Where tries are in flight that nobody waits for any more: no other engine could go on with them."""
    return set() if warm.execution is None else {promise.path for promise in warm.execution.opened.cancelled()}


def end_stale(warm: Warm, execution: Execution) -> None:
    """End the tries in flight that are over, and tell those that are cancelled, as the log that was read again says."""
    for path, flight in list(warm.flights.items()):
        promise = execution.open.get(path)
        if promise is None or promise.attempt != flight.attempt or promise.state != "performing":
            end(warm, path)
        elif promise.grace_until_s is not None:
            flight.cancel()


def give_back(warm: Warm, but: Container[Path] = ()) -> None:
    """End the tries in flight, `but` some, and have the log say that they were given back: a stop in good order is no interruption."""
    for path, flight in list(warm.flights.items()):
        if flight.task is not None and path not in but:
            end(warm, path)
            warm.put(Item(messages.Lost(path, flight.attempt, 0)))


def _begin(engine: "Engine", warm: Warm, path: Path, attempt: int) -> None:
    promise = None if warm.execution is None else warm.execution.open.get(path)
    if promise is None or promise.attempt != attempt or promise.state != "performing" or warm.program is None:
        return
    if engine.stopping or promise.grace_until_s is not None:  # what was dropped in the commit that opened it is not begun
        warm.put(Item(messages.Lost(path, attempt, 0, begun=False)))
        return
    fn, op = warm.program.steps.get(path), promise.op
    if fn is not None and isinstance(op, Call):
        end(warm, path)
        warm.flights[path] = flight = Flight(attempt)
        flight.task = engine.spawn(_perform(engine, warm, path, flight, (fn, op, promise.progress)))


async def _perform(engine: "Engine", warm: Warm, path: Path, flight: Flight, call: tuple[Any, Call, Value]) -> None:
    def busy(thread: "asyncio.Future[Any]") -> None:
        warm.threads[path] = thread
        thread.add_done_callback(lambda _: _thread_ended(engine, warm, path, thread))

    (fn, op, reported), attempt = call, flight.attempt
    find = _finder(engine, warm)
    if in_transaction(fn) and engine.perform is perform:
        life = StepLife(lambda _: None, op.secrets, find)
        await _transact(engine, warm, StepInfo(warm.key, path, attempt, life=life), (fn, op.args))
        return
    beats = Beats(lambda said: engine.deliver(warm, messages.Progress(path, attempt, said)))
    life = flight.live(StepLife(beats.beat, op.secrets, find))
    if op.timeout_s is not None or op.heartbeat_s is not None:
        life.began_s = asyncio.get_running_loop().time()
        warm.lives[path] = life
    info = StepInfo(warm.key, path, attempt, reported, life, op.timeout_s)
    me = asyncio.current_task()
    try:
        trying = engine.perform(fn, op.args, info, engine.payloads, engine.threads, busy)
        outcome = await uncancelled(trying, lambda: _is_wanted(warm, path, attempt), me)
    except GeneratorExit as error:
        outcome = failed_from_outside(fn, error, me, info.mask)
    finally:
        life.over = True
        beats.close()
    if life.keeps or isinstance(outcome, Err):
        beats.flush()
    _land(warm, path, attempt)
    was_begun = life.begun or not flight.is_cancelled
    warm.put(Item(messages.Settle(path, attempt, outcome) if was_begun else messages.Lost(path, attempt, 0, begun=False)))
    await engine.go_on(warm)  # in this task, which saves one


def _is_wanted(warm: Warm, path: Path, attempt: int) -> bool:
    """Whether the outcome of a try in flight is still waited for: who ends it takes it out of the flights first."""
    flight = warm.flights.get(path)
    return flight is not None and flight.attempt == attempt


def _finder(engine: "Engine", warm: Warm) -> Find:
    """What finds the secrets of an execution: what its definition was given, else what the process was given."""
    workflow = warm.workflow
    return finding(engine.secrets, warm.key.tenant, workflow.secrets if isinstance(workflow, GraphWorkflow) else None)


def _land(warm: Warm, path: Path, attempt: int) -> None:
    """From here on there is nothing to cancel: what goes on in the task of the try is the execution itself."""
    flight = warm.flights.get(path)
    if flight is not None and flight.attempt == attempt:
        flight.task = None


async def _transact(engine: "Engine", warm: Warm, info: StepInfo, call: tuple[Any, Value]) -> None:
    """Carry out a step in a transaction. From its beginning until its answer is decided on, nothing else is: neither a timeout nor a cancel comes between."""

    def is_wanted() -> bool:
        return _is_wanted(warm, info.path, info.attempt)

    while warm.busy and is_wanted():  # noqa: ASYNC110  # a commit is under way, which is short
        await asyncio.sleep(0.0005)
    if not is_wanted():
        return
    warm.busy = True
    guard = Guard(key=warm.key, holder=engine.holder, epoch=engine.epoch, answer=messages.answer_key(info.path, info.attempt))
    try:
        outcome = await uncancelled(transact(engine.store, call, info, guard, engine.threads), is_wanted, asyncio.current_task())
    finally:
        warm.busy = False
    _land(warm, info.path, info.attempt)
    if outcome is not None:  # else the mail has the answer, or somebody else has the execution
        answered = None if isinstance(outcome, Err) else Mail(0, warm.key, guard.answer, b"", 0.0)
        warm.undecided.appendleft(Item(messages.Settle(info.path, info.attempt, outcome), answered))
    await engine.go_on(warm)


def _thread_ended(engine: "Engine", warm: Warm, path: Path, thread: "asyncio.Future[Any]") -> None:
    if not thread.cancelled():
        thread.exception()
    if warm.threads.get(path) is thread:
        del warm.threads[path]
        if path not in warm.flights and warm.held:
            engine.deliver(warm, messages.Tick())
