"""The declarations of users: steps, workflows and signals. A declaration has no side effects; an engine binds it later."""

import dataclasses
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import Any, Concatenate, Generic, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, get_args, overload
from weakref import ref

import msgspec

from perdure.code.declared_queues import PER_TENANT, Queue, queue_name
from perdure.code.declared_schedules import Schedule
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.code.function_codec import FunctionCodec, codec_of_function
from perdure.code.step_environment import Transaction
from perdure.core import limits
from perdure.core.attributes import Attributes
from perdure.core.errors import BadName, BadValue
from perdure.core.operations import DEFAULT_RETRY_POLICY, CallOperation, OnCancel, RetriedErrors
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
    """Returns `name` if it is text of 1 to 1024 bytes in UTF-8; the name of a workflow is one line.

    Raises:
        BadName: it is not.
    """
    if not isinstance(name, str):
        raise BadName(what, name, f"it is of type {type(name).__name__}. Pass text")
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError as error:
        raise BadName(what, ascii(name), "it can't be encoded as UTF-8. Use other characters") from error
    if not 1 <= size_bytes <= limits.NAME_BYTES_MAX:
        raise BadName(what, name, f"it has {size_bytes} bytes. Use 1 to {limits.NAME_BYTES_MAX} bytes")
    if what == "workflow" and "\n" in name:
        raise BadName(what, name, "it has several lines. Use a single line")
    return name


MAX_WAIT_S = DEFAULT_RETRY_POLICY.max_wait_s
"""The longest wait between two attempts, unless the step sets another one or the first wait is longer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy: `max` attempts in all, the first wait, its growth, and the longest wait (60 s, or `wait` if that is longer).

    Only errors of the classes in `only` are retried (all, if empty), those in `fatal` never; `should_retry` decides about the rest. A step that raises
    `RetryAfter` sets the wait itself.
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
        """Returns the part that the log records.

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

    @property
    def is_selective(self) -> bool:
        """Whether some errors are retried and others are not."""
        return bool(self.only or self.fatal or self.should_retry is not None)

    def errors(self) -> RetriedErrors:
        """Returns which errors are retried, by the names of their classes."""
        only, fatal = (tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds) for kinds in (self.only, self.fatal))
        return RetriedErrors(only, fatal)

    def again(self, error: BaseException) -> bool:
        """Whether the step may be attempted again after this error."""
        may = not isinstance(error, self.fatal) and (not self.only or isinstance(error, self.only))
        return may and (self.should_retry is None or bool(self.should_retry(error)))


class TransactionalForm(NamedTuple):
    """The other form of a step that may run in a transaction of the store: its function, which takes the transaction first, and when it `applies`.

    `applies` is called with the arguments of an attempt before it begins. An error of it fails the attempt.
    """

    fn: Callable[..., Coroutine[Any, Any, Any]]
    applies: Callable[..., Coroutine[Any, Any, bool]]


