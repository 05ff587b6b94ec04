"""Claims about streams to many and to slow readers: each costs little, nothing is buffered without bound, and a reader goes on where it was."""

import asyncio
import json
import re
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from perdure import App, AsyncClient, Context, Signal, workflow
from perdure.api import event_streams
from perdure.code.step_environment import StepInfo
from perdure.definitions.kinds.models.live_text_writer import LiveTextWriter
from perdure.service.history import EmittedValue
from perdure.tasks import http_connections
from tests.api.api_setup import api_on_a_port
from tests.tasks.worker_setup import program

go = Signal("go", int)


@workflow
async def talk(ctx: Context) -> int:
    """Emits as many values as it is told to, each of a kilobyte."""
    count = await ctx.listen(go)
    for number in range(count):
        ctx.emit({"number": number, "padding": "x" * 1000})
    return count


@workflow
async def ticks(ctx: Context) -> None:
    """Does something again and again."""
    for number in range(8):
        await ctx.sleep(0.2)
        ctx.emit(number)


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[tuple[App, str]]:
    """An application, and the URL of its API."""
    async with App([talk, ticks], db=f"sqlite:///{directory}/streams.db") as app, api_on_a_port(app.client._access.on_store("a test")) as url:
        yield app, url


def asked(path: str, after: int = 0) -> bytes:
    """A request for a stream."""
    return f"GET {path} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nLast-Event-ID: {after}\r\n\r\n".encode()


@asynccontextmanager
async def opened(url: str, path: str, after: int = 0) -> AsyncIterator[asyncio.StreamReader]:
    """A stream whose answer has begun."""
    ours = socket.create_connection((urlsplit(url).hostname or "", urlsplit(url).port or 0))
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)  # so that the network buffers little
    reader, writer = await asyncio.open_connection(sock=ours, limit=2**16)
    writer.write(asked(path, after))
    try:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        yield reader
    finally:
        writer.close()


def ids(received: bytes) -> list[int]:
    """The ids of the events that have arrived whole."""
    return [int(one) for one in re.findall(rb"id: (\d+)\ndata: [^\n]*\n\n", re.sub(rb"\r\n[0-9a-f]*\r?\n?", b"", received))]


@pytest.mark.slow
async def test_a_reader_that_stops_reading_loses_its_connection_and_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped, connection_lost = asyncio.Event(), http_connections.Connection.connection_lost

    def lost(connection: http_connections.Connection, error: Exception | None) -> None:
        connection_lost(connection, error)
        dropped.set()

    monkeypatch.setattr(http_connections, "KEEP_ALIVE_S", 0.3)
    monkeypatch.setattr(http_connections.Connection, "connection_lost", lost)
    async with served(tmp_path) as (app, url):
        handle = await app.start(talk)
        path = f"/api/executions/talk/{handle.id}/stream"
        received, rest = b"", b""
        async with opened(url, path) as reader:
            await handle.send("go", 9_000)  # 9 MB, more than the system buffers
            assert await handle.result() == 9_000
            await asyncio.wait_for(dropped.wait(), 60)
            with suppress(ConnectionResetError):
                while part := await asyncio.wait_for(reader.read(2**20), 10):
                    received += part
        before = ids(received)
        assert 0 < len(before) < 9_000 and before == list(range(1, len(before) + 1))
        async with opened(url, path, before[-1]) as reader:
            while not rest.endswith(b"0\r\n\r\n") and (part := await asyncio.wait_for(reader.read(2**20), 10)):
                rest += part
        assert before + ids(rest) == list(range(1, 9_001))


