"""Claims about the server of the API: slow, silent and half-open clients take nothing from others, and bodies are bounded."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from perdure import App
from perdure.api import http_requests
from perdure.tasks import http_connections
from tests.api.api_setup import WORKFLOWS, api_on_a_port
from tests.api.test_raw_requests import HIDDEN, answers, statuses

pytestmark = pytest.mark.slow

START = b"POST /api/executions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture
async def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A server whose patience is short."""
    monkeypatch.setattr(http_connections, "HEAD_S", 0.2)
    monkeypatch.setattr(http_connections, "KEEP_ALIVE_S", 0.3)
    monkeypatch.setattr(http_requests, "BODY_S", 0.3)
    async with App(WORKFLOWS, db=f"sqlite:///{tmp_path}/slow.db") as app, api_on_a_port(app.client._access.on_store("a test")) as url:
        yield url


async def test_clients_that_are_silent_or_slow_are_ended_and_told_why(url: str) -> None:
    silent, half_head, idle, half_body, no_body, many_parts = await asyncio.gather(
        answers(url, ends=False),
        answers(url, START, ends=False),
        answers(url, HIDDEN, ends=False),
        answers(url, START + b"Content-Length: 100\r\n\r\n{", ends=False),
        answers(url, START + b"Content-Length: 100\r\n\r\n", ends=False),
        answers(url, START + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", ends=False),
    )
    assert silent == b"" and statuses(idle) == [200]
    for received in (half_head, half_body, no_body, many_parts):
        assert statuses(received) == [408] and b"too_slow" in received and b"application/problem+json" in received, received
    async with httpx2.AsyncClient(base_url=url) as other:
        assert (await other.post("/api/executions", json={"workflow": "calc", "id": "after", "input": [1]})).status_code == 201


async def test_a_request_that_is_cut_off_has_no_effect(url: str) -> None:
    body = b'{"workflow": "calc", "id": "cut", "input": [1]}'
    for sent in (
        START + b"Content-Length: %d\r\n\r\n" % (len(body) + 1) + body,
        START + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(body), body),
        START + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-1],
    ):
        host, _, port = url.removeprefix("http://").partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        await writer.drain()
        writer.transport.abort()
    async with httpx2.AsyncClient(base_url=url) as other:
        await asyncio.sleep(0.1)
        assert (await other.get("/api/executions/calc/cut")).status_code == 404


async def test_a_body_that_is_too_large_is_refused_before_it_was_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_requests, "BODY_BYTES_MAX", 100_000)

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b" " * 10_000

    async with httpx2.AsyncClient(base_url=url, headers={"content-type": "application/json"}) as client:
        for content in (b" " * 500_000, parts()):
            assert (await client.post("/api/executions", content=content)).status_code == 413
            assert (await client.get("/healthz")).status_code == 200
    waiting = await answers(url, START + b"Expect: 100-continue\r\nContent-Length: 500000\r\n\r\n", ends=False)
    assert statuses(waiting) == [413]


async def test_a_reader_that_does_not_read_is_dropped(url: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port), limit=1)
    writer.write(HIDDEN.replace(b"healthz", b"openapi.json") * 60)  # several MB of answers
    async with asyncio.timeout(10):
        while not writer.is_closing():
            writer.write(b"\r\n")
            await asyncio.sleep(0.05)
    async with httpx2.AsyncClient(base_url=url) as other:
        assert (await other.get("/healthz")).status_code == 200


async def test_a_client_for_which_there_is_no_room_is_told_so_in_the_form_of_the_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "connections_max", lambda: 1)
    async with App(WORKFLOWS, db=f"sqlite:///{tmp_path}/full.db") as app, api_on_a_port(app.client._access.on_store("a test")) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(START + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        received = await answers(url, ends=False)
        assert statuses(received) == [503] and b"too_many_connections" in received and b"retry-after: 5" in received
        assert b'"status":503' in received and b'"next":"connect again' in received
        writer.close()
