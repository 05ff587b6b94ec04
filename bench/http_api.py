"""What the HTTP API costs, beside an application that answers at once, on the same server, in the same process and the same run.

Executions have one step, and are performed in the process of the API; a start is answered when it is durable (SQLite, synchronous=FULL). The list has a million
executions, or fewer with ``--quick``. The clients have a process of their own: with two processors, clients and server have one each.
"""

import argparse
import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from bench._http_server import TOKEN

CONNECTIONS = 64
READERS = 100
EMITTED = 1_000
"""How many values the execution has whose stream is read."""


class Request(NamedTuple):
    """A request, as bytes, of any number."""

    method: str
    path: str
    body: str = ""

    def encoded(self, number: int) -> bytes:
        """The bytes of one. ``#`` stands for its number."""
        body = self.body.replace("#", str(number)).encode()
        head = f"{self.method} {self.path.replace('#', str(number))} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Connection:
    """A connection that stays open."""

    def __init__(self, url: str) -> None:
        self._host, self._port = urlsplit(url).hostname, urlsplit(url).port

    async def __aenter__(self) -> Self:
        """Opens it."""
        self.reader, self.writer = await asyncio.open_connection(self._host, self._port, limit=2**22)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes it."""
        self.writer.close()

    async def ask(self, raw: bytes) -> bytes:
        """The body of the answer.

        Raises:
            SystemExit: the request was refused.
        """
        self.writer.write(raw)
        head = await self.reader.readuntil(b"\r\n\r\n")
        at = head.index(b"content-length: ") + 16
        body = await self.reader.readexactly(int(head[at : head.index(b"\r", at)]))
        if head[9:10] != b"2":
            raise SystemExit(f"{raw[:200]!r} was refused: {body.decode()}")
        return body


async def rate(url: str, request: Request, seconds: float, numbers: Iterator[int], connections: int = CONNECTIONS) -> float:
    """How many requests a second are answered."""
    until_s, answered = time.perf_counter() + seconds, 0

    async def client() -> None:
        nonlocal answered
        async with Connection(url) as connection:
            while time.perf_counter() < until_s:
                _ = await connection.ask(request.encoded(next(numbers)))
                answered += 1

    began_s = time.perf_counter()
    _ = await asyncio.gather(*(client() for _ in range(connections)))
    return answered / (time.perf_counter() - began_s)


async def p50(url: str, request: Request, count: int, numbers: Iterator[int]) -> float:
    """The median time of a request on one connection, in seconds."""
    taken: list[float] = []
    async with Connection(url) as connection:
        for number in itertools.islice(numbers, count):
            raw, began_s = request.encoded(number), time.perf_counter()
            _ = await connection.ask(raw)
            taken.append(time.perf_counter() - began_s)
    return statistics.median(taken)


async def result_p50(url: str, count: int, numbers: Iterator[int]) -> float:
    """The median time from the answer to a start until its result has arrived."""
    taken: list[float] = []
    async with Connection(url) as connection:
        for number in itertools.islice(numbers, count):
            _ = await connection.ask(START.encoded(number))
            began_s = time.perf_counter()
            _ = await connection.ask(RESULT.encoded(number))
            taken.append(time.perf_counter() - began_s)
    return statistics.median(taken)


async def frames_per_second(url: str, readers: int) -> float:
    """How many server-sent events a second all readers of a stream receive together."""
    async with Connection(url) as connection:
        _ = await connection.ask(Request("POST", "/api/executions", f'{{"workflow":"talk","id":"talk","input":[{EMITTED}]}}').encoded(0))
        _ = await connection.ask(Request("GET", "/api/executions/talk/talk/result?waitSeconds=60").encoded(0))
    asked = Request("GET", "/api/executions/talk/talk/stream").encoded(0).replace(b"Content-Type: application/json", b"Accept: text/event-stream")

    async def reader() -> int:
        async with Connection(url) as connection:
            connection.writer.write(asked)
            received = 0
            while not (part := await connection.reader.read(2**16)).endswith(b"0\r\n\r\n"):
                received += part.count(b"data: ")
            return received + part.count(b"data: ")

    began_s = time.perf_counter()
    received = sum(await asyncio.gather(*(reader() for _ in range(readers))))
    taken_s = time.perf_counter() - began_s
    if received != readers * EMITTED:
        raise SystemExit(f"{received} of {readers * EMITTED} events were received")
    return received / taken_s


POST = Request("POST", "/", '{"workflow":"calc","id":"b#","input":[3,4]}')
START = Request("POST", "/api/executions", '{"workflow":"calc","id":"b#","input":[3,4]}')
RESULT = Request("GET", "/api/executions/calc/b#/result?waitSeconds=20")
GET = Request("GET", "/")
STATUS = Request("GET", "/api/executions/filled/f1")
WAITING = Request("GET", "/api/executions/listen/l")
OPEN = Request("GET", "/api/executions?limit=1&workflow=calc&status=pending,running,waiting")
PAGES = {
    "a page of 50": "/api/executions?limit=50",
    "a page of 50 of one workflow": "/api/executions?limit=50&workflow=filled",
    "a page of 50 that failed": "/api/executions?limit=50&status=failed&workflow=filled",
}


@contextmanager
def serving(executions: int) -> Iterator[tuple[str, str]]:
    """The URLs of the API and of the trivial application."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        command = [sys.executable, "-m", "bench._http_server", f"{place}/bench.db", str(executions)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            api, trivial = json.loads(server.stdout.readline())
            try:
                yield api, trivial
            finally:
                server.kill()


