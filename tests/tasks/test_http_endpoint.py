"""Claims about the endpoint, with real connections and a real worker in JavaScript."""

import asyncio
import json
import os
import random
import socket
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

import httpx2
import msgspec
import pytest

from perdure import ExecutionFailed
from perdure.async_client import AsyncClient
from perdure.core import events as e
from perdure.core.errors import BadValue
from perdure.core.paths import path_text
from perdure.runtime.task_broker import TaskBroker
from perdure.stores.memory import MemoryStore
from perdure.tasks.http_endpoint import TaskEndpoint
from perdure.tasks.http_endpoint import parse_listen_address as place_of
from perdure.tasks.worker_tokens import FULL_GRANT, WorkerAccess
from tests.tasks.worker_setup import QUEUE, WorkerSetup, over_http, perdure, place, program, tasks, worker

pytestmark = pytest.mark.slow

ALBUM = tasks(
    {"id": "thumb", "task": "thumbnail", "with": {"photo": "cat.jpg", "width": 64}},
    {"id": "counted", "task": "count", "with": {"to": 5}},
    {"id": "unsteady", "task": "unsteady", "with": {"works_at": 2}},
    output={"thumb": "@thumb", "counted": "@counted.counted", "unsteady": "@unsteady"},
)


async def test_a_worker_in_javascript_does_tasks_of_all_kinds(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it, worker(it.member.address):
        await it.start(ALBUM)
        assert await it.result() == {"thumb": {"file": "cat.jpg.64.png", "key": "default/album/e:thumb"}, "counted": 5, "unsteady": 2}
        events = await it.events()
        assert sum(isinstance(event, e.RetryingEvent) for event in events) == 1 and not any(isinstance(event, e.InterruptedEvent) for event in events)


async def test_what_a_worker_says_is_final_is_not_tried_again_and_what_it_does_not_know_neither(tmp_path: Path) -> None:
    for name, with_, said in (("thumbnail", {"photo": "cat.txt"}, "BadPhoto: cat.txt is no picture"), ("sing", {}, "UnknownTask: this worker does no sing")):
        definition = tasks({"id": "a", "task": name, "with": with_})
        async with place(tmp_path, definition, over_http) as it, worker(it.member.address):
            await it.start(definition, name)
            with pytest.raises(ExecutionFailed, match=said):
                await it.result(name)
            assert not any(isinstance(event, e.RetryingEvent) for event in await it.events(name))


@pytest.mark.prove
async def test_a_worker_that_is_killed_leaves_its_task_to_another_which_goes_on_where_it_was(tmp_path: Path) -> None:
    definition = tasks({"id": "n", "task": "count", "with": {"to": 100, "every_ms": 20}})
    async with place(tmp_path, definition, over_http) as it, worker(it.member.address, "--lease", "1") as first:
        await it.start(definition)
        await it.until(e.ProgressedEvent, 1)
        await first.kill()
        done = [
            msgspec.msgpack.decode(event.body)["done"] for event in await it.events() if isinstance(event, e.ProgressedEvent) and isinstance(event.body, bytes)
        ]
        began_s = time.monotonic()
        async with worker(it.member.address, "--lease", "1"):
            assert await it.result() == {"counted": 100, "attempt": 2}
        took_s = time.monotonic() - began_s
        events = await it.events()
        assert sum(isinstance(event, e.InterruptedEvent) for event in events) == 1 and not any(isinstance(event, e.RetryingEvent) for event in events)
        assert took_s < 1.5 + (100 - done[-1]) * 0.05, (took_s, done)


async def test_two_workers_share_a_queue_and_each_task_settles_once(tmp_path: Path) -> None:
    definition = tasks({"id": "n", "each": {"in": list(range(40)), "concurrency": 0}, "task": "count", "with": {"to": 1, "every_ms": 30}})
    async with place(tmp_path, definition, over_http) as it, worker(it.member.address), worker(it.member.address):
        await it.start(definition)
        assert await it.result() == [{"counted": 1, "attempt": 1}] * 40
        names = Counter(past.task_worker.name for past in it.member.broker.task_leases.past.values())
        assert len(names) == 2 and names.total() == 40 and min(names.values()) >= 4
        settled = Counter(path_text(event.path) for event in await it.events() if isinstance(event, e.SettledEvent) and "n" in path_text(event.path))
        assert set(settled.values()) == {1}


@pytest.mark.prove
async def test_a_thousand_tasks_settle_once_each_while_workers_are_killed_at_random(tmp_path: Path) -> None:
    count, rng = 1000, random.Random(7)
    definition = tasks({"id": "n", "each": {"in": list(range(count)), "concurrency": 0}, "task": "count", "with": {"to": 3, "every_ms": 100}})
    async with place(tmp_path, definition, over_http) as it:
        await it.start(definition)
        result = asyncio.create_task(it.result(within_s=300.0))
        kills = 0
        while not result.done() and kills < 40:
            async with (
                worker(it.member.address, "--lease", "1", "--concurrency", "8"),
                worker(it.member.address, "--lease", "1", "--concurrency", "8") as mortal,
            ):
                await asyncio.wait([result], timeout=rng.uniform(0.2, 1.0))
                await mortal.kill()
                kills += 1
        async with worker(it.member.address, "--concurrency", "20"):
            assert len(await result) == count
        settled = Counter(path_text(event.path) for event in await it.events() if isinstance(event, e.SettledEvent))
        assert sum(path.startswith("n/") for path in settled) == count and set(settled.values()) == {1}
        assert any(isinstance(event, e.InterruptedEvent) for event in await it.events())


async def test_when_the_lender_is_killed_its_leases_are_lost_and_the_tasks_are_leased_anew(tmp_path: Path) -> None:
    definition = tasks({"id": "n", "task": "t"})
    (tmp_path / "album.json").write_text(json.dumps(definition.read.canonical))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    serves_tasks = perdure("worker", "album.json", "--queue", QUEUE, "--listen", address)
    environment = {**os.environ, "PERDURE_DB": f"sqlite:///{tmp_path}/here.db"}
    async with httpx2.AsyncClient(base_url=f"http://{address}", timeout=35.0) as client, AsyncClient(environment["PERDURE_DB"]) as asking:
        async with program(*serves_tasks, cwd=tmp_path, env=environment) as first:
            await first.until("are offered at")
            handle = await asking.start(definition)
            task = (await client.post("/v1/tasks/lease", json={"worker": "ada", "wait_s": 20})).json()["tasks"][0]
            await first.kill()
        async with program(*serves_tasks, cwd=tmp_path, env=environment) as second:
            await second.until("are offered at")
            late = await client.post(f"/v1/tasks/{task['lease']}/complete", json={"value": "late"})
            assert (late.status_code, late.json()["error"]["type"]) == (409, "lease_lost")
            again = (await client.post("/v1/tasks/lease", json={"worker": "ada", "wait_s": 20})).json()["tasks"][0]
            assert again["lease"] != task["lease"] and (again["key"], again["attempt"]) == (task["key"], task["attempt"])
            assert (await client.post(f"/v1/tasks/{again['lease']}/complete", json={"value": "in time"})).status_code == 200
            assert await handle.result(timeout="20s") == "in time"
            assert await second.end() == 0


# Connections.


async def nothing(it: WorkerSetup) -> None:
    """Make sure that others are served."""
    async with httpx2.AsyncClient(base_url=it.member.address) as client:
        assert (await client.post("/v1/tasks/lease", json={"worker": "ada"})).json() == {"tasks": []}


async def test_peers_that_are_dead_or_slow_or_speak_otherwise_hold_up_nobody(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it:
        host, _, port = it.member.address.removeprefix("http://").partition(":")
        peers = [await asyncio.open_connection(host, int(port)) for _ in range(4)]
        sent = (
            b"POST /v1/tasks/lease HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
            b"POST /v1/tasks/lease HT",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(range(256)),
            b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 3,
        )
        for (_, writer), raw in zip(peers, sent, strict=True):
            writer.write(raw)
            await writer.drain()
        await nothing(it)
        pipelined = b""
        while pipelined.count(b'"status":"ok"') < 3:
            pipelined += await asyncio.wait_for(peers[3][0].read(4096), 5.0)
        for _, writer in peers:
            writer.close()
        await nothing(it)


async def test_an_answer_does_not_wait_for_what_the_network_has_heard(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it, httpx2.AsyncClient(base_url=it.member.address) as client:
        took_s = []
        for _ in range(60):
            began_s = time.perf_counter()
            await client.get("/v1/health")
            took_s.append(time.perf_counter() - began_s)
        assert min(took_s[40:]) < 0.03, took_s  # a connection begins without such waiting


async def test_who_is_cut_off_while_it_waits_takes_no_task_with_it(tmp_path: Path) -> None:
    definition = tasks({"id": "n", "task": "count", "with": {"to": 1}, "idempotent": False})
    async with place(tmp_path, definition, over_http) as it:
        async with httpx2.AsyncClient(base_url=it.member.address) as client:
            waiting = [asyncio.create_task(client.post("/v1/tasks/lease", json={"worker": "ada", "wait_s": 30}, timeout=40)) for _ in range(3)]
            await asyncio.sleep(0.2)
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.sleep(0.1)
        await it.start(definition)
        async with worker(it.member.address):
            assert await it.result() == {"counted": 1, "attempt": 1}


async def test_who_waits_is_told_within_a_moment_that_the_process_stops(tmp_path: Path) -> None:
    async with place(tmp_path, ALBUM, over_http) as it, httpx2.AsyncClient(base_url=it.member.address) as client:
        waiting = asyncio.create_task(client.post("/v1/tasks/lease", json={"worker": "ada", "wait_s": 30}, timeout=40))
        await asyncio.sleep(0.2)
        began_s = time.monotonic()
        it.member.stop(30.0)
        answered = await waiting
        assert (answered.status_code, answered.headers["retry-after"]) == (503, "5") and time.monotonic() - began_s < 15


async def test_over_the_wire_a_token_opens_and_its_absence_does_not(tmp_path: Path) -> None:
    token = "some-token-of-some-length"
    access = WorkerAccess({sha256(token.encode()).hexdigest(): FULL_GRANT})
    async with place(tmp_path, ALBUM, lambda broker: TaskEndpoint(broker, access, "0.0.0.0", 0)) as it:
        port = it.member.address.rpartition(":")[2]
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.post("/v1/tasks/lease", json={"worker": "ada"})).status_code == 401
            assert (await client.get("/v1/health")).json() == {"status": "ok"}
        await it.start(ALBUM)
        async with worker(f"http://127.0.0.1:{port}", env={**os.environ, "PERDURE_WORKER_TOKEN": token}):
            assert (await it.result())["counted"] == 5


def test_others_can_not_reach_it_as_long_as_no_token_is_needed() -> None:
    broker = TaskBroker(MemoryStore(), [QUEUE])
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(BadValue, match="PERDURE_WORKER_TOKEN"):
            TaskEndpoint(broker, WorkerAccess({}), host, 0)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BadValue, match="can listen"):
        TaskEndpoint(broker, WorkerAccess({}), "127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("said", "is_"),
    [
        ("127.0.0.1:7800", ("127.0.0.1", 7800)),
        ("7800", ("127.0.0.1", 7800)),
        (":0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("a.example:1", ("a.example", 1)),
    ],
)
def test_a_place_to_listen_is_a_host_and_a_port(said: str, is_: tuple[str, int]) -> None:
    assert place_of(said) == is_


@pytest.mark.parametrize("said", ["", "host", "host:", "host:x", "1:2:3", "host:70000", "::1:80", "host:-1", "host:²"])
def test_what_is_no_place_to_listen_is_refused(said: str) -> None:
    with pytest.raises(BadValue, match="HOST:PORT"):
        place_of(said)
