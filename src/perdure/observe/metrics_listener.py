"""A listener for Prometheus alone, beside or without the API: ``GET /metrics``, without a key, on an address of its own.

It is the server of Prometheus' client library, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from perdure.core.errors import BadValue
from perdure.observe.exposition import MetricsExposition

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

logger = logging.getLogger("perdure.metrics")

REFRESH_S = 10.0
"""How long a scrape waits for the gauges of the database. It then has those that were read before."""


def metrics_address(text: str) -> tuple[str, int]:
    """Returns host and port of ``HOST:PORT``; of ``PORT`` alone, on this machine only.

    Raises:
        BadValue: it is neither.
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadValue("--metrics-listen", text, "HOST:PORT, or PORT for this machine alone, such as 127.0.0.1:9464")
    return host.strip("[]") or "127.0.0.1", int(port)


class MetricsListener:
    """Serves metrics at an address until stopped, as a member of a serving process."""

    def __init__(self, exposition: MetricsExposition, address: tuple[str, int]) -> None:
        self._exposition, self._address = exposition, address
        self._stopped, self._ready = asyncio.Event(), asyncio.Event()
        self.url = ""

    async def ready(self) -> None:
        """Waits until it answers."""
        _ = await self._ready.wait()

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return; what is being answered is answered."""
        self._stopped.set()

    async def run(self) -> None:
        """Serves until cancelled or stopped.

        Raises:
            BadValue: this process can't listen there.
        """
        from prometheus_client import start_http_server

        host, port = self._address
        loop = asyncio.get_running_loop()
        registry: Any = _FreshRegistry(self._exposition, loop)
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            raise BadValue("--metrics-listen", f"{host}:{port}", f"an address on which this process can listen: {error}") from error
        self.url = _url(server, host)
        logger.info("metrics are at %s", self.url)
        self._ready.set()
        try:
            _ = await self._stopped.wait()
        finally:
            await asyncio.to_thread(_close, server, thread.join)


class _FreshRegistry:
    """The registry, which is read after the gauges of the database were. Requests are answered in threads, and the database is read on the loop."""

    def __init__(self, exposition: MetricsExposition, loop: asyncio.AbstractEventLoop) -> None:
        self._exposition, self._loop = exposition, loop

    def collect(self) -> Iterable[Any]:
        self._refresh()
        return self._exposition.registry.collect()

    def restricted_registry(self, names: Iterable[str]) -> Any:
        self._refresh()
        return self._exposition.registry.restricted_registry(names)

    def _refresh(self) -> None:
        reading = asyncio.run_coroutine_threadsafe(self._exposition.refresh(), self._loop)
        try:
            reading.result(REFRESH_S)
        except TimeoutError:
            logger.warning("could not read the gauges of the database within %g s; showing those of before", REFRESH_S)


def _url(server: WSGIServer, host: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"


def _close(server: WSGIServer, join: Callable[[], None]) -> None:
    server.shutdown()
    server.server_close()
    join()
