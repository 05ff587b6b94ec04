"""A proxy before a Postgres server that counts the requests of its clients, and does to each what a test wants: lose it or its answer, tear it, delay it.

A request is what a client sends up to the point where it waits (``Sync`` or a simple query; the start of a session is one too), its answer what the server says
up to ``ReadyForQuery``. TCP delivers no byte twice. What there is instead is a client that repeats a request because its answer was lost: that is `answer`.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"
OTHERS_S = 0.2
"""For how long others come first after a commit that was late."""

REQUEST_ENDS, ANSWER_END = b"SQHcfXp", b"Z"
COUNTED = b"SQ"
"""The messages after which a client waits for an answer."""

ENCRYPTION_REQUESTS = (80877103, 80877104)
"""The first messages that ask for TLS or GSSAPI; the answer ``N`` refuses."""

Fate = Literal["lost", "torn", "answer", "late"]
"""What becomes of a request: it does not arrive; half of it arrives; it is carried out, but its answer does not arrive; it waits until the proxy may `go`.
The connection ends in all cases, for `late` when the request has arrived."""

Loss = Literal["commit", "answer", "late"]
"""The fates of commits, where ``commit`` is one that is lost on its way there."""


class Request(NamedTuple):
    """The request of this number since the proxy began, counted from 1, and whether an earlier one on its connection contained the word of the proxy."""

    number: int
    data: bytes
    after_word: bool

    @property
    def is_commit(self) -> bool:
        """Whether it commits a transaction by a statement."""
        return b"COMMIT" in self.data


Choose = Callable[[Request], Fate | None]


class Proxy:
    """Listens at `url`. Each request meets the fate that `choose` names, most meet none; each takes `delay_s` longer than it would.

    Commits on connections by which `word` was written before are lost as `losses` says, in turn. A request that is late is `held` until it is told to `go`,
    and gets there then, whether who sent it is still there or not.
    """

    def __init__(self, server: str, directory: Path, word: bytes = b"", choose: Choose = lambda _: None) -> None:
        self.url = server.replace(parse_qs(urlsplit(server).query)["host"][0], str(directory))
        self.choose, self.delay_s = choose, 0.0
        self.requests = self.connections = 0
        self.met: list[tuple[int, Fate]] = []
        self.losses: list[Loss] = []
        self.lost: list[Loss] = []
        self.held, self.go = asyncio.Event(), asyncio.Event()
        self._server = Path(parse_qs(urlsplit(server).query)["host"][0]) / SOCKET
        self._word = word
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry what a client says to the server, and back."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        there, to_there = await asyncio.open_unix_connection(self._server)
        answers = _Answers(there, writer)
        back = asyncio.create_task(answers.carry())
        with suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            has_written, first = False, True
            while True:
                data, counted = await (_first_request(reader, writer) if first else _request(reader))
                first = False
                fate = self._fate(data, has_written) if counted else None
                has_written = has_written or self._word in data
                await asyncio.sleep(self.delay_s)
                if fate is not None:
                    await self._suffer(fate, data, to_there, answers)
                    break
                answers.expected += counted
                to_there.write(data)
                await to_there.drain()
        back.cancel()
        writer.close()
        to_there.close()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(back, writer.wait_closed(), to_there.wait_closed(), return_exceptions=True)

    def cut(self) -> None:
        """End all connections at once."""
        for task in tuple(self._tasks):
            task.cancel()

    async def end(self) -> None:
        """Let all connections go."""
        tasks = tuple(self._tasks)
        self.cut()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fate(self, data: bytes, after_word: bool) -> Fate | None:
        self.requests += 1
        request = Request(self.requests, data, after_word)
        if after_word and request.is_commit and self.losses:
            loss = self.losses.pop(0)
            self.lost.append(loss)
            return "lost" if loss == "commit" else loss
        fate = self.choose(request)
        if fate is not None:
            self.met.append((request.number, fate))
        return fate

    async def _suffer(self, fate: Fate, data: bytes, to_there: asyncio.StreamWriter, answers: "_Answers") -> None:
        match fate:
            case "torn":
                to_there.write(data[: len(data) // 2])
                await to_there.drain()
            case "answer":
                answers.silent_after = answers.expected
                answers.expected += 1
                to_there.write(data)
                await answers.complete()  # it is durable
            case "late":
                self.held.set()
                _ = await self.go.wait()
                to_there.write(data)
                await asyncio.sleep(OTHERS_S)


class _Answers:
    """Carries what the server says to the client: all of it, or the first `silent_after` answers only."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.expected = self._complete = 0
        self.silent_after: int | None = None
        self._changed, self._over = asyncio.Event(), False

    async def carry(self) -> None:
        """Do so until one of both ends."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                kind, message = await _message(self._reader)
                if self.silent_after is None or self._complete < self.silent_after:
                    self._writer.write(message)
                self._complete += kind in ANSWER_END
                self._changed.set()
        self._over = True
        self._changed.set()
        self._writer.close()

    async def complete(self) -> None:
        """Wait for the last answer that is expected, or for the end of the server."""
        while self._complete < self.expected and not self._over:
            self._changed.clear()
            await self._changed.wait()


async def _first_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[bytes, bool]:
    """The start of a session. Messages that ask for encryption are answered here, so that what follows can be read."""
    while True:
        length = await reader.readexactly(4)
        data = length + await reader.readexactly(int.from_bytes(length) - 4)
        if int.from_bytes(data[4:8]) not in ENCRYPTION_REQUESTS:
            return data, True
        writer.write(b"N")


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """The next request, and whether it is one that is answered."""
    data = bytearray()
    while True:
        kind, message = await _message(reader)
        data += message
        if kind in REQUEST_ENDS:
            return bytes(data), kind in COUNTED


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The kind of the next message, and all of it."""
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


@asynccontextmanager
async def proxied(server: str, word: bytes = b"", choose: Choose = lambda _: None) -> AsyncIterator[Proxy]:
    """A proxy before the server at this URL."""
    with tempfile.TemporaryDirectory(prefix="perdure-") as directory:
        proxy = Proxy(server, Path(directory), word, choose)
        listening = await asyncio.start_unix_server(proxy.serve, Path(directory) / SOCKET)
        async with listening:
            yield proxy
            await proxy.end()
