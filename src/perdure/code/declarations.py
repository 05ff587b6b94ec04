"""What users declare: steps, workflows and signals. Declaring touches nothing; an engine binds them later."""

import dataclasses
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, get_args, overload
from weakref import ref

import msgspec

from perdure.code.declared_queues import PER_TENANT, Queue, queue_name
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.code.function_codec import FunctionCodec
from perdure.code.step_environment import Transaction
from perdure.core import limits
from perdure.core.attributes import Attributes
from perdure.core.errors import BadName, BadValue
from perdure.core.operations import DEFAULT_RETRY_POLICY, CallOperation, OnCancel
from perdure.core.operations import RetryPolicy as RetryRule
from perdure.core.program import program_name

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
X_co = TypeVar("X_co", covariant=True)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


OnUndoError = Literal["park", "continue"]


def checked_name(name: object, what: str) -> str:
    """`name`, if it is text of 1 to 1024 bytes in UTF-8, and if it names a workflow on one line.

    Raises:
        BadName: it is not.
    """
    if not isinstance(name, str):
        raise BadName(what, name, f"a name is text, not {type(name).__name__}")
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError as error:
        raise BadName(what, ascii(name), "it has no encoding in UTF-8") from error
    if not 1 <= size_bytes <= limits.NAME_BYTES_MAX:
        raise BadName(what, name, f"a name takes 1 to {limits.NAME_BYTES_MAX} bytes, this one {size_bytes}")
    if what == "workflow" and "\n" in name:
        raise BadName(what, name, "the name of a workflow stands on one line")
    return name