@dataclasses.dataclass(frozen=True)
class Step(Generic[P, R_co, X_co]):
    """A function whose result is recorded. Calling it directly is a plain call without durability."""

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
    errors: RetriedErrors | None = None
    form: TransactionalForm | None = None
    handlers: list["UndoHandler"] = dataclasses.field(default_factory=list, compare=False, repr=False)

    @cached_property
    def may_repeat(self) -> bool:
        """Whether a code workflow runs the step again after an interruption: unless the step declares ``idempotent=False``."""
        return self.idempotent is not False

    @property
    def declares_repeat(self) -> bool:
        """Whether a definition runs the tool again after an interruption: only if that was declared, or if its writes were rolled back."""
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
        """Declares the undo handler of the step, which is called if the execution fails or is cancelled: a function of the step's result and arguments.

        It is a step of its own, with a retry policy and a timeout, and optionally a `transaction`. With `in_doubt`, it is also called for a step that failed,
        timed out, was interrupted or was abandoned, with None for the result. If it fails for good, the execution needs attention; with
        ``on_error="continue"``, the undo continues with the other steps. Use it as ``@charge.undo`` or ``@charge.undo(in_doubt=True)``; the decorated
        function is returned unchanged.

        Raises:
            BadName: the step has an undo handler already.
            BadValue: `on_error` is neither park nor continue.
        """
        if on_error not in get_args(OnUndoError):
            raise BadValue(f"on_error of the undo handler of step {self.name}", on_error, f"one of {', '.join(get_args(OnUndoError))}")

        def declare(fn: F) -> F:
            if self.handlers:
                raise BadName("undo handler of step", self.name, f"the step already has {self.handlers[0].step.name}. Remove one of the two")
            handler: Step[Any, Any, Any] = Step(fn, name=f"undo:{self.name}", queue=self.queue, **options)
            _ = handler.rule, handler.timeout_s
            self.handlers.append(declared := UndoHandler(handler, in_doubt, on_error))
            _UNDO_HANDLERS.setdefault(self.name, []).append(ref(declared))
            return fn

        return declare if fn is None else declare(fn)

    @property
    def transactional(self) -> "Step[Any, Any, Any] | None":
        """The step in its transactional form, if it has one."""
        if self.form is None:
            return None
        anything: Step[Any, Any, Any] = self
        return dataclasses.replace(anything, fn=self.form.fn, transaction=True, form=None)

    @property
    def undo_when(self) -> Literal["", "done", "in_doubt"]:
        """When the step has to be undone, as the log records it."""
        if not self.handlers:
            return ""
        return "in_doubt" if self.handlers[0].in_doubt else "done"

    @cached_property
    def codec(self) -> FunctionCodec:
        """The codec of the arguments and the result. A transaction is not one of the arguments."""
        return codec_of_function(self.fn, skip=int(self.transaction))

    @cached_property
    def rule(self) -> RetryRule:
        """The retry policy, as the log records it. In a queue, it has the errors by name: those of the call, else those that the step declares.

        A worker in Python has the classes that the step declares anyway. One in another language goes by the names.

        Raises:
            BadValue: a function that was given to the call decides about errors, which no worker could call.
        """
        rule = self.retry.rule()
        if not self.queue:
            return rule
        if self.errors is None:
            named = msgspec.structs.replace(self.retry.errors(), adds=True)
            return msgspec.structs.replace(rule, errors=named) if named.only or named.fatal else rule
        if self.retry.should_retry is not None and not self.errors.adds:
            raise BadValue(
                f"Retry(should_retry) of a call of step {self.name}",
                self.retry.should_retry,
                f"accepted in queue {self.queue}, since no worker could call it; give only= or fatal=, or declare it with @step(retry=Retry(should_retry=...))",
            )
        return msgspec.structs.replace(rule, errors=self.errors)

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is awaited; if not, it runs in a thread."""
        return returns_awaitable(self.fn)

    @cached_property
    def timeout_s(self) -> float | None:
        """The timeout of each attempt in seconds. A step in a transaction has none, because it can't be abandoned half-way."""
        return None if self.timeout is None or self.transaction else duration_seconds(self.timeout, f"timeout of step {self.name}")

    @cached_property
    def heartbeat_s(self) -> float | None:
        """The longest time between two heartbeats of an attempt, in seconds."""
        return None if self.heartbeat is None else duration_seconds(self.heartbeat, f"heartbeat of step {self.name}")

    @cached_property
    def grace_s(self) -> float | None:
        """How long an attempt in flight may continue after the execution failed or was cancelled, in seconds."""
        return None if self.grace is None else duration_seconds(self.grace, f"grace of step {self.name}")

    def placed(self, op: CallOperation, tenant: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallOperation:
        """Returns a call with these arguments, placed in the queue of the step.

        Raises:
            BadValue: the lanes of the queue are chosen by an argument that the step does not have.
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
        """Returns the same step with other options, for one call: ``ctx.step(charge.with_(timeout="5s"), order)``.

        In the queue, `lane` replaces the lane that the arguments choose, and a higher `priority` comes first.
        """
        wanted, line = (self.queue, self.line) if queue is None else queue_name(queue)
        rank = self.priority if priority is None else priority
        return dataclasses.replace(
            self,
            explicit=self.explicit if name is None else checked_name(name, "step"),
            retry=self.retry if retry is None else retry,
            errors=self.errors if retry is None or not (retry.is_selective or self.retry.is_selective) else retry.errors(),
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
    """The undo handler of a step: itself a step, called with the result (None if that is in doubt) and the arguments of the step that it undoes."""

    step: Step[Any, Any, Any]
    in_doubt: bool
    on_error: OnUndoError = "park"


_UNDO_HANDLERS: dict[str, list["ref[UndoHandler]"]] = {}
"""The undo handlers declared in this process, by the names of their steps."""


def undo_handler_of(name: str, workflow: "CodeWorkflow") -> UndoHandler | None:
    """Returns the undo handler of the step `name` for a program that has not opened the step itself, because its iteration is forgotten.

    It is the handler that other executions of `workflow` have opened; else the declared one; of several, that of the module of the workflow.
    """
    known = [undo for one in _UNDO_HANDLERS.get(name, ()) if (undo := one()) is not None]
    _UNDO_HANDLERS[name] = [ref(undo) for undo in known]
    here = [undo for undo in known if getattr(undo.step.fn, "__module__", "") == getattr(workflow.fn, "__module__", None)]
    found = known if len(known) == 1 else here
    return workflow.handlers.get(name) or (found[0] if len(found) == 1 else None)


def returns_awaitable(fn: Any) -> bool:
    """Whether the result of `fn` has to be awaited."""
    called = getattr(fn, "__call__", None)  # noqa: B004  # the method itself
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(called)


class _TransactionDecorator(Protocol):
    """``@step(transaction=True)``: the function receives a transaction before its arguments."""

    def __call__(self, fn: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, R]]) -> Step[P, R, Coroutine[object, object, R]]: ...


class _Decorator:
    """``@step(retry=...)``: holds the options until it is called with the function."""

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
    )  # computed here, so that a bad option is an error where it is written
    if declared.transaction and (declared.timeout is not None or declared.heartbeat is not None):
        raise BadValue(f"transaction of step {declared.name}", True, "accepted with a timeout or a heartbeat; other writers wait for it, so keep it short")
    if declared.transaction and not declared.is_async:
        raise BadValue(f"transaction of step {declared.name}", True, "accepted for a plain function; make it async, with the transaction first")
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
    """Makes a function a step: an engine or a worker runs it, its result is recorded, and it is retried when it fails.

    Options: `name` (default: the function's), `retry` (default: 3 attempts, 1 s apart, doubling), `timeout` of each attempt, `queue` (default: the engine
    performs the step itself; a name, or a `Queue`) and `priority` there, `idempotent` (False: not run again after an interruption or a timeout; undeclared,
    a code workflow runs it again and a definition does not), `raises` (classes of errors that are rebuilt and raised as themselves), `transaction` (the
    function receives a transaction on the store's database, and its writes are committed together with its outcome, exactly once), `heartbeat` (an attempt
    that does not call ``step_info().heartbeat()`` for so long has failed), `grace` (how long an attempt in flight may continue after the execution failed
    or was cancelled; default: that of the execution, 30 s), `version` (of a tool of a definition: an execution that has begun with it continues only where
    the tool has this version).
    """
    if fn is None:
        return _Decorator(options)
    return _declared(fn, options)


@dataclasses.dataclass(frozen=True)
class CallOptions:
    """The options of a start or a call: its id, queue, times and attributes; of a child, whether it is undone with its parent, and what happens to it when
    its parent stops waiting. `given` names the options that `with_` was given."""

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
        """The retry policy, in seconds."""
        return self.retry.rule()

    def place(self, tenant: str, fn: Callable[..., Any] | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, str, int]:
        """Returns the queue in which an execution of this input begins, its lane and its priority there. Without `fn`, the names of arguments are not known.

        Raises:
            BadValue: a lane or a priority was given without a queue, or the lanes are chosen by an argument that the workflow does not have.
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
    """Takes the place of a function that is not known here."""


@dataclasses.dataclass(frozen=True)
class CodeWorkflow:
    """An async function of a context, with what an engine needs to know about it. With `sync`, the user's function is a plain one that runs on a greenlet.

    `handlers` are the undo handlers of the steps that its executions have opened in this process, by the names of the steps.
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
    schedule: Schedule | None = None
    handlers: dict[str, UndoHandler] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def codec(self) -> FunctionCodec:
        """The codec of the input and the result. The context is not part of the input."""
        return codec_of_function(self.fn, skip=1)

    def place(self, tenant: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, str, int]:
        """Returns the queue in which an execution of this input begins, its lane and its priority there.

        Raises:
            BadValue: the lanes of the queue are chosen by an argument that the workflow does not have.
        """
        return self.calling.place(tenant, self.fn, args, kwargs)

    @property
    def definition(self) -> None:
        """None: executions of code do not pin a definition."""

    @property
    def what(self) -> Any:
        """The function, which makes the workflow what it is besides its name."""
        return self.fn

    @property
    def programs(self) -> frozenset[str]:
        """The programs that an engine with this workflow may claim."""
        return frozenset(program_name(self.name, version) for version in (0, self.version, *self.replays))


class Signal(Generic[T]):
    """A name for messages, with the type of their body, which the sender and the receiver share.

    `validate` is called with the body, by whoever sends a message and by the workflow before it receives one. If it raises, or returns False, the message is
    rejected. It must depend on the body alone.
    """

    __slots__ = ("body", "name", "validate")

    @overload
    def __init__(self: "Signal[Any]", name: str, *, validate: Callable[[Any], object] | None = ...) -> None: ...
    @overload
    def __init__(self, name: str, body: type[T], *, validate: Callable[[T], object] | None = ...) -> None: ...
    def __init__(self, name: str, body: Any = Any, *, validate: Callable[[Any], object] | None = None) -> None:
        self.name = checked_name(name, "signal")
        self.body = body
        self.validate = validate

    def __repr__(self) -> str:
        return f"Signal({self.name!r})"
