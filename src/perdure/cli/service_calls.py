"""Calls operations of the service from a command: on a server, or on the database of this machine, where the audit names the local user."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.cli.exit_codes import CommandExit, ExitCode

if TYPE_CHECKING:
    from perdure.cli.shared_options import GlobalOptions
    from perdure.operations.local_service import LocalService

T = TypeVar("T")


def with_service(settings: GlobalOptions, work: Callable[[LocalService], Coroutine[Any, Any, T]], *, creates: bool = False) -> T:
    """Runs `work` with what performs operations, on the server or the database that the options name.

    A command that `creates` something also creates a missing database. What is not found ends the command with the exit code for wrong input.
    """
    import asyncio

    from perdure.async_client import AsyncClient
    from perdure.core.errors import NotFound
    from perdure.operations.local_service import LocalService

    async def done() -> T:
        url, token = settings.server_or_database(creates=creates)
        async with AsyncClient(url, token=token) as client:
            try:
                return await work(LocalService(client._access, settings.tenant))
            except NotFound as error:  # of a definition or a key: the exit code for it is that of executions
                raise CommandExit(ExitCode.INPUT, str(error)) from error

    return asyncio.run(done())