MAX_WAIT_S = DEFAULT_RETRY_POLICY.max_wait_s
"""The longest wait between two tries, unless a step says another one or the first wait is longer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Retry:
    """How often and when a step is tried again: `max` tries in all, the first wait, its growth, the longest wait (60 s, or `wait` if that is longer).

    Only errors of the classes in `only` are tried again (all, if empty), those in `fatal` never; `should_retry` is asked of the rest. A step
    that raises `RetryAfter` says itself when it is tried again.
    """

    max: int = 3
    wait: Duration = 1.0
    factor: float = 2.0
    max_wait: Duration | None = None
    jitter: float = 0.1
    only: tuple[type[BaseException], ...] = ()
    fatal: tuple[type[BaseException], ...] = ()
    should_retry: Callable[[BaseException], bool] | None = None

    def rule(self) -> RetryRule:
        """The part of it that the log remembers.

        Raises:
            BadValue: a number is out of range.
        """
        whole_number(self.max, "Retry(max)")
        if not self.factor >= 1:
            raise BadValue("Retry(factor)", self.factor, "a number from 1")
        if not 0 <= self.jitter <= 1:
            raise BadValue("Retry(jitter)", self.jitter, "a number from 0 to 1")
        wait_s = duration_seconds(self.wait, "Retry(wait)")
        max_wait_s = max(wait_s, MAX_WAIT_S) if self.max_wait is None else duration_seconds(self.max_wait, "Retry(max_wait)")
        if max_wait_s < wait_s:
            raise BadValue("Retry(max_wait)", self.max_wait, f"at least the first wait, {self.wait!r}; raise max_wait=, or leave it out")
        rule = RetryRule(self.max, wait_s, float(self.factor), max_wait_s, float(self.jitter))
        return DEFAULT_RETRY_POLICY if rule == DEFAULT_RETRY_POLICY else rule

    def again(self, error: BaseException) -> bool:
        """Whether it may be tried again after this error."""
        may = not isinstance(error, self.fatal) and (not self.only or isinstance(error, self.only))
        return may and (self.should_retry is None or bool(self.should_retry(error)))


@dataclasses.dataclass(frozen=True)
class Step(Generic[P, R_co, X_co]):
    """A function whose result is remembered. Calling it directly is a plain call, without any durability."""

    fn: Callable[P, X_co]
    name: str
    retry: Retry = Retry()  # frozen, so shared safely
    timeout: Duration | None = None
    queue: str = ""
    idempotent: bool | None = None
    raises: tuple[type[Exception], ...] = ()
    explicit: str | None = None
    line: Queue | None = None
    lane: str | None = None
    priority: int = 0
    transaction: bool = False
    heartbeat: Duration | None = None
    version: int | str | None = None
    grace: Duration | None = None
    handlers: list["UndoHandler"] = dataclasses.field(default_factory=list, compare=False, repr=False)

    @property
    def may_repeat(self) -> bool:
        """Whether code runs it again when it is not known how far it came: unless it declares ``idempotent=False``."""
        return self.idempotent is not False

    @property
    def declares_repeat(self) -> bool:
        """Whether the tool of a definition runs again when it is not known how far it came: only where that was declared, or what it did was taken back."""
        return self.transaction if self.idempotent is None else self.idempotent

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> X_co:
        return self.fn(*args, **kwargs)

    @overload
    def undo(self, fn: F, /) -> F: ...
    @overload
    def undo(
        self,
        /,
        *,
        in_doubt: bool = ...,
        on_error: OnUndoError = ...,
        retry: Retry = ...,
        timeout: Duration | None = ...,
        transaction: bool = ...,
    ) -> Callable[[F], F]: ...
    def undo(self, fn: Any = None, /, *, in_doubt: bool = False, on_error: OnUndoError = "park", **options: Any) -> Any:
        """Declare what undoes the step, should its execution fail or be cancelled: a function of its result and its arguments.

        It is a step of its own, with tries and a timeout, and perhaps in a `transaction`. With `in_doubt`, it is also called for a step that failed,
        timed out, was interrupted or abandoned, with None for the result. When it fails for good, the execution needs attention, or with
        ``on_error="continue"`` goes on with what else is to be undone. Use it as ``@charge.undo`` or ``@charge.undo(in_doubt=True)``; the function
        stays what it is.

        Raises:
            BadName: the step is undone by another function already.
            BadValue: `on_error` is neither park nor continue.
        """
        if on_error not in get_args(OnUndoError):
            raise BadValue(f"on_error of what undoes step {self.name}", on_error, f"one of {', '.join(get_args(OnUndoError))}")

        def declare(fn: F) -> F:
            if self.handlers:
                raise BadName("undo of step", self.name, f"it is undone by {self.handlers[0].step.name} already")
            handler: Step[Any, Any, Any] = Step(fn, name=f"undo:{self.name}", queue=self.queue, **options)
            _ = handler.rule, handler.timeout_s
            self.handlers.append(declared := UndoHandler(handler, in_doubt, on_error))
            _UNDO_HANDLERS.setdefault(self.name, []).append(ref(declared))
            return fn

        return declare if fn is None else declare(fn)

    @property
    def undo_when(self) -> Literal["", "done", "in_doubt"]:
        """When it is to be undone, as the log remembers it."""
        if not self.handlers:
            return ""
        return "in_doubt" if self.handlers[0].in_doubt else "done"

    @cached_property
    def codec(self) -> FunctionCodec:
        """How its arguments and its result are kept; a transaction is none of its arguments."""
        return FunctionCodec(self.fn, skip=int(self.transaction))

    @cached_property
    def rule(self) -> RetryRule:
        """Its retry rule, as the log remembers it."""
        return self.retry.rule()

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is to be awaited; if not, it runs in a thread."""
        return returns_awaitable(self.fn)

    @cached_property
    def timeout_s(self) -> float | None:
        """The time that each try has, in seconds. What runs in a transaction can't be left half done, and has no such time."""
        return None if self.timeout is None or self.transaction else duration_seconds(self.timeout, f"timeout of step {self.name}")

    @cached_property
    def heartbeat_s(self) -> float | None:
        """How long each try may say nothing, in seconds."""
        return None if self.heartbeat is None else duration_seconds(self.heartbeat, f"heartbeat of step {self.name}")

    @cached_property
    def grace_s(self) -> float | None:
        """How long it may go on when its execution fails or is cancelled, in seconds."""
        return None if self.grace is None else duration_seconds(self.grace, f"grace of step {self.name}")

    def placed(self, op: CallOperation, tenant: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallOperation:
        """A call with these arguments in its place in the queue of the step.

        Raises:
            BadValue: the queue is served by an argument that the step does not have.
        """
        lane = self.line.lane(tenant, self.fn, args, kwargs, int(self.transaction)) if self.lane is None and self.line is not None else self.lane or ""
        return msgspec.structs.replace(op, lane=lane, priority=self.priority, limited=self.line is not None and self.line.is_limited)

    def with_(
        self,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        queue: str | Queue | None = None,
        lane: str | None = None,
        priority: int | None = None,
        idempotent: bool | None = None,
        grace: Duration | None = None,
    ) -> "Step[P, R_co, X_co]":
        """The same step with other options, for one call: ``ctx.step(charge.with_(timeout="5s"), order)``.

        In its queue, `lane` stands for the key by which that is served in turns, and a higher `priority` comes first.
        """
        wanted, line = (self.queue, self.line) if queue is None else queue_name(queue)
        rank = self.priority if priority is None else priority
        return dataclasses.replace(
            self,
            explicit=self.explicit if name is None else checked_name(name, "step"),
            retry=self.retry if retry is None else retry,
            timeout=self.timeout if timeout is None else timeout,
            queue=wanted,
            line=line,
            lane=self.lane if lane is None else lane,
            priority=rank if line is None else line.ranked(rank),
            idempotent=self.idempotent if idempotent is None else idempotent,
            grace=self.grace if grace is None else grace,
        )


@dataclasses.dataclass(frozen=True)
class UndoHandler:
    """What undoes a step: itself a step, called with the result (None `in_doubt`) and the arguments of what it undoes."""

    step: Step[Any, Any, Any]
    in_doubt: bool
    on_error: OnUndoError = "park"


_UNDO_HANDLERS: dict[str, list["ref[UndoHandler]"]] = {}
"""What undoes steps, by the names of these, as they are declared in this process."""


def undo_handler_of(name: str, workflow: "CodeWorkflow") -> UndoHandler | None:
    """What undoes the step called `name`, which a program has not opened since it came into memory, as its turn is forgotten.

    It is the one that other executions of `workflow` have opened; else the one that was declared; of several, that of its module, if there is one.
    """
    known = [undo for one in _UNDO_HANDLERS.get(name, ()) if (undo := one()) is not None]
    _UNDO_HANDLERS[name] = [ref(undo) for undo in known]
    here = [undo for undo in known if getattr(undo.step.fn, "__module__", "") == getattr(workflow.fn, "__module__", None)]
    found = known if len(known) == 1 else here
    return workflow.handlers.get(name) or (found[0] if len(found) == 1 else None)


def returns_awaitable(fn: Any) -> bool:
    """Whether what `fn` returns is to be awaited."""
    called = getattr(fn, "__call__", None)  # noqa: B004  # the method, not whether there is one
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(called)


class _TransactionDecorator(Protocol):
    """``@step(transaction=True)``: the function is given a transaction before its arguments."""

    def __call__(self, fn: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, R]]) -> Step[P, R, Coroutine[object, object, R]]: ...


