"""Calls operations of the service from a command: on a server, or on the database of this machine, where the audit names the local user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, TypeVar

from perdure.cli.exit_codes import CommandExit, ExitCode

if TYPE_CHECKING:
    from typing import ParamSpec

    from perdure.cli.shared_options import GlobalOptions
    from perdure.service.store_access import StoreAccess

    P = ParamSpec("P")

T = TypeVar("T")

AUTHOR = "local"
"""The author of what is changed on a database. A server knows its caller, and takes no author."""


class ServiceCall(Protocol):
    """Performs an operation of `perdure.operations` with these arguments."""

    def __call__(self, operation: Callable[Concatenate[StoreAccess, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Performs an operation."""
        ...


def with_service(settings: GlobalOptions, work: Callable[[ServiceCall], Coroutine[Any, Any, T]], *, creates: bool = False) -> T:
    """Runs `work` with a function that performs operations, on the server or the database that the options name.

    A command that `creates` something also creates a missing database. What is not found ends the command with the exit code for wrong input.
    """
    import asyncio

    from perdure.core.errors import NotFound

    async def done() -> T:
        async with _service(settings, creates) as call:
            try:
                return await work(call)
            except NotFound as error:  # of a definition: the exit code for it is that of executions
                raise CommandExit(ExitCode.INPUT, str(error)) from error

    return asyncio.run(done())


@asynccontextmanager
async def _service(settings: GlobalOptions, creates: bool) -> AsyncIterator[ServiceCall]:
    from perdure.async_client import AsyncClient

    url, token = settings.server_or_database(creates=creates)
    async with AsyncClient(url, token=token) as client:
        access = client._access
        if settings.server_url() is not None:
            yield access.call
            return
        from msgspec.structs import replace

        from perdure.operations.operation_table import BY_FUNCTION
        from perdure.service.audit import AuditedBy, audited_access
        from perdure.service.callers import LOCAL

        caller = replace(LOCAL, tenant=settings.tenant)

        async def call(operation: Callable[..., Awaitable[Any]], /, *args: Any, **kwargs: Any) -> Any:
            audited = audited_access(access.on_store("an operation"), AuditedBy(caller, BY_FUNCTION[operation].name))
            return await operation(audited, *args, **kwargs)

        yield call
