"""The context: the verbs of a workflow.

Each verb takes its path when it is called, and does its work when it is awaited. The verbs that settle at once (`send`, `set`, `set_attributes`,
`emit`, `keep`) have done their work when they return. Here are also the loops with durable state, whose old iterations are forgotten so that the log
stays bounded, and the workflow's logger, which is silent on replay.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextvars import Context as Variables
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, Concatenate, Generic, Literal, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, cast, overload
from uuid import UUID
from weakref import ref

import msgspec

from perdure.code import approval_requests, branches, child_executions, version_gates
from perdure.code.approval_requests import ApproveKeywords
from perdure.code.call_options import refuse_ineffective_options, refuse_options_among_arguments
from perdure.code.code_program import CodeProgram
from perdure.code.declarations import CodeWorkflow, Signal, Step, checked_name
from perdure.code.deterministic_loop import NumberedTask
from perdure.code.durations import Duration, duration_seconds, duration_text, whole_number
from perdure.code.exception_data import rebuild_exception
from perdure.code.function_codec import codec_of_function, refuse_lossy_value
from perdure.code.operation_paths import NameScope, reply_path
from perdure.code.results import Attempt, Decision, Message, Ok, Record, Won
from perdure.core import attributes, values
from perdure.core.attributes import AttributeChangeValues, ShownAttributes
from perdure.core.errors import BadValue, Rollback, StepFailed, Timeout, WrongVerb
from perdure.core.mailbox import ReceivedMessage
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import (
    DEFAULT_RETRY_POLICY,
    CallOperation,
    Failure,
    KeepOperation,
    ReceiveOperation,
    SendOperation,
    SleepOperation,
    SpawnOperation,
)
from perdure.core.paths import Key, Path, path_text

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
D = TypeVar("D")
S = TypeVar("S")

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
"""The levels of the standard library's logging."""


class WorkflowLogger:
    """`ctx.log`: the usual levels; fields go by keyword."""

    __slots__ = ("_instance",)

    def __init__(self, instance: CodeProgram) -> None:
        self._instance = instance

    def debug(self, line: str, **fields: Any) -> None:
        """Log for those who look for a fault."""
        self._instance.say(DEBUG, line, fields)

    def info(self, line: str, **fields: Any) -> None:
        """Log what is as it should be."""
        self._instance.say(INFO, line, fields)

    def warning(self, line: str, **fields: Any) -> None:
        """Log what somebody may want to look at."""
        self._instance.say(WARNING, line, fields)

    def error(self, line: str, **fields: Any) -> None:
        """Log what somebody must look at."""
        self._instance.say(ERROR, line, fields)


PLAIN_STATE_TYPES = (bool, int, float, str, bytes, list, dict, type(None))
"""Types of state that are kept as what they are, so that a count may become a fraction, and None a page."""


class LoopState(Generic[S]):
    """What a turn leaves to the next one."""

    __slots__ = ("state",)

    def __init__(self, state: S) -> None:
        self.state = state


class DurableLoop(Generic[S]):
    """The turns of one loop: an asynchronous iterator, and no generator, so that leaving it by `break` needs no cleanup."""

    __slots__ = ("__weakref__", "_cell", "_commit_every", "_context", "_keep", "_kind", "_path", "_scope", "_trim_every", "_turn", "_undo_keep")

    def __init__(
        self, context: Context, scope: NameScope, path: Path, state: S, *, commit_every: int, keep: int, trim_every: int, undo_keep: int | None
    ) -> None:
        for name, number in (("commit_every", commit_every), ("keep", keep), ("trim_every", trim_every), ("undo_keep", undo_keep)):
            if number is not None:
                whole_number(number, f"loop({name})")
        self._context = context
        self._scope = scope
        self._path = path
        self._cell = LoopState(state)
        self._kind: Any = Any if isinstance(state, PLAIN_STATE_TYPES) else type(state)
        self._commit_every = commit_every
        self._keep = keep
        self._trim_every = trim_every
        self._undo_keep = undo_keep
        self._turn = -1

    def __aiter__(self) -> DurableLoop[S]:
        return self

    async def __anext__(self) -> Turn[S]:
        instance: CodeProgram = self._context._instance
        self._scope.loop_alive = None
        if self._turn < 0:
            await self._begin(instance)
        else:
            self._turn += 1
            self._commit(instance)
            self._trim(instance)
        self._scope.loop_alive = ref(self)
        return self._context._turn(self._scope, self._cell, self._turn, (*self._path, self._turn))

    async def _begin(self, instance: CodeProgram) -> None:
        """Start at turn 0, at the turn from which a compacted log goes on, or, reopened or forked, at the earliest turn that is kept."""
        execution = instance.execution
        if self._path in execution.resumes:
            turned = await instance.wait_for_turn(self._path)
            self._turn = turned.turn
            self._cell.state = instance.decode(turned.value, self._kind, self._path)
            return
        self._turn = execution.trimmed.get(self._path, 0) if execution.reopened or execution.forked is not None else 0
        self._commit(instance)

    def _commit(self, instance: CodeProgram) -> None:
        path = (*self._path, self._turn)
        if self._turn % self._commit_every == 0:
            value = instance.remember(path, lambda: values.encode(self._cell.state, "the state of loop", path), role="turn")
            self._cell.state = instance.decode(value, self._kind, path)

    def _trim(self, instance: CodeProgram) -> None:
        if self._turn % self._trim_every == 0 and self._turn > self._keep:
            instance.trim(self._path, self._turn - self._keep, 0 if self._undo_keep is None else max(0, self._turn - self._undo_keep))