class _Decorator:
    """``@step(retry=...)``: the options, waiting for the function."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> Step[P, R, Coroutine[object, object, R]]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Step[P, R, R]: ...
    def __call__(self, fn: Callable[..., Any]) -> Any:
        return _declared(fn, self._options)


def _declared(fn: Callable[..., Any], options: dict[str, Any]) -> Step[Any, Any, Any]:
    queue, line = queue_name(options.get("queue", ""))
    given = {"name": getattr(fn, "__name__", type(fn).__name__), **options, "queue": queue, "line": line}
    declared: Step[Any, Any, Any] = Step(fn, **given)
    checked_name(declared.name, "step")
    _ = (
        declared.rule,
        declared.timeout_s,
        declared.heartbeat_s,
        declared.grace_s,
        line and line.ranked(declared.priority),
    )  # a bad option is an error where it is written
    if declared.transaction and (declared.timeout is not None or declared.heartbeat is not None):
        raise BadValue(f"transaction of step {declared.name}", True, "to be combined with a timeout or a heartbeat: all that write wait for it, keep it short")
    if declared.transaction and not declared.is_async:
        raise BadValue(f"transaction of step {declared.name}", True, "that of an async function, which is given the transaction first")
    return declared


@overload
def step(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R, Coroutine[object, object, R]]: ...
@overload
def step(fn: Callable[P, R], /) -> Step[P, R, R]: ...
@overload
def step(
    *,
    transaction: Literal[True],
    name: str = ...,
    retry: Retry = ...,
    timeout: Duration | None = ...,
    queue: str | Queue = ...,
    priority: int = ...,
    raises: tuple[type[Exception], ...] = ...,
    version: int | str | None = ...,
) -> _TransactionDecorator: ...
@overload
def step(
    *,
    name: str = ...,
    retry: Retry = ...,
    timeout: Duration | None = ...,
    queue: str | Queue = ...,
    priority: int = ...,
    idempotent: bool = ...,
    raises: tuple[type[Exception], ...] = ...,
    heartbeat: Duration | None = ...,
    version: int | str | None = ...,
    grace: Duration | None = ...,
) -> _Decorator: ...
def step(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a step: run by an engine or worker, its result remembered, tried again when it fails.

    Options: `name` (the function's), `retry` (3 tries, 1 s apart, doubling), `timeout` of each try, `queue` (the engine's own; a name, or a
    `Queue`) and `priority` there, `idempotent` (False: not run again after an interruption or a timeout; undeclared, code runs it again and a definition
    does not), `raises` (classes that are rebuilt and raised as themselves),
    `transaction` (it is given a transaction on the store's database, and what it writes there is committed with its settling: exactly
    once), `heartbeat` (a try that does not call ``step_info().heartbeat()`` for so long has failed), `grace` (how long a try in flight may go on when the
    execution fails or is cancelled; by default as long as the execution says, 30 s), `version` (as a tool of a definition: an execution that has begun
    with it goes on only where the tool has this version).
    """
    if fn is None:
        return _Decorator(options)
    return _declared(fn, options)


