"""The endpoint: the app on a port of its own, beside whatever else this process does. It keeps its lender running, and stops with it."""

import asyncio
import logging
import socket
from functools import partial
from typing import Any, cast

from perdure.core.errors import BadValue, MissingExtra
from perdure.runtime.lending import Lender
from perdure.tasks.access import TOKEN, Access, is_loopback
from perdure.tasks.app import App

logger = logging.getLogger("perdure.tasks")

BACKLOG = 2048
"""How many connections may wait to be accepted."""

ACCEPTS_MAX = 16
"""How many connections are accepted in one turn of the event loop: those beyond the limit hold their descriptors for a few turns, until they are closed."""

FAREWELL_S = 5
"""How long requests that are being answered may take, once all loans have ended."""


def place(text: str) -> tuple[str, int]:
    """The host and the port of ``HOST:PORT``, ``[HOST]:PORT`` or ``PORT``, which is one of this machine alone.

    Raises:
        BadValue: it is none.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise BadValue("--listen", text, "HOST:PORT, such as 127.0.0.1:7800")
    return host.strip("[]") or "127.0.0.1", int(port)


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens. It says that it speaks TCP: else asyncio lets its small packets wait for one another, 40 ms each time."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


class Endpoint:
    """Serves the tasks of `lender` on a host and a port (0: any that is free) until stopped.

    Raises:
        BadValue: others than this machine could reach it, and no token is needed; or nobody can listen there.
        MissingExtra: uvicorn is not installed.
    """

    def __init__(self, lender: Lender, access: Access, host: str, port: int) -> None:
        try:
            import uvicorn

            from perdure.tasks.connections import Admission, Connection, connections_max
        except ImportError as missing:
            raise MissingExtra("serving tasks over HTTP", missing.name or "uvicorn", "serve") from missing
        if not access and not is_loopback(host):
            raise BadValue(
                "--listen", f"{host}:{port}", f"an address of this machine alone, such as 127.0.0.1, as long as no token is needed; {TOKEN} sets one"
            )
        self.lender = lender
        try:
            self._socket = _listening(host, port)
        except OSError as error:
            raise BadValue("--listen", f"{host}:{port}", f"an address on which this process can listen: {error}") from error
        self._server = uvicorn.Server(
            uvicorn.Config(
                App(lender, access),
                http=cast(Any, partial(Connection, Admission(connections_max()))),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=FAREWELL_S,
                backlog=ACCEPTS_MAX,
            )
        )

    @property
    def address(self) -> str:
        """Where it answers, as a URL."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def ready(self) -> None:
        """Wait until it answers."""
        await self.lender.joined.wait()
        while not self._server.started:  # noqa: ASYNC110  # the server has nothing to wait for
            await asyncio.sleep(0.005)

    async def run(self) -> None:
        """Serve until cancelled or stopped."""
        lending = asyncio.create_task(self.lender.run())
        serving = asyncio.create_task(self._serve())
        try:
            _ = await asyncio.wait((lending, serving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._server.should_exit = True
            lending.cancel()
            ended = await asyncio.gather(lending, serving, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    def stop(self, grace_s: float = 0.0) -> None:
        """Make `run` return: who waits for tasks is told so at once, and what is lent may be answered within `grace_s`."""
        self.lender.stop(grace_s)

    async def _serve(self) -> None:
        self._server.config.load()
        self._server.lifespan = self._server.config.lifespan_class(self._server.config)
        await self._server.startup(sockets=[self._socket])
        self._socket.listen(BACKLOG)  # which asyncio has set to what it accepts in one turn
        try:
            await self._server.main_loop()
        finally:
            await self._server.shutdown(sockets=[self._socket])