async def test_no_more_is_read_ahead_of_a_reader_than_the_limit() -> None:
    taken = 0

    async def numbers() -> AsyncIterator[EmittedValue]:
        nonlocal taken
        for taken in range(1_000_000):
            yield EmittedValue(taken, None)

    ahead = event_streams._ReadAhead(numbers(), lambda one: b"x" * 1024, lambda error: b"", frames=False)  # type: ignore[arg-type]  # a generator, which it is
    reading = asyncio.create_task(ahead.read())
    for rounds in range(1, 4):
        await asyncio.sleep(0.01)
        assert taken <= rounds * (event_streams.AHEAD_BYTES_MAX // 1024) and len(ahead.take()) <= event_streams.AHEAD_BYTES_MAX + 1024
    reading.cancel()


async def test_a_reader_whose_connection_broke_between_two_events_of_one_number_misses_none(tmp_path: Path) -> None:
    async with served(tmp_path) as (app, url):
        handle = await app.start(talk)
        await handle.send("go", 1)
        assert await handle.result() == 1
        path = f"/api/executions/talk/{handle.id}/events"
        frames = [one for one in (await _whole_stream(url, path, 0)).split("\n\n") if "event: " in one]
        kinds, numbers = [_kind(one) for one in frames], [json.loads(one.partition("data: ")[2])["id"] for one in frames]
        assert len(set(numbers)) < len(numbers), "no two events have one number"
        last = 0
        for taken, frame in enumerate(frames, 1):
            last = int(found[1]) if (found := re.search(r"^id: (\d+)$", frame, re.MULTILINE)) else last
            rest = [_kind(one) for one in (await _whole_stream(url, path, last)).split("\n\n") if "event: " in one]
            assert rest[len(rest) - len(kinds[taken:]) :] == kinds[taken:]
        assert last == numbers[-1]


async def _whole_stream(url: str, path: str, after: int) -> str:
    async with httpx2.AsyncClient() as client:
        return (await client.get(url + path, headers={"accept": "text/event-stream", "last-event-id": str(after)})).text


def _kind(frame: str) -> str:
    return frame.partition("event: ")[2].partition("\n")[0]


READERS = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)

async def one(port, request, opened, done, gate):
    async with gate:  # more than the system's queue of connections would be dropped
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        await reader.readuntil(b"\\r\\n\\r\\n")
    opened.append(1)
    while (part := await reader.read(65536)) and b"data: " not in part:
        pass
    done.append(1)
    writer.close()

async def main(port, request, count):
    opened, done, gate = [], [], asyncio.Semaphore(100)
    running = [asyncio.create_task(one(port, request, opened, done, gate)) for _ in range(count)]
    while len(opened) < count:
        await asyncio.sleep(0.05)
        for task in running:
            if task.done():
                task.result()
    print("open", flush=True)
    await asyncio.gather(*running)
    print("done", len(done), flush=True)

asyncio.run(main(int(sys.argv[1]), sys.argv[2].encode().decode("unicode_escape").encode(), int(sys.argv[3])))
"""

STREAM_BYTES_MAX = 64 * 1024
"""How much memory an idle stream may take, with its connection."""


def resident_bytes() -> int:
    """How much memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def idle_streams(directory: Path, count: int) -> float:
    """Opens so many streams of one execution, checks that others are served, and that each is told at last. Returns how much memory each took."""
    async with served(directory) as (app, url), httpx2.AsyncClient(base_url=url) as other:
        handle = await app.start(talk)
        assert (await other.get("/healthz")).status_code == 200
        before = resident_bytes()
        request = asked(f"/api/executions/talk/{handle.id}/stream").decode().encode("unicode_escape").decode()
        async with program("python3", "-c", READERS, str(urlsplit(url).port), request, str(count)) as readers:
            async with asyncio.timeout(240):
                while "open" not in readers.said:
                    assert readers.process.returncode is None, readers.said
                    await asyncio.sleep(0.1)
            taken = resident_bytes() - before
            assert (await other.get(f"/api/executions/talk/{handle.id}")).json()["status"] == "waiting"
            await handle.send("go", 1)
            async with asyncio.timeout(240):
                while f"done {count}" not in readers.said:
                    assert readers.process.returncode in (None, 0), readers.said
                    await asyncio.sleep(0.1)
    return taken / count


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of this process in /proc")
async def test_hundreds_of_idle_streams_take_little_memory_and_all_are_told(tmp_path: Path) -> None:
    assert await idle_streams(tmp_path, 200) < 2 * STREAM_BYTES_MAX  # what the process takes anyway counts here


@pytest.mark.prove
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of this process in /proc")
async def test_five_thousand_idle_streams_take_little_memory_and_all_are_told(tmp_path: Path) -> None:
    if http_connections.connections_max() < 5_100:
        pytest.skip("this process may not have 5,000 connections: ulimit -n 8192")
    assert await idle_streams(tmp_path, 5_000) < STREAM_BYTES_MAX


