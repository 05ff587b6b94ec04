"""Claims about `perdure serve` as a process: who may use it, TLS, a prefix, proxies, parts in several processes, and how it stops under load."""

import asyncio
import os
import signal
import sqlite3
import ssl
import subprocess
import time
from contextlib import closing
from http.client import HTTPException
from pathlib import Path

import httpx2
import pytest

from perdure import AsyncClient, Client
from tests.cli.serve_process import FLOWS, ServeProcess, command, environment, free_port, new_key, serving
from tests.cli.tls_certificate import self_signed

pytestmark = pytest.mark.slow


def refused(directory: Path, *options: str) -> tuple[int, str]:
    """How a process that does not begin to serve ends, and what it says."""
    ended = subprocess.run(
        command("serve", str(FLOWS), "--listen", "127.0.0.1:0", *options), env=environment(directory), capture_output=True, text=True, timeout=60
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def test_without_a_key_nothing_is_served_and_no_database_made(tmp_path: Path) -> None:
    code, said = refused(tmp_path)
    assert code == 10 and "there is no key yet" in said and "perdure keys create NAME --admin" in said
    assert not (tmp_path / "served.db").exists()
    key = new_key(tmp_path)
    subprocess.run(command("keys", "revoke", key[4:12]), env=environment(tmp_path), check=True, capture_output=True)
    assert refused(tmp_path)[0] == 10, "a key that was revoked is none"


def test_a_server_begins_while_its_database_can_not_be_reached_and_says_that_it_is_not_ready(tmp_path: Path) -> None:
    url, code = f"http://127.0.0.1:{free_port()}", 0
    words = command("serve", str(FLOWS), "--listen", url.removeprefix("http://"), "--db", f"postgresql://perdure@/postgres?host={tmp_path}")
    serving = subprocess.Popen(words, env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not code and serving.poll() is None:
            try:
                assert httpx2.get(f"{url}/healthz").status_code == 200
                answer = httpx2.get(f"{url}/readyz")
                code = answer.status_code
            except httpx2.ConnectError:
                time.sleep(0.05)
        assert (code, answer.json()["code"]) == (503, "store_unavailable")
    finally:
        serving.kill()
        serving.wait()


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--role", "api,cook"), 20, "'cook' is no part of a process; the parts are api, engine, worker"),
        (("--role", "worker"), 20, "a worker needs queues"),
        (("--tls-cert", "a.pem"), 20, "--tls-cert and --tls-key belong together"),
        (("--tls-cert", "none.pem", "--tls-key", "none.pem"), 10, "--tls-cert: 'none.pem' is not a file in PEM that can be read: No such file or directory"),
        (("--tls-cert", os.devnull, "--tls-key", "none.pem"), 10, "--tls-key: 'none.pem' is not a file in PEM that can be read: No such file or directory"),
        (("--root-path", "perdure/"), 10, "a path that begins with /"),
        (("--cors", "https://a.example/path"), 10, "without a path"),
        (("--cors", "https://a.example:443"), 10, "or the default port"),
        (("--cors", "https://büro.example"), 10, "as browsers send it"),
        (("--forwarded-allow-ips", "nginx"), 10, "--forwarded-allow-ips: 'nginx' is not a list of addresses and networks"),
        (("--forwarded-allow-ips", "127.0.0.1,10.1.2.3/8"), 10, "10.1.2.3/8 has host bits set"),
        (("--forwarded-allow-ips", "*,127.0.0.1"), 10, "or * for every proxy"),
        (("--oidc", "none.toml"), 10, "a file that can be read"),
        (("--listen", "127.0.0.1"), 10, "HOST:PORT"),
    ],
)
def test_options_that_are_wrong_are_refused(tmp_path: Path, options: tuple[str, ...], code: int, says: str) -> None:
    new_key(tmp_path)
    found = refused(tmp_path, *options)
    assert found[0] == code and says in found[1], found