async def measure(api: str, trivial: str, seconds: float, rounds: int, count: int) -> None:
    """Measures and prints."""
    numbers, medians = itertools.count(), statistics.median
    _ = await rate(api, START, 1.0, numbers)  # the write-ahead log has grown, and the code is warm
    found: dict[str, list[float]] = {name: [] for name in ("post", "start", "get", "status", "waiting", "post1", "start1", "process", "result", "frames")}
    for _ in range(rounds):
        found["post"].append(await rate(trivial, POST, seconds, numbers))
        found["start"].append(await rate(api, START, seconds, numbers))
        await idle(api)
        found["get"].append(await rate(trivial, GET, seconds, numbers))
        found["status"].append(await rate(api, STATUS, seconds, numbers))
        found["waiting"].append(await rate(api, WAITING, seconds, numbers))
        found["post1"].append(await p50(trivial, POST, count, numbers))
        found["start1"].append(await p50(api, START, count, numbers))
        async with Connection(trivial) as connection:
            found["process"].append(json.loads(await connection.ask(Request("GET", "/in-process").encoded(0)))["p50_s"])
        found["result"].append(await result_p50(api, count, numbers))
        found["frames"].append(await frames_per_second(api, READERS))
    post, start, get, status, waiting = (medians(found[name]) for name in ("post", "start", "get", "status", "waiting"))
    post1, start1, process = (medians(found[name]) * 1000 for name in ("post1", "start1", "process"))
    print(f"a trivial POST, {CONNECTIONS} connections     {post:9,.0f} a second")
    print(f"a start, durable                  {start:9,.0f} a second   {start / post:.2f} of the trivial POST   wanted 1,500")
    print(f"a trivial GET                     {get:9,.0f} a second")
    print(f"an execution that has ended       {status:9,.0f} a second   {status / get:.2f} of the trivial GET    wanted 0.30")
    print(f"an execution that waits           {waiting:9,.0f} a second   {waiting / get:.2f} of the trivial GET    wanted 0.30")
    print(f"a trivial POST, one connection    {post1:9.2f} ms")
    print(f"a start in the process            {process:9.2f} ms")
    print(f"a start, one connection           {start1:9.2f} ms         {start1 / (process + post1):.2f} of both               wanted 1.50 at most")
    print(f"from a start to its result        {medians(found['result']) * 1000:9.2f} ms                                    wanted 5 at most")
    print(f"events to {READERS} readers             {medians(found['frames']):9,.0f} a second                              wanted 10,000")
    for name, path in PAGES.items():
        print(f"{name:33} {await p50(api, Request('GET', path), 50, numbers) * 1000:9.2f} ms                                    wanted 50 at most")


async def idle(api: str) -> None:
    """Waits until all executions have ended."""
    async with Connection(api) as connection:
        while json.loads(await connection.ask(OPEN.encoded(0)))["items"]:  # noqa: ASYNC110  # there is no event in another process
            await asyncio.sleep(0.1)


def main() -> None:
    """Measures; with ``--quick``, less."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--executions", type=int, help="how many executions the list has")
    given = parser.parse_args()
    with serving(given.executions or (20_000 if given.quick else 1_000_000)) as (api, trivial):
        asyncio.run(measure(api, trivial, 1.0 if given.quick else 5.0, 1 if given.quick else 3, 100 if given.quick else 500))


if __name__ == "__main__":
    main()