async def test_what_happens_in_a_tenant_is_a_stream(tmp_path: Path) -> None:
    async with served(tmp_path) as (app, url), opened(url, "/api/events/stream") as reader:
        handle = await app.start(talk.with_(id="t1"))
        began = await asyncio.wait_for(reader.readuntil(b"event: began\ndata: "), 10)
        data = json.loads(await reader.readline())
        assert re.search(rb"id: \d+\n", began)
        assert (data["type"], data["execution"]["workflow"], data["execution"]["id"]) == ("began", "talk", "t1")
        await handle.send(go, 0)
        _ = await asyncio.wait_for(reader.readuntil(b"event: ended\ndata: "), 10)
        ended = json.loads(await reader.readline())
        assert (ended["execution"]["status"], ended["number"] > data["number"]) == ("completed", True)
    async with served(tmp_path) as (_, url), opened(url, "/api/events/stream", ended["number"]) as reader:
        _ = await asyncio.wait_for(reader.readuntil(b"event: reset\ndata: "), 10)
        assert json.loads(await reader.readline())["execution"] is None


async def test_an_error_within_a_stream_names_the_place_in_the_request_as_any_answer_does(tmp_path: Path) -> None:
    async with served(tmp_path) as (app, url), httpx2.AsyncClient() as client:
        handle = await app.start(talk)
        for query, place in ((f"executions/talk/{handle.id}/stream?at=99", "/at"), ("events/stream?watch=zzz", "/watch")):
            text = (await client.get(f"{url}/api/{query}", headers={"accept": "text/event-stream"})).text
            said = json.loads(text.partition("event: error\ndata: ")[2])
            assert (said["where"], said["detail"].partition(": ")[0]) == (place, place)


async def test_a_stream_of_a_tenant_follows_what_it_watches_in_the_engine_that_works_on_it(tmp_path: Path) -> None:
    async with served(tmp_path) as (app, url):
        handle = await app.start(ticks)
        async with opened(url, f"/api/events/stream?watch=ticks/{handle.id}") as reader:
            versions = list[int]()
            while not versions or versions[-1] < 12:
                line = await asyncio.wait_for(reader.readuntil(b"\n"), 20)
                if line.startswith(b"data: "):
                    versions.append(json.loads(line[6:])["execution"]["version"])
        assert len(versions) >= 4 and versions == sorted(set(versions))


@pytest.mark.slow
async def test_live_text_is_streamed_over_http_and_a_reader_goes_on_where_its_connection_broke(tmp_path: Path) -> None:
    """A reader that comes back gets again what is there, with larger numbers; each piece says where it belongs."""

    async def next_text(reader: asyncio.StreamReader) -> dict[str, object]:
        while not (line := await reader.readuntil(b"\n")).startswith(b"data: "):
            pass
        found: dict[str, object] = json.loads(line.removeprefix(b"data: "))
        return found

    async with served(tmp_path) as (app, url):
        handle = await app.client.start(talk.with_(id="t"))
        store, info = app.client._access.on_store("a test").store, StepInfo(handle.key, (("model", 1),), 1)
        writer = LiveTextWriter(store, info)
        writer.write("Once upon ")
        await writer.flush()
        async with opened(url, "/api/executions/talk/t/live-text") as reader:
            first = await next_text(reader)
        assert (first["text"], first["offset"], first["isComplete"]) == ("Once upon ", 0, False)
        writer.write("a time")
        await writer.flush(is_complete=True)
        async with opened(url, "/api/executions/talk/t/live-text", after=int(str(first["number"]))) as reader:
            again = await next_text(reader)
        assert (again["text"], again["offset"], again["isComplete"]) == ("Once upon a time", 0, True) and int(str(again["number"])) > int(str(first["number"]))
        async with AsyncClient(url) as client:
            remote = [one async for one in (await client.get("t", talk)).live_text(follow=False)]
            assert [(one.path, one.text, one.is_complete) for one in remote] == [("model", "Once upon a time", True)]
        await handle.cancel()