def test_every_request_needs_a_key_on_this_machine_too(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    with serving(tmp_path) as server:
        assert server.request("GET", "/api/executions").status == 401
        assert server.request("GET", "/healthz").status == server.request("GET", "/readyz").status == server.request("GET", "/openapi.json").status == 200
        assert server.request("POST", "/api/executions", {"workflow": "order", "id": "o1", "input": ["o1"]}, key).status == 201
        with Client(server.url, token=key) as client:
            assert client.get("o1").result() == "o1"
        answer = server.request("GET", "/api/executions/order/o1", key=key)
        assert answer.json["status"] == "completed"
        assert {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}.items() <= answer.headers.items()
        assert "access-control-allow-origin" not in answer.headers and "server" not in answer.headers
        server.signal(signal.SIGTERM)
        assert server.ended() == 0
    assert key not in server.log.read_text()


def test_it_answers_over_tls(tmp_path: Path) -> None:
    key, (cert, private) = new_key(tmp_path), self_signed(tmp_path)
    with serving(tmp_path, "--tls-cert", str(cert), "--tls-key", str(private)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(cert))
        assert server.request("GET", "/api/whoami", key=key, context=trusting).json["roles"] == ["admin"]
        server.url = server.url.replace("https", "http")
        with pytest.raises((OSError, HTTPException)):
            server.request("GET", "/healthz")


def test_behind_a_proxy_it_has_a_prefix_and_believes_named_proxies_alone(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    forwarded = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
    for options, address in (((), "127.0.0.1"), (("--forwarded-allow-ips", "127.0.0.1"), "203.0.113.9")):
        with serving(tmp_path, "--root-path", "/flows", *options) as server:
            assert server.url.endswith("/flows")
            made = server.request("POST", "/api/keys", {"name": "x", "roles": ["viewer"]}, key, forwarded)
            assert made.status == 200, "with the prefix, as a proxy that keeps it sends it"
            entry = server.request("GET", "/api/audit?operation=access.create_key&limit=1", key=key).json["items"][0]["entry"]
            assert entry["address"] == address
            server.url = server.url.removesuffix("/flows")
            assert server.request("GET", "/api/whoami", key=key).status == 200, "without it, as a proxy that removes it does"
            page = server.request("GET", "/login").body.decode()
            assert 'action="/flows/login"' in page


def test_pages_of_other_origins_are_let_in_where_they_are_named(tmp_path: Path) -> None:
    key, asks = new_key(tmp_path), {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    with serving(tmp_path, PERDURE_CORS="https://a.example https://b.example:8443") as server:
        for origin in ("https://a.example", "https://b.example:8443"):
            asked = server.request("OPTIONS", "/api/executions", headers={"Origin": origin, **asks})
            assert (
                asked.status == 204
                and asked.headers["access-control-allow-origin"] == origin
                and {"Authorization", "Mcp-Protocol-Version"} <= set(asked.headers["access-control-allow-headers"].split(", "))
            )
            answer = server.request("GET", "/api/executions", key=key, headers={"Origin": origin})
            assert (answer.headers["access-control-allow-origin"], answer.headers["vary"]) == (origin, "Origin")
            assert "access-control-allow-credentials" not in answer.headers
        assert server.request("OPTIONS", "/metrics", headers={"Origin": "https://a.example", **asks}).status == 204
        refused = server.request("OPTIONS", "/api/executions", headers={"Origin": "https://evil.example", **asks})
        assert refused.status == 405 and "access-control-allow-origin" not in refused.headers


def test_the_parts_of_the_work_are_in_processes_of_their_own(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    with serving(tmp_path, "--role", "api", targets=()) as api:
        assert api.request("POST", "/api/executions", {"workflow": "order", "id": "o1", "input": ["o1"]}, key).status == 201
        assert api.request("GET", "/api/executions/order/o1/result?waitSeconds=0.2", key=key).json["isThere"] is False
        with serving(tmp_path, "--role", "engine") as engine:
            assert engine.url.startswith("engine engine-")
            assert api.request("GET", "/api/executions/order/o1/result?waitSeconds=20", key=key).json["value"] == "o1"


def test_a_stop_lets_requests_and_steps_end_and_refuses_new_connections(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    with serving(tmp_path) as server:
        assert server.request("POST", "/api/executions", {"workflow": "slow", "id": "s"}, key).status == 201
        server.signal(signal.SIGTERM)
        assert server.ended() == 0
        with pytest.raises(OSError, match="refused"):
            server.request("GET", "/healthz")
    with Client(environment(tmp_path)["PERDURE_DB"]) as client:
        assert client.get("s").status().status == "completed", "the step in flight could end, and the execution with it"


async def test_who_follows_a_stream_or_waits_goes_on_at_the_next_process(tmp_path: Path) -> None:
    key, port = await asyncio.to_thread(new_key, tmp_path), free_port()
    server = await asyncio.to_thread(ServeProcess, tmp_path, "--listen", f"127.0.0.1:{port}")
    try:
        async with AsyncClient(server.url, token=key) as client:
            handle = await client.start(client.workflow("greet").with_(id="g"))
            seen = asyncio.Event()

            async def followed() -> list[str]:
                found = list[str]()
                async for one in handle.events(follow=True):
                    found.append(one.type)
                    seen.set()
                return found

            following, waiting = asyncio.create_task(followed()), asyncio.create_task(handle.result(timeout=60))
            await asyncio.wait_for(seen.wait(), 60)
            began_s = time.monotonic()
            server.signal(signal.SIGTERM)
            assert await asyncio.to_thread(server.ended) == 0 and time.monotonic() - began_s < 25, "it does not wait for those who wait"
            await asyncio.to_thread(server.close)
            server = await asyncio.to_thread(ServeProcess, tmp_path, "--listen", f"127.0.0.1:{port}")
            await handle.send("named", "Ada")
            assert await waiting == "Hello Ada"
            found = await asyncio.wait_for(following, 60)
            assert found[-1] == "execution.completed" and found.count("execution.created") == 1, "it goes on behind what it has seen"
    finally:
        await asyncio.to_thread(server.close)


async def _load(url: str, key: str, name: str, acknowledged: list[str], until: asyncio.Event) -> None:
    """Starts one execution after the other; each request is sent again until it is answered."""
    headers = {"authorization": f"Bearer {key}"}
    number = 0
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=10) as client:
        while not until.is_set():
            id, number = f"{name}-{number}", number + 1
            while True:
                try:
                    answer = await client.post("/api/executions", json={"workflow": "order", "input": [id]}, headers={"idempotency-key": id})
                except httpx2.TransportError:
                    await asyncio.sleep(0.02)
                    continue
                if answer.status_code in (200, 201):
                    acknowledged.append(id)
                    break
                assert answer.status_code == 503, answer.text
                await asyncio.sleep(0.02)


async def _stopped_under_load(directory: Path, rounds: list[signal.Signals]) -> None:
    key, port = await asyncio.to_thread(new_key, directory), free_port()
    acknowledged, until = list[str](), asyncio.Event()
    options = ("--listen", f"127.0.0.1:{port}", "--rate-limit", "0")
    server = await asyncio.to_thread(ServeProcess, directory, *options)
    loading = [asyncio.create_task(_load(server.url, key, f"c{number}", acknowledged, until)) for number in range(8)]
    try:
        for number in rounds:
            before = len(acknowledged)
            async with asyncio.timeout(60):
                while len(acknowledged) < before + 40:
                    await asyncio.sleep(0.01)
            server.signal(number)
            assert await asyncio.to_thread(server.ended) == (0 if number == signal.SIGTERM else -9)
            await asyncio.to_thread(server.close)
            server = await asyncio.to_thread(ServeProcess, directory, *options)
        until.set()
        await asyncio.wait_for(asyncio.gather(*loading), 60)
        async with AsyncClient(server.url, token=key) as client:
            handles = [await client.get(id, "order") for id in acknowledged]
            results = await asyncio.gather(*(handle.result(timeout=60) for handle in handles))
    finally:
        for one in loading:
            one.cancel()
        await asyncio.to_thread(server.close)
    assert results == acknowledged
    with closing(sqlite3.connect(directory / "served.db")) as database:
        booked = [row[0] for row in database.execute("SELECT order_id FROM ledger")]
    assert sorted(booked) == sorted(acknowledged) and len(set(acknowledged)) == len(acknowledged), "each was booked once"


@pytest.mark.prove
async def test_no_acknowledged_start_is_lost_or_doubled_when_it_is_stopped_and_killed_under_load(tmp_path: Path) -> None:
    await _stopped_under_load(tmp_path, [signal.SIGTERM, signal.SIGKILL])


@pytest.mark.prove
async def test_no_acknowledged_start_is_lost_or_doubled_in_many_rounds(tmp_path: Path) -> None:
    await _stopped_under_load(tmp_path, [signal.SIGTERM, signal.SIGKILL] * 6)
