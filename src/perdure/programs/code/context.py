"""The context: the verbs of a workflow. Each takes its path when it is called, and does its work when it is awaited.

Verbs that settle at once (`send`, `set`, `set_attributes`, `emit`, `keep`) have done it when they return.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextvars import Context as Variables
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, Concatenate, Generic, Literal, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, cast, overload
from uuid import UUID

import msgspec

from perdure.core import attributes, values
from perdure.core.attributes import AttributeValue
from perdure.core.errors import BadValue, Rollback, StepFailed, Timeout, WrongVerb
from perdure.core.mailbox import Letter
from perdure.core.ops import DEFAULT_RETRY, Call, Err, Keep, Op, Receive, Send, Sleep, Spawn
from perdure.core.paths import Key, Path, text
from perdure.core.promise import Settlement
from perdure.programs.code import approving, gates, waiting
from perdure.programs.code import branches as flow
from perdure.programs.code import children as family
from perdure.programs.code.approving import Approving
from perdure.programs.code.codec import codec_of
from perdure.programs.code.declare import CodeWorkflow, Signal, Step, checked_name
from perdure.programs.code.durations import Duration, seconds, shown, whole
from perdure.programs.code.failures import rebuilt
from perdure.programs.code.instance import Instance
from perdure.programs.code.lines import Lines
from perdure.programs.code.loops import Cell, Loop, refuse_outer
from perdure.programs.code.options import expect_acting, expect_no_options
from perdure.programs.code.places import reply_path
from perdure.programs.code.results import Attempt, Decision, Message, Ok, Record, Won
from perdure.programs.code.round_trip import check
from perdure.programs.code.scheduler import NumberedFuture, NumberedTask
from perdure.programs.code.scope import Scope

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

Verb = Coroutine[Any, Any, R]
"""What a verb returns: await it once, or hand it to asyncio.gather or a task."""

_MISSING: Any = object()


class Done(Generic[T]):
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

StandIn = Step[..., R, Any] | HasCode[..., R]
"""What may stand in for a branch: a step or a workflow that needs no arguments."""


class ExecutionInfo:
    """What a workflow may know of its own execution."""

    __slots__ = ("_instance",)

    def __init__(self, instance: Instance) -> None:
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
    def attributes(self) -> dict[str, AttributeValue]:
        """What it is found by: as it was started with, and as `set_attributes` has changed that since. Changing this changes nothing."""
        return attributes.told(self._instance.attributes)

    @property
    def deadline(self) -> float | None:
        """When the execution must have ended, in seconds since 1970."""
        return self._instance.execution.deadline_at_s


class Context:
    """The verbs of a workflow, for one branch of it. A branch, and a turn of a loop, gets its own and uses no other."""

    __slots__ = ("_children", "_instance", "_random", "_scope", "_task", "log")

    def __init__(self, instance: Instance, scope: Scope, task: NumberedTask[Any] | None) -> None:
        self._instance = instance
        self._scope = scope
        self._task = task
        self._children: dict[NumberedTask[Any], Scope] | None = None
        self._random: Random | None = None
        self.log = Lines(instance)

    # steps

    @overload
    def step(self, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> Verb[R]: ...
    @overload
    def step(self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> Verb[R]: ...
    @overload
    def step(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Verb[R]: ...
    @overload
    def step(self, name: str, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> Verb[R]: ...
    @overload
    def step(self, name: str, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> Verb[R]: ...
    @overload
    def step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Verb[R]: ...
    def step(self, fn: Any, /, *args: Any, **kwargs: Any) -> Verb[Any]:
        """Run a function once and remember its result: ``ctx.step(fn, *args)``, or ``ctx.step("name", fn, *args)``.

        It runs at least once and settles exactly once; after that it is never run again. Options go to ``fn.with_(...)``.

        Raises:
            StepFailed: its tries are used up, or it raised `Fatal`; of a class in its `raises`, the error itself.
        """
        path, op, fn = self._prepare("step", fn, args, kwargs)
        return self._verb(path, self._step(path, op, fn))

    @overload
    def attempt(self, fn: HasCode[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Verb[Attempt[R]]: ...
    @overload
    def attempt(self, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> Verb[Attempt[R]]: ...
    @overload
    def attempt(self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> Verb[Attempt[R]]: ...
    @overload
    def attempt(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Verb[Attempt[R]]: ...
    @overload
    def attempt(self, name: str, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> Verb[Attempt[R]]: ...
    @overload
    def attempt(self, name: str, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> Verb[Attempt[R]]: ...
    @overload
    def attempt(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Verb[Attempt[R]]: ...
    def attempt(self, fn: Any, /, *args: Any, **kwargs: Any) -> Verb[Any]:
        """Run a step, or another workflow as a child, and return its failure as data: `Ok(value)`, or `Err(kind, attempts, error)`."""
        named = isinstance(fn, str) and bool(args)
        child = getattr(args[0] if named else fn, "code", None)
        if isinstance(child, CodeWorkflow):
            path, spawn = self._spawn("attempt", fn if named else None, child, (args[1:] if named else args, kwargs))
            return self._verb(path, family.attempted(self, path, spawn, child))
        path, op, fn = self._prepare("attempt", fn, args, kwargs)
        return self._verb(path, self._attempt(path, op, fn))

    def _prepare(self, verb: str, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Path, Call, Any]:
        scope = self._enter(verb)
        explicit = None
        if isinstance(fn, str) and args:
            explicit, fn, args = fn, args[0], args[1:]
        if not callable(fn):
            raise WrongVerb(f"ctx.{verb}({fn!r:.60})", f"pass a function and its arguments: ctx.{verb}(charge, order), not what calling it returns")
        if isinstance(fn, Step):
            if kwargs:
                expect_no_options(fn.name, f"ctx.{verb}", fn.fn, args, kwargs)
            for handler in fn.handlers:
                _ = handler.step.codec  # what undoes it has to be sound before it is done
            path = scope.take(fn.name, explicit or fn.explicit)
            raw = fn.codec.encode_args(args, kwargs, "the arguments of step", path)
            op = Call(fn.name, raw, fn.queue, fn.rule, fn.timeout_s, fn.may_repeat, undo=fn.undo_when, heartbeat_s=fn.heartbeat_s, transaction=fn.transaction)
            op = op if fn.grace is None else msgspec.structs.replace(op, grace_s=fn.grace_s)
            return path, fn.placed(op, self._instance.execution.key.tenant, args, kwargs) if fn.queue else op, fn
        name = checked_name(explicit or flow.own_name(fn, "step"), "step")
        path = scope.take(name, explicit)
        return path, Call(name, codec_of(fn).encode_args(args, kwargs, "the arguments of step", path), "", DEFAULT_RETRY), fn

    async def _step(self, path: Path, op: Call, fn: Any) -> Any:
        settlement = await self._settle(path, op, fn)
        outcome = settlement.outcome
        if isinstance(outcome, Err):
            _raise(path, outcome, fn)
        return self._result(path, settlement, fn)

    async def _attempt(self, path: Path, op: Call, fn: Any) -> Any:
        settlement = await self._settle(path, op, fn)
        outcome = settlement.outcome
        if isinstance(outcome, Err):
            if outcome.kind == "rollback":
                raise Rollback(outcome.error.message)
            return outcome
        return Ok(self._result(path, settlement, fn))

    def _result(self, path: Path, settlement: Settlement, fn: Any) -> Any:
        outcome = settlement.outcome
        value = values.NOTHING if outcome is None or isinstance(outcome, Err) else outcome.value
        codec = fn.codec if isinstance(fn, Step) else codec_of(fn)
        return self._instance.decode(value, codec.result, path)

    # time

    def sleep(self, duration: Duration, *, name: str | None = None) -> Verb[None]:
        """Wait for `duration` (seconds, a timedelta, or text such as ``"3d"``), across restarts.

        The deadline is fixed when the operation is opened; replay and restarts do not move it. No memory is held while waiting.
        """
        scope = self._enter("sleep")
        op = Sleep(seconds(duration, "sleep"))
        path = scope.take(f"sleep:{shown(duration)}", name)
        return self._verb(path, self._sleep(path, op))

    def sleep_until(self, when: datetime, *, name: str | None = None) -> Verb[None]:
        """Wait until a point in time, which must have a time zone; one that is past does not wait."""
        scope = self._enter("sleep_until")
        if getattr(when, "tzinfo", None) is None:
            raise BadValue("sleep_until", when, "a datetime with a time zone, such as datetime.now(UTC) + timedelta(days=1)")
        path = scope.take(f"sleep_until:{when.isoformat()}", name)
        return self._verb(path, self._sleep(path, Sleep(until_s=when.timestamp())))

    async def _sleep(self, path: Path, op: Sleep) -> None:
        await self._settle(path, op)

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
            self._random = Random(f"{0 if started is None else started.seed}:{text(self._scope.path)}")
        return self._random

    def uuid(self) -> UUID:
        """A random UUID, the same on every replay."""
        return UUID(int=self.random.getrandbits(128), version=4)

    # messages

    @overload
    def listen(self, signal: Signal[T], /, *, completable: Literal[True], timeout: Duration | None = ..., name: str | None = ...) -> Verb[Message[T]]: ...
    @overload
    def listen(self, signal: Signal[T], /, *, timeout: Duration | None = ..., name: str | None = ...) -> Verb[T]: ...
    @overload
    def listen(self, signal: Signal[T], /, *, timeout: Duration | None, default: D, name: str | None = ...) -> Verb[T | D]: ...
    @overload
    def listen(self, *names: str, timeout: Duration | None = ..., default: Any = ..., completable: bool = ..., name: str | None = ...) -> Verb[Any]: ...
    def listen(self, *names: Any, timeout: Duration | None = None, default: Any = _MISSING, completable: bool = False, name: str | None = None) -> Verb[Any]:
        """Wait for the next message of a signal, or of any of these names, first in first out across them; return its body.

        A message that is there already wins over a timeout. Consuming it is one commit with what follows. With `completable`, it returns a
        `Message` that stays the execution's until ``message.complete(reply)``, and goes back to its place if its branch is cancelled before.

        Raises:
            Timeout: nothing came in time, and there is no `default`.
        """
        path, op, signal = self._receive("listen", names, name, Receive((), 1, timeout_s=_optional_s(timeout), completable=completable))
        return self._verb(path, self._listen(path, op, signal, default))

    @overload
    def listen_many(
        self, signal: Signal[T], /, *, completable: Literal[True], limit: int = ..., timeout: Duration | None = ..., name: str | None = ...
    ) -> Verb[list[Message[T]]]: ...
    @overload
    def listen_many(self, signal: Signal[T], /, *, limit: int = ..., timeout: Duration | None = ..., name: str | None = ...) -> Verb[list[T]]: ...
    @overload
    def listen_many(
        self, *names: str, limit: int = ..., timeout: Duration | None = ..., completable: bool = ..., name: str | None = ...
    ) -> Verb[list[Any]]: ...
    def listen_many(self, *names: Any, limit: int = 100, timeout: Duration | None = None, completable: bool = False, name: str | None = None) -> Verb[Any]:
        """Wait for messages: without `timeout`, at least one and at most `limit`, as soon as there is one; with it, as many as come until there are `limit`
        or the time is over, possibly none."""
        receive = Receive((), whole(limit, "listen_many(limit)"), timeout is not None, _optional_s(timeout), completable)
        path, op, signal = self._receive("listen_many", names, name, receive)
        return self._verb(path, self._listen_many(path, op, signal))

    def _receive(self, verb: str, names: tuple[Any, ...], name: str | None, receive: Receive) -> tuple[Path, Receive, Signal[Any] | None]:
        scope = self._enter(verb)
        signal = names[0] if len(names) == 1 and isinstance(names[0], Signal) else None
        wanted = tuple(checked_name(one.name if isinstance(one, Signal) else one, "signal") for one in names)
        if not wanted:
            raise BadValue(verb, names, "a signal, or the names of messages")
        path = scope.take(f"listen:{','.join(wanted)}"[:200], name)
        return path, msgspec.structs.replace(receive, names=wanted), signal

    async def _received(self, path: Path, op: Receive) -> Settlement:
        settlement = await self._settle(path, op)
        if settlement.letters:
            self._instance.receipts.receive(path, [letter.number for letter in settlement.letters], op.completable)
        return settlement

    async def _listen(self, path: Path, op: Receive, signal: Signal[Any] | None, default: Any) -> Any:
        settlement = await self._received(path, op)
        if isinstance(settlement.outcome, Err):
            if default is _MISSING:
                raise Timeout(text(path), op.timeout_s)
            return default
        return self._letter(path, op, signal, settlement.letters[0])

    async def _listen_many(self, path: Path, op: Receive, signal: Signal[Any] | None) -> list[Any]:
        settlement = await self._received(path, op)
        return [self._letter(path, op, signal, letter) for letter in settlement.letters]

    def _letter(self, path: Path, op: Receive, signal: Signal[Any] | None, letter: Letter) -> Any:
        body = self._instance.decode(letter.body, Any if signal is None else signal.body, path)
        if not op.completable:
            return body
        return Message(letter.name, body, partial(self._complete, path, letter.number))

    def _complete(self, path: Path, number: int, reply: Any) -> None:
        _ = self._instance.admit("complete")
        if not self._instance.receipts.holds(path, number):
            what = f"the message of {text(path)} was completed before, or went back when its branch lost"
            raise WrongVerb(what, "complete each once, while its branch goes on")
        self._instance.remember(reply_path(path, number), lambda: values.encode(reply, "the reply to", path), role="reply", label=str(number))
        self._instance.receipts.complete(path, number)

    @overload
    def send(self, execution: Key | HasKey, signal: Signal[T], body: T, *, name: str | None = ...) -> Done[None]: ...
    @overload
    def send(self, execution: Key | HasKey, signal: str, body: Any = ..., *, name: str | None = ...) -> Done[None]: ...
    def send(self, execution: Key | HasKey, signal: Signal[Any] | str, body: Any = None, *, name: str | None = None) -> Done[None]:
        """Send a message to another execution, or to this one; recorded, so never repeated by replay."""
        scope = self._enter("send")
        key = execution if isinstance(execution, Key) else execution.key
        wanted = signal.name if isinstance(signal, Signal) else checked_name(signal, "signal")
        path = scope.take(f"send:{wanted}", name)
        raw = values.encode(body, "the body of", path)
        if isinstance(signal, Signal):
            check(body, raw, signal.body, lambda: f"the body of {text(path)}")
        self._instance.send(path, Send(key, wanted, raw))
        return Done(None)

    # branches

    @overload
    def join(self, a: BranchOf[T1], /, *, name: str | None = ...) -> Verb[tuple[T1]]: ...
    @overload
    def join(self, a: BranchOf[T1], b: BranchOf[T2], /, *, name: str | None = ...) -> Verb[tuple[T1, T2]]: ...
    @overload
    def join(self, a: BranchOf[T1], b: BranchOf[T2], c: BranchOf[T3], /, *, name: str | None = ...) -> Verb[tuple[T1, T2, T3]]: ...
    @overload
    def join(self, a: BranchOf[T1], b: BranchOf[T2], c: BranchOf[T3], d: BranchOf[T4], /, *, name: str | None = ...) -> Verb[tuple[T1, T2, T3, T4]]: ...
    @overload
    def join(
        self, a: BranchOf[T], b: BranchOf[T], c: BranchOf[T], d: BranchOf[T], e: BranchOf[T], /, *more: BranchOf[T], name: str | None = ...
    ) -> Verb[tuple[T, ...]]: ...
    @overload
    def join(self, a: StandIn[T1], /, *, name: str | None = ...) -> Verb[tuple[T1]]: ...
    @overload
    def join(self, a: StandIn[T1], b: StandIn[T2], /, *, name: str | None = ...) -> Verb[tuple[T1, T2]]: ...
    @overload
    def join(self, a: StandIn[T1], b: StandIn[T2], c: StandIn[T3], /, *, name: str | None = ...) -> Verb[tuple[T1, T2, T3]]: ...
    @overload
    def join(self, *, name: str | None = ..., **by_name: BranchOf[Any]) -> Verb[Record]: ...
    @overload
    def join(self, *, name: str | None = ..., **by_name: BranchOf[Any] | StandIn[Any]) -> Verb[Record]: ...
    def join(self, *branches: Any, name: str | None = None, **by_name: Any) -> Verb[Any]:
        """Run branches side by side and wait for all, also when one fails. By position the results are a tuple, by keyword a record by name.

        A branch is a function of a context of its own, or a step or a workflow that needs no arguments; type checkers know of mixtures by keyword.

        Raises:
            JoinFailed: branches failed; it has the error of each, and what the others returned.
        """
        path, started = self._branches("join", branches, by_name, name)
        return self._verb(path, self._join(path, started, as_tuple=not by_name))

    @overload
    def race(self, *, name: str | None = ..., **branches: BranchOf[T]) -> Verb[Won[T]]: ...
    @overload
    def race(self, *, name: str | None = ..., **branches: StandIn[T]) -> Verb[Won[T]]: ...
    def race(self, *, name: str | None = None, **branches: Any) -> Verb[Won[Any]]:
        """Run branches side by side until one *returns*; the others are cancelled, in mid-step too. `Won` has its name and value.

        A branch is a function of a context of its own, or a step or a workflow that needs no arguments; type checkers know of no mixtures of the two.

        Raises:
            RaceFailed: every branch failed.
        """
        path, started = self._branches("race", (), branches, name)
        return self._verb(path, self._race(path, started))

    @overload
    def map(self, fn: Step[Concatenate[T, ...], R, Any], items: Iterable[T], *, limit: int | None = ..., name: str | None = ...) -> Verb[list[R]]: ...
    @overload
    def map(self, fn: HasCode[[T], R], items: Iterable[T], *, limit: int | None = ..., name: str | None = ...) -> Verb[list[R]]: ...
    @overload
    def map(self, fn: Callable[[Context, T], Awaitable[R]], items: Iterable[T], *, limit: int | None = ..., name: str | None = ...) -> Verb[list[R]]: ...
    def map(self, fn: Any, items: Iterable[Any], *, limit: int | None = None, name: str | None = None) -> Verb[list[Any]]:
        """Run a branch for each item, at most `limit` at a time; return their results in the order of the items.

        A branch is a step or a workflow, which is given the item, ``ctx.map(charge, orders)``, or a function of a context of its own and the item,
        ``ctx.map(lambda c, order: c.step(charge, order, 5), orders)``.

        Raises:
            JoinFailed: branches failed; its errors and outputs go by the number of the item, from 0.
        """
        scope = self._enter("map")
        if limit is not None:
            whole(limit, "map(limit)")
        aim, run = flow.own_name(fn, "item"), flow.as_branch(fn)
        path = scope.take(f"map:{aim}", name)
        started: list[flow.Branch] = [(str(number), (*path, (aim, number + 1)), partial(_with_item, run, item)) for number, item in enumerate(items)]
        return self._verb(path, self._map(path, started, limit, f"map {aim} over {len(started)}"))

    def wait(
        self, *awaitables: Awaitable[T], timeout: Duration | None = None, return_when: str = asyncio.ALL_COMPLETED, name: str | None = None
    ) -> Verb[tuple[list[asyncio.Task[T]], list[asyncio.Task[T]]]]:
        """Wait for what verbs return, or for tasks, as `asyncio.wait` does: return those that are done and those that are not, each in the order given.

        What is not done goes on, and may be waited for again. `timeout` is durable; when it is over, nothing is raised.
        `return_when` is one of asyncio's constants.
        """
        scope = self._enter("wait")
        limit = None if timeout is None else Sleep(seconds(timeout, "wait(timeout)"))
        when = waiting.checked_when(return_when)
        tasks = waiting.tasks_of("wait", self._instance.loop, awaitables)
        path = scope.take("wait", name)
        return self._verb(path, self._wait(path, tasks, when, limit))

    async def _wait(self, path: Path, tasks: list[asyncio.Task[T]], when: str, limit: Sleep | None) -> tuple[list[asyncio.Task[T]], list[asyncio.Task[T]]]:
        self._instance.started(path)
        await waiting.wait(self._instance.loop, tasks, when, None if limit is None else self._sleep(path, limit))
        return [task for task in tasks if task.done()], [task for task in tasks if not task.done()]

    def as_completed(self, *awaitables: Awaitable[T]) -> waiting.Completed[T]:
        """What verbs return, or tasks, as each comes to its end, as `asyncio.as_completed` does: ``async for task in ctx.as_completed(...): await task``.

        It waits for none longer than the workflow asks for the next: leave it by `break`, and the others go on.
        """
        self._enter("as_completed")
        return waiting.Completed(self._instance.loop, waiting.tasks_of("as_completed", self._instance.loop, awaitables))

    def _branches(self, verb: str, positional: tuple[Any, ...], by_name: dict[str, Any], name: str | None) -> tuple[Path, list[flow.Branch]]:
        scope = self._enter(verb)
        if positional and by_name:
            raise WrongVerb(f"ctx.{verb} with {len(positional)} branches by position and {len(by_name)} by name", "give all in the same way")
        if verb == "race" and not by_name:
            raise WrongVerb("ctx.race of nothing has no winner, so it would wait for ever", "give at least one branch: ctx.race(paid=wait_paid, ...)")
        for branch in by_name:
            checked_name(branch, "branch")
        path = scope.take(verb, name)
        return path, flow.named(path, positional, by_name)

    async def _join(self, path: Path, started: list[flow.Branch], as_tuple: bool) -> Any:
        self._instance.remember(path, lambda: values.NOTHING, role="branches", label=flow.label("join", [name for name, _, _ in started]))
        outputs = await flow.join(self, path, started)
        return tuple(outputs.values()) if as_tuple else Record(outputs)

    async def _map(self, path: Path, started: list[flow.Branch], limit: int | None, label: str) -> list[Any]:
        self._instance.remember(path, lambda: values.NOTHING, role="branches", label=label)
        return list((await flow.join(self, path, started, limit)).values())

    async def _race(self, path: Path, started: list[flow.Branch]) -> Won[Any]:
        self._instance.remember(path, lambda: values.NOTHING, role="branches", label=flow.label("race", [name for name, _, _ in started]))
        return await flow.race(self, path, started)

    def _branch(self, name: str, path: Path, fn: Callable[[Context], Awaitable[Any]]) -> NumberedTask[Any]:
        """Start a branch as a task with a context of its own."""
        context = Context(self._instance, Scope(path), None)
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

    def loop(self, name: str, state: S, *, commit_every: int = 1, keep: int = 10, trim_every: int = 1, undo_keep: int | None = None) -> Loop[S]:
        """Turns with durable state: ``async for turn in ctx.loop("audit", state=0): turn.state += 1``; leave it by `break`.

        The state is remembered at the start of every `commit_every`-th turn. The last `keep` turns are kept, older ones forgotten at every
        `trim_every`-th turn, so that a loop may go on for ever. In a turn, use the turn's own verbs. What forgotten turns have done is
        undone all the same if the execution fails, up to 10,000 operations; with more it parks. With `undo_keep`, what lies more than
        so many turns back is not undone any more.
        """
        scope = self._enter("loop")
        path = scope.take(checked_name(name, "loop"), name)
        return Loop(self, scope, path, state, commit_every=commit_every, keep=keep, trim_every=trim_every, undo_keep=undo_keep)

    def _turn(self, scope: Scope, cell: Cell[S], number: int, path: Path) -> Turn[S]:
        return Turn(self._instance, Scope(path), self._instance.loop.current, cell, number)

    # children

    def call(self, workflow: HasCode[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Verb[R]:
        """Run another workflow as a child execution and wait for its result. If this execution ends or stops waiting, the child is cancelled.

        Options go to ``workflow.with_(...)``.

        Raises:
            ChildFailed: it failed or was cancelled.
            TooDeep: more than 100 executions stand above it.
        """
        path, op = self._spawn("call", None, workflow.code, (args, kwargs))
        return self._verb(path, family.called(self, path, op, workflow.code))

    def start(self, workflow: HasCode[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Done[Key]:
        """Start another workflow as an execution that goes on by itself; return its key, to which messages can be sent."""
        path, op = self._spawn("start", None, workflow.code, (args, kwargs))
        self._instance.send(path, op)
        return Done(Key(self._instance.execution.key.tenant, op.workflow, op.id))

    def _spawn(self, verb: str, name: str | None, workflow: CodeWorkflow, given: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[Path, Spawn]:
        expect_acting(workflow.calling, f"ctx.{verb}", workflow.name)
        expect_no_options(workflow.name, f"ctx.{verb}", workflow.fn, *given)
        path = self._enter(verb).take(f"{'start' if verb == 'start' else 'call'}:{workflow.name}", name or workflow.calling.name)
        return path, family.spawn(self, path, workflow, given, awaited=verb != "start")

    # people

    @overload
    def approve(self, title: str, *, form: type[T], name: str | None = ..., **options: Unpack[Approving]) -> Verb[Decision[T]]: ...
    @overload
    def approve(self, title: str, *, name: str | None = ..., **options: Unpack[Approving]) -> Verb[Decision[Any]]: ...
    def approve(self, title: str, *, name: str | None = None, **options: Any) -> Verb[Decision[Any]]:
        """Have people decide, and wait for it: ``await ctx.approve("Ship it?", form=ShipForm, assignees=["ada", "group:ops"], timeout="1d")``.

        `form` is a type, which is filled in by who approves. Anybody may decide, or only the `assignees`; one against it denies, a `quorum` for it approves.
        After `escalate`, those in `escalate_to` may decide too. When the `timeout` is over, that approves, denies or, by default, fails. The step `notify` is
        run with a `Notice` whenever people are to be told: at first, every `remind`, and at the escalation.

        Raises:
            Timeout: nobody decided in time.
            ChildFailed: the approval was cancelled.
        """
        scope = self._enter("approve")
        asking = approving.asking(options)
        asked = approving.request(title, asking)
        path = scope.take(f"approve:{title}"[:200], name)
        return self._verb(path, approving.approved(self, path, asked, asking))

    # what is remembered and shown

    def keep(self, name: str, fn: Callable[[], T]) -> Done[T]:
        """Remember what `fn` returns now: replay returns the same, without calling it. For work that may fail or wait, use a step."""
        scope = self._enter("keep")
        path = scope.take(checked_name(name, "keep"), name)
        value = self._instance.remember(path, lambda: values.encode(self._made(fn, path), "keep", path))
        return Done(self._instance.decode(value, codec_of(fn).result, path))

    def _made(self, fn: Callable[[], T], path: Path) -> T:
        self._instance.keeping = True
        try:
            made = fn()
        finally:
            self._instance.keeping = False
        if isinstance(made, Coroutine):
            made.close()
            raise WrongVerb(f"keep {text(path)} was given an async function", "use a step for work that waits: ctx.step(fn)")
        return made

    def version(self, name: str, latest: int) -> Done[int]:
        """Which way this execution goes where the code has changed: ``if await ctx.version("tax", 2) >= 2: ...``.

        Executions that come here from now on go the way `latest`, and remember it; those that passed here before the gate was written go the way 1. Each place
        and each turn of a loop decides for itself. An execution that was reopened or forked goes the way 1 as long as it is where it has been before.
        """
        path = self._enter("version").take(f"version:{checked_name(name, 'version')}")
        return Done(gates.version(self._instance, path, whole(latest, "version(latest)")))

    def removed(self, name: str, kind: str = "step") -> Verb[None]:
        """Stand where an operation was removed from the code, so that executions that remember it go on: ``await ctx.removed("charge", "step")``.

        `name` is the one that it had by itself (``charge``, ``sleep:3d``, ``listen:approved``, ``version:tax``), `kind` one of step, sleep, listen, call,
        start, send, keep, set, set_attributes, emit, commit, version. What is still open is waited for as it was; a step is not run again.
        """
        path = self._enter("removed").take(checked_name(name, "operation"))
        return self._verb(path, self._removed(path, kind))

    async def _removed(self, path: Path, kind: str) -> None:
        self._instance.started(path)
        future = gates.removed(self._instance, path, kind)
        if future is not None:
            await self._until(path, future)

    def set(self, key: str, value: Any) -> None:
        """Show `value` under `key` to whoever queries the execution, from this commit on."""
        path = self._enter("set").take(f"set:{checked_name(key, 'state')}"[:1000])
        self._instance.remember(path, lambda: values.encode(value, "the value of", path), role="state", label=key)

    def set_attributes(self, changes: Mapping[str, AttributeValue | None], /) -> None:
        """Change what the execution is found by, from this commit on: ``ctx.set_attributes({"stage": "paid", "due": None})``; None removes one.

        A value is a str of up to 1 KiB, an int of 64 bits, a finite float, a bool, or a datetime with its zone. An execution has up to 32 of them.

        Raises:
            BadName, BadValue: a name or a value can't be kept, or there would be too many; nothing is changed.
        """
        path, instance = self._enter("set_attributes").take("set_attributes"), self._instance
        recalled = instance.execution.memo.recalls(path, Keep())  # an earlier life of the execution has passed here: it had other attributes then
        asked = () if recalled else attributes.checked_changes(instance.attributes, changes)
        kept = instance.remember(path, lambda: attributes.encoded(asked), role="attributes")
        instance.attributes = attributes.merged(instance.attributes, attributes.decoded(kept))

    def emit(self, value: Any) -> None:
        """Append `value` to the execution's stream."""
        path = self._enter("emit").take("emit")
        self._instance.remember(path, lambda: values.encode(value, "the value of", path), role="stream")

    def commit(self) -> None:
        """From here on, nothing that was done before is undone any more, whatever becomes of the execution."""
        path = self._enter("commit").take("commit")
        self._instance.remember(path, lambda: values.NOTHING, role="commit")

    @property
    def execution(self) -> ExecutionInfo:
        """The execution's id, workflow, version and deadline."""
        return ExecutionInfo(self._instance)

    # how verbs come about

    def _enter(self, verb: str) -> Scope:
        """The scope in which the calling task counts names.

        Raises:
            WrongVerb: this context is not the caller's.
        """
        task = self._instance.admit(verb)
        scope = self._scope if task is self._task else self._scope_of(task, verb)
        if scope.loop_alive is not None:
            refuse_outer(scope, verb)
        return scope

    def _scope_of(self, task: NumberedTask[Any], verb: str) -> Scope:
        if task in self._instance.branches:
            raise WrongVerb(f"ctx.{verb} on the context of another branch", "use the one that this branch is given: `async def branch(c): await c.step(...)`")
        if self._children is None:
            self._children = {}
        scope = self._children.get(task)
        if scope is None:
            scope = self._children[task] = Scope(self._scope.take(task.label or "task"))
            self._instance.receipts.begin(scope.path)
            task.add_done_callback(partial(self._end_task, scope.path))
        return scope

    def _end_task(self, path: Path, task: asyncio.Future[Any]) -> None:
        if task.cancelled():
            self._instance.give_back(path)
        self._instance.receipts.end(path)

    def _verb(self, path: Path, coroutine: Verb[R]) -> Verb[R]:
        self._instance.promised(path, coroutine)
        return coroutine

    async def _settle(self, path: Path, op: Op, fn: Any = None) -> Settlement:
        """Open an operation and wait until it has settled; cancelled meanwhile, drop it."""
        instance = self._instance
        instance.started(path)
        return await self._until(path, instance.open(path, op, fn))

    async def _until(self, path: Path, future: NumberedFuture[Settlement]) -> Settlement:
        try:
            return await future
        except CancelledError:
            self._instance.drop(path)
            raise

    async def _main(self, workflow: CodeWorkflow) -> Any:
        """The workflow itself."""
        instance = self._instance
        self._task = instance.loop.current
        started = instance.execution.started
        raw = instance.raw(values.NOTHING if started is None else started.input)
        args, kwargs = workflow.codec.decode_args(raw, f"the input of {workflow.name}") if raw != values.NOTHING else ((), {})
        try:
            return await workflow.fn(self, *args, **kwargs)
        except (KeyboardInterrupt, SystemExit) as error:
            raise RuntimeError(f"{type(error).__name__} in a workflow") from error