def refuse_verb_outside_iteration(scope: NameScope, verb: str) -> None:
    """Refuse a verb of the surrounding context while a turn of its loop runs: what it opens would never be trimmed."""
    alive = scope.loop_alive
    if isinstance(alive, ref) and alive() is not None:
        raise WrongVerb(f"ctx.{verb} in a turn of a loop", f"use the turn's own context: `async for turn in ctx.loop(...): await turn.{verb}(...)`")
    scope.loop_alive = None


VerbCall = Coroutine[Any, Any, R]
"""What a verb returns: await it once, or hand it to asyncio.gather or a task."""

_MISSING: Any = object()


class SettledResult(Generic[T]):
    """The result of a verb that has settled already."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, Any, T]:
        return self.value
        yield  # makes it a generator


class HasKey(Protocol):
    """Whatever stands for an execution, such as a handle."""

    @property
    def key(self) -> Key:
        """Tenant, workflow and id."""
        ...


class HasCode(Protocol[P, R_co]):
    """Whatever stands for a code workflow, with the types of its input and result."""

    @property
    def code(self) -> CodeWorkflow:
        """The workflow as engines know it."""
        ...

    def signature(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The types of its input and result; never called."""
        ...


BranchOf = Callable[["Context"], Awaitable[R]]
"""A branch: a function of a context of its own."""

StepOrWorkflow = Step[..., R, Any] | HasCode[..., R]
"""What may stand in for a branch: a step or a workflow that needs no arguments."""


class ExecutionInfo:
    """What a workflow may know of its own execution."""

    __slots__ = ("_instance",)

    def __init__(self, instance: CodeProgram) -> None:
        self._instance = instance

    @property
    def key(self) -> Key:
        """Tenant, workflow and id."""
        return self._instance.execution.key

    @property
    def id(self) -> str:
        """The id, unique per tenant and workflow."""
        return self.key.id

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        return self.key.workflow

    @property
    def version(self) -> int:
        """The version that was pinned when the execution started."""
        started = self._instance.execution.started
        return self._instance.workflow.version if started is None else started.version

    @property
    def attempt(self) -> int:
        """How many times it has begun: 1, and one more with each retry after a failure."""
        return self._instance.execution.reopened + 1

    @property
    def depth(self) -> int:
        """How many executions stand above it, each started by the one before."""
        return self._instance.execution.depth

    @property
    def parent(self) -> Key | None:
        """The execution that started this one, if one did; messages can be sent to it."""
        started = self._instance.execution.started
        return None if started is None else started.origin

    @property
    def attributes(self) -> ShownAttributes:
        """What it is found by: as it was started with, and as `set_attributes` has changed that since; several values of a name are a list. Changing this
        changes nothing."""
        return attributes.attribute_values(self._instance.attributes)

    @property
    def deadline(self) -> float | None:
        """When the execution must have ended, in seconds since 1970."""
        return self._instance.execution.deadline_at_s