@dataclasses.dataclass(frozen=True)
class CallOptions:
    """How a workflow is started or called, as `with_` has chosen: under which id, in which queue, when, by which attributes it is found, and, as a child,
    whether it is undone with its parent and what becomes of it when its parent stops waiting. `given` names the options that `with_` was given."""

    id: str | None = None
    name: str | None = None
    undo: bool = False
    on_cancel: OnCancel = "cancel"
    retry: Retry = Retry(max=1)  # frozen, so shared safely
    queue: str = ""
    line: Queue | None = None
    lane: str | None = None
    priority: int = 0
    attributes: Attributes = ()
    tenant: str | None = None
    delay_s: float = 0.0
    deadline_s: float | None = None
    grace_s: float | None = None
    strict: bool = False
    ttl_s: float | None = None
    debounce_s: float | None = None
    singleton: bool = False
    connection: Any = None
    db: str | None = None
    given: frozenset[str] = frozenset()

    @cached_property
    def rule(self) -> RetryRule:
        """Its retry rule, in seconds."""
        return self.retry.rule()

    def place(self, tenant: str, fn: Callable[..., Any] | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, str, int]:
        """The queue in which an execution of this input begins, its lane and its priority there; without `fn`, what the input is called is not known.

        Raises:
            BadValue: there is a lane or a priority and no queue, or the queue is served by an argument that the workflow does not have.
        """
        if not self.queue and (self.priority or self.lane is not None):
            option = "priority" if self.priority else "lane"
            raise BadValue("with_", option, f"to be given without a queue: {option}= says whose turn it is in one; give queue= as well")
        lane = self.lane
        if lane is None and self.line is not None:
            if fn is None and self.line.per_key not in (None, PER_TENANT):
                raise BadValue("with_", self.queue, f"served by {self.line.per_key!r} for a workflow that is known by name only; give lane= as well")
            lane = self.line.lane(tenant, _unnamed if fn is None else fn, args, kwargs, skip=1)
        return self.queue, lane or "", self.priority


def _unnamed(*_: Any, **__: Any) -> None:
    """Stands for a function of which nothing is known."""


@dataclasses.dataclass(frozen=True)
class CodeWorkflow:
    """An async function of a context, with what an engine needs to know of it. `sync` says that the user's own is a plain one, on a greenlet.

    `handlers` are what undoes the steps that its executions have opened in this process, by the names of these.
    """

    fn: Callable[..., Coroutine[Any, Any, Any]]
    name: str
    version: int = 1
    replays: tuple[int, ...] = ()
    deadline_s: float | None = None
    grace_s: float | None = None
    archive: bool = False
    sync: bool = False
    calling: CallOptions = CallOptions()  # frozen, so shared safely
    handlers: dict[str, UndoHandler] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def codec(self) -> FunctionCodec:
        """How its input and its result are kept; the context is no part of the input."""
        return FunctionCodec(self.fn, skip=1)

    def place(self, tenant: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, str, int]:
        """The queue in which an execution of this input begins, its lane and its priority there.

        Raises:
            BadValue: the queue is served by an argument that the workflow does not have.
        """
        return self.calling.place(tenant, self.fn, args, kwargs)

    @property
    def definition(self) -> None:
        """None: it is code, which no execution carries along."""

    @property
    def what(self) -> Any:
        """What it is, beside its name: its function."""
        return self.fn

    @property
    def programs(self) -> frozenset[str]:
        """What an engine that has it may claim."""
        return frozenset(program_name(self.name, version) for version in (0, self.version, *self.replays))


class Signal(Generic[T]):
    """A name for messages, with the type of their body: typed at both ends."""

    __slots__ = ("body", "name")

    @overload
    def __init__(self: "Signal[Any]", name: str) -> None: ...
    @overload
    def __init__(self, name: str, body: type[T]) -> None: ...
    def __init__(self, name: str, body: Any = Any) -> None:
        self.name = checked_name(name, "signal")
        self.body = body

    def __repr__(self) -> str:
        return f"Signal({self.name!r})"