class Turn(Context, Generic[S]):  # The one subclass: a turn is a context in every respect, and has state besides.
    """One turn of a loop: the verbs of a context, and the loop's state."""

    __slots__ = ("_cell", "number")

    def __init__(self, instance: Instance, scope: Scope, task: NumberedTask[Any] | None, cell: Cell[S], number: int) -> None:
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


def enter(workflow: CodeWorkflow) -> Callable[[Instance], Coroutine[Any, Any, Any]]:
    """How an instance begins: the workflow's function, with a context and the input that the execution was started with."""

    def begin(instance: Instance) -> Coroutine[Any, Any, Any]:
        return Context(instance, Scope(()), None)._main(workflow)

    return begin


def program(workflow: CodeWorkflow, key: Key, variables: Variables | None = None) -> Instance:
    """A program for an execution of `workflow`, to be fed its events; it finds context variables as they are in `variables`, by default as here."""
    return Instance(workflow, key, enter(workflow), variables)


def _optional_s(timeout: Duration | None) -> float | None:
    return None if timeout is None else seconds(timeout, "timeout")


async def _with_item(fn: Callable[[Context, T], Awaitable[R]], item: T, context: Context) -> R:
    return await fn(context, item)


def _raise(path: Path, failure: Err, fn: Any) -> NoReturn:
    """Raise the failure of a step: as the error itself where its class is declared, else as `StepFailed`."""
    if failure.kind == "rollback":
        raise Rollback(failure.error.message)
    error = rebuilt(failure.error, fn.raises) if isinstance(fn, Step) else None
    if error is not None:
        raise error
    raise StepFailed(text(path), failure.kind, failure.attempts, failure.error)
