"""Records calls of tools for the MCP client that has begun this process: ``perdure mcp --record``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.shared_options import GlobalOptions

if TYPE_CHECKING:
    from perdure.mcp_server.stdio_server import StandardStreams, StdioServer
    from perdure.recording_proxy.recorded_servers import RecordedServers
    from perdure.runtime.engine import Engine
    from perdure.stores.protocol import Store

GRACE_S = 5.0
"""How long calls in flight may take to end when the client has gone.

One that takes longer is interrupted: the next engine makes it again, or fails it if its tool may not be called twice.
"""


def record_calls(settings: GlobalOptions, streams: StandardStreams, given: Mapping[str, Any]) -> None:
    """Records until the client closes the input, or a signal. The engine in this process calls the tools; it knows nothing else."""
    import asyncio

    from perdure.recording.recording_requests import recording_key
    from perdure.runtime.server import serve
    from perdure.service.secrets.secret_resolver import secret_resolver_for

    recorded = _expected_servers(given)
    key, title = recording_key(settings.tenant, given["recording"] or uuid4().hex), given["title"]

    def member(store: Store, engine: Engine | None) -> StdioServer:
        from perdure.mcp_server.stdio_server import StdioServer

        assert engine is not None, "it was asked for"

        async def serve_messages(read: Any, write: Any) -> None:
            from perdure.operations import on_recordings
            from perdure.recording_proxy.connected_servers import ConnectedServers
            from perdure.recording_proxy.recording_server import RecordingServer
            from perdure.service.callers import LOCAL
            from perdure.service.store_access import StoreAccess

            access = StoreAccess(store, engine)
            await engine.ready()
            started = await on_recordings.start(access, key.tenant, key.id, title, author=LOCAL.subject)
            what = "begins" if started.created else "goes on"
            click.echo(
                f"perdure: the recording {key.id} {what}\nperdure recording show {key.id} shows it, perdure recording save {key.id} SLUG saves it", err=True
            )
            connected = ConnectedServers(recorded.servers, recorded.lists, engine, key.tenant)
            server = RecordingServer(access, key, connected, recorded.channels, LOCAL.subject).server
            await server.run(read, write, server.create_initialization_options())

        return StdioServer(streams, serve_messages)

    asyncio.run(serve([recorded.workflow], (), db=settings.url(), grace_s=GRACE_S, secrets=secret_resolver_for, beside=member))


def recorded_servers(given: Mapping[str, Any]) -> RecordedServers | None:
    """Returns the MCP servers that the options name, whose calls a server records, with the models that they may ask; None if the options name none.

    Raises:
        CommandExit: a server whose list of tools is not kept can't be reached, or the file of models is not valid.
    """
    files = [place for place in given["tools"] if place.endswith(".json")]
    if not files:
        return None
    from perdure.cli.definition_files import models_of
    from perdure.mcp import ServerUnavailable
    from perdure.recording_proxy.recorded_servers import RecordedServers

    try:
        return RecordedServers.of_files(files, models_of(given))
    except ServerUnavailable as error:
        raise CommandExit(ExitCode.INPUT, f"the tools of {' '.join(files)} can't be listed: {error}\nstart the server, or correct it there") from error


def _expected_servers(given: Mapping[str, Any]) -> RecordedServers:
    if other := [file for file in given["tools"] if not file.endswith(".json")]:
        raise CommandExit(ExitCode.INPUT, f"--tools {other[0]} is no file of MCP servers, and nothing else can be recorded\nname a file such as mcp.json")
    recorded = recorded_servers(given)
    if recorded is None:
        raise CommandExit(ExitCode.INPUT, "--record needs MCP servers whose tools are called\nname a file with some: perdure mcp --record --tools mcp.json")
    return recorded
