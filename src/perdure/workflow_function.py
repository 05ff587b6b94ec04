"""The decorator `workflow`, and the methods `run` and `arun` of a workflow: the one sync interface over the async implementation.

Importing it has no effects: a workflow gets a store and an engine when it is run.
"""

from __future__ import annotations

import asyncio
import builtins
import dataclasses
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import wraps
from types import ModuleType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from perdure.code.branch_task import import_greenlet
from perdure.code.call_options import DEFAULT_TENANT, WithOptions, with_options
from perdure.code.context import Context
from perdure.code.declarations import CallOptions, CodeWorkflow, Step, checked_name, returns_awaitable
from perdure.code.declared_queues import Queue, queue_of_executions
from perdure.code.declared_schedules import Schedule, schedule_of
from perdure.code.deterministic_loop import DeterministicLoop
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.code.sync_context import SyncContext, as_async_function
from perdure.core import values
from perdure.core.errors import BadValue, WrongVerb
from perdure.core.paths import Key
from perdure.short_traceback import short_traceback

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Workflow(Generic[P, R_co]):
    """A function that survives crashes: the outcomes of its steps are recorded, and it continues from them."""

    def __init__(self, code: CodeWorkflow, uses: Callable[[], Sequence[Workflow[..., Any]]]) -> None:
        self.code = code
        self._uses = uses

    def __repr__(self) -> str:
        return f"<workflow {self.code.name}@{self.code.version}>"

    def signature(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Declares the types of input and result for type checkers; it is never called."""
        raise WrongVerb(f"{self.code.name}.signature() was called", "it only declares types; use run, arun, or in a workflow ctx.call")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise WrongVerb(f"{self.code.name} was called", f"use {self.code.name}.run(...), or in a workflow `await ctx.call({self.code.name}, ...)`")

    def with_(self, **options: Unpack[WithOptions]) -> Self:
        """The same workflow with options for one start or call: ``client.start(order.with_(id="o1", delay="1h"), "o1", 500)``,
        ``order.with_(id="o1").run("o1", 500)``, ``ctx.call(receipt.with_(undo=True), "o1")``. Options that are not given keep their values.

        For starts and calls alike: `id` (unique per tenant and workflow, so that a second start finds the same execution; a child's default follows from its
        path), `deadline` (counted from the beginning), `grace` (how long steps in flight may continue when the execution fails, is cancelled or is late),
        `queue` (a name or a `Queue`, within whose limits it begins), `lane` (replaces the key by which the queue serves fairly), `priority` (higher ones
        come first in the queue), and `attributes` (by which it is found).

        For starts from outside: `tenant`, `delay` (before it begins), `ttl` (after which it no longer begins), `strict` (an existing id with another input
        is an error), `debounce` (a later start of the id within that time replaces this one, unless it has begun), `singleton` (if an execution of the id is
        running, it is returned), `connection` (the start takes part in the transaction that is open on it). For `run` and `arun`: `db`.

        For children: `name` of the operation, `undo` (undo a completed child with its parent), `on_cancel` (what happens to it when its parent ends or stops
        waiting: cancel, terminate or detach), `retry` (a child that fails is started again, as another execution).

        Raises:
            BadValue, BadName: an option is unknown, or its value is invalid. A call refuses options that have no effect on it.
        """
        calling = with_options(self.code.calling, options, self.code.name)
        deadline_s = self.code.deadline_s if calling.deadline_s is None else calling.deadline_s
        grace_s = self.code.grace_s if calling.grace_s is None else calling.grace_s
        other = copy(self)
        other.code = dataclasses.replace(self.code, calling=calling, deadline_s=deadline_s, grace_s=grace_s)
        return other

    def key(self, id: str, tenant: str = DEFAULT_TENANT) -> Key:
        """The key of the execution of this workflow with an id, for example to send it a message: ``ctx.send(order.key("o1"), approved, body)``."""
        return Key(tenant, self.code.name, checked_name(id, "id"))

    def run(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Runs an execution to its end and returns its result. Options are given by `with_`. If an execution of the `id` has ended, its stored result is
        returned.

        The log is stored in `db`, else in `PERDURE_DB`, else in ``./.perdure/perdure.db``. If the process is killed, running it again with the same `id`
        continues the execution; if it is parked because the code diverged from its log, it continues once the code fits.

        Raises:
            ExecutionFailed, ExecutionCancelled, NeedsAttention: how it ended, or why it does not continue.
            BadValue: the arguments do not fit the workflow; nothing was started.
            WrongVerb: an event loop is running here, or an option is passed among the arguments.
        """
        self._not_in_a_workflow("run")
        with suppress(RuntimeError):  # get_running_loop raises it if no loop is running
            asyncio.get_running_loop()
            raise WrongVerb(f"{self.code.name}.run() was called inside a running event loop", f"use `await {self.code.name}.arun(...)`")
        with short_traceback:
            from perdure.shared_engines import run_in_thread  # here, so that importing a workflow costs no engine

            return run_in_thread(self._run("run", args, kwargs))

    def arun(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """Does the same as `run`, inside a running event loop."""
        self._not_in_a_workflow("arun")
        return self._arun(args, kwargs)

    def _not_in_a_workflow(self, verb: str) -> None:
        with suppress(RuntimeError):  # get_running_loop raises it if no loop is running
            if isinstance(asyncio.get_running_loop(), DeterministicLoop):
                raise WrongVerb(
                    f"{self.code.name}.{verb}() was called inside a workflow",
                    f"run it as a child: `await ctx.call({self.code.name}, ...)`, or `await ctx.start({self.code.name}, ...)` to continue at once",
                )

    async def _arun(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        with short_traceback:
            return await self._run("arun", args, kwargs)

    async def _run(self, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        from perdure.service.execution_operations import start_request
        from perdure.shared_engines import run_workflow  # here, so that importing a workflow costs no engine

        if self.code.sync:
            import_greenlet()  # reports a missing library before anything is started
        start, _ = start_request(self.code, args, kwargs, verb)
        raw = await run_workflow(self.code, _family(self), start, self.code.calling.db)
        result: R_co = values.decode(raw, self.code.codec.result, f"the result of {self.code.name}")
        return result


def _family(workflow: Workflow[..., Any]) -> list[CodeWorkflow]:
    return [one.code for one in related_workflows(workflow)]


def related_workflows(workflow: Workflow[..., Any]) -> list[Workflow[..., Any]]:
    """The workflows that an engine must know to run one: that one itself, those that its function or module can name, and so on from these."""
    found, left = {workflow.code.name: workflow}, [workflow]
    while left:
        for one in left.pop()._uses():
            if one.code.name not in found:  # of two workflows of one name, the nearer one is meant
                found[one.code.name] = one
                left.append(one)
    return list(found.values())


def _neighbours(fn: Callable[..., Any]) -> Callable[[], Sequence[Workflow[..., Any]]]:
    def named() -> list[Workflow[..., Any]]:
        found = by_their_own_name_first(getattr(fn, "__globals__", {}))
        for cell in getattr(fn, "__closure__", None) or ():
            with suppress(ValueError):  # raised by a cell that is still empty
                found.append(cell.cell_contents)
        found += [one for module in found if isinstance(module, ModuleType) for one in by_their_own_name_first(vars(module))]
        return [one for one in found if isinstance(one, Workflow)]

    return named


def by_their_own_name_first(names: Mapping[str, Any]) -> list[Any]:
    """The values of a namespace. Workflows and steps that are bound to the name of their function come before others: after a cell of a notebook has run
    again, names such as ``_3`` still hold what it defined before.
    """
    return [one for _, one in sorted(names.items(), key=lambda pair: _function_name(pair[1]) != pair[0])]


def _function_name(thing: Any) -> str:
    fn = thing.fn if isinstance(thing, Step) else thing.code.fn if isinstance(thing, Workflow) else None
    return getattr(fn, "__name__", "")


class _Decorator:
    """The decorator that ``@workflow(version=2)`` returns: it has the options, and takes the function."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R_co]]) -> Workflow[P, R_co]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[SyncContext, P], R_co]) -> Workflow[P, R_co]: ...
    def __call__(self, fn: Callable[..., Any]) -> Workflow[..., Any]:
        return _declared(fn, **self._options)


@overload
def workflow(fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R_co]], /) -> Workflow[P, R_co]: ...
@overload
def workflow(fn: Callable[Concatenate[SyncContext, P], R_co], /) -> Workflow[P, R_co]: ...
@overload
def workflow(
    *,
    name: str | None = ...,
    version: int = ...,
    replays: Sequence[int] = ...,
    deadline: Duration | None = ...,
    grace: Duration | None = ...,
    archive: bool = ...,
    queue: str | Queue = ...,
    schedule: str | Schedule = ...,
    timezone: str = ...,
) -> _Decorator: ...
def workflow(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declares a function as a workflow: an async function of a `Context`, or a plain function of a `SyncContext`, which runs on a greenlet.

    Options: `name` (default: the function's), `version` (1), `replays` (earlier versions that this code also replays), `deadline` (counted from the start),
    `grace` (how long steps in flight may continue when an execution fails, is cancelled or misses its deadline: 30 s, unless the step says otherwise),
    `archive` (keep what compaction replaces), `queue` (in which executions begin: a name, or a `Queue`), `schedule` (when executions start by themselves: a
    cron expression in a `timezone`, or a `Schedule`).
    """
    return _Decorator(options) if fn is None else _declared(fn, **options)


def _declared(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    version: int = 1,
    replays: Sequence[int] = (),
    deadline: Duration | None = None,
    grace: Duration | None = None,
    archive: bool = False,
    queue: str | Queue = "",
    schedule: str | Schedule | None = None,
    timezone: str = "",
) -> Workflow[Any, Any]:
    code = _asynchronous(fn)
    own = checked_name(name or getattr(fn, "__name__", ""), "workflow")
    deadline_s, grace_s = (None if one is None else duration_seconds(one, what) for one, what in ((deadline, "deadline"), (grace, "grace")))
    queued, line = queue_of_executions(queue)
    calling, sync = CallOptions(queue=queued, line=line), code is not fn
    declared = _checked_schedule(schedule, timezone)
    made = CodeWorkflow(code, own, whole_number(version, "version"), tuple(replays), deadline_s, grace_s, archive, sync, calling, declared)
    return Workflow(made, _neighbours(fn))


def _checked_schedule(schedule: str | Schedule | None, timezone: str) -> Schedule | None:
    found = schedule_of(schedule, timezone)
    if found is not None:
        from perdure.service.triggers.code_schedules import schedule_config  # imported here, because most workflows have no schedule

        _ = schedule_config(found)
    return found


def _asynchronous(fn: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The function of a workflow as an async function of a `Context`; an async function is returned unchanged.

    Raises:
        BadValue: its first parameter or its form shows that it is neither of the two.
    """
    hint = _first_hint(fn)
    if inspect.iscoroutinefunction(fn):
        fits = hint not in (SyncContext, "SyncContext") and not _is_builtin_type(hint) and _takes_a_positional_argument(fn)
    else:
        fits = inspect.isfunction(fn) and not inspect.isgeneratorfunction(fn) and not inspect.isasyncgenfunction(fn)
        fits = fits and hint != "Context" and (hint in (SyncContext, Any) or not isinstance(hint, type))
    if not fits:
        raise BadValue("@workflow", fn, "an async function whose first parameter is the context, or a plain one whose first parameter is a SyncContext")
    return fn if inspect.iscoroutinefunction(fn) else wraps(fn)(as_async_function(fn))


def _is_builtin_type(hint: Any) -> bool:
    """Whether the hint is a type such as int or str, so that the parameter is no context."""
    found = getattr(builtins, hint, None) if isinstance(hint, str) else hint
    return isinstance(found, type) and found.__module__ == "builtins" and found is not object


def _takes_a_positional_argument(fn: Callable[..., Any]) -> bool:
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return code is None or code.co_argcount > 0 or bool(code.co_flags & inspect.CO_VARARGS)


def _first_hint(fn: Callable[..., Any]) -> Any:
    """The annotation of a function's first parameter, as far as it can be read without evaluating it; of a text, the last name."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    hint = None
    with suppress(NameError, AttributeError):  # raised if an annotation names something that is not defined yet
        hint = getattr(fn, "__annotations__", {}).get(code.co_varnames[0] if code is not None and code.co_argcount else "")
    return hint.rpartition(".")[2] if isinstance(hint, str) else hint


def with_argument_type(function: Callable[..., Any], kind: type[Any]) -> Callable[[Any], Any]:
    """Returns a function of one argument that says its type, so that one without annotations, such as ``queue.put``, is given no dict.

    A function that says itself what it takes is returned unchanged.
    """
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):  # raised for some functions that are written in C
        first = None
    if first is not None and first.annotation not in (inspect.Parameter.empty, Any, object, "Any", "object"):
        return function
    call: Callable[[Any], Any]
    if returns_awaitable(function):

        async def call(argument: Any) -> Any:
            return await function(argument)
    else:

        def call(argument: Any) -> Any:
            return function(argument)

    call.__annotations__ = {"argument": kind}
    return call
