"""What users import: decorators and, on a workflow, `run` and `arun`. A sync face over the async inside, once.

Nothing here is touched at import: a workflow is bound to a store and an engine when it is run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import wraps
from types import ModuleType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_args, overload
from uuid import uuid4

from perdure.core import values
from perdure.core.attributes import AttributeValues, checked
from perdure.core.errors import BadValue, WrongVerb
from perdure.core.ops import OnCancel
from perdure.core.paths import Key
from perdure.programs.code.context import Context
from perdure.programs.code.declare import Calling, CodeWorkflow, Retry, checked_name
from perdure.programs.code.durations import Duration, seconds, whole
from perdure.programs.code.queues import Queue, called
from perdure.programs.code.strand import greenlets
from perdure.programs.code.sync import SyncContext, asynchronous

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

DEFAULT_TENANT = "default"


class Workflow(Generic[P, R_co]):
    """A function that survives crashes: whatever its steps returned is remembered, and it goes on from there."""

    def __init__(self, code: CodeWorkflow, uses: Callable[[], Sequence[Workflow[..., Any]]]) -> None:
        self.code = code
        self._uses = uses

    def __repr__(self) -> str:
        return f"<workflow {self.code.name}@{self.code.version}>"

    def signature(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The types of its input and result, for type checkers; never called."""
        raise WrongVerb(f"{self.code.name}.signature() was called", "it only says types; use run, arun, or in a workflow ctx.call")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise WrongVerb(f"{self.code.name} was called", f"use {self.code.name}.run(...), or in a workflow `await ctx.call({self.code.name}, ...)`")

    def with_(
        self,
        *,
        id: str | None = None,
        name: str | None = None,
        undo: bool | None = None,
        on_cancel: OnCancel | None = None,
        retry: Retry | None = None,
        deadline: Duration | None = None,
        queue: str | Queue | None = None,
        lane: str | None = None,
        priority: int | None = None,
        attributes: AttributeValues | None = None,
    ) -> Workflow[P, R_co]:
        """The same workflow with other options, for one call: ``ctx.call(receipt.with_(undo=True), order)`` undoes it with its parent.

        `id` names the child (by default it follows from where it is called), `name` the operation. `on_cancel` says what becomes of the child when its
        parent ends or stops waiting: it is cancelled, terminated, or goes on detached. With `retry`, a child that fails is started anew, as another execution.
        In a `queue` it begins as that allows: `lane` stands for the key by which it is served in turns, a higher `priority` comes first. By its `attributes`
        it is found.
        """
        own, line = (None, None) if queue is None else called(queue)
        given: dict[str, Any] = {"id": id, "name": name, "undo": undo, "on_cancel": on_cancel, "retry": retry}
        given |= {"queue": own, "line": line, "lane": lane, "priority": priority, "attributes": None if attributes is None else checked(attributes)}
        calling = dataclasses.replace(self.code.calling, **{option: value for option, value in given.items() if value is not None})
        if calling.on_cancel not in get_args(OnCancel):
            raise BadValue("on_cancel", calling.on_cancel, f"one of {', '.join(get_args(OnCancel))}")
        for one, what in ((calling.id, "id"), (calling.name, "operation")):
            _ = None if one is None else checked_name(one, what)
        _ = calling.rule, calling.line and calling.line.ranked(calling.priority)
        deadline_s = self.code.deadline_s if deadline is None else seconds(deadline, "deadline")
        return Workflow(dataclasses.replace(self.code, calling=calling, deadline_s=deadline_s), self._uses)

    def key(self, id: str, tenant: str = DEFAULT_TENANT) -> Key:
        """Which execution an id of this workflow means, to send a message to it: ``ctx.send(order.key("o1"), approved, body)``."""
        return Key(tenant, self.code.name, checked_name(id, "id"))

    @overload
    def run(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def run(self, *args: Any, id: str, db: str | None = ..., **kwargs: Any) -> R_co: ...
    def run(self, *args: Any, id: Any = None, db: Any = None, **kwargs: Any) -> Any:
        """Run an execution to its end and return its result; of an `id` that has ended already, the stored result.

        The history is kept in `db`, else in `PERDURE_DB`, else in ``./.perdure/perdure.db``. Killed, it goes on when run again with its `id`;
        parked because the code did not match its log, it goes on once the code does.

        Raises:
            ExecutionFailed, ExecutionCancelled, NeedsAttention: how it ended, or why it doesn't go on.
            WrongVerb: an event loop is running here.
        """
        with suppress(RuntimeError):  # which says that none is running
            asyncio.get_running_loop()
            raise WrongVerb(f"{self.code.name}.run() inside a running event loop", f"use `await {self.code.name}.arun(...)`")
        return asyncio.run(self._run(args, kwargs, id, db))

    @overload
    def arun(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...
    @overload
    def arun(self, *args: Any, id: str, db: str | None = ..., **kwargs: Any) -> Coroutine[Any, Any, R_co]: ...
    def arun(self, *args: Any, id: Any = None, db: Any = None, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """As `run`, inside a running event loop."""
        return self._run(args, kwargs, id, db)

    async def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], id: str | None, db: str | None) -> Any:
        from perdure.runtime.host import hosting, run_to_end  # here, so that importing a workflow costs no engine
        from perdure.service.secrets.chain import providers

        try:
            inspect.signature(self.code.fn).bind(None, *args, **kwargs)
        except TypeError as error:
            raise BadValue(f"the arguments of {self.code.name}", (args, kwargs), f"what it takes: {error}") from error
        if self.code.sync:
            greenlets()  # a missing library is to be known before anything is started
        key = Key(DEFAULT_TENANT, self.code.name, checked_name(uuid4().hex if id is None else id, "id"))
        raw = self.code.codec.encode_args(args, kwargs, f"the input of {self.code.name}")
        async with hosting(_family(self), db, root=key, secrets=providers) as engine:
            return values.decode(await run_to_end(engine, key, raw), self.code.codec.result, f"the result of {self.code.name}")


def _family(workflow: Workflow[..., Any]) -> list[CodeWorkflow]:
    """What a script's engine must know beside the workflow that it runs: those that its function or module can name, and so on from theirs."""
    found, left = {workflow.code.name: workflow}, [workflow]
    while left:
        for one in left.pop()._uses():
            if one.code.name not in found:  # the nearer of two namesakes is meant
                found[one.code.name] = one
                left.append(one)
    return [one.code for one in found.values()]


def _neighbours(fn: Callable[..., Any]) -> Callable[[], Sequence[Workflow[..., Any]]]:
    def named() -> list[Workflow[..., Any]]:
        found = list(getattr(fn, "__globals__", {}).values())
        for cell in getattr(fn, "__closure__", None) or ():
            with suppress(ValueError):  # which says that it is empty
                found.append(cell.cell_contents)
        found += [one for module in found if isinstance(module, ModuleType) for one in list(vars(module).values())]
        return [one for one in found if isinstance(one, Workflow)]

    return named


class _Decorator:
    """``@workflow(version=2)``: the options, waiting for the function."""

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
    archive: bool = ...,
    queue: str | Queue = ...,
) -> _Decorator: ...
def workflow(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a workflow: an async one of a `Context`, or a plain one of a `SyncContext`, which runs on a greenlet.

    Options: `name` (the function's), `version` (1), `replays` (earlier versions that this code also replays), `deadline` (from its start),
    `archive` (keep what compaction replaces), `queue` (in which executions begin: a name, or a `Queue`).
    """
    return _Decorator(options) if fn is None else _declared(fn, **options)


def _declared(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    version: int = 1,
    replays: Sequence[int] = (),
    deadline: Duration | None = None,
    archive: bool = True,
    queue: str | Queue = "",
) -> Workflow[Any, Any]:
    code = _asynchronous(fn)
    own = checked_name(name or getattr(fn, "__name__", ""), "workflow")
    deadline_s = None if deadline is None else seconds(deadline, "deadline")
    queued, line = called(queue)
    calling = Calling(queue=queued, line=line)
    return Workflow(CodeWorkflow(code, own, whole(version, "version"), tuple(replays), deadline_s, archive, code is not fn, calling), _neighbours(fn))


def _asynchronous(fn: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The function of a workflow as an async one of a `Context`, which it may be already.

    Raises:
        BadValue: it is no function of the one kind or the other, as far as it says.
    """
    hint = _first_hint(fn)
    if inspect.iscoroutinefunction(fn):
        fits = hint not in (SyncContext, "SyncContext")
    else:
        fits = inspect.isfunction(fn) and not inspect.isgeneratorfunction(fn) and not inspect.isasyncgenfunction(fn)
        fits = fits and hint != "Context" and (hint in (SyncContext, Any) or not isinstance(hint, type))
    if not fits:
        raise BadValue("@workflow", fn, "an async function whose first parameter is the context, or a plain one whose first parameter is a SyncContext")
    return fn if inspect.iscoroutinefunction(fn) else wraps(fn)(asynchronous(fn))


def _first_hint(fn: Callable[..., Any]) -> Any:
    """The hint of a function's first parameter as far as it can be read without evaluating anything; of one that is text, the last name."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    hint = None
    with suppress(NameError, AttributeError):  # which say that something that is hinted at is not defined yet
        hint = getattr(fn, "__annotations__", {}).get(code.co_varnames[0] if code is not None and code.co_argcount else "")
    return hint.rpartition(".")[2] if isinstance(hint, str) else hint
