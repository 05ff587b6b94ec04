"""Claims about the limits of connections: silent peers, endless heads, bodies that are too large; with real sockets."""

import asyncio
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from perdure.tasks import http_connections
from perdure.tasks.http_endpoint import BODY_BYTES_MAX
from tests.tasks.worker_setup import WorkerSetup, over_http, place, tasks

pytestmark = pytest.mark.slow

ALBUM = tasks({"id": "n", "task": "t"})
HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LEASE = b"POST /v1/tasks/lease HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def address(it: WorkerSetup) -> tuple[str, int]:
    host, _, port = it.member.address.removeprefix("http://").partition(":")
    return host, int(port)


async def rest(it: WorkerSetup, *sent: bytes) -> bytes:
    """What comes back until the connection ends."""
    reader, writer = await asyncio.open_connection(*address(it))
    try:
        for part in sent:
            writer.write(part)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 10.0)
    finally:
        writer.close()


async def is_served(it: WorkerSetup) -> None:
    async with httpx2.AsyncClient(base_url=it.member.address) as client:
        assert (await client.post("/v1/tasks/lease", json={"worker": "ada"})).json() == {"tasks": []}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "HEAD_S", 0.2)
    monkeypatch.setattr(http_connections, "KEEP_ALIVE_S", 0.3)


