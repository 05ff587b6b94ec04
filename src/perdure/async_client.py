"""The client of asyncio programs: start executions and deal with them, on any store that this process can open.

No rule stands here: it is the typed face of `perdure.service`. What it says of options holds for its sync twin, `perdure.client`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload
from uuid import uuid4

from perdure.core import values, views
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.core.views import PublicEvent, StepView
from perdure.programs.code.declare import Signal, checked_name
from perdure.programs.code.durations import Duration, seconds, whole
from perdure.runtime import endings
from perdure.runtime.host import open_store
from perdure.sdk import DEFAULT_TENANT, Workflow
from perdure.service import following, operations, queries
from perdure.service.access import Access, within
from perdure.service.asking import ask
from perdure.service.following import Emitted, Fold
from perdure.service.queries import EngineView, Listed, Status
from perdure.stores.base import Store

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

Listing = list[Listed]
Engines = list[EngineView]


class AsyncHandle(Generic[R_co]):
    """One execution, to people and programs outside of it. `created` says whether the start that this came from made it."""

    def __init__(self, access: Access, key: Key, kind: Any, created: bool = False) -> None:
        self.key = key
        self.created = created
        self._access = access
        self._kind = kind
        self._fold = Fold(access.store, key)
        self._after = 0

    def __repr__(self) -> str:
        return f"<handle of {self.key}>"

    @property
    def id(self) -> str:
        """The id, unique per tenant and workflow."""
        return self.key.id

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end and return what the workflow returned; at once, if it has ended. A paused execution is waited for.

        What was before this handle's `resume` or `retry` does not count.

        Raises:
            ExecutionFailed, DeadlineExceeded, ExecutionCancelled: how else it ended.
            NeedsAttention: it is parked until somebody looks at it.
            Timeout: it did not end in time; it goes on.
            NotFound: there is no such execution any more.
        """
        async with within(timeout, f"the result of {self.key}"):
            raw = await endings.result(self._access.watch, self._access.store, self.key, self._after)
        value: R_co = values.decode(raw, self._kind, f"the result of {self.key}")
        return value

    async def status(self) -> Status:
        """How it stands, and in a sentence why it waits."""
        return await queries.status(self._access, self._fold)

    async def steps(self) -> list[StepView]:
        """Every operation that it knows, settled and open, in the order in which they were opened."""
        return await self._fold.seen(views.steps)

    async def query(self, key: str | None = None, default: Any = None) -> Any:
        """What the workflow has set under `key` (`default`, if it has not), or all that it has set as a dict; also after its end."""
        return await queries.state(self._access, self._fold, key, default)

    def stream(self, after: int = 0, follow: bool = True) -> AsyncGenerator[Emitted, None]:
        """The values that the workflow emits, from number `after` + 1 on, as they come; ends when the execution ends.

        Without `follow`, those that are there. A stream is resumed with the number of the last value that was dealt with. Values in
        turns of a loop that were forgotten since are gone; the next one says how many are missing before it.
        """
        return following.stream(self._access, self.key, whole(after, "stream(after)", 0), follow)

    def events(self, after: int = 0, follow: bool = False) -> AsyncGenerator[PublicEvent, None]:
        """What happened to the execution, as public events after the one with the id `after`; with `follow`, also what comes, until its end."""
        return following.history(self._access, self.key, whole(after, "events(after)", 0), follow)

    @overload
    async def send(self, signal: Signal[T], body: T, *, key: str | None = ..., may_come: bool = ...) -> None: ...
    @overload
    async def send(self, signal: str, body: Any = ..., *, key: str | None = ..., may_come: bool = ...) -> None: ...
    async def send(self, signal: Signal[Any] | str, body: Any = None, *, key: str | None = None, may_come: bool = False) -> None:
        """Send a message; it is durable when this returns. Sent again within 24 hours with the same `key`, it arrives once.

        With `may_come`, an execution that does not exist yet is no error: the message waits for it, for 7 days.

        Raises:
            NotFound, HasEnded: nobody would read it.
        """
        _ = await operations.send(self._access, self.key, operations.signal(signal, body, key), may_come)

    @overload
    async def ask(self, signal: Signal[T], body: T, *, timeout: Duration | None = ...) -> Any: ...
    @overload
    async def ask(self, signal: str, body: Any = ..., *, timeout: Duration | None = ...) -> Any: ...
    async def ask(self, signal: Signal[Any] | str, body: Any = None, *, timeout: Duration | None = None) -> Any:
        """Send a message and wait for the reply that the workflow gives with ``message.complete(reply)``.

        Raises:
            NotFound, HasEnded: nobody would read it.
            NoReply: the execution ended without a reply, or its mailbox was full.
            Timeout: there was no reply in time; the message stays where it is.
        """
        message = operations.signal(signal, body)
        async with within(timeout, f"the reply of {self.key} to {message.name}"):
            reply = await ask(self._access, self.key, message)
        return values.decode(await self._access.payload(reply), Any, f"the reply of {self.key}")

    async def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have the workflow unwind, undo what it has done unless that is not wanted, and end as cancelled.

        Like its siblings it is durable when this returns; with `wait`, it has taken effect.
        """
        async with within(timeout, f"the end of {self.key}"):
            await operations.cancel(self._access, self.key, reason, wait, undo)

    async def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """End the execution as cancelled, at once; the workflow gets no say."""
        async with within(timeout, f"the end of {self.key}"):
            await operations.terminate(self._access, self.key, reason, wait)

    async def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Begin nothing more until resumed; what is being done is finished and remembered."""
        async with within(timeout, f"the pause of {self.key}"):
            await operations.pause(self._access, self.key, reason, wait)

    async def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have a paused or parked execution go on from where it stands."""
        async with within(timeout, f"the resume of {self.key}"):
            self._after = await operations.resume(self._access, self.key, reason, wait)

    async def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Undo what a completed execution has done, by its own handlers, last first and once; its result stays."""
        async with within(timeout, f"the undoing of {self.key}"):
            await operations.undo(self._access, self.key, reason, wait)

    async def retry(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have a failed execution go on from what failed, and a parked one from where it stands; what had succeeded is not done again."""
        async with within(timeout, f"the retry of {self.key}"):
            self._after = await operations.retry(self._access, self.key, reason, wait)


class AsyncClient:
    """Starts executions and finds them, on the store of a URL: ``sqlite:///file.db``; by default `PERDURE_DB`, else ``.perdure/perdure.db``.

    It runs none: engines do, in this process or another. A store that is open here already may be given in place of a URL, and stays open.

    Raises:
        BadValue: the URL names no store.
        StoreError: the store can't be opened.
    """

    def __init__(self, url: str | Store | None = None) -> None:
        if url is not None and not isinstance(url, str) and not hasattr(url, "heads"):
            raise BadValue("client URL", url, "sqlite:///path/to/file.db, or a store")
        if isinstance(url, str) and url.lower().startswith(("http://", "https://")):
            raise BadValue("client URL", url, "a database's; this version does not speak to servers, open the database that the server has")
        self._store, self._ours = (open_store(url), True) if url is None or isinstance(url, str) else (url, False)
        self._access = Access(self._store)

    async def aclose(self) -> None:
        """Let the store go. Who waits here for something is told that the client was closed; what was posted is durable."""
        self._access.watch.close()
        if self._ours:
            await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    @overload
    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]: ...
    @overload
    async def start(
        self,
        workflow: Workflow[..., R],
        /,
        *args: Any,
        id: str | None,
        delay: Duration | None = ...,
        deadline: Duration | None = ...,
        strict: bool = ...,
        tenant: str = ...,
        **kwargs: Any,
    ) -> AsyncHandle[R]: ...
    @overload
    async def start(
        self, workflow: Workflow[..., R], /, *args: Any, delay: Duration | None, deadline: Duration | None = ..., tenant: str = ..., **kwargs: Any
    ) -> AsyncHandle[R]: ...
    @overload
    async def start(self, workflow: Workflow[..., R], /, *args: Any, deadline: Duration | None, tenant: str = ..., **kwargs: Any) -> AsyncHandle[R]: ...
    @overload
    async def start(self, workflow: Workflow[..., R], /, *args: Any, tenant: str, **kwargs: Any) -> AsyncHandle[R]: ...
    @overload
    async def start(
        self,
        workflow: str,
        /,
        *args: Any,
        id: str | None = ...,
        delay: Duration | None = ...,
        deadline: Duration | None = ...,
        strict: bool = ...,
        tenant: str = ...,
        **kwargs: Any,
    ) -> AsyncHandle[Any]: ...
    async def start(
        self,
        workflow: Workflow[..., Any] | str,
        /,
        *args: Any,
        id: Any = None,
        delay: Any = None,
        deadline: Any = None,
        strict: Any = False,
        tenant: Any = DEFAULT_TENANT,
        **kwargs: Any,
    ) -> AsyncHandle[Any]:
        """Start an execution: durable when this returns, and begun by an engine that knows the workflow, now or when `delay` has passed.

        An `id` that exists is returned as it is (`created` is False), whatever the input; with `strict`, another input is an error. The
        `deadline` is counted from when it begins. A workflow is started in the version that it has here, a name in that of the engine. Arguments
        of the workflow that are called like an option here are given by position.

        Raises:
            BadValue: the arguments are not those of the workflow.
            InputDiffers: `strict`, and the execution was started with another input.
        """
        key = Key(checked_name(tenant, "tenant"), _name(workflow), checked_name(uuid4().hex if id is None else id, "id"))
        code = workflow.code if isinstance(workflow, Workflow) else workflow
        wanted = operations.Start(
            key=key,
            input=operations.encoded(code, args, kwargs),
            version=0 if isinstance(code, str) else code.version,
            delay_s=0.0 if delay is None else seconds(delay, "delay"),
            deadline_s=_deadline_s(workflow, deadline),
            strict=strict,
        )
        return AsyncHandle(self._access, key, _kind(workflow), await operations.start(self._access, wanted))

    @overload
    async def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def run(
        self,
        workflow: Workflow[..., R],
        /,
        *args: Any,
        id: str | None,
        delay: Duration | None = ...,
        deadline: Duration | None = ...,
        strict: bool = ...,
        tenant: str = ...,
        **kwargs: Any,
    ) -> R: ...
    @overload
    async def run(
        self, workflow: Workflow[..., R], /, *args: Any, delay: Duration | None, deadline: Duration | None = ..., tenant: str = ..., **kwargs: Any
    ) -> R: ...
    @overload
    async def run(self, workflow: Workflow[..., R], /, *args: Any, deadline: Duration | None, tenant: str = ..., **kwargs: Any) -> R: ...
    @overload
    async def run(self, workflow: Workflow[..., R], /, *args: Any, tenant: str, **kwargs: Any) -> R: ...
    @overload
    async def run(
        self,
        workflow: str,
        /,
        *args: Any,
        id: str | None = ...,
        delay: Duration | None = ...,
        deadline: Duration | None = ...,
        strict: bool = ...,
        tenant: str = ...,
        **kwargs: Any,
    ) -> Any: ...
    async def run(
        self,
        workflow: Workflow[..., Any] | str,
        /,
        *args: Any,
        id: Any = None,
        delay: Any = None,
        deadline: Any = None,
        strict: Any = False,
        tenant: Any = DEFAULT_TENANT,
        **kwargs: Any,
    ) -> Any:
        """Start an execution, as `start` does, and wait for its result, as `AsyncHandle.result` does. An engine has to run somewhere."""
        handle = await self.start(workflow, *args, id=id, delay=delay, deadline=deadline, strict=strict, tenant=tenant, **kwargs)
        return await handle.result()

    @overload
    async def get(self, id: str | Key, workflow: Workflow[..., R], *, tenant: str = ...) -> AsyncHandle[R]: ...
    @overload
    async def get(self, id: str | Key, workflow: str | None = ..., *, tenant: str = ...) -> AsyncHandle[Any]: ...
    async def get(self, id: str | Key, workflow: Workflow[..., Any] | str | None = None, *, tenant: str = DEFAULT_TENANT) -> AsyncHandle[Any]:
        """The execution of an id, or of a key; without a `workflow`, the only one of that id.

        Raises:
            NotFound: there is none.
            Ambiguous: several workflows have one of that id.
        """
        if isinstance(id, Key):
            key = id
            if workflow is not None and key.workflow != _name(workflow):
                raise BadValue("key", str(key), f"one of the workflow {_name(workflow)}")
        elif workflow is not None:
            key = Key(checked_name(tenant, "tenant"), _name(workflow), checked_name(id, "id"))
        else:
            key = await queries.by_id(self._access, checked_name(tenant, "tenant"), checked_name(id, "id"))
        _ = await self._access.head(key)
        return AsyncHandle(self._access, key, _kind(workflow))

    async def list(
        self,
        *,
        workflow: Workflow[..., Any] | str | None = None,
        status: str | Iterable[str] | None = None,
        id_prefix: str = "",
        since: Duration | datetime | None = None,
        limit: int = 100,
        older_than: Key | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Listing:
        """Executions, newest first: those of a workflow, in a status (or any of several), created since a time or for so long.

        `older_than` is the key of the last one of the page before.
        """
        return await queries.listing(
            self._access,
            tenant=checked_name(tenant, "tenant"),
            workflow=None if workflow is None else _name(workflow),
            status=status,
            id_prefix=id_prefix,
            since=since,
            limit=limit,
            older_than=older_than,
        )

    async def find(self, text: str, *, tenant: str = DEFAULT_TENANT) -> Key:
        """Which execution people mean by an id, the beginning of one, ``workflow/id``, ``@latest``, or ``@failed`` (the latest that failed).

        Raises:
            NotFound, Ambiguous: it means none, or several.
        """
        return await queries.find(self._access, text, checked_name(tenant, "tenant"))

    async def engines(self) -> Engines:
        """Who works on this store: engines and workers, with what they know, and what they hold."""
        return await queries.engines(self._access)


def _name(workflow: Workflow[..., Any] | str) -> str:
    return workflow.code.name if isinstance(workflow, Workflow) else checked_name(workflow, "workflow")


def _kind(workflow: Workflow[..., Any] | str | None) -> Any:
    """The type of the results of a workflow, as far as it is known here."""
    return workflow.code.codec.result if isinstance(workflow, Workflow) else Any


def _deadline_s(workflow: Workflow[..., Any] | str, deadline: Duration | None) -> float | None:
    if deadline is not None:
        return seconds(deadline, "deadline")
    return workflow.code.deadline_s if isinstance(workflow, Workflow) else None
