"""The context of workflows that are plain functions: the verbs of `perdure.code.context` without `await`.

`SyncContext` is made from `Context` by ``python -m tools.make_sync``, but for what that leaves alone: change the verbs of `Context`, and run it. Paths, names
and events are those of `Context`, so that a log replays under either.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import datetime
from inspect import iscoroutinefunction
from random import Random
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, Unpack, overload
from uuid import UUID

from perdure.code.approval_requests import ApproveKeywords
from perdure.code.branch_task import BranchTask
from perdure.code.branches import function_name
from perdure.code.context import _MISSING, BranchOf, Context, DurableLoop, ExecutionInfo, HasCode, HasKey, StepOrWorkflow, Turn, WorkflowLogger, as_branch
from perdure.code.declarations import Signal, Step
from perdure.code.durations import Duration
from perdure.code.message_validation import Validator
from perdure.code.results import Attempt, Decision, Message, Record, Won
from perdure.core.attributes import AttributeChangeValues
from perdure.core.errors import WrongVerb
from perdure.core.paths import Key

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
D = TypeVar("D")
S = TypeVar("S")

SyncBranchOf = Callable[["SyncContext"], R]
"""A branch: a plain function of a context of its own."""

AnyBranch = SyncBranchOf[Any] | BranchOf[Any]
"""A branch that is a plain function of a `SyncContext`, or an async one of a `Context`."""


class SyncContext:
    """The verbs of a workflow that is a plain function, for one branch of it. Each branch, and each iteration of a loop, has its own and uses no other.

    Each verb does what the verb of the same name does on `Context`, and returns when that has settled. If the execution is cancelled or evicted while a
    verb waits, the verb raises `asyncio.CancelledError` or `Evicted`, which do not derive from `Exception` and must not be caught. There is no `wait` and
    no `as_completed`: only the branches of a join, a map or a race are concurrent here.
    """

    __slots__ = ("_context", "_strand")

    def __init__(self, context: Context, greenlet_task: BranchTask) -> None:
        self._context = context
        self._strand = greenlet_task

    # By hand: as `now` is.
    @property
    def log(self) -> WorkflowLogger:
        """A logger that is silent on replay."""
        return self._context.log

    @overload
    def step(self, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, name: str, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, name: str, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def step(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a function and records its result: ``ctx.step(fn, *args)``, or ``ctx.step("name", fn, *args)``.

        It runs at least once and settles exactly once; after that it is never run again. Options go to ``fn.with_(...)``.

        Raises:
            StepFailed: its attempts are used up, or it raised `Fatal`. An error of a class in its `raises` is raised itself.
        """
        return self._strand.wait(self._own("step").step(fn, *args, **kwargs))

    @overload
    def attempt(self, fn: HasCode[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Attempt[R]: ...
    @overload
    def attempt(self, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> Attempt[R]: ...
    @overload
    def attempt(self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> Attempt[R]: ...
    @overload
    def attempt(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Attempt[R]: ...
    @overload
    def attempt(self, name: str, fn: Step[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> Attempt[R]: ...
    @overload
    def attempt(self, name: str, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> Attempt[R]: ...
    @overload
    def attempt(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Attempt[R]: ...
    def attempt(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a step, or another workflow as a child, and returns its outcome as data: `Ok(value)`, or `Err(kind, attempts, error)`."""
        return self._strand.wait(self._own("attempt").attempt(fn, *args, **kwargs))

    def external(self, result: type[T], fn: Step[Concatenate[str, P], Any, Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a step that requests something elsewhere, and waits until that is completed from outside: ``car = ctx.external(Car, order_car, street)``.

        The first argument of the step is a token, followed by `args`. Whoever has the token completes the attempt, once, with a `result`, fails it, or reports
        that it is alive (`Client.complete`, ``perdure complete``). `timeout`, `heartbeat` and `retry` of the step apply to the request, and then to the wait:
        after a failure or a timeout there is another attempt, with another token. While it waits, no memory is held.

        Raises:
            StepFailed: the request failed for good, the attempts are used up, or the failure was final.
        """
        return self._strand.wait(self._own("external").external(result, fn, *args, **kwargs))

    def sleep(self, duration: Duration, *, name: str | None = None) -> None:
        """Waits for `duration` (seconds, a timedelta, or text such as ``"3d"``), across restarts.

        The deadline is fixed when the operation is opened; replay and restarts do not move it. No memory is held while waiting.
        """
        self._strand.wait(self._own("sleep").sleep(duration, name=name))

    def sleep_until(self, when: datetime, *, name: str | None = None) -> None:
        """Waits until a point in time, which must have a time zone; returns at once if it has passed."""
        self._strand.wait(self._own("sleep_until").sleep_until(when, name=name))

    # By hand: any branch may read the time or log, because these are not verbs.
    def now(self) -> datetime:
        """The time, in UTC, of the event that made the workflow go on: the same on every replay."""
        return self._context.now()

    @property
    def random(self) -> Random:
        """Returns the random number generator of this scope, with the same numbers on every replay."""
        return self._own("random").random

    def uuid(self) -> UUID:
        """Returns a random UUID, the same on every replay."""
        return self._own("uuid").uuid()

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
    ) -> Message[T]: ...
    @overload
    def listen(self, signal: Signal[T], /, *, timeout: Duration | None = ..., validate: Callable[[T], object] | None = ..., name: str | None = ...) -> T: ...
    @overload
    def listen(
        self, signal: Signal[T], /, *, timeout: Duration | None, default: D, validate: Callable[[T], object] | None = ..., name: str | None = ...
    ) -> T | D: ...
    @overload
    def listen(
        self,
        *names: str,
        timeout: Duration | None = ...,
        default: Any = ...,
        completable: bool = ...,
        validate: Validator | None = ...,
        name: str | None = ...,
    ) -> Any: ...
    def listen(
        self,
        *names: Any,
        timeout: Duration | None = None,
        default: Any = _MISSING,
        completable: bool = False,
        validate: Validator | None = None,
        name: str | None = None,
    ) -> Any:
        """Waits for the next message of a signal, or of any of these names, first in first out across them; returns its body.

        A message that has arrived already takes precedence over a timeout. Consuming it is in one commit with what follows. With `completable`, the verb
        returns a `Message`, which is not consumed until ``message.complete(reply)`` and returns to its place if its branch is cancelled before.

        `validate` is called with each body, after the validator of the signal. It may read what the workflow knows, but use no verb. A message for which it
        raises, or returns False, is rejected: the verb goes on waiting, and `ask` raises `MessageRejected`.

        Raises:
            Timeout: no message arrived in time, and there is no `default`.
        """
        return self._strand.wait(self._own("listen").listen(*names, timeout=timeout, default=default, completable=completable, validate=validate, name=name))

    @overload
    def listen_many(
        self, signal: Signal[T], /, *, completable: Literal[True], limit: int = ..., timeout: Duration | None = ..., name: str | None = ...
    ) -> list[Message[T]]: ...
    @overload
    def listen_many(self, signal: Signal[T], /, *, limit: int = ..., timeout: Duration | None = ..., name: str | None = ...) -> list[T]: ...
    @overload
    def listen_many(self, *names: str, limit: int = ..., timeout: Duration | None = ..., completable: bool = ..., name: str | None = ...) -> list[Any]: ...
    def listen_many(self, *names: Any, limit: int = 100, timeout: Duration | None = None, completable: bool = False, name: str | None = None) -> Any:
        """Waits for messages and returns their bodies: without `timeout`, from one to `limit` of them as soon as one is there; with it, all that arrive until
        there are `limit` or the timeout has passed, possibly none."""
        return self._strand.wait(self._own("listen_many").listen_many(*names, limit=limit, timeout=timeout, completable=completable, name=name))

    @overload
    def send(self, execution: Key | HasKey, signal: Signal[T], body: T, *, name: str | None = ...) -> None: ...
    @overload
    def send(self, execution: Key | HasKey, signal: str, body: Any = ..., *, name: str | None = ...) -> None: ...
    def send(self, execution: Key | HasKey, signal: Signal[Any] | str, body: Any = None, *, name: str | None = None) -> None:
        """Sends a message to another execution, or to this one. It is recorded, so replay does not repeat it."""
        _ = self._own("send").send(execution, signal, body, name=name)

    # By hand: plain functions become async ones, and the overloads say what may be mixed.
    @overload
    def join(self, a: SyncBranchOf[T1], /, *, name: str | None = ...) -> tuple[T1]: ...
    @overload
    def join(self, a: SyncBranchOf[T1], b: SyncBranchOf[T2], /, *, name: str | None = ...) -> tuple[T1, T2]: ...
    @overload
    def join(self, a: SyncBranchOf[T1], b: BranchOf[T2], /, *, name: str | None = ...) -> tuple[T1, T2]: ...
    @overload
    def join(self, a: BranchOf[T1], b: SyncBranchOf[T2], /, *, name: str | None = ...) -> tuple[T1, T2]: ...
    @overload
    def join(self, a: BranchOf[T1], b: BranchOf[T2], /, *, name: str | None = ...) -> tuple[T1, T2]: ...
    @overload
    def join(self, a: SyncBranchOf[T1], b: SyncBranchOf[T2], c: SyncBranchOf[T3], /, *, name: str | None = ...) -> tuple[T1, T2, T3]: ...
    @overload
    def join(
        self, a: SyncBranchOf[T1], b: SyncBranchOf[T2], c: SyncBranchOf[T3], d: SyncBranchOf[T4], /, *, name: str | None = ...
    ) -> tuple[T1, T2, T3, T4]: ...
    @overload
    def join(
        self,
        a: SyncBranchOf[T],
        b: SyncBranchOf[T],
        c: SyncBranchOf[T],
        d: SyncBranchOf[T],
        e: SyncBranchOf[T],
        /,
        *more: SyncBranchOf[T],
        name: str | None = ...,
    ) -> tuple[T, ...]: ...
    @overload
    def join(self, a: StepOrWorkflow[T1], /, *, name: str | None = ...) -> tuple[T1]: ...
    @overload
    def join(self, a: StepOrWorkflow[T1], b: StepOrWorkflow[T2], /, *, name: str | None = ...) -> tuple[T1, T2]: ...
    @overload
    def join(self, *, name: str | None = ..., **by_name: AnyBranch) -> Record: ...
    @overload
    def join(self, *, name: str | None = ..., **by_name: AnyBranch | StepOrWorkflow[Any]) -> Record: ...
    def join(self, *branches: Any, name: str | None = None, **by_name: Any) -> Any:
        """Runs branches concurrently and waits for all, also if one fails. The results are a tuple for branches by position, a record for branches by keyword.

        A branch is a plain function of a `SyncContext` or an async one of a `Context`; they can be mixed. Type checkers accept mixtures by keyword, and of
        two by position.

        Raises:
            JoinFailed: branches failed; it has the error of each, and the results of the others.
        """
        own = self._own("join")
        return self._strand.wait(own.join(*map(_async_branch, branches), name=name, **_async_branches(by_name)))

    # By hand: as `join` is.
    @overload
    def race(self, *, name: str | None = ..., **branches: SyncBranchOf[T]) -> Won[T]: ...
    @overload
    def race(self, *, name: str | None = ..., **branches: StepOrWorkflow[T]) -> Won[T]: ...
    @overload
    def race(self, *, name: str | None = ..., **branches: AnyBranch) -> Won[Any]: ...
    def race(self, *, name: str | None = None, **branches: Any) -> Won[Any]:
        """Runs branches concurrently until one *returns*; cancels the others, even in the middle of a step. `Won` has the name and the value of the winner.

        Raises:
            RaceFailed: every branch failed.
        """
        own = self._own("race")
        return self._strand.wait(own.race(name=name, **_async_branches(branches)))

    # By hand: as `join` is.
    @overload
    def map(self, fn: Step[Concatenate[T, ...], R, Any], items: Iterable[T], *, limit: int | None = ..., name: str | None = ...) -> list[R]: ...
    @overload
    def map(self, fn: HasCode[[T], R], items: Iterable[T], *, limit: int | None = ..., name: str | None = ...) -> list[R]: ...
    @overload
    def map(self, fn: Callable[["SyncContext", T], R], items: Iterable[T], *, limit: int | None = ..., name: str | None = ...) -> list[R]: ...
    @overload
    def map(self, fn: Callable[[Context, T], Awaitable[R]], items: Iterable[T], *, limit: int | None = ..., name: str | None = ...) -> list[R]: ...
    def map(self, fn: Any, items: Iterable[Any], *, limit: int | None = None, name: str | None = None) -> list[Any]:
        """Runs a branch for each item, at most `limit` at a time; returns their results in the order of the items.

        A branch is a step or a workflow, which is given the item, ``ctx.map(charge, orders)``, or a function of a context of its own and the item.

        Raises:
            JoinFailed: branches failed; its errors and outputs are named by the number of the item, from 0.
        """
        return self._strand.wait(self._own("map").map(_async_branch(fn), items, limit=limit, name=name))

    # By hand: its iterations have sync contexts too.
    def loop(self, name: str, state: S, *, commit_every: int = 1, keep: int = 10, trim_every: int = 1, undo_keep: int | None = None) -> "SyncLoop[S]":
        """A loop with durable state: ``for turn in ctx.loop("audit", state=0): turn.state += 1``; leave it by `break`.

        The state is recorded at the start of every `commit_every`-th iteration. The last `keep` iterations are kept, and older ones are forgotten at every
        `trim_every`-th, so a loop can run without end. In an iteration, use the verbs of `turn`.
        """
        turns = self._own("loop").loop(name, state, commit_every=commit_every, keep=keep, trim_every=trim_every, undo_keep=undo_keep)
        return SyncLoop(turns, self)

    def call(self, workflow: HasCode[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs another workflow as a child execution and waits for its result. If this execution ends or stops waiting, the child is cancelled.

        Options go to ``workflow.with_(...)``.

        Raises:
            ChildFailed: it failed or was cancelled.
            TooDeep: the child would have more than 100 ancestors.
        """
        return self._strand.wait(self._own("call").call(workflow, *args, **kwargs))

    def start(self, workflow: HasCode[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Key:
        """Starts another workflow as an execution that continues independently; returns its key, to which messages can be sent."""
        return self._own("start").start(workflow, *args, **kwargs).value

    @overload
    def approve(self, title: str, *, form: type[T], name: str | None = ..., **options: Unpack[ApproveKeywords]) -> Decision[T]: ...
    @overload
    def approve(self, title: str, *, name: str | None = ..., **options: Unpack[ApproveKeywords]) -> Decision[Any]: ...
    def approve(self, title: str, *, name: str | None = None, **options: Any) -> Decision[Any]:
        """Asks people for a decision and waits for it: ``ctx.approve("Ship it?", form=ShipForm, assignees=["ada", "group:ops"], timeout="1d")``.

        `form` is a type that the person who approves fills in. Without `assignees`, any person may decide. One vote against rejects, a `quorum` of votes in
        favour approves. After `escalate`, the people in `escalate_to` may decide too. When the `timeout` passes, the approval fails, or is approved or rejected
        as `on_timeout` says. The step `notify` is run with a `Notice` at the beginning, every `remind`, and at the escalation.

        The inbox orders approvals by `priority` and by when they are `due`, and finds them by the `resource` that they are about, a type and an id.
        `route_hint` and `deep_link` say where in an application people find that.

        Raises:
            Timeout: no decision was made in time.
            ChildFailed: the approval was cancelled.
        """
        return self._strand.wait(self._own("approve").approve(title, name=name, **options))

    def keep(self, name: str, fn: Callable[[], T]) -> T:
        """Records what `fn` returns now: replay returns the same value without calling it. For work that may fail or wait, use a step."""
        return self._own("keep").keep(name, fn).value

    def version(self, name: str, latest: int) -> int:
        """Returns the version of a changed piece of code that this execution runs: ``if ctx.version("tax", 2) >= 2: ...``.

        An execution that reaches the gate for the first time records and runs `latest`; one that passed this place before the gate was written runs 1. Each
        gate, and each iteration of a loop, decides separately. A reopened or forked execution runs 1 until it has passed everything that it did before.
        """
        return self._own("version").version(name, latest).value

    def removed(self, name: str, kind: str = "step") -> None:
        """Takes the place of an operation that was removed from the code, so that executions that recorded it continue: ``ctx.removed("charge")``.

        `name` is its default or explicit name (``charge``, ``sleep:3d``, ``listen:approved``, ``version:tax``), `kind` is step, sleep, listen, call, start,
        send, keep, set, set_attributes, emit, commit or version. An operation that is still open is waited for; a step is not run again.
        """
        self._strand.wait(self._own("removed").removed(name, kind))

    def set(self, key: str, value: Any) -> None:
        """Shows `value` under `key` in queries of the execution, from this commit on."""
        self._own("set").set(key, value)

    def set_attributes(self, changes: AttributeChangeValues, /) -> None:
        """Changes the attributes of the execution, from this commit on: ``ctx.set_attributes({"stage": "paid", "tag": ["a", "b"], "due": None})``.

        A value is a str of up to 1 KiB, an int of 64 bits, a finite float, a bool, or a datetime with a time zone. A name has several values if it is given
        a list; a change replaces all of them, and None or an empty list removes the name. An execution has up to 32 names and 64 values.

        Raises:
            BadName, BadValue: a name or a value is not accepted, or there would be too many attributes; nothing is changed.
        """
        self._own("set_attributes").set_attributes(changes)

    def emit(self, value: Any, *, event: str = "") -> None:
        """Appends `value` to the stream of the execution. With `event`, it is also announced under that name, so that triggers can start executions on it.

        Raises:
            BadName: the name of the event is too long.
            BadValue: it is one that tells how an execution has ended, such as ``completed``.
        """
        self._own("emit").emit(value, event=event)

    def commit(self) -> None:
        """Makes all steps so far final: they are not undone if the execution fails later."""
        self._own("commit").commit()

    # By hand: as `now` is.
    @property
    def execution(self) -> ExecutionInfo:
        """The execution's id, workflow, version and deadline."""
        return self._context.execution

    def _own(self, verb: str) -> Context:
        """Returns the async context behind this one, after checking that a verb may be called here."""
        self._strand.admit(verb)
        return self._context


class SyncTurn(SyncContext, Generic[S]):  # Like `Turn`, it is a context in every respect, and also has state.
    """One iteration of a loop: the verbs of a context, and the loop's state."""

    __slots__ = ("_turn",)

    def __init__(self, turn: Turn[S], greenlet_task: BranchTask) -> None:
        super().__init__(turn, greenlet_task)
        self._turn = turn

    @property
    def number(self) -> int:
        """The number of the iteration, from 0."""
        return self._turn.number

    @property
    def state(self) -> S:
        """The state of the loop. The next iteration begins with what is assigned here."""
        return self._turn.state

    @state.setter
    def state(self, state: S) -> None:
        self._turn.state = state


class SyncLoop(Generic[S]):
    """The iterations of one loop, in order."""

    __slots__ = ("_context", "_loop")

    def __init__(self, loop: DurableLoop[S], context: SyncContext) -> None:
        self._loop = loop
        self._context = context

    def __iter__(self) -> "SyncLoop[S]":
        return self

    def __next__(self) -> SyncTurn[S]:
        self._context._own("loop")
        greenlet_task = self._context._strand
        return SyncTurn(greenlet_task.wait(self._loop.__anext__()), greenlet_task)


def as_async_function(fn: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Wraps a plain function of a `SyncContext` as an async one of a `Context`, with the same name and so the same paths.

    Raises:
        WrongVerb: when it is called without greenlet installed, or has returned a coroutine, which would never be awaited.
    """

    async def call(context: Context, /, *args: Any, **kwargs: Any) -> Any:
        greenlet_task = BranchTask(context._instance.loop)
        result = await greenlet_task.run(fn, SyncContext(context, greenlet_task), *args, **kwargs)
        if isinstance(result, Coroutine):
            result.close()
            what = f"{function_name(fn, 'a function')} was given a SyncContext and returned a coroutine"
            raise WrongVerb(what, "pass the async function itself, which takes a Context, without a plain function around it")
        return result

    call.__name__ = function_name(fn, "<lambda>")  # an anonymous function is named after its place
    return call


def _async_branch(fn: Any) -> Any:
    """Returns a branch in the form that `Context` takes, which itself refuses what is not a function."""
    if as_branch(fn) is not fn or not callable(fn) or iscoroutinefunction(fn) or iscoroutinefunction(type(fn).__call__):
        return fn
    return as_async_function(fn)


def _async_branches(by_name: dict[str, Any]) -> dict[str, Any]:
    return {name: _async_branch(fn) for name, fn in by_name.items()}