@pytest.mark.usefixtures("hurried")
async def test_silent_connections_and_unfinished_heads_are_ended(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it:
        silent, half, after_one, after_error, body = await asyncio.gather(
            rest(it),
            rest(it, b"POST /v1/tasks/lease HT"),
            rest(it, HEALTH, HEALTH[:20]),
            rest(it, b"GET /v1/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
            rest(it, b"POST /v1/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nx"),
        )
        assert silent == b""
        assert half.startswith(b"HTTP/1.1 408 ") and b"too_slow" in half
        assert after_one.count(b"HTTP/1.1 200 ") == 1 and after_one.count(b"HTTP/1.1 408 ") == 1
        assert after_error.startswith(b"HTTP/1.1 404 ") and after_error.count(b"HTTP/1.1") == 1
        assert body.startswith(b"HTTP/1.1 404 ") and body.count(b"HTTP/1.1") == 1  # an answer more would be one to a request not made
        await is_served(it)


@pytest.mark.usefixtures("hurried")
async def test_a_head_that_arrives_byte_by_byte_has_the_time_of_one_head(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it:
        reader, writer = await asyncio.open_connection(*address(it))
        reading = asyncio.create_task(reader.read())
        writer.write(b"GET /")
        for _ in range(100):
            if reading.done():
                break
            writer.write(b"P")
            await asyncio.sleep(0.02)
        assert (await asyncio.wait_for(reading, 5.0)).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_head_that_begins_on_an_idle_connection_has_the_time_of_one_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "HEAD_S", 0.1)
    async with place(tmp_path, ALBUM, over_http) as it:
        reader, writer = await asyncio.open_connection(*address(it))
        writer.write(HEALTH)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        await asyncio.sleep(0.05)
        writer.write(HEALTH[:20])
        assert b"HTTP/1.1 408 " in await asyncio.wait_for(reader.read(), 5.0)
        writer.close()


@pytest.mark.usefixtures("hurried")
async def test_a_request_that_waits_for_tasks_outlives_the_time_of_idle_connections(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it, httpx2.AsyncClient(base_url=it.member.address) as client:
        assert (await client.post("/v1/tasks/lease", json={"worker": "ada", "wait_s": 1})).json() == {"tasks": []}


@pytest.mark.usefixtures("hurried")
async def test_an_answer_that_its_peer_does_not_read_is_dropped_in_the_end(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it:
        with socket.create_connection(address(it)) as peer:
            peer.setblocking(False)
            ask = HEALTH.replace(b"health", b"openapi.json") * 400  # 20 MB of answers
            while ask:
                try:
                    ask = ask[peer.send(ask) :]
                except BlockingIOError:
                    break
            state = it.member._server.server_state
            async with asyncio.timeout(10.0):
                while not state.total_requests or state.connections:  # it may have come and gone between two looks
                    await asyncio.sleep(0.05)


async def test_the_head_of_a_request_is_bounded(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it:
        found = await rest(it, HEALTH[:-2], *(b"X-More: %s\r\n" % (b"x" * 1000) for _ in range(400)))
        assert found.startswith(b"HTTP/1.1 431 ") and b"headers_too_large" in found
        await is_served(it)


async def test_a_body_that_is_too_large_is_answered_and_the_connection_serves_on(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it, httpx2.AsyncClient(base_url=it.member.address) as client:

        async def parts() -> object:
            for _ in range(17):
                yield b"x" * 2**20

        assert BODY_BYTES_MAX < 17 * 2**20
        for content in (b"x" * (17 * 2**20), parts()):
            answered = await client.post("/v1/tasks/lease", content=content, headers={"content-type": "application/json"})  # type: ignore[arg-type]  # bytes, and parts of them
            assert (answered.status_code, answered.json()["error"]["type"]) == (413, "too_large")
            assert (await client.get("/v1/health")).status_code == 200


async def test_a_body_that_waits_to_be_asked_for_and_is_not_wanted_ends_the_connection(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it:
        found = await rest(it, LEASE + b"Expect: 100-continue\r\nContent-Length: 17825792\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 413 ") and b"connection: close" in found


def test_connections_leave_file_descriptors_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, most in ((1_048_576, 16_384), (1024, 512), (256, 128), (resource.RLIM_INFINITY, 16_384), (1, 1)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert http_connections.connections_max() == most


class Transport(asyncio.Transport):
    """A transport that knows whether it was aborted."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


class Peer(http_connections.Connection):
    """A connection without a socket."""

    def __init__(self) -> None:
        self.loop, self.transport = asyncio.get_running_loop(), Transport()

    @property
    def aborted(self) -> bool:
        return self.transport.aborted  # type: ignore[attr-defined, no-any-return]  # the base declares any transport


async def test_at_the_limit_a_newcomer_is_displaced_first_then_an_idle_connection_and_never_one_in_a_request() -> None:
    admission = http_connections.Admission(3)
    busy, idle, older, newer, fourth, fifth, sixth = (Peer() for _ in range(7))
    assert admission.admit(busy) and admission.admit(idle)
    admission.begin(busy)
    admission.begin(idle)
    admission.end(idle)
    assert admission.admit(older) and not idle.aborted
    assert admission.admit(newer) and older.aborted and admission.open == {busy, idle, newer}
    admission.begin(newer)
    assert admission.admit(fourth) and idle.aborted and admission.open == {busy, newer, fourth}
    admission.begin(fourth)
    assert not admission.admit(fifth) and admission.open == {busy, newer, fourth}
    admission.leave(busy)
    assert admission.admit(sixth) and not any(one.aborted for one in (busy, newer, fourth, sixth))


async def test_a_connection_for_which_there_is_no_room_is_told_so_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "connections_max", lambda: 1)
    async with place(tmp_path, ALBUM, over_http) as it:
        (silent, displaced), (reader, waiting) = [await asyncio.open_connection(*address(it)) for _ in range(2)]
        assert await asyncio.wait_for(silent.read(), 5.0) == b""
        waiting.write(LEASE + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)).startswith(b"HTTP/1.1 100 ")
        found = await rest(it)
        assert found.startswith(b"HTTP/1.1 503 ") and b"too_many_connections" in found and b"retry-after: 5" in found
        displaced.close()
        waiting.close()


FILES = Path("/proc/self/fd")


def open_files() -> int:
    return sum(1 for _ in FILES.iterdir())


@pytest.fixture
def files_max() -> Iterator[int]:
    """A process that may have 300 files open, and twice as many as it has: half of the limit is reserved, and what is open already is part of the reserve."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE), 2 * open_files() + 300
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield most
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


SILENT = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
kept = []
for _ in range(int(sys.argv[2])):
    kept.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5))
    if len(kept) % 2:
        kept[-1].send(b"POST /v1/tasks/le")
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not FILES.exists(), reason="counts this process's descriptors")
async def test_silent_connections_displace_one_another_and_neither_workers_nor_the_engine(
    files_max: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counts = list[int]()

    async def count() -> None:
        while True:
            counts.append(open_files())
            await asyncio.sleep(0)

    async with place(tmp_path, ALBUM, over_http) as it, httpx2.AsyncClient(base_url=it.member.address) as client:
        waiting = asyncio.create_task(client.post("/v1/tasks/lease", json={"worker": "ada", "wait_s": 20}, timeout=30))
        await asyncio.sleep(0.1)
        pipe = asyncio.subprocess.PIPE
        peers = await asyncio.create_subprocess_exec("python3", "-c", SILENT, str(address(it)[1]), "600", stdin=pipe, stdout=pipe)
        assert peers.stdout is not None and peers.stdin is not None
        counting = asyncio.create_task(count())
        assert await asyncio.wait_for(peers.stdout.readline(), 30.0) == b"open\n"
        counting.cancel()
        await is_served(it)
        await it.start(ALBUM)
        (task,) = (await waiting).json()["tasks"]
        assert (await client.post(f"/v1/tasks/{task['lease']}/complete", json={"value": 1})).status_code == 200
        assert await it.result() == 1
        peers.stdin.close()
        await peers.wait()
    assert max(counts) < files_max - 60  # of the reserve of 150 files, the server, the engine, the client and connections that are about to be closed take some
    said = [record.getMessage() for record in caplog.records]
    assert sum("connections are taken" in text for text in said) == 1 and not any("out of system resource" in text for text in said)
