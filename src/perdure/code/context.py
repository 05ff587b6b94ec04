"""The context: the verbs of a workflow.

Each verb takes its path when it is called, and does its work when it is awaited. The verbs that settle at once (`send`, `set`, `set_attributes`,
`emit`, `keep`) are complete when they return. The module also has the loops with durable state, whose old iterations are forgotten so that the log stays
bounded, and the workflow's logger, which writes nothing on replay.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from asyncio.events import _get_running_loop
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import Context as Variables
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, Concatenate, Generic, Literal, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, cast, overload
from uuid import UUID
from weakref import ref

import msgspec

from perdure.code import approval_requests, branches, child_executions, external_steps, version_gates
from perdure.code.approval_requests import ApproveKeywords
from perdure.code.call_options import refuse_ineffective_options, refuse_options_among_arguments
from perdure.code.carried_context import restore_context
from perdure.code.code_program import CodeProgram
from perdure.code.declarations import CodeWorkflow, Signal, Step, checked_name
from perdure.code.deterministic_loop import NumberedTask, loop_misuse
from perdure.code.durations import Duration, duration_seconds, duration_text, whole_number
from perdure.code.exception_data import rebuild_exception
from perdure.code.function_codec import codec_of_function, refuse_lossy_value
from perdure.code.message_validation import REJECTED_PORT, Validator, rejection_of, validators_of
from perdure.code.operation_paths import NameScope, reply_path
from perdure.code.results import Attempt, Decision, Message, Ok, Record, Won
from perdure.core import attributes, values
from perdure.core.announcements import check_event_name
from perdure.core.attributes import AttributeChangeValues, ShownAttributes
from perdure.core.errors import BadValue, MessageRejected, Rollback, StepFailed, Timeout, WrongVerb
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
    Success,
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
    """`ctx.log`: writes lines at the usual levels; fields are keyword arguments. Replay writes nothing."""

    __slots__ = ("_instance",)

    def __init__(self, instance: CodeProgram) -> None:
        self._instance = instance

    def debug(self, line: str, **fields: Any) -> None:
        """Logs a detail that helps to find a fault."""
        self._instance.log(DEBUG, line, fields)

    def info(self, line: str, **fields: Any) -> None:
        """Logs normal operation."""
        self._instance.log(INFO, line, fields)

    def warning(self, line: str, **fields: Any) -> None:
        """Logs something unusual that may need attention."""
        self._instance.log(WARNING, line, fields)

    def error(self, line: str, **fields: Any) -> None:
        """Logs a failure that needs attention."""
        self._instance.log(ERROR, line, fields)


PLAIN_STATE_TYPES = (bool, int, float, str, bytes, list, dict, type(None))
"""Types of loop state that are decoded without a type hint, so that an int may become a float, and None a text."""


class LoopState(Generic[S]):
    """The state that one iteration passes to the next."""

    __slots__ = ("state",)

    def __init__(self, state: S) -> None:
        self.state = state


class DurableLoop(Generic[S]):
    """The iterations of one loop. It is an asynchronous iterator and not a generator, so leaving it by `break` needs no cleanup."""

    __slots__ = ("__weakref__", "_cell", "_commit_every", "_context", "_keep", "_kind", "_path", "_scope", "_trim_every", "_turn", "_undo_keep", "iteration")

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
        self.iteration: Turn[S] | None = None

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
        self.iteration = self._context._turn(self._scope, self._cell, self._turn, (*self._path, self._turn))
        return self.iteration

    async def _begin(self, instance: CodeProgram) -> None:
        """Starts at iteration 0, at the one from which a compacted log continues or, reopened or forked, at the earliest that is kept."""
        execution = instance.execution
        if self._path in execution.resumes:
            turned = await instance.wait_for_iteration(self._path)
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
    """Refuses a verb of the surrounding context while an iteration of its loop runs: what it opens would never be trimmed."""
    alive = scope.loop_alive
    if isinstance(alive, ref) and alive() is not None:
        instead = f"use the context of the iteration: `async for turn in ctx.loop(...): await turn.{verb}(...)`"
        raise WrongVerb(f"ctx.{verb} was called in an iteration of a loop", instead)
    scope.loop_alive = None


VerbCall = Coroutine[Any, Any, R]
"""The call of a verb: await it once, or pass it to asyncio.gather or to a task."""

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
    """An object that identifies an execution, such as a handle."""

    @property
    def key(self) -> Key:
        """Tenant, workflow and id."""
        ...


class HasCode(Protocol[P, R_co]):
    """A code workflow, with the types of its input and result."""

    @property
    def code(self) -> CodeWorkflow:
        """The workflow in the form that engines use."""
        ...

    def signature(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The types of its input and result; never called."""
        ...


