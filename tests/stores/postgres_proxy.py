"""A proxy before a Postgres server, which loses what it is told to: a commit on its way there, or the answer to one on its way back; or keeps it waiting."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"
OTHERS_S = 0.2
"""For how long others come first after a commit that was late."""
Loss = Literal["commit", "answer", "late"]


class Proxy:
    """Listens at `url`. Of each connection by which `word` was written before, the next commits are lost as `losses` says, in turn.

    One that is late is `held` until it is told to `go`, and gets there then, whether who sent it is still there or not.
    """

    def __init__(self, server: str, directory: Path, word: bytes) -> None:
        self.url = server.replace(parse_qs(urlsplit(server).query)["host"][0], str(directory))
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
        there, to_there = await asyncio.open_unix_connection(self._server)
        back = asyncio.create_task(self._carry(there, writer))
        has_written = False
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(2**16):
                has_written = has_written or self._word in data
                if has_written and b"COMMIT" in data and self.losses:
                    loss = self.losses.pop(0)
                    self.lost.append(loss)
                    if loss == "late":
                        self.held.set()
                        _ = await self.go.wait()
                        to_there.write(data)
                        await asyncio.sleep(OTHERS_S)
                        continue
                    if loss == "answer":
                        back.cancel()
                        await asyncio.gather(back, return_exceptions=True)
                        to_there.write(data)
                        _ = await there.read(2**16)  # it is durable
                    break
                to_there.write(data)
        back.cancel()
        writer.close()
        to_there.close()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(back, writer.wait_closed(), to_there.wait_closed(), return_exceptions=True)

    @staticmethod
    async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
        writer.close()

    async def end(self) -> None:
        """Let all connections go."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxied(server: str, word: bytes) -> AsyncIterator[Proxy]:
    """A proxy before the server at this URL."""
    with tempfile.TemporaryDirectory(prefix="perdure-") as directory:
        proxy = Proxy(server, Path(directory), word)
        listening = await asyncio.start_unix_server(proxy.serve, Path(directory) / SOCKET)
        async with listening:
            yield proxy
            await proxy.end()
