"""`perdure mcp`: the tools of Perdure for the MCP client that has begun this process, over standard input and output."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli import shared_options
from perdure.cli.call_recorder import record_calls
from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.hosted_definitions import catalog_option, hosted_workflows
from perdure.cli.root_command import CliCommand
from perdure.cli.run_commands import tool_options
from perdure.cli.shared_options import GlobalOptions, server_and_token

if TYPE_CHECKING:
    from perdure.mcp_server.mcp_endpoint import McpEndpoint
    from perdure.mcp_server.published_workflows import PublishedWorkflows
    from perdure.mcp_server.stdio_server import StandardStreams, StdioServer
    from perdure.recording_proxy.recorded_servers import RecordedServers
    from perdure.runtime.engine import Engine
    from perdure.stores.protocol import Store

F = TypeVar("F", bound=Callable[..., Any])

GRACE_S = 5.0
"""How long steps in flight may take to end when the client has gone.

One that takes longer is interrupted: the next engine performs it again, or fails it if it may not be performed twice.
"""

NOT_RECORDED = ("targets", "calls", "queues", "published", "aliases", "no_catalog", "no_engine", "blobs", "policy", "work", "isolate", "allow")
"""The options and arguments that have no meaning with --record."""

OF_AN_ENGINE = ("targets", "tools", "calls", "queues", "no_catalog", "no_engine", "blobs", "policy", "models", "work", "isolate", "allow")
"""The options and arguments that have no meaning with a server: its engines run what is started."""


def mcp_options(command: F) -> F:
    """The options of commands that serve ``/mcp``."""
    said = "In /mcp, list the tools under the names that other systems give them, too."
    command = click.option("--mcp-aliases", is_flag=True, envvar="PERDURE_MCP_ALIASES", help=said)(command)
    said = "In /mcp, each of these workflows is a tool of its own; all: each that is published."
    return click.option("--mcp-workflows", multiple=True, metavar="NAME,...", envvar="PERDURE_MCP_WORKFLOWS", help=said)(command)


def mcp_endpoint(given: dict[str, Any], recorded: RecordedServers | None) -> McpEndpoint:
    """Returns what answers at ``/mcp``, as `mcp_options` say, and records calls of these servers. The library of the protocol is not imported before the first
    request.
    """
    from perdure.mcp_server.mcp_endpoint import McpEndpoint
    from perdure.mcp_server.published_workflows import PublishedWorkflows

    recordings = None
    if recorded is not None:
        from perdure.recording_proxy.recording_endpoint import RecordingEndpoint

        recordings = RecordingEndpoint(recorded)
    return McpEndpoint(PublishedWorkflows(given["mcp_workflows"]), lists_aliases=given["mcp_aliases"], recordings=recordings)


@click.command("mcp", cls=CliCommand)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@tool_options
@shared_options.environment_options
@shared_options.log_options
@catalog_option
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Also perform the steps of this queue.")
@click.option("--workflows", "published", multiple=True, metavar="NAME,...", help="Each of these workflows is a tool of its own; all: each that is published.")
@click.option("--aliases", is_flag=True, help="List the tools under the names that other systems give them, too.")
@click.option("--no-engine", is_flag=True, help="Run nothing in this process: engines of other processes run what is started.")
@click.option("--record", is_flag=True, help="Give the tools of the MCP servers of --tools instead, and record their calls.")
@click.option("--recording", metavar="ID", help="With --record, the recording that goes on, or begins under this id.")
@click.option("--title", default="", metavar="TEXT", help="With --record, what a new recording is about.")
@click.pass_obj
def mcp(settings: GlobalOptions, /, *, targets: tuple[str, ...], queues: tuple[str, ...], published: tuple[str, ...], aliases: bool, **given: Any) -> None:
    """Give a model the tools of Perdure, over the Model Context Protocol on standard input and output.

    An MCP client starts this command (docs/guides/mcp.md says how it is told to). On a database, an engine in this process runs what is started: targets are
    those of perdure worker, and definitions of the catalog may use their steps. With --server, the tools are those of a server, for which PERDURE_TOKEN has the
    key; what the key may not do is not among the tools.

    With --record, it is a proxy in front of the MCP servers of --tools: each call of a tool is recorded as a step, of which perdure recording save makes a
    definition.

    It ends when the client closes the input. What was started goes on when the next engine runs.
    """
    import asyncio
    import sys
    from importlib.util import find_spec

    from perdure.core.errors import MissingExtra
    from perdure.mcp_server.published_workflows import PublishedWorkflows
    from perdure.mcp_server.stdio_server import take_standard_streams

    if find_spec("mcp") is None:
        raise MissingExtra("perdure mcp", "mcp", "mcp")
    if sys.stdin.isatty():
        click.echo("perdure mcp speaks the Model Context Protocol on standard input; an MCP client starts it. Ctrl-C stops it", err=True)
    if given["record"]:
        shared_options.refuse_options(NOT_RECORDED, "--record gives the tools of the MCP servers of --tools, and no others")
        if settings.server_url() is not None:
            raise click.UsageError("--record needs the database: the process that records calls the tools itself")
        streams = take_standard_streams()
        _log(settings)
        record_calls(settings, streams, given)
        return
    if given["recording"] or given["title"]:
        raise click.UsageError("--recording and --title belong to --record; pass it as well")
    workflows = PublishedWorkflows(published)
    if (server := settings.server_url()) is not None:
        shared_options.refuse_options(OF_AN_ENGINE, "the engines of the server run what is started")
        url, token = server_and_token(server)
        streams = take_standard_streams()
        _log(settings, token or "")
        asyncio.run(_serve_server(url, token, settings.tenant, streams, workflows, aliases))
        return
    streams = take_standard_streams()  # before the code of the targets runs, which may print
    _serve_database(settings, targets, queues, given, lambda store, engine: _stdio_server(settings, store, engine, streams, workflows, aliases))


async def _serve_server(url: str, token: str | None, tenant: str, streams: StandardStreams, published: PublishedWorkflows, aliases: bool) -> None:
    """Serves the tools of a server until the client closes the input, or a signal."""
    import asyncio
    import signal

    from perdure.code.call_options import DEFAULT_TENANT
    from perdure.mcp_server.operation_requests import RequestsToServer
    from perdure.mcp_server.stdio_server import StdioServer, tools_of_perdure

    requests = RequestsToServer(url, token, None if tenant == DEFAULT_TENANT else tenant)
    try:
        serving = StdioServer(streams, tools_of_perdure(requests, published, lists_aliases=aliases))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, serving.stop)
        await serving.run()
    finally:
        await requests.aclose()


def _log(settings: GlobalOptions, secret: str = "") -> None:
    """Sends the log to standard error, which clients show or keep. Calls of operations are in it only with ``--debug``."""
    import logging

    from perdure.observe.log_setup import ACCESS_LOGGER

    settings.log("perdure", (secret,) if secret else ())
    if not settings.debug:
        logging.getLogger(ACCESS_LOGGER).setLevel(logging.WARNING)


def _serve_database(
    settings: GlobalOptions, targets: tuple[str, ...], queues: tuple[str, ...], given: dict[str, Any], member: Callable[[Store, Engine | None], StdioServer]
) -> None:
    """Serves the tools of a database, with an engine that runs what is started, until the client closes the input, or a signal."""
    import asyncio

    from perdure.cli.targets import served_code
    from perdure.runtime.server import serve
    from perdure.service.secrets.secret_resolver import secret_resolver_for
    from perdure.service.service_workflows import engine_options
    from perdure.service.triggers.clock_watch import ClockWatch

    found = served_code(settings, targets, queues, given)
    _log(settings)
    workflows = [*(one.code for one in found.code.workflows), *hosted_workflows(found.code, given)]
    how: dict[str, Any] = {"queues": found.queues, "declares": found.code.queues, "db": found.db, "codec": found.codec, "grace_s": GRACE_S}
    how |= {"engine_options": engine_options, "has_engine": not given["no_engine"]}
    if given["no_engine"]:
        if found.queues:
            raise CommandExit(ExitCode.INPUT, "--no-engine performs no steps of queues\nleave --queue out")
    else:
        how["listeners"] = (partial(ClockWatch, workflows=workflows, tenant=settings.tenant),)
    asyncio.run(serve(workflows, found.code.steps, **how, secrets=secret_resolver_for, beside=member))


def _stdio_server(
    settings: GlobalOptions, store: Store, engine: Engine | None, streams: StandardStreams, published: PublishedWorkflows, aliases: bool
) -> StdioServer:
    """Returns the server over the API of a store in this process, whose caller is the user at this machine."""
    import time

    import msgspec

    from perdure.api.api_app import ApiApp
    from perdure.api.http_requests import ApiRequest
    from perdure.mcp_server.operation_requests import RequestsInProcess
    from perdure.mcp_server.stdio_server import StdioServer, tools_of_perdure
    from perdure.service.callers import LOCAL, Caller
    from perdure.service.server_description import ServerDescription, package_version
    from perdure.service.signing_secrets import environment_secrets
    from perdure.service.store_access import StoreAccess

    caller = msgspec.structs.replace(LOCAL, tenant=settings.tenant)

    async def authenticate(_: ApiRequest) -> Caller:
        return caller

    facts = ServerDescription(version=package_version(), started_at_s=time.time(), roles=("mcp", *(("engine",) if engine else ())), settings={"mode": "mcp"})
    app = ApiApp(StoreAccess(store, engine), authenticate, secret=environment_secrets(), facts=facts)
    return StdioServer(streams, tools_of_perdure(RequestsInProcess(app), published, lists_aliases=aliases))
