"""The client of asyncio programs: start executions and deal with them, on any store that this process can open.

No rule stands here: it is the typed face of `perdure.service`. What it says of options holds for its sync twin, `perdure.client`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload
from uuid import uuid4

from perdure.async_handle import AsyncHandle
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.programs.code.declare import checked_name
from perdure.programs.code.durations import Duration, seconds
from perdure.runtime.host import open_store
from perdure.sdk import DEFAULT_TENANT, Workflow
from perdure.service import operations, queries
from perdure.service.access import Access
from perdure.service.queries import EngineView, Listed
from perdure.stores.base import Store

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

Listing = list[Listed]
Engines = list[EngineView]


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
