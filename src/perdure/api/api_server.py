"""Serves the API on a socket, as a member of a process that serves an engine as well."""

from __future__ import annotations

import asyncio
import errno
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from perdure.api import problems
from perdure.core.errors import BadValue, MissingExtra

if TYPE_CHECKING:
    from perdure.api.api_app import ApiApp
    from perdure.tasks.http_connections import HttpError

BACKLOG = 2048
"""How many connections may wait to be accepted."""

ACCEPTS_MAX = 16
"""How many connections are accepted in one turn of the event loop: those beyond the limit hold their descriptors for a few turns, until they are closed."""

SHUTDOWN_S = 5
"""How long the last answers may take after a stop without grace."""


def listening_socket(host: str, port: int, option: str = "--listen") -> socket.socket:
    """Opens a listening socket. Port 0 is any that is free. A mistake is one in `option`.

    Raises:
        BadValue: this process can't listen there.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind, protocol)  # its protocol is set to TCP: otherwise asyncio does not disable Nagle's algorithm
    except OSError as error:
        raise BadValue(option, f"{host}:{port}", f"an address on which this process can listen: {error}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        hint = "; name another port, or port 0 for any that is free" if error.errno == errno.EADDRINUSE else ""
        raise BadValue(option, f"{host}:{port}", f"an address on which this process can listen: {error}{hint}") from error
    return listening


def url_of(listening: socket.socket, scheme: str = "http") -> str:
    """Returns the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def connection_problem(error: HttpError) -> tuple[str, bytes]:
    """Returns why a connection ends, as the API says what went wrong."""
    refusal = problems.Refusal(int(error.status[:3]), error.code, error.message, error.next)
    return problems.MEDIA_TYPE, msgspec.json.encode(problems.refusal_problem(refusal))


class ApiServer:
    """Serves an application on a listening socket until stopped. Requests under way may end within the grace of `stop`; no new connection is accepted.

    Raises:
        MissingExtra: uvicorn is not installed.
    """

    def __init__(self, app: ApiApp, listening: socket.socket, **settings: Any) -> None:
        try:
            import uvicorn

            from perdure.tasks.http_connections import Admission, Connection, connections_max, detect_dead_peers
        except ImportError as missing:
            raise MissingExtra("the HTTP API", missing.name or "uvicorn", "serve") from missing
        self.app, self._socket = app, listening
        detect_dead_peers(listening)
        config = uvicorn.Config(
            app,
            http=cast(Any, partial(Connection, Admission(connections_max(), connection_problem))),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_S,
            backlog=ACCEPTS_MAX,
            **{"proxy_headers": False, **settings},
        )
        self._server = uvicorn.Server(config)

    async def ready(self) -> None:
        """Waits until requests are answered."""
        while not self._server.started:  # noqa: ASYNC110  # the server offers nothing to wait for
            await asyncio.sleep(0.002)

    async def run(self) -> None:
        """Serves until cancelled or stopped."""
        self._server.config.load()
        self._server.lifespan = self._server.config.lifespan_class(self._server.config)
        await self._server.startup(sockets=[self._socket])
        self._socket.listen(BACKLOG)  # asyncio has set it to the number of connections that it accepts at once
        try:
            await self._server.main_loop()
        finally:
            await self._server.shutdown(sockets=[self._socket])
            await self.app.aclose()

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return. Requests under way, and tasks that workers have leased, may end within `grace_s`."""
        leases = self.app.begin_stop(grace_s)
        self._server.config.timeout_graceful_shutdown = max(1, round(grace_s)) if grace_s else 1
        if grace_s and leases is not None:
            leases.add_done_callback(lambda _: self._exit())  # until then, workers connect to answer
        else:
            self._exit()
        if not grace_s:
            self._server.force_exit = True

    def _exit(self) -> None:
        self._server.should_exit = True