class Context:
    """The verbs of a workflow, for one branch of it. A branch, and a turn of a loop, gets its own and uses no other."""

    __slots__ = ("_children", "_instance", "_random", "_scope", "_task", "log")

    def __init__(self, instance: CodeProgram, scope: NameScope, task: NumberedTask[Any] | None) -> None:
        self._instance = instance
        self._scope = scope
        self._task = task
        self._children: dict[NumberedTask[Any], NameScope] | None = None
        self._random: Random | None = None
        self.log = WorkflowLogger(instance)

    # steps

    @overload
    def step(self, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[R]: ...
    @overload
    def step(self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[R]: ...
    @overload
    def step(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[R]: ...
    @overload
    def step(self, name: str, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[R]: ...
    @overload
    def step(self, name: str, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[R]: ...
    @overload
    def step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[R]: ...
    def step(self, fn: Any, /, *args: Any, **kwargs: Any) -> VerbCall[Any]:
        """Run a function once and remember its result: ``ctx.step(fn, *args)``, or ``ctx.step("name", fn, *args)``.

        It runs at least once and settles exactly once; after that it is never run again. Options go to ``fn.with_(...)``.

        Raises:
            StepFailed: its tries are used up, or it raised `Fatal`; of a class in its `raises`, the error itself.
        """
        path, op, fn = self._prepare("step", fn, args, kwargs)
        return self._verb(path, self._step(path, op, fn))

    @overload
    def attempt(self, fn: HasCode[P, R], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[Attempt[R]]: ...
    @overload
    def attempt(self, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[Attempt[R]]: ...
    @overload
    def attempt(self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[Attempt[R]]: ...
    @overload
    def attempt(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[Attempt[R]]: ...
    @overload
    def attempt(self, name: str, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[Attempt[R]]: ...
    @overload
    def attempt(self, name: str, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[Attempt[R]]: ...
    @overload
    def attempt(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[Attempt[R]]: ...
    def attempt(self, fn: Any, /, *args: Any, **kwargs: Any) -> VerbCall[Any]:
        """Run a step, or another workflow as a child, and return its failure as data: `Ok(value)`, or `Err(kind, attempts, error)`."""
        named = isinstance(fn, str) and bool(args)
        child = getattr(args[0] if named else fn, "code", None)
        if isinstance(child, CodeWorkflow):
            path, spawn = self._spawn("attempt", fn if named else None, child, (args[1:] if named else args, kwargs))
            return self._verb(path, child_executions.attempt_child(self._instance, path, spawn, child))
        path, op, fn = self._prepare("attempt", fn, args, kwargs)
        return self._verb(path, self._attempt(path, op, fn))

    def _prepare(self, verb: str, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Path, CallOperation, Any]:
        scope = self._enter(verb)
        explicit = None
        if isinstance(fn, str) and args:
            explicit, fn, args = fn, args[0], args[1:]
        if not callable(fn):
            raise WrongVerb(f"ctx.{verb}({fn!r:.60})", f"pass a function and its arguments: ctx.{verb}(charge, order), not what calling it returns")
        if isinstance(fn, Step):
            if kwargs:
                refuse_options_among_arguments(fn.name, f"ctx.{verb}", fn.fn, args, kwargs)
            for handler in fn.handlers:
                _ = handler.step.codec  # what undoes it has to be sound before it is done
            path = scope.take(fn.name, explicit or fn.explicit)
            raw = fn.codec.encode_args(args, kwargs, "the arguments of step", path)
            op = CallOperation(
                fn.name, raw, fn.queue, fn.rule, fn.timeout_s, fn.may_repeat, undo=fn.undo_when, heartbeat_s=fn.heartbeat_s, transaction=fn.transaction
            )
            op = op if fn.grace is None else msgspec.structs.replace(op, grace_s=fn.grace_s)
            return path, fn.placed(op, self._instance.execution.key.tenant, args, kwargs) if fn.queue else op, fn
        name = checked_name(explicit or branches.function_name(fn, "step"), "step")
        path = scope.take(name, explicit)
        return path, CallOperation(name, codec_of_function(fn).encode_args(args, kwargs, "the arguments of step", path), "", DEFAULT_RETRY_POLICY), fn

    async def _step(self, path: Path, op: CallOperation, fn: Any) -> Any:
        settlement = await self._instance.settle(path, op, fn)
        outcome = settlement.outcome
        if isinstance(outcome, Failure):
            _raise_step_failure(path, outcome, fn)
        return self._result(path, settlement, fn)

    async def _attempt(self, path: Path, op: CallOperation, fn: Any) -> Any:
        settlement = await self._instance.settle(path, op, fn)
        outcome = settlement.outcome
        if isinstance(outcome, Failure):
            if outcome.kind == "rollback":
                raise Rollback(outcome.error.message)
            return outcome
        return Ok(self._result(path, settlement, fn))

    def _result(self, path: Path, settlement: SettledOperation, fn: Any) -> Any:
        outcome = settlement.outcome
        value = values.ENCODED_NONE if outcome is None or isinstance(outcome, Failure) else outcome.value
        codec = fn.codec if isinstance(fn, Step) else codec_of_function(fn)
        return self._instance.decode(value, codec.result, path)

    # time

    def sleep(self, duration: Duration, *, name: str | None = None) -> VerbCall[None]:
        """Wait for `duration` (seconds, a timedelta, or text such as ``"3d"``), across restarts.

        The deadline is fixed when the operation is opened; replay and restarts do not move it. No memory is held while waiting.
        """
        scope = self._enter("sleep")
        op = SleepOperation(duration_seconds(duration, "sleep"))
        path = scope.take(f"sleep:{duration_text(duration)}", name)
        return self._verb(path, self._sleep(path, op))

    def sleep_until(self, when: datetime, *, name: str | None = None) -> VerbCall[None]:
        """Wait until a point in time, which must have a time zone; one that is past does not wait."""
        scope = self._enter("sleep_until")
        if getattr(when, "tzinfo", None) is None:
            raise BadValue("sleep_until", when, "a datetime with a time zone, such as datetime.now(UTC) + timedelta(days=1)")
        path = scope.take(f"sleep_until:{when.isoformat()}", name)
        return self._verb(path, self._sleep(path, SleepOperation(until_s=when.timestamp())))

    async def _sleep(self, path: Path, op: SleepOperation) -> None:
        await self._instance.settle(path, op)

    def now(self) -> datetime:
        """The time, in UTC, of the event that made the workflow go on: the same on every replay."""
        self._enter("now")
        return self._instance.now()

    @property
    def random(self) -> Random:
        """Random numbers of this scope, the same on every replay."""
        self._enter("random")
        if self._random is None:
            started = self._instance.execution.started
            self._random = Random(f"{0 if started is None else started.seed}:{path_text(self._scope.path)}")
        return self._random

    def uuid(self) -> UUID:
        """A random UUID, the same on every replay."""
        return UUID(int=self.random.getrandbits(128), version=4)

    # messages

    @overload
    def listen(self, signal: Signal[T], /, *, completable: Literal[True], timeout: Duration | None = ..., name: str | None = ...) -> VerbCall[Message[T]]: ...
    @overload
    def listen(self, signal: Signal[T], /, *, timeout: Duration | None = ..., name: str | None = ...) -> VerbCall[T]: ...
    @overload
    def listen(self, signal: Signal[T], /, *, timeout: Duration | None, default: D, name: str | None = ...) -> VerbCall[T | D]: ...
    @overload
    def listen(self, *names: str, timeout: Duration | None = ..., default: Any = ..., completable: bool = ..., name: str | None = ...) -> VerbCall[Any]: ...
    def listen(
        self, *names: Any, timeout: Duration | None = None, default: Any = _MISSING, completable: bool = False, name: str | None = None
    ) -> VerbCall[Any]:
        """Wait for the next message of a signal, or of any of these names, first in first out across them; return its body.

        A message that is there already wins over a timeout. Consuming it is one commit with what follows. With `completable`, it returns a
        `Message` that stays the execution's until ``message.complete(reply)``, and goes back to its place if its branch is cancelled before.

        Raises:
            Timeout: nothing came in time, and there is no `default`.
        """
        path, op, signal = self._receive("listen", names, name, ReceiveOperation((), 1, timeout_s=_optional_s(timeout), completable=completable))
        return self._verb(path, self._listen(path, op, signal, default))

    @overload
    def listen_many(
        self, signal: Signal[T], /, *, completable: Literal[True], limit: int = ..., timeout: Duration | None = ..., name: str | None = ...
    ) -> VerbCall[list[Message[T]]]: ...
    @overload
    def listen_many(self, signal: Signal[T], /, *, limit: int = ..., timeout: Duration | None = ..., name: str | None = ...) -> VerbCall[list[T]]: ...
    @overload
    def listen_many(
        self, *names: str, limit: int = ..., timeout: Duration | None = ..., completable: bool = ..., name: str | None = ...
    ) -> VerbCall[list[Any]]: ...
    def listen_many(self, *names: Any, limit: int = 100, timeout: Duration | None = None, completable: bool = False, name: str | None = None) -> VerbCall[Any]:
        """Wait for messages: without `timeout`, at least one and at most `limit`, as soon as there is one; with it, as many as come until there are `limit`
        or the time is over, possibly none."""
        receive = ReceiveOperation((), whole_number(limit, "listen_many(limit)"), timeout is not None, _optional_s(timeout), completable)
        path, op, signal = self._receive("listen_many", names, name, receive)
        return self._verb(path, self._listen_many(path, op, signal))

    def _receive(self, verb: str, names: tuple[Any, ...], name: str | None, receive: ReceiveOperation) -> tuple[Path, ReceiveOperation, Signal[Any] | None]:
        scope = self._enter(verb)
        signal = names[0] if len(names) == 1 and isinstance(names[0], Signal) else None
        wanted = tuple(checked_name(one.name if isinstance(one, Signal) else one, "signal") for one in names)
        if not wanted:
            raise BadValue(verb, names, "a signal, or the names of messages")
        path = scope.take(f"listen:{','.join(wanted)}"[:200], name)
        return path, msgspec.structs.replace(receive, names=wanted), signal

    async def _received(self, path: Path, op: ReceiveOperation) -> SettledOperation:
        settlement = await self._instance.settle(path, op)
        if settlement.letters:
            self._instance.receipts.receive(path, [letter.number for letter in settlement.letters], op.completable)
        return settlement

    async def _listen(self, path: Path, op: ReceiveOperation, signal: Signal[Any] | None, default: Any) -> Any:
        settlement = await self._received(path, op)
        if isinstance(settlement.outcome, Failure):
            if default is _MISSING:
                raise Timeout(path_text(path), op.timeout_s)
            return default
        return self._letter(path, op, signal, settlement.letters[0])

    async def _listen_many(self, path: Path, op: ReceiveOperation, signal: Signal[Any] | None) -> list[Any]:
        settlement = await self._received(path, op)
        return [self._letter(path, op, signal, letter) for letter in settlement.letters]

    def _letter(self, path: Path, op: ReceiveOperation, signal: Signal[Any] | None, letter: ReceivedMessage) -> Any:
        body = self._instance.decode(letter.body, Any if signal is None else signal.body, path)
        if not op.completable:
            return body
        return Message(letter.name, body, partial(self._complete, path, letter.number))

    def _complete(self, path: Path, number: int, reply: Any) -> None:
        _ = self._instance.admit("complete")
        if not self._instance.receipts.holds(path, number):
            what = f"the message of {path_text(path)} was completed before, or went back when its branch lost"
            raise WrongVerb(what, "complete each once, while its branch goes on")
        self._instance.remember(reply_path(path, number), lambda: values.encode(reply, "the reply to", path), role="reply", label=str(number))
        self._instance.receipts.complete(path, number)

    @overload
    def send(self, execution: Key | HasKey, signal: Signal[T], body: T, *, name: str | None = ...) -> SettledResult[None]: ...
    @overload
    def send(self, execution: Key | HasKey, signal: str, body: Any = ..., *, name: str | None = ...) -> SettledResult[None]: ...
    def send(self, execution: Key | HasKey, signal: Signal[Any] | str, body: Any = None, *, name: str | None = None) -> SettledResult[None]:
        """Send a message to another execution, or to this one; recorded, so never repeated by replay."""
        scope = self._enter("send")
        key = execution if isinstance(execution, Key) else execution.key
        wanted = signal.name if isinstance(signal, Signal) else checked_name(signal, "signal")
        path = scope.take(f"send:{wanted}", name)
        raw = values.encode(body, "the body of", path)
        if isinstance(signal, Signal):
            refuse_lossy_value(body, raw, signal.body, lambda: f"the body of {path_text(path)}")
        self._instance.send(path, SendOperation(key, wanted, raw))
        return SettledResult(None)

    # branches

    @overload
    def join(self, a: BranchOf[T1], /, *, name: str | None = ...) -> VerbCall[tuple[T1]]: ...
    @overload
    def join(self, a: BranchOf[T1], b: BranchOf[T2], /, *, name: str | None = ...) -> VerbCall[tuple[T1, T2]]: ...
    @overload
    def join(self, a: BranchOf[T1], b: BranchOf[T2], c: BranchOf[T3], /, *, name: str | None = ...) -> VerbCall[tuple[T1, T2, T3]]: ...
    @overload
    def join(self, a: BranchOf[T1], b: BranchOf[T2], c: BranchOf[T3], d: BranchOf[T4], /, *, name: str | None = ...) -> VerbCall[tuple[T1, T2, T3, T4]]: ...
    @overload
    def join(
        self, a: BranchOf[T], b: BranchOf[T], c: BranchOf[T], d: BranchOf[T], e: BranchOf[T], /, *more: BranchOf[T], name: str | None = ...
    ) -> VerbCall[tuple[T, ...]]: ...
    @overload
    def join(self, a: StepOrWorkflow[T1], /, *, name: str | None = ...) -> VerbCall[tuple[T1]]: ...
    @overload
    def join(self, a: StepOrWorkflow[T1], b: StepOrWorkflow[T2], /, *, name: str | None = ...) -> VerbCall[tuple[T1, T2]]: ...
    @overload
    def join(self, a: StepOrWorkflow[T1], b: StepOrWorkflow[T2], c: StepOrWorkflow[T3], /, *, name: str | None = ...) -> VerbCall[tuple[T1, T2, T3]]: ...
    @overload
    def join(self, *, name: str | None = ..., **by_name: BranchOf[Any]) -> VerbCall[Record]: ...
    @overload
    def join(self, *, name: str | None = ..., **by_name: BranchOf[Any] | StepOrWorkflow[Any]) -> VerbCall[Record]: ...
    def join(self, *branches: Any, name: str | None = None, **by_name: Any) -> VerbCall[Any]:
        """Run branches side by side and wait for all, also when one fails. By position the results are a tuple, by keyword a record by name.

        A branch is a function of a context of its own, or a step or a workflow that needs no arguments; type checkers know of mixtures by keyword.

        Raises:
            JoinFailed: branches failed; it has the error of each, and what the others returned.
        """
        path, started = self._branches("join", branches, by_name, name)
        return self._verb(path, self._join(path, started, as_tuple=not by_name))

    @overload
    def race(self, *, name: str | None = ..., **branches: BranchOf[T]) -> VerbCall[Won[T]]: ...
    @overload
    def race(self, *, name: str | None = ..., **branches: StepOrWorkflow[T]) -> VerbCall[Won[T]]: ...
    def race(self, *, name: str | None = None, **branches: Any) -> VerbCall[Won[Any]]:
        """Run branches side by side until one *returns*; the others are cancelled, in mid-step too. `Won` has its name and value.

        A branch is a function of a context of its own, or a step or a workflow that needs no arguments; type checkers know of no mixtures of the two.

        Raises:
            RaceFailed: every branch failed.
        """
        path, started = self._branches("race", (), branches, name)
        return self._verb(path, self._race(path, started))

    @overload
    def map(self, fn: Step[Concatenate[T, ...], R, Any], items: Iterable[T], *, limit: int | None = ..., name: str | None = ...) -> VerbCall[list[R]]: ...
    @overload
    def map(self, fn: HasCode[[T], R], items: Iterable[T], *, limit: int | None = ..., name: str | None = ...) -> VerbCall[list[R]]: ...
    @overload
    def map(self, fn: Callable[[Context, T], Awaitable[R]], items: Iterable[T], *, limit: int | None = ..., name: str | None = ...) -> VerbCall[list[R]]: ...
    def map(self, fn: Any, items: Iterable[Any], *, limit: int | None = None, name: str | None = None) -> VerbCall[list[Any]]:
        """Run a branch for each item, at most `limit` at a time; return their results in the order of the items.

        A branch is a step or a workflow, which is given the item, ``ctx.map(charge, orders)``, or a function of a context of its own and the item,
        ``ctx.map(lambda c, order: c.step(charge, order, 5), orders)``.

        Raises:
            JoinFailed: branches failed; its errors and outputs go by the number of the item, from 0.
        """
        scope = self._enter("map")
        if limit is not None:
            whole_number(limit, "map(limit)")
        aim, run = branches.function_name(fn, "item"), as_branch(fn)
        path = scope.take(f"map:{aim}", name)
        started: list[branches.Branch] = [(str(number), (*path, (aim, number + 1)), partial(_with_item, run, item)) for number, item in enumerate(items)]
        return self._verb(path, self._map(path, started, limit, f"map {aim} over {len(started)}"))

    def wait(
        self, *awaitables: Awaitable[T], timeout: Duration | None = None, return_when: str = asyncio.ALL_COMPLETED, name: str | None = None
    ) -> VerbCall[tuple[list[asyncio.Task[T]], list[asyncio.Task[T]]]]:
        """Wait for what verbs return, or for tasks, as `asyncio.wait` does: return those that are done and those that are not, each in the order given.

        What is not done goes on, and may be waited for again. `timeout` is durable; when it is over, nothing is raised.
        `return_when` is one of asyncio's constants.
        """
        scope = self._enter("wait")
        limit = None if timeout is None else SleepOperation(duration_seconds(timeout, "wait(timeout)"))
        when = branches.checked_return_when(return_when)
        tasks = branches.tasks_of("wait", self._instance.loop, awaitables)
        path = scope.take("wait", name)
        return self._verb(path, self._wait(path, tasks, when, limit))

    async def _wait(
        self, path: Path, tasks: list[asyncio.Task[T]], when: str, limit: SleepOperation | None
    ) -> tuple[list[asyncio.Task[T]], list[asyncio.Task[T]]]:
        self._instance.started(path)
        await branches.wait_for_tasks(self._instance.loop, tasks, when, None if limit is None else self._sleep(path, limit))
        return [task for task in tasks if task.done()], [task for task in tasks if not task.done()]

    def as_completed(self, *awaitables: Awaitable[T]) -> branches.CompletedTasks[T]:
        """What verbs return, or tasks, as each comes to its end, as `asyncio.as_completed` does: ``async for task in ctx.as_completed(...): await task``.

        It waits for none longer than the workflow asks for the next: leave it by `break`, and the others go on.
        """
        self._enter("as_completed")
        return branches.CompletedTasks(self._instance.loop, branches.tasks_of("as_completed", self._instance.loop, awaitables))

    def _branches(self, verb: str, positional: tuple[Any, ...], by_name: dict[str, Any], name: str | None) -> tuple[Path, list[branches.Branch]]:
        scope = self._enter(verb)
        if positional and by_name:
            raise WrongVerb(f"ctx.{verb} with {len(positional)} branches by position and {len(by_name)} by name", "give all in the same way")
        if verb == "race" and not by_name:
            raise WrongVerb("ctx.race of nothing has no winner, so it would wait for ever", "give at least one branch: ctx.race(paid=wait_paid, ...)")
        for branch in by_name:
            checked_name(branch, "branch")
        path = scope.take(verb, name)
        return path, branches.named_branches(path, positional, by_name, as_branch)

    async def _join(self, path: Path, started: list[branches.Branch], as_tuple: bool) -> Any:
        self._instance.remember(path, lambda: values.ENCODED_NONE, role="branches", label=branches.branches_label("join", [name for name, _, _ in started]))
        outputs = await branches.join_branches(self._instance, self._branch, path, started)
        return tuple(outputs.values()) if as_tuple else Record(outputs)

    async def _map(self, path: Path, started: list[branches.Branch], limit: int | None, label: str) -> list[Any]:
        self._instance.remember(path, lambda: values.ENCODED_NONE, role="branches", label=label)
        return list((await branches.join_branches(self._instance, self._branch, path, started, limit)).values())

    async def _race(self, path: Path, started: list[branches.Branch]) -> Won[Any]:
        self._instance.remember(path, lambda: values.ENCODED_NONE, role="branches", label=branches.branches_label("race", [name for name, _, _ in started]))
        return await branches.race_branches(self._instance, self._branch, path, started)

    def _branch(self, name: str, path: Path, fn: Callable[[Context], Awaitable[Any]]) -> NumberedTask[Any]:
        """Start a branch as a task with a context of its own."""
        context = Context(self._instance, NameScope(path), None)
        context._task = task = self._instance.loop.create_task(context._run(fn), name=name)
        self._instance.branches[task] = context._scope
        return task

    async def _run(self, fn: Callable[[Context], Awaitable[Any]]) -> Any:
        self._instance.receipts.begin(self._scope.path)
        try:
            return await fn(self)
        except CancelledError:
            self._instance.give_back(self._scope.path)
            raise
        except (KeyboardInterrupt, SystemExit) as error:
            raise RuntimeError(f"{type(error).__name__} in a workflow") from error
        finally:
            self._instance.branches.pop(cast("NumberedTask[Any]", self._task), None)

    def loop(self, name: str, state: S, *, commit_every: int = 1, keep: int = 10, trim_every: int = 1, undo_keep: int | None = None) -> DurableLoop[S]:
        """Turns with durable state: ``async for turn in ctx.loop("audit", state=0): turn.state += 1``; leave it by `break`.

        The state is remembered at the start of every `commit_every`-th turn. The last `keep` turns are kept, older ones forgotten at every
        `trim_every`-th turn, so that a loop may go on for ever. In a turn, use the turn's own verbs. What forgotten turns have done is
        undone all the same if the execution fails, up to 10,000 operations; with more it parks. With `undo_keep`, what lies more than
        so many turns back is not undone any more.
        """
        scope = self._enter("loop")
        path = scope.take(checked_name(name, "loop"), name)
        return DurableLoop(self, scope, path, state, commit_every=commit_every, keep=keep, trim_every=trim_every, undo_keep=undo_keep)

    def _turn(self, scope: NameScope, cell: LoopState[S], number: int, path: Path) -> Turn[S]:
        return Turn(self._instance, NameScope(path), self._instance.loop.current, cell, number)

    # children

    def call(self, workflow: HasCode[P, R], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[R]:
        """Run another workflow as a child execution and wait for its result. If this execution ends or stops waiting, the child is cancelled.

        Options go to ``workflow.with_(...)``.

        Raises:
            ChildFailed: it failed or was cancelled.
            TooDeep: more than 100 executions stand above it.
        """
        path, op = self._spawn("call", None, workflow.code, (args, kwargs))
        return self._verb(path, child_executions.call_child(self._instance, path, op, workflow.code))

    def start(self, workflow: HasCode[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> SettledResult[Key]:
        """Start another workflow as an execution that goes on by itself; return its key, to which messages can be sent."""
        path, op = self._spawn("start", None, workflow.code, (args, kwargs))
        self._instance.send(path, op)
        return SettledResult(Key(self._instance.execution.key.tenant, op.workflow, op.id))

    def _spawn(self, verb: str, name: str | None, workflow: CodeWorkflow, given: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[Path, SpawnOperation]:
        refuse_ineffective_options(workflow.calling, f"ctx.{verb}", workflow.name)
        refuse_options_among_arguments(workflow.name, f"ctx.{verb}", workflow.fn, *given)
        path = self._enter(verb).take(f"{'start' if verb == 'start' else 'call'}:{workflow.name}", name or workflow.calling.name)
        return path, child_executions.child_operation(self._instance, path, workflow, given, awaited=verb != "start")

    # people

    @overload
    def approve(self, title: str, *, form: type[T], name: str | None = ..., **options: Unpack[ApproveKeywords]) -> VerbCall[Decision[T]]: ...
    @overload
    def approve(self, title: str, *, name: str | None = ..., **options: Unpack[ApproveKeywords]) -> VerbCall[Decision[Any]]: ...
    def approve(self, title: str, *, name: str | None = None, **options: Any) -> VerbCall[Decision[Any]]:
        """Have people decide, and wait for it: ``await ctx.approve("Ship it?", form=ShipForm, assignees=["ada", "group:ops"], timeout="1d")``.

        `form` is a type, which is filled in by who approves. Anybody may decide, or only the `assignees`; one against it denies, a `quorum` for it approves.
        After `escalate`, those in `escalate_to` may decide too. When the `timeout` is over, that approves, denies or, by default, fails. The step `notify` is
        run with a `Notice` whenever people are to be told: at first, every `remind`, and at the escalation.

        Raises:
            Timeout: nobody decided in time.
            ChildFailed: the approval was cancelled.
        """
        scope = self._enter("approve")
        asking = approval_requests.approval_options(options)
        asked = approval_requests.approval_request(title, asking)
        path = scope.take(f"approve:{title}"[:200], name)
        return self._verb(path, approval_requests.decide_approval(self._instance, scope, path, asked, asking))

    # what is remembered and shown

    def keep(self, name: str, fn: Callable[[], T]) -> SettledResult[T]:
        """Remember what `fn` returns now: replay returns the same, without calling it. For work that may fail or wait, use a step."""
        scope = self._enter("keep")
        path = scope.take(checked_name(name, "keep"), name)
        value = self._instance.remember(path, lambda: values.encode(self._made(fn, path), "keep", path))
        return SettledResult(self._instance.decode(value, codec_of_function(fn).result, path))

    def _made(self, fn: Callable[[], T], path: Path) -> T:
        self._instance.keeping = True
        try:
            made = fn()
        finally:
            self._instance.keeping = False
        if isinstance(made, Coroutine):
            made.close()
            raise WrongVerb(f"keep {path_text(path)} was given an async function", "use a step for work that waits: ctx.step(fn)")
        return made

    def version(self, name: str, latest: int) -> SettledResult[int]:
        """Which way this execution goes where the code has changed: ``if await ctx.version("tax", 2) >= 2: ...``.

        Executions that come here from now on go the way `latest`, and remember it; those that passed here before the gate was written go the way 1. Each place
        and each turn of a loop decides for itself. An execution that was reopened or forked goes the way 1 as long as it is where it has been before.
        """
        path = self._enter("version").take(f"version:{checked_name(name, 'version')}")
        return SettledResult(version_gates.version_at_gate(self._instance, path, whole_number(latest, "version(latest)")))

    def removed(self, name: str, kind: str = "step") -> VerbCall[None]:
        """Stand where an operation was removed from the code, so that executions that remember it go on: ``await ctx.removed("charge", "step")``.

        `name` is the one that it had by itself (``charge``, ``sleep:3d``, ``listen:approved``, ``version:tax``), `kind` one of step, sleep, listen, call,
        start, send, keep, set, set_attributes, emit, commit, version. What is still open is waited for as it was; a step is not run again.
        """
        path = self._enter("removed").take(checked_name(name, "operation"))
        return self._verb(path, self._removed(path, kind))

    async def _removed(self, path: Path, kind: str) -> None:
        self._instance.started(path)
        future = version_gates.removed_operation(self._instance, path, kind)
        if future is not None:
            await self._instance.until(path, future)

    def set(self, key: str, value: Any) -> None:
        """Show `value` under `key` to whoever queries the execution, from this commit on."""
        path = self._enter("set").take(f"set:{checked_name(key, 'state')}"[:1000])
        self._instance.remember(path, lambda: values.encode(value, "the value of", path), role="state", label=key)

    def set_attributes(self, changes: AttributeChangeValues, /) -> None:
        """Change what the execution is found by, from this commit on: ``ctx.set_attributes({"stage": "paid", "tag": ["a", "b"], "due": None})``.

        A value is a str of up to 1 KiB, an int of 64 bits, a finite float, a bool, or a datetime with its zone. A name may have several, given as a list;
        a change replaces all of them, and None or an empty list removes them. An execution has up to 32 names and 64 values.

        Raises:
            BadName, BadValue: a name or a value can't be kept, or there would be too many; nothing is changed.
        """
        path, instance = self._enter("set_attributes").take("set_attributes"), self._instance
        recalled = instance.execution.recalled_results.recalls(
            path, KeepOperation()
        )  # an earlier life of the execution has passed here: it had other attributes then
        asked = () if recalled else attributes.checked_attribute_changes(instance.attributes, changes)
        kept = instance.remember(path, lambda: attributes.encode_attribute_changes(asked), role="attributes")
        instance.attributes = attributes.merge_attributes(instance.attributes, attributes.decode_attribute_changes(kept))

    def emit(self, value: Any) -> None:
        """Append `value` to the execution's stream."""
        path = self._enter("emit").take("emit")
        self._instance.remember(path, lambda: values.encode(value, "the value of", path), role="stream")

    def commit(self) -> None:
        """From here on, nothing that was done before is undone any more, whatever becomes of the execution."""
        path = self._enter("commit").take("commit")
        self._instance.remember(path, lambda: values.ENCODED_NONE, role="commit")

    @property
    def execution(self) -> ExecutionInfo:
        """The execution's id, workflow, version and deadline."""
        return ExecutionInfo(self._instance)

    # how verbs come about

    def _enter(self, verb: str) -> NameScope:
        """The scope in which the calling task counts names.

        Raises:
            WrongVerb: this context is not the caller's.
        """
        task = self._instance.admit(verb)
        scope = self._scope if task is self._task else self._scope_of(task, verb)
        if scope.loop_alive is not None:
            refuse_verb_outside_iteration(scope, verb)
        return scope

    def _scope_of(self, task: NumberedTask[Any], verb: str) -> NameScope:
        if task in self._instance.branches:
            raise WrongVerb(f"ctx.{verb} on the context of another branch", "use the one that this branch is given: `async def branch(c): await c.step(...)`")
        if self._children is None:
            self._children = {}
        scope = self._children.get(task)
        if scope is None:
            scope = self._children[task] = NameScope(self._scope.take(task.label or "task"))
            self._instance.receipts.begin(scope.path)
            task.add_done_callback(partial(self._end_task, scope.path))
        return scope

    def _end_task(self, path: Path, task: asyncio.Future[Any]) -> None:
        if task.cancelled():
            self._instance.give_back(path)
        self._instance.receipts.end(path)

    def _verb(self, path: Path, coroutine: VerbCall[R]) -> VerbCall[R]:
        self._instance.promised(path, coroutine)
        return coroutine

    async def _main(self, workflow: CodeWorkflow) -> Any:
        """The workflow itself."""
        instance = self._instance
        self._task = instance.loop.current
        started = instance.execution.started
        raw = instance.raw(values.ENCODED_NONE if started is None else started.input)
        args, kwargs = workflow.codec.decode_args(raw, f"the input of {workflow.name}") if raw != values.ENCODED_NONE else ((), {})
        try:
            return await workflow.fn(self, *args, **kwargs)
        except (KeyboardInterrupt, SystemExit) as error:
            raise RuntimeError(f"{type(error).__name__} in a workflow") from error


class Turn(Context, Generic[S]):  # The one subclass: a turn is a context in every respect, and has state besides.
    """One turn of a loop: the verbs of a context, and the loop's state."""

    __slots__ = ("_cell", "number")

    def __init__(self, instance: CodeProgram, scope: NameScope, task: NumberedTask[Any] | None, cell: LoopState[S], number: int) -> None:
        super().__init__(instance, scope, task)
        self._cell = cell
        self.number = number

    @property
    def state(self) -> S:
        """The loop's state; what is assigned to it, the next turn begins with."""
        return self._cell.state

    @state.setter
    def state(self, state: S) -> None:
        self._cell.state = state


def workflow_entry(workflow: CodeWorkflow) -> Callable[[CodeProgram], Coroutine[Any, Any, Any]]:
    """How an instance begins: the workflow's function, with a context and the input that the execution was started with."""

    def begin(instance: CodeProgram) -> Coroutine[Any, Any, Any]:
        return Context(instance, NameScope(()), None)._main(workflow)

    return begin


def new_code_program(workflow: CodeWorkflow, key: Key, variables: Variables | None = None) -> CodeProgram:
    """A program for an execution of `workflow`, to be fed its events; it finds context variables as they are in `variables`, by default as here."""
    return CodeProgram(workflow, key, workflow_entry(workflow), variables)


def as_branch(fn: Any) -> Any:
    """What runs as a branch: a step is run as a durable step, a workflow as a child, each given what the branch is given behind its context."""
    if isinstance(fn, Step):
        return partial(_run_step, fn)
    return partial(_run_child, fn) if isinstance(getattr(fn, "code", None), CodeWorkflow) else fn


async def _run_step(step: Step[Any, Any, Any], context: Context, *given: Any) -> Any:
    return await context.step(step, *given)


async def _run_child(workflow: Any, context: Context, *given: Any) -> Any:
    return await context.call(workflow, *given)


def _optional_s(timeout: Duration | None) -> float | None:
    return None if timeout is None else duration_seconds(timeout, "timeout")


async def _with_item(fn: Callable[[Context, T], Awaitable[R]], item: T, context: Context) -> R:
    return await fn(context, item)


def _raise_step_failure(path: Path, failure: Failure, fn: Any) -> NoReturn:
    """Raise the failure of a step: as the error itself where its class is declared, else as `StepFailed`."""
    if failure.kind == "rollback":
        raise Rollback(failure.error.message)
    error = rebuild_exception(failure.error, fn.raises) if isinstance(fn, Step) else None
    if error is not None:
        raise error
    raise StepFailed(path_text(path), failure.kind, failure.attempts, failure.error)
