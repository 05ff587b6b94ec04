"""A real HTTP server that can misbehave: what it answers to each path is written by the test, byte by byte if need be."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self

REASONS = {200: "OK", 404: "Not Found"}


class Seen(NamedTuple):
    """A request as it arrived: which connection it came by, and its headers by their names in lower case, as the last says."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        """What it asked for, without what stands behind the ?."""
        return self.target.partition("?")[0]


class Wire(NamedTuple):
    """The way back of a request."""

    seen: Seen
    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader

    async def raw(self, *parts: bytes, every_s: float = 0.0) -> None:
        """Send bytes as they are."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            if every_s:
                await asyncio.sleep(every_s)

    async def gone(self) -> None:
        """Wait until whoever asked has gone."""
        assert await self.reader.read() == b""

    def reset(self) -> None:
        """Break the connection."""
        self.writer.transport.abort()


Answers = Callable[[Wire], Awaitable[None]]


class MisbehavingServer:
    """The server. `seen` are the requests that have arrived, `connections` how many were made, `busy` how many requests are being answered."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self.connections = 0
        self.busy = 0
        self.busiest = 0
        self.arrived = asyncio.Event()
        self._routes: dict[str, Answers] = {}
        self._tls = tls
        self._tasks: set[asyncio.Task[Any]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """The URL of a path, by any name of this host."""
        return f"http{'s' if self._tls else ''}://{host}:{self.port}{path}"

    def on(self, path: str, *answers: bytes | Answers) -> None:
        """What a path answers: each once, the last then always."""
        left = list(answers)

        async def answer(wire: Wire) -> None:
            one = left.pop(0) if len(left) > 1 else left[0]
            await (wire.raw(one) if isinstance(one, bytes) else one(wire))

        self._routes[path] = answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        try:
            while (seen := await _read(reader, number)) is not None:
                self.seen.append(seen)
                self.arrived.set()
                self.busy += 1
                self.busiest = max(self.busy, self.busiest)
                try:
                    await self._routes.get(seen.path, _lost)(Wire(seen, writer, reader))
                finally:
                    self.busy -= 1
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            with suppress(ConnectionError, ssl.SSLError):
                writer.close()
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader, connection: int) -> Seen | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head[:-4].split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, target, headers, body, connection)


def reply(body: bytes | str = b"", status: int = 200, headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> bytes:
    """An answer that is as it should be."""
    raw = body.encode() if isinstance(body, str) else body
    lines = [*(headers.items() if isinstance(headers, Mapping) else headers)]
    if not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in lines):
        lines.append(("Content-Length", str(len(raw))))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"HTTP/1.1 {status} {REASONS.get(status, 'Whatever')}\r\n{head}\r\n".encode("latin-1") + raw


def json_reply(text: str, status: int = 200, **headers: str) -> bytes:
    """An answer in JSON."""
    return reply(text, status, {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}})


def redirect(to: str, status: int = 302) -> bytes:
    """An answer that leads elsewhere."""
    return reply(b"", status, {"Location": to})


async def never(wire: Wire) -> None:
    """Answer nothing for as long as the server lives."""
    await asyncio.Event().wait()


async def _lost(wire: Wire) -> None:
    await wire.raw(reply("no such path", 404, {"Content-Type": "text/plain"}))
