"""Restate's program: its server on loopback in a directory of its own, a Python service, and what calls it over HTTP.

It runs in the environment that `make .venv-restate/.peer` makes, which has no Perdure.
"""

import asyncio
import importlib
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from typing import Any

from bench._side import serve

aiohttp: Any = importlib.import_module("aiohttp")
restate: Any = importlib.import_module("restate")
hypercorn: Any = importlib.import_module("hypercorn")
serve_asgi: Callable[..., Awaitable[None]] = importlib.import_module("hypercorn.asyncio").serve

SERVER = Path("node_modules/@restatedev/restate-server-linux-x64/bin/restate-server")
READY_WITHIN_S = 60.0
AT_ONCE = 1000

bench = restate.Service("bench")


async def increment(number: int) -> int:
    """The smallest step there is."""
    return number + 1


async def count(ctx: Any, steps: int) -> int:
    """So many steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await ctx.run_typed("increment", increment, number=number)
    return number


bench.handler()(count)


class Restate:
    """A server that keeps its state beside `path`, and a service in this process."""

    def __init__(self, path: Path) -> None:
        self._directory = path.with_suffix(".restate")
        self._ports_file = path.with_suffix(".port")
        self._server: Popen[bytes] | None = None
        self._http: Any = None

    async def open(self, clients: bool = False) -> None:
        """Start the server and the service, and have the one know the other."""
        self._directory.mkdir()
        node, ingress, admin, service = free_ports(4)
        self._ended = asyncio.Event()
        config = hypercorn.Config()
        config.bind, config.loglevel = [f"127.0.0.1:{service}"], "ERROR"
        config.h2_max_concurrent_streams = AT_ONCE
        self._service = asyncio.ensure_future(serve_asgi(restate.app([bench]), config, shutdown_trigger=self._ended.wait))
        self._server = self._started(node, ingress, admin)
        self._connect(ingress)
        await self._register(admin, service)
        self._ports_file.write_text(str(ingress))

    async def close(self) -> None:
        """End all."""
        if self._http is not None:
            await self._http.close()
        if self._server is not None:
            self._ended.set()
            self._server.kill()
            self._server.wait()
            self._service.cancel()
            with suppress(asyncio.CancelledError):
                await self._service

    async def one_by_one(self, name: str, argument: int, times: int) -> list[float]:
        """Run executions one after the other; the seconds from start to result of each."""
        taken = []
        for _ in range(times):
            begun_s = time.perf_counter()
            await self._run(argument)
            taken.append(time.perf_counter() - begun_s)
        return taken

    async def together(self, name: str, argument: int, executions: int) -> float:
        """Run executions all at once; the seconds until all have ended."""
        begun_s = time.perf_counter()
        await asyncio.gather(*(self._run(argument) for _ in range(executions)))
        return time.perf_counter() - begun_s

    async def from_client(self, argument: int, times: int) -> list[float]:
        """As a client in a process of its own: the seconds from start to result, one after the other."""
        if self._http is None:
            self._connect(int(self._ports_file.read_text()))
        return await self.one_by_one("count", argument, times)

    def _connect(self, port: int) -> None:
        connector = aiohttp.TCPConnector(limit=AT_ONCE)
        self._http = aiohttp.ClientSession(f"http://127.0.0.1:{port}", connector=connector, timeout=aiohttp.ClientTimeout(total=300.0))

    async def _run(self, steps: int) -> None:
        async with self._http.post("/bench/count", json=steps, raise_for_status=True) as response:
            assert await response.json() == steps

    def _started(self, node: int, ingress: int, admin: int) -> Popen[bytes]:
        settings = {
            "DISABLE_TELEMETRY": "true",
            "LISTEN_MODE": "tcp",
            "BASE_DIR": str(self._directory),
            "BIND_ADDRESS": f"127.0.0.1:{node}",
            "ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}",
            "INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
            "ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        }
        server = Path(sys.prefix) / SERVER
        with (self._directory / "server.log").open("wb") as log:
            return Popen(
                [server, "--no-logo"], stdin=DEVNULL, stdout=log, stderr=STDOUT, env={**os.environ, **{f"RESTATE_{k}": v for k, v in settings.items()}}
            )

    async def _register(self, admin: int, service: int) -> None:
        deadline_s = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline_s:
            with suppress(aiohttp.ClientError):
                async with self._http.get("/restate/health", raise_for_status=True):
                    pass
                async with self._http.post(f"http://127.0.0.1:{admin}/deployments", json={"uri": f"http://127.0.0.1:{service}"}, raise_for_status=True):
                    return
            await asyncio.sleep(0.1)
        raise TimeoutError(f"restate-server was not ready within {READY_WITHIN_S:g} s: {(self._directory / 'server.log').read_text()[-2000:]}")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free at this moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


if __name__ == "__main__":
    serve(Restate(Path(sys.argv[1])))
