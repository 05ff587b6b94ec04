"""Claims about ``/mcp/record/{recording}`` of `perdure serve` as a real process: roles, tenants, references, progress, questions, and a kill -9."""

import asyncio
import json
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from perdure.mcp.call_channels import CallChannels
from perdure.mcp_server.mcp_endpoint import McpEndpoint
from perdure.recording_proxy.recorded_servers import RecordedServers
from perdure.recording_proxy.recording_endpoint import RecordingEndpoint, cancelled_request
from tests.cli.serve_process import ServeProcess, new_key, serving
from tests.mcp_server.mcp_setup import mcp_service

pytestmark = pytest.mark.slow

FULL, RAW = Path(__file__).with_name("full_server.py"), Path(__file__).parents[1] / "mcp" / "raw_server.py"


def started(directory: Path, *options: str) -> Any:
    """A server that records calls of two MCP servers."""
    full = {"command": sys.executable, "args": [str(FULL)], "env": {"MARKS": str(directory)}, "timeout": "30s"}
    raw = {"command": sys.executable, "args": [str(RAW)], "env": {"CALLS": str(directory / "calls")}, "timeout": "30s"}
    (directory / "mcp.json").write_text(json.dumps({"mcpServers": {"full": full, "raw": raw}}))
    return serving(directory, "--tools", str(directory / "mcp.json"), *options, targets=())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A server that the tests of this module share. Each has a recording of its own."""
    directory = tmp_path_factory.mktemp("recorded")
    _ = new_key(directory)
    with started(directory) as process:
        yield process


@pytest.fixture
def recording(server: ServeProcess, request: pytest.FixtureRequest) -> str:
    """The id of a recording of this test, before which no call has left marks."""
    for mark in ("begun", "cancelled", "go"):
        (server.directory / mark).unlink(missing_ok=True)
    return f"r{zlib.crc32(request.node.name.encode())}"


@asynccontextmanager
async def connected(url: str, key: str, recording: str = "r1") -> AsyncIterator[Client]:
    """A client that records."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60.0) as http,
        Client(streamable_http_client(f"{url}/mcp/record/{recording}", http_client=http)) as client,
    ):
        yield client


def text(answer: Any) -> str:
    """The text of an answer."""
    return str(answer.content[0].text)


async def test_calls_are_recorded_with_references_and_saved_by_an_author(server: ServeProcess, recording: str) -> None:
    operator, author = new_key(server.directory, "--role", "operator"), new_key(server.directory, "--role", "operator", "--role", "author")
    reported: list[float] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reported.append(progress)

    async with connected(server.url, operator, recording) as client:
        names = {one.name for one in (await client.list_tools()).tools}
        assert {"get_user", "charge", "recording_save"} <= names
        found = await client.call_tool("get_user", {"id": 7})
        assert found.structured_content == {"id": 7, "name": "Ada"}
        _ = await client.call_tool("echo", {"text": "@get_user_1.name"})
        _ = await client.call_tool("work", {"parts": 3}, progress_callback=report)
        refused = await client.call_tool("recording_save", {"name": "by-operator"})
        assert refused.is_error and "author" in text(refused)
        assert [one.uri for one in (await client.list_resources()).resources]
    assert reported == [1, 2, 3]
    async with connected(server.url, author, recording) as client:
        saved = await client.call_tool("recording_save", {"name": "greeting"})
        assert not saved.is_error, saved.content
    admin = new_key(server.directory)
    version = server.request("GET", "/api/workflow-versions/greeting", key=admin).json
    assert "@get_user_1.name" in json.dumps(version), version
    entries = server.request("GET", "/api/audit", key=admin).json["items"]
    assert "recordings.save" in {one["entry"]["operation"] for one in entries}
    calls = server.request("GET", f"/api/recordings/{recording}", key=admin).json["calls"]
    assert [(one["step"], one.get("sent")) for one in calls[:2]] == [("get_user_1", {"id": 7}), ("echo_1", {"text": "Ada"})]


async def test_the_id_of_a_recording_opens_nothing(server: ServeProcess, recording: str) -> None:
    async with connected(server.url, new_key(server.directory, "--role", "operator"), recording) as client:
        _ = await client.call_tool("get_user", {"id": 1})
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"accept": "application/json, text/event-stream"}
    for key, status in (("", 401), (new_key(server.directory, "--role", "viewer"), 403), (new_key(server.directory, "--role", "author"), 403)):
        assert server.request("POST", f"/mcp/record/{recording}", call, key=key, headers=accept).status == status
    other = new_key(server.directory, "--admin", "--tenant", "other")
    async with connected(server.url, other, recording) as client:
        shown = text(await client.call_tool("recording_status", {}))
        assert "get_user_1" not in shown, "another tenant has a recording of its own under this id"
    admin = new_key(server.directory)
    assert server.request("POST", "/mcp/record/a%2Fb/c", call, key=admin, headers=accept).status == 404
    assert server.request("GET", f"/mcp/record/{recording}", key=admin).status == 405