BranchOf = Callable[["Context"], Awaitable[R]]
"""A branch: a function that takes a context of its own."""

StepOrWorkflow = Step[..., R, Any] | HasCode[..., R]
"""A branch that needs no arguments: a step or a workflow."""


class ExecutionInfo:
    """The information that a workflow can read about its own execution."""

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
        """How many times the execution has begun: 1, and one more with each retry after a failure."""
        return self._instance.execution.reopened + 1

    @property
    def depth(self) -> int:
        """The number of its ancestors, each started by the one before."""
        return self._instance.execution.depth

    @property
    def parent(self) -> Key | None:
        """The execution that started this one, if one did; messages can be sent to it."""
        started = self._instance.execution.started
        return None if started is None else started.origin

    @property
    def attributes(self) -> ShownAttributes:
        """A copy of the attributes: those of the start, as changed since by `set_attributes`. A name with several values has a list of them."""
        return attributes.attribute_values(self._instance.attributes)

    @property
    def deadline(self) -> float | None:
        """When the execution must have ended, in seconds since 1970."""
        return self._instance.execution.deadline_at_s


class Context:
    """The verbs of a workflow, for one branch of it. Each branch, and each iteration of a loop, has its own context and uses no other."""

    __slots__ = ("_children", "_instance", "_random", "_scope", "_task", "log")

    def __init__(self, instance: CodeProgram, scope: NameScope, task: NumberedTask[Any] | None) -> None:
        self._instance = instance
        self._scope = scope
        self._task = task
        self._children: dict[NumberedTask[Any], NameScope] | None = None
        self._random: Random | None = None
        self.log = WorkflowLogger(instance)

    # Steps.

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
        """Runs a function and records its result: ``ctx.step(fn, *args)``, or ``ctx.step("name", fn, *args)``.

        It runs at least once and settles exactly once; after that it is never run again. Options go to ``fn.with_(...)``.

        Raises:
            StepFailed: its attempts are used up, or it raised `Fatal`. An error of a class in its `raises` is raised itself.
        """
        path, op, fn = self._prepare("step", fn, args, kwargs)
        self._instance.note_called(path, call := self._step(path, op, fn))
        return call

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
        """Runs a step, or another workflow as a child, and returns its outcome as data: `Ok(value)`, or `Err(kind, attempts, error)`."""
        named = isinstance(fn, str) and bool(args)
        child: Any = getattr(args[0] if named else fn, "code", None)
        if hasattr(child, "calling"):  # a workflow, of code or of a definition
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
            raise WrongVerb(f"ctx.{verb}({fn!r:.60}) was not given a function", f"pass a function and its arguments: ctx.{verb}(charge, order)")
        if isinstance(fn, Step):
            if kwargs:
                refuse_options_among_arguments(fn.name, f"ctx.{verb}", fn.fn, args, kwargs)
            for handler in fn.handlers:
                _ = handler.step.codec  # an undo handler with unsupported types is refused before the step runs
            path = scope.take(fn.name, explicit or fn.explicit)
            return path, self._instance.recorded_call(path, fn) or self._new_call(path, fn, args, kwargs), fn
        name = checked_name(explicit or branches.function_name(fn, "step"), "step")
        path = scope.take(name, explicit)
        return path, CallOperation(name, codec_of_function(fn).encode_args(args, kwargs, "the arguments of step", path), "", DEFAULT_RETRY_POLICY), fn

    def _new_call(self, path: Path, fn: Step[Any, Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallOperation:
        """Returns a call of a step that the log does not have."""
        raw = fn.codec.encode_args(args, kwargs, "the arguments of step", path)
        op = CallOperation(
            fn.name, raw, fn.queue, fn.rule, fn.timeout_s, fn.may_repeat, undo=fn.undo_when, heartbeat_s=fn.heartbeat_s, transaction=fn.transaction
        )
        op = op if fn.grace is None else msgspec.structs.replace(op, grace_s=fn.grace_s)
        return fn.placed(op, self._instance.execution.key.tenant, args, kwargs) if fn.queue else op

    async def _step(self, path: Path, op: CallOperation, fn: Any) -> Any:
        settlement = await self._instance.settle(path, op, fn)
        outcome = settlement.outcome
        if type(outcome) is Failure:
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
        value = outcome.value if type(outcome) is Success else values.ENCODED_NONE
        codec = fn.codec if isinstance(fn, Step) else codec_of_function(fn)
        return self._instance.decode(value, codec.result, path)

    def external(self, result: type[T], fn: Step[Concatenate[str, P], Any, Any], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[T]:
        """Runs a step that requests something elsewhere, and waits until that is completed from outside: ``car = await ctx.external(Car, order_car, street)``.

        The first argument of the step is a token, followed by `args`. Whoever has the token completes the attempt, once, with a `result`, fails it, or reports
        that it is alive (`Client.complete`, ``perdure complete``). `timeout`, `heartbeat` and `retry` of the step apply to the request, and then to the wait:
        after a failure or a timeout there is another attempt, with another token. While it waits, no memory is held.

        Raises:
            StepFailed: the request failed for good, the attempts are used up, or the failure was final.
        """
        scope = self._enter("external")
        if not isinstance(fn, Step):
            raise WrongVerb(f"ctx.external was given {fn!r:.60}, which is not a step", "declare it with @step; its first parameter is the token")
        if kwargs:
            refuse_options_among_arguments(fn.name, "ctx.external", fn.fn, args, kwargs)
        path = scope.take(f"external:{fn.name}", fn.explicit)

        def request(at: Path, token: Callable[[], str]) -> VerbCall[Any]:
            return self._step(at, self._instance.recorded_call(at, fn) or self._new_call(at, fn, (token(), *args), kwargs), fn)

        return self._verb(path, external_steps.external_result(self._instance, path, fn, request, result))

    # Time.

    def sleep(self, duration: Duration, *, name: str | None = None) -> VerbCall[None]:
        """Waits for `duration` (seconds, a timedelta, or text such as ``"3d"``), across restarts.

        The deadline is fixed when the operation is opened; replay and restarts do not move it. No memory is held while waiting.
        """
        scope = self._enter("sleep")
        op = SleepOperation(duration_seconds(duration, "sleep"))
        path = scope.take(f"sleep:{duration_text(duration)}", name)
        return self._verb(path, self._sleep(path, op))

    def sleep_until(self, when: datetime, *, name: str | None = None) -> VerbCall[None]:
        """Waits until a point in time, which must have a time zone; returns at once if it has passed."""
        scope = self._enter("sleep_until")
        if getattr(when, "tzinfo", None) is None:
            raise BadValue("sleep_until", when, "a datetime with a time zone, such as datetime.now(UTC) + timedelta(days=1)")
        path = scope.take(f"sleep_until:{when.isoformat()}", name)
        return self._verb(path, self._sleep(path, SleepOperation(until_s=when.timestamp())))

    async def _sleep(self, path: Path, op: SleepOperation) -> None:
        await self._instance.settle(path, op)

    def now(self) -> datetime:
        """Returns the time, in UTC, of the event that resumed the workflow: the same on every replay."""
        self._enter("now")
        return self._instance.now()

    @property
    def random(self) -> Random:
        """Returns the random number generator of this scope, with the same numbers on every replay."""
        self._enter("random")
        if self._random is None:
            started = self._instance.execution.started
            self._random = Random(f"{0 if started is None else started.seed}:{path_text(self._scope.path)}")
        return self._random

    def uuid(self) -> UUID:
        """Returns a random UUID, the same on every replay."""
        return UUID(int=self.random.getrandbits(128), version=4)

    # Messages.

    @overload
    def listen(
        self,
        signal: Signal[T],
        /,
        *,
        completable: Literal[True],
        timeout: Duration | None = ...,
        validate: Callable[[T], object] | None = ...,
        name: str | None = ...,
    ) -> VerbCall[Message[T]]: ...
    @overload
    def listen(
        self, signal: Signal[T], /, *, timeout: Duration | None = ..., validate: Callable[[T], object] | None = ..., name: str | None = ...
    ) -> VerbCall[T]: ...
    @overload
    def listen(
        self, signal: Signal[T], /, *, timeout: Duration | None, default: D, validate: Callable[[T], object] | None = ..., name: str | None = ...
    ) -> VerbCall[T | D]: ...
    @overload
    def listen(
        self,
        *names: str,
        timeout: Duration | None = ...,
        default: Any = ...,
        completable: bool = ...,
        validate: Validator | None = ...,
        name: str | None = ...,
    ) -> VerbCall[Any]: ...
    def listen(
        self,
        *names: Any,
        timeout: Duration | None = None,
        default: Any = _MISSING,
        completable: bool = False,
        validate: Validator | None = None,
        name: str | None = None,
    ) -> VerbCall[Any]:
        """Waits for the next message of a signal, or of any of these names, first in first out across them; returns its body.

        A message that has arrived already takes precedence over a timeout. Consuming it is in one commit with what follows. With `completable`, the verb
        returns a `Message`, which is not consumed until ``message.complete(reply)`` and returns to its place if its branch is cancelled before.

        `validate` is called with each body, after the validator of the signal. It may read what the workflow knows, but use no verb. A message for which it
        raises, or returns False, is rejected: the verb goes on waiting, and `ask` raises `MessageRejected`.

        Raises:
            Timeout: no message arrived in time, and there is no `default`.
        """
        path, op, signal = self._receive("listen", names, name, ReceiveOperation((), 1, timeout_s=_optional_s(timeout), completable=completable))
        return self._verb(path, self._listen(path, op, signal, default, validators_of(signal, validate)))

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
        """Waits for messages and returns their bodies: without `timeout`, from one to `limit` of them as soon as one is there; with it, all that arrive until
        there are `limit` or the timeout has passed, possibly none."""
        receive = ReceiveOperation((), whole_number(limit, "listen_many(limit)"), timeout is not None, _optional_s(timeout), completable)
        path, op, signal = self._receive("listen_many", names, name, receive)
        return self._verb(path, self._listen_many(path, op, signal, validators_of(signal, None)))

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
        if settlement.messages:
            self._instance.receipts.receive(path, [message.number for message in settlement.messages], op.completable)
        return settlement

    async def _accepted(
        self, path: Path, op: ReceiveOperation, signal: Signal[Any] | None, validators: Sequence[Validator]
    ) -> tuple[Path, SettledOperation, list[ReceivedMessage]]:
        """Receives until a message is accepted, or the time is over; returns where that was, how it settled, and the messages that are accepted."""
        at, times, until_s = path, 0, None
        while True:
            settlement = await self._received(at, op)
            accepted = [one for one in settlement.messages if not (validators and self._rejects(at, op, signal, one, validators))]
            if accepted or op.gather or not settlement.messages:
                return at, settlement, accepted
            if op.timeout_s is not None:
                until_s = settlement.opened_at_s + op.timeout_s if until_s is None else until_s
                op = msgspec.structs.replace(op, timeout_s=max(until_s - settlement.at_s, 0.0))
            times += 1
            at = (*path, ("again", times))

    def _rejects(self, path: Path, op: ReceiveOperation, signal: Signal[Any] | None, message: ReceivedMessage, validators: Sequence[Validator]) -> bool:
        """Returns whether a received message is rejected, and records that. On replay the log says so, and no validator is called."""
        instance, place = self._instance, reply_path(path, message.number)
        kind, error, port = Any if signal is None else signal.body, None, instance.known_port(place)
        if not instance.replaying and port is None:
            with instance.no_verbs("a validator"):
                error = rejection_of(validators, lambda: values.decode(instance.raw(message.body), kind, "the body of", path))
        is_rejected = error is not None or port == REJECTED_PORT
        if is_rejected:
            how = {"role": "reply", "label": str(message.number), "port": REJECTED_PORT}
            instance.remember(place, lambda: values.encode(error, "the rejection of", path), **how)
            if op.completable:
                instance.receipts.complete(path, message.number)
        return is_rejected

    async def _listen(self, path: Path, op: ReceiveOperation, signal: Signal[Any] | None, default: Any, validators: Sequence[Validator]) -> Any:
        at, settlement, accepted = await self._accepted(path, op, signal, validators)
        if isinstance(settlement.outcome, Failure):
            if default is _MISSING:
                raise Timeout(path_text(path), op.timeout_s)
            return default
        return self._received_body(at, op, signal, accepted[0])

    async def _listen_many(self, path: Path, op: ReceiveOperation, signal: Signal[Any] | None, validators: Sequence[Validator]) -> list[Any]:
        at, _, accepted = await self._accepted(path, op, signal, validators)
        return [self._received_body(at, op, signal, message) for message in accepted]

    def _received_body(self, path: Path, op: ReceiveOperation, signal: Signal[Any] | None, message: ReceivedMessage) -> Any:
        body = self._instance.decode(message.body, Any if signal is None else signal.body, path)
        if not op.completable:
            return body
        return Message(message.name, body, partial(self._complete, path, message.number))

    def _complete(self, path: Path, number: int, reply: Any) -> None:
        _ = self._instance.admit("complete")
        if not self._instance.receipts.holds(path, number):
            what = f"the message of {path_text(path)} was completed before, or returned to the mailbox when its branch lost"
            raise WrongVerb(what, "complete each message once, while its branch runs")
        self._instance.remember(reply_path(path, number), lambda: values.encode(reply, "the reply to", path), role="reply", label=str(number))
        self._instance.receipts.complete(path, number)

    @overload
    def send(self, execution: Key | HasKey, signal: Signal[T], body: T, *, name: str | None = ...) -> SettledResult[None]: ...
    @overload
    def send(self, execution: Key | HasKey, signal: str, body: Any = ..., *, name: str | None = ...) -> SettledResult[None]: ...
    def send(self, execution: Key | HasKey, signal: Signal[Any] | str, body: Any = None, *, name: str | None = None) -> SettledResult[None]:
        """Sends a message to another execution, or to this one. It is recorded, so replay does not repeat it."""
        scope = self._enter("send")
        key = execution if isinstance(execution, Key) else execution.key
        wanted = signal.name if isinstance(signal, Signal) else checked_name(signal, "signal")
        path = scope.take(f"send:{wanted}", name)
        raw = values.encode(body, "the body of", path)
        if isinstance(signal, Signal):
            refuse_lossy_value(body, raw, signal.body, lambda: f"the body of {path_text(path)}")
            if not self._instance.replaying and (why := rejection_of(validators_of(signal, None), lambda: body)) is not None:
                raise MessageRejected(wanted, why)
        self._instance.send(path, SendOperation(key, wanted, raw))
        return SettledResult(None)

    # Branches.

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
        """Runs branches concurrently and waits for all, also if one fails. The results are a tuple for branches by position, a record for branches by keyword.

        A branch is a function of a context of its own, or a step or a workflow that needs no arguments. Type checkers accept mixtures by keyword only.

        Raises:
            JoinFailed: branches failed; it has the error of each, and the results of the others.
        """
        path, started = self._branches("join", branches, by_name, name)
        return self._verb(path, self._join(path, started, as_tuple=not by_name))

    @overload
    def race(self, *, name: str | None = ..., **branches: BranchOf[T]) -> VerbCall[Won[T]]: ...
    @overload
    def race(self, *, name: str | None = ..., **branches: StepOrWorkflow[T]) -> VerbCall[Won[T]]: ...
    def race(self, *, name: str | None = None, **branches: Any) -> VerbCall[Won[Any]]:
        """Runs branches concurrently until one *returns*; cancels the others, even in the middle of a step. `Won` has the name and the value of the winner.

        A branch is a function of a context of its own, or a step or a workflow that needs no arguments. Type checkers accept no mixtures of the two.

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
        """Runs a branch for each item, at most `limit` at a time; returns their results in the order of the items.

        A branch is a step or a workflow, which is given the item, ``ctx.map(charge, orders)``, or a function of a context of its own and the item,
        ``ctx.map(lambda c, order: c.step(charge, order, 5), orders)``.

        Raises:
            JoinFailed: branches failed; its errors and outputs are named by the number of the item, from 0.
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
        """Waits for verbs or tasks as `asyncio.wait` does; returns those that are done and those that are pending, each in the order given.

        The pending ones continue, and can be waited for again. `timeout` is durable; when it passes, nothing is raised.
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
        self._instance.note_awaited(path)
        await branches.wait_for_tasks(self._instance.loop, tasks, when, None if limit is None else self._sleep(path, limit))
        return [task for task in tasks if task.done()], [task for task in tasks if not task.done()]

    def as_completed(self, *awaitables: Awaitable[T]) -> branches.CompletedTasks[T]:
        """Yields verbs or tasks in the order in which they end, as `asyncio.as_completed` does: ``async for task in ctx.as_completed(...): await task``.

        After a `break`, the others continue.
        """
        self._enter("as_completed")
        return branches.CompletedTasks(self._instance.loop, branches.tasks_of("as_completed", self._instance.loop, awaitables))

    def _branches(self, verb: str, positional: tuple[Any, ...], by_name: dict[str, Any], name: str | None) -> tuple[Path, list[branches.Branch]]:
        scope = self._enter(verb)
        if positional and by_name:
            raise WrongVerb(f"ctx.{verb} was given {len(positional)} branches by position and {len(by_name)} by name", "pass all in the same way")
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
        """Starts a branch as a task with a context of its own."""
        context = Context(self._instance, NameScope(path), None)
        context._task = task = self._instance.loop.create_task(context._run(fn), name=name)
        self._instance.branches[task] = context._scope
        return task

    async def _run(self, fn: Callable[[Context], Awaitable[Any]]) -> Any:
        _running.set(self)
        self._instance.receipts.begin(self._scope.path)
        try:
            return await fn(self)
        except CancelledError:
            self._instance.give_back(self._scope.path)
            raise
        except (KeyboardInterrupt, SystemExit) as error:
            raise RuntimeError(f"{type(error).__name__} in a workflow") from error
        except RuntimeError as error:
            if (misuse := loop_misuse(error)) is not None:
                raise misuse from error
            raise
        finally:
            self._instance.branches.pop(cast("NumberedTask[Any]", self._task), None)

    def loop(self, name: str, state: S, *, commit_every: int = 1, keep: int = 10, trim_every: int = 1, undo_keep: int | None = None) -> DurableLoop[S]:
        """A loop with durable state: ``async for turn in ctx.loop("audit", state=0): turn.state += 1``; leave it by `break`.

        The state is recorded at the start of every `commit_every`-th iteration. The last `keep` iterations are kept, and older ones are forgotten at every
        `trim_every`-th, so a loop can run without end. In an iteration, use the verbs of `turn`. If the execution fails, forgotten iterations are undone as
        well, up to 10,000 operations; with more to undo, the execution parks. With `undo_keep`, only so many of the last iterations are undone.
        """
        scope = self._enter("loop")
        path = scope.take(checked_name(name, "loop"), name)
        return DurableLoop(self, scope, path, state, commit_every=commit_every, keep=keep, trim_every=trim_every, undo_keep=undo_keep)

    def _turn(self, scope: NameScope, cell: LoopState[S], number: int, path: Path) -> Turn[S]:
        return Turn(self._instance, NameScope(path), self._instance.loop.current, cell, number)

    # Children.

    def call(self, workflow: HasCode[P, R], /, *args: P.args, **kwargs: P.kwargs) -> VerbCall[R]:
        """Runs another workflow as a child execution and waits for its result. If this execution ends or stops waiting, the child is cancelled.

        Options go to ``workflow.with_(...)``.

        Raises:
            ChildFailed: it failed or was cancelled.
            TooDeep: the child would have more than 100 ancestors.
        """
        path, op = self._spawn("call", None, workflow.code, (args, kwargs))
        return self._verb(path, child_executions.call_child(self._instance, path, op, workflow.code))

    def start(self, workflow: HasCode[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> SettledResult[Key]:
        """Starts another workflow as an execution that continues independently; returns its key, to which messages can be sent."""
        path, op = self._spawn("start", None, workflow.code, (args, kwargs))
        self._instance.send(path, op)
        return SettledResult(Key(self._instance.execution.key.tenant, op.workflow, op.id))

    def _spawn(self, verb: str, name: str | None, workflow: CodeWorkflow, given: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[Path, SpawnOperation]:
        refuse_ineffective_options(workflow.calling, f"ctx.{verb}", workflow.name)
        refuse_options_among_arguments(workflow.name, f"ctx.{verb}", workflow.fn, *given)
        path = self._enter(verb).take(f"{'start' if verb == 'start' else 'call'}:{workflow.name}", name or workflow.calling.name)
        return path, child_executions.child_operation(self._instance, path, workflow, given, awaited=verb != "start")

    # Approvals.

    @overload
    def approve(self, title: str, *, form: type[T], name: str | None = ..., **options: Unpack[ApproveKeywords]) -> VerbCall[Decision[T]]: ...
    @overload
    def approve(self, title: str, *, name: str | None = ..., **options: Unpack[ApproveKeywords]) -> VerbCall[Decision[Any]]: ...
    def approve(self, title: str, *, name: str | None = None, **options: Any) -> VerbCall[Decision[Any]]:
        """Asks people for a decision and waits for it: ``await ctx.approve("Ship it?", form=ShipForm, assignees=["ada", "group:ops"], timeout="1d")``.

        `form` is a type that the person who approves fills in. Without `assignees`, any person may decide. One vote against rejects, a `quorum` of votes in
        favour approves. After `escalate`, the people in `escalate_to` may decide too. When the `timeout` passes, the approval fails, or is approved or rejected
        as `on_timeout` says. The step `notify` is run with a `Notice` at the beginning, every `remind`, and at the escalation.

        The inbox orders approvals by `priority` and by when they are `due`, and finds them by the `resource` that they are about, a type and an id.
        `route_hint` and `deep_link` say where in an application people find that.

        Raises:
            Timeout: no decision was made in time.
            ChildFailed: the approval was cancelled.
        """
        scope = self._enter("approve")
        asking = approval_requests.approval_options(options)
        asked = approval_requests.approval_request(title, asking, self._instance.execution.now_s)
        path = scope.take(f"approve:{title}"[:200], name)
        return self._verb(path, approval_requests.decide_approval(self._instance, scope, path, asked, asking))

    # Values, versions and state.

    def keep(self, name: str, fn: Callable[[], T]) -> SettledResult[T]:
        """Records what `fn` returns now: replay returns the same value without calling it. For work that may fail or wait, use a step."""
        scope = self._enter("keep")
        path = scope.take(checked_name(name, "keep"), name)
        value = self._instance.remember(path, lambda: values.encode(self._made(fn, path), "keep", path))
        return SettledResult(self._instance.decode(value, codec_of_function(fn).result, path))

    def _made(self, fn: Callable[[], T], path: Path) -> T:
        with self._instance.no_verbs("the function of ctx.keep"):
            made = fn()
        if isinstance(made, Coroutine):
            made.close()
            raise WrongVerb(f"keep {path_text(path)} was given an async function", "use a step for work that waits: ctx.step(fn)")
        return made

    def version(self, name: str, latest: int) -> SettledResult[int]:
        """Returns the version of a changed piece of code that this execution runs: ``if await ctx.version("tax", 2) >= 2: ...``.

        An execution that reaches the gate for the first time records and runs `latest`; one that passed this place before the gate was written runs 1. Each
        gate, and each iteration of a loop, decides separately. A reopened or forked execution runs 1 until it has passed everything that it did before.
        """
        path = self._enter("version").take(f"version:{checked_name(name, 'version')}")
        return SettledResult(version_gates.version_at_gate(self._instance, path, whole_number(latest, "version(latest)")))

    def removed(self, name: str, kind: str = "step") -> VerbCall[None]:
        """Takes the place of an operation that was removed from the code, so that executions that recorded it continue: ``await ctx.removed("charge")``.

        `name` is its default or explicit name (``charge``, ``sleep:3d``, ``listen:approved``, ``version:tax``), `kind` is step, sleep, listen, call, start,
        send, keep, set, set_attributes, emit, commit or version. An operation that is still open is waited for; a step is not run again.
        """
        path = self._enter("removed").take(checked_name(name, "operation"))
        return self._verb(path, self._removed(path, kind))

    async def _removed(self, path: Path, kind: str) -> None:
        self._instance.note_awaited(path)
        future = version_gates.removed_operation(self._instance, path, kind)
        if future is not None:
            await self._instance.wait_for_settlement(path, future)

    def set(self, key: str, value: Any) -> None:
        """Shows `value` under `key` in queries of the execution, from this commit on."""
        path = self._enter("set").take(f"set:{checked_name(key, 'state')}"[:1000])
        self._instance.remember(path, lambda: values.encode(value, "the value of", path), role="state", label=key)

    def set_attributes(self, changes: AttributeChangeValues, /) -> None:
        """Changes the attributes of the execution, from this commit on: ``ctx.set_attributes({"stage": "paid", "tag": ["a", "b"], "due": None})``.

        A value is a str of up to 1 KiB, an int of 64 bits, a finite float, a bool, or a datetime with a time zone. A name has several values if it is given
        a list; a change replaces all of them, and None or an empty list removes the name. An execution has up to 32 names and 64 values.

        Raises:
            BadName, BadValue: a name or a value is not accepted, or there would be too many attributes; nothing is changed.
        """
        path, instance = self._enter("set_attributes").take("set_attributes"), self._instance
        recalled = instance.execution.recalled_results.recalls(path, KeepOperation())  # the execution passed here before it was reopened, with other attributes
        asked = () if recalled else attributes.checked_attribute_changes(instance.attributes, changes)
        kept = instance.remember(path, lambda: attributes.encode_attribute_changes(asked), role="attributes")
        instance.attributes = attributes.merge_attributes(instance.attributes, attributes.decode_attribute_changes(kept))

    def emit(self, value: Any, *, event: str = "") -> None:
        """Appends `value` to the stream of the execution. With `event`, it is also announced under that name, so that triggers can start executions on it.

        Raises:
            BadName: the name of the event is too long.
            BadValue: it is one that tells how an execution has ended, such as ``completed``.
        """
        check_event_name(event, "event")
        path = self._enter("emit").take("emit")
        named = {"label": checked_name(event, "event")} if event else {}
        self._instance.remember(path, lambda: values.encode(value, "the value of", path), role="stream", **named)

    def commit(self) -> None:
        """Makes all steps so far final: they are not undone if the execution fails later."""
        path = self._enter("commit").take("commit")
        self._instance.remember(path, lambda: values.ENCODED_NONE, role="commit")

    @property
    def execution(self) -> ExecutionInfo:
        """The execution's id, workflow, version and deadline."""
        return ExecutionInfo(self._instance)

    # How verbs are made.

    def _enter(self, verb: str) -> NameScope:
        """Returns the scope in which the calling task numbers names.

        Raises:
            WrongVerb: the context is not the caller's.
        """
        task = self._instance.admit(verb)
        scope = self._scope if task is self._task else self._scope_of(task, verb)
        if scope.loop_alive is not None:
            refuse_verb_outside_iteration(scope, verb)
        return scope

    def _iteration(self) -> Context | None:
        """Returns the iteration of a loop in which the calling task is, if it is in one of this context."""
        task = self._instance.loop.current
        scope = self._scope if task is None or task is self._task or self._children is None else self._children.get(task, self._scope)
        alive = scope.loop_alive() if isinstance(scope.loop_alive, ref) else None
        return alive.iteration if isinstance(alive, DurableLoop) else None

    def _scope_of(self, task: NumberedTask[Any], verb: str) -> NameScope:
        if task in self._instance.branches:
            raise WrongVerb(f"ctx.{verb} was called on the context of another branch", "use the context that this branch is given: `async def branch(c): ...`")
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
        self._instance.note_called(path, coroutine)
        return coroutine

    async def _main(self, workflow: CodeWorkflow) -> Any:
        """The workflow itself."""
        instance = self._instance
        _running.set(self)
        self._task = instance.loop.current
        started = instance.execution.started
        raw = instance.raw(values.ENCODED_NONE if started is None else started.input)
        restore_context(instance.execution.carried)
        args, kwargs = workflow.codec.decode_args(raw, f"the input of {workflow.name}") if raw != values.ENCODED_NONE else ((), {})
        try:
            return await workflow.fn(self, *args, **kwargs)
        except (KeyboardInterrupt, SystemExit) as error:
            raise RuntimeError(f"{type(error).__name__} in a workflow") from error
        except RuntimeError as error:
            if (misuse := loop_misuse(error)) is not None:
                raise misuse from error
            raise


class SharedContext(Context):
    """A context that all tasks below it share, for a library that starts tasks of its own.

    Operations are named in the order in which they are called, whatever task calls them: so how a library divides its work into tasks is no part of the log.
    """

    __slots__ = ()

    def _scope_of(self, task: NumberedTask[Any], verb: str) -> NameScope:
        return self._scope


class Turn(Context, Generic[S]):  # An iteration is a context in every respect, and also has state.
    """One iteration of a loop: the verbs of a context, and the loop's state."""

    __slots__ = ("_cell", "number")

    def __init__(self, instance: CodeProgram, scope: NameScope, task: NumberedTask[Any] | None, cell: LoopState[S], number: int) -> None:
        super().__init__(instance, scope, task)
        self._cell = cell
        self.number = number

    @property
    def state(self) -> S:
        """The state of the loop. The next iteration begins with what is assigned here."""
        return self._cell.state

    @state.setter
    def state(self, state: S) -> None:
        self._cell.state = state


_running: ContextVar[Context] = ContextVar("perdure_workflow")


def current_context() -> Context | None:
    """Returns the context whose verbs the code that runs here may use: that of its branch, or of the iteration of a loop; None outside of workflow code.

    It is for libraries that take the place of their I/O by verbs, and so need the context of the workflow that calls them.
    """
    found = _running.get(None)
    if found is None or not (loop := found._instance.loop).driving or _get_running_loop() is not loop:
        return None
    while (iteration := found._iteration()) is not None:
        found = iteration
    return found


@contextmanager
def shared_context(name: str) -> Generator[None]:
    """Inside, the current context is a shared one, whose operations are below `name`.

    Raises:
        WrongVerb: there is no current context.
    """
    outer = current_context()
    if outer is None:
        raise WrongVerb(f"{name} was begun outside of a workflow", "begin it in the code of a workflow")
    inner = SharedContext(outer._instance, NameScope(outer._scope.take(name)), outer._instance.admit("shared"))
    token = _running.set(inner)
    try:
        yield
    finally:
        _running.reset(token)


def workflow_entry(workflow: CodeWorkflow) -> Callable[[CodeProgram], Coroutine[Any, Any, Any]]:
    """Returns the function that creates the coroutine of a workflow, with a context and the input of the execution."""

    def begin(instance: CodeProgram) -> Coroutine[Any, Any, Any]:
        return Context(instance, NameScope(()), None)._main(workflow)

    return begin


def new_code_program(workflow: CodeWorkflow, key: Key, variables: Variables | None = None) -> CodeProgram:
    """Returns a program for an execution of `workflow`, to be fed its events. It runs with the context variables `variables`, by default the current ones."""
    return CodeProgram(workflow, key, workflow_entry(workflow), variables)


def as_branch(fn: Any) -> Any:
    """Returns a function of a context that runs a step as a durable step, or a workflow as a child, with the further arguments of the branch."""
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
    """Raises the failure of a step: the error itself if its class is declared in `raises`, else `StepFailed`."""
    if failure.kind == "rollback":
        raise Rollback(failure.error.message)
    error = rebuild_exception(failure.error, fn.raises) if isinstance(fn, Step) else None
    if error is not None:
        raise error
    raise StepFailed(path_text(path), failure.kind, failure.attempts, failure.error)