async def test_what_a_server_asks_is_an_approval(server: ServeProcess, recording: str) -> None:
    key = new_key(server.directory)
    async with connected(server.url, key, recording) as client:
        calling = asyncio.create_task(client.call_tool("asks", {}))
        waiting: list[Any] = []
        while not waiting:
            await asyncio.sleep(0.1)
            waiting = (await asyncio.to_thread(server.request, "GET", "/api/approvals", None, key)).json["items"]
        decided = {"approve": True, "by": "ada", "value": {"account": "savings"}}
        answer = await asyncio.to_thread(server.request, "POST", f"/api/approvals/{quote(waiting[0]['id'], safe='')}/decide", decided, key)
        assert answer.status < 300, answer.body
        assert "savings" in text(await asyncio.wait_for(calling, 60))


async def until(happened: Callable[[], bool]) -> None:
    for _ in range(600):
        if happened():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen in time")


async def test_a_call_that_its_client_cancels_ends_at_its_server(server: ServeProcess, recording: str) -> None:
    key = new_key(server.directory)
    async with connected(server.url, key, recording) as client:
        calling = asyncio.create_task(client.call_tool("wait", {"s": 100}))
        await until((server.directory / "begun").exists)
        calling.cancel()
        await until((server.directory / "cancelled").exists)
    (call,) = server.request("GET", f"/api/recordings/{recording}", key=key).json["calls"]
    assert call["state"] in ("in_doubt", "cancelled")


async def test_a_message_cancels_the_request_of_its_caller_that_it_names(server: ServeProcess, recording: str) -> None:
    key, other = new_key(server.directory), new_key(server.directory, "--role", "operator")
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}

    async def posted(message: dict[str, Any], by: str = key) -> Any:
        return await asyncio.to_thread(server.request, "POST", f"/mcp/record/{recording}", {"jsonrpc": "2.0", **message}, key=by, headers=headers)

    async def cancelled(id: Any, by: str = key) -> None:
        assert (await posted({"method": "notifications/cancelled", "params": {"requestId": id}}, by)).status == 202

    calling = asyncio.create_task(posted({"id": 7, "method": "tools/call", "params": {"name": "wait", "arguments": {"s": 100}}}))
    await until((server.directory / "begun").exists)
    for id, by in ((8, key), ("7", key), (7, other)):
        await cancelled(id, by)
    await asyncio.sleep(0.5)
    assert not (server.directory / "cancelled").exists() and not calling.done(), "it is the request of another id, or of another caller"
    await cancelled(7)
    await until((server.directory / "cancelled").exists)
    answered = await asyncio.wait_for(calling, 60)
    assert answered.status == 200 and b'"isError":true' in answered.body
    await cancelled(7)  # it has ended; nothing happens


async def test_of_two_open_requests_of_one_id_none_is_cancelled(server: ServeProcess, recording: str) -> None:
    key, headers = new_key(server.directory), {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}

    async def posted(message: dict[str, Any]) -> Any:
        return await asyncio.to_thread(server.request, "POST", f"/mcp/record/{recording}", {"jsonrpc": "2.0", **message}, key=key, headers=headers)

    def waiting(s: float) -> asyncio.Task[Any]:
        return asyncio.create_task(posted({"id": 1, "method": "tools/call", "params": {"name": "wait", "arguments": {"s": s}}}))

    async with connected(server.url, key, recording) as client:
        await client.call_tool("recording_status", {})  # the recording has begun
    calls = [waiting(100), waiting(100)]
    await until(lambda: len(server.request("GET", f"/api/recordings/{recording}", key=key).json["calls"]) == 2)
    await posted({"method": "notifications/cancelled", "params": {"requestId": 1}})
    await asyncio.sleep(0.2)  # time enough for a wrong cancellation
    (server.directory / "go").touch()
    answers = await asyncio.gather(*calls)
    assert all(b"waited" in answer.body for answer in answers)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"cancelled",
        b'["cancelled"]',
        b'{"method":"cancelled"}',
        b'{"method":"notifications/cancelled","params":[]}',
        b'{"cancelled":' + b"[" * 99_999,
        b'"cancelled\xff"',
    ],
)
def test_what_names_no_request_cancels_none(body: bytes) -> None:
    assert cancelled_request(body) is None


@pytest.mark.prove
async def test_a_recording_goes_on_after_a_kill(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    with started(tmp_path) as process:
        async with connected(process.url, key) as client:
            _ = await client.call_tool("get_user", {"id": 7})
        process.process.kill()
        process.process.wait()
    with started(tmp_path) as process:
        async with connected(process.url, key) as client:
            answer = await client.call_tool("echo", {"text": "@get_user_1.name"})
            assert text(answer) == "Ada"


def test_a_server_without_mcp_servers_says_so(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    with serving(tmp_path) as process:
        answer = process.request("POST", "/mcp/record/r1", {}, key=key)
        assert answer.status == 404 and "--tools mcp.json" in answer.json["next"]


async def test_an_installation_without_the_library_says_what_to_install_and_begins_no_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.streamable_http_manager", None)
    recordings = RecordingEndpoint(RecordedServers([], {}, CallChannels(), {}))
    async with mcp_service(tmp_path, mcp=McpEndpoint(recordings=recordings)) as service:
        key = await service.key("operator", "viewer")
        answer = await service.by(key, "POST", "/mcp/record/r1", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
        assert answer.status == 501 and "perdure[mcp]" in answer.json["detail"]
        assert (await service.by(key, "GET", "/api/recordings/r1")).status == 404
