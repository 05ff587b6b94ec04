"""Claims about ``/mcp`` of `perdure serve` and `perdure dev` as real processes: keys, roles, origins, no sessions, several processes, and the import."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

import perdure.api
from perdure.api.http_requests import ApiRequest
from perdure.api.loopback_access import DEV_FILE, read_dev_server
from perdure.core.errors import Unauthenticated
from perdure.mcp_server import McpEndpoint, PublishedWorkflows
from perdure.mcp_server.mcp_endpoint import BODY_BYTES_MAX
from perdure.service.callers import LOCAL, Caller
from tests.cli.serve_process import ServeProcess, environment, new_key, serving
from tests.mcp_server.mcp_setup import INVOICE, called, mcp_service

pytestmark = pytest.mark.slow

SHOP = Path(__file__).with_name("served_shop.py")
ACCEPT = {"accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@asynccontextmanager
async def connected(url: str, key: str, *, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    """A client of ``/mcp`` with a key."""
    given = {"Authorization": f"Bearer {key}", **headers}
    async with (
        httpx2.AsyncClient(headers=given, timeout=60.0) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@contextmanager
def shop_server(directory: Path) -> Iterator[ServeProcess]:
    """A server of the shop."""
    _ = new_key(directory)
    with serving(directory, "--mcp-workflows", "order", targets=(str(SHOP),)) as process:
        yield process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A server that the tests of this module share."""
    with shop_server(tmp_path_factory.mktemp("shop")) as process:
        yield process


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_starts_decides_and_reads_with_a_key(server: ServeProcess, mode: str) -> None:
    key = new_key(server.directory)
    async with connected(server.url, key, mode=mode) as client:
        assert "run_order" in [one.name for one in (await client.list_tools()).tools]
        started = await called(client, "run_order", cents=20_000)
        assert started["status"] == "waiting_approval"
        _ = await called(client, "decide_approval", id=started["approvals"][0]["id"], decision="approve", by="ada")
        assert (await called(client, "wait_for_execution", id=started["id"]))["status"] == "completed"
        _ = await called(client, "create_workflow", document={**INVOICE, "name": f"invoice-{mode}"})
    audit = server.request("GET", "/api/audit", key=key).json["items"]
    decided = next(one["entry"] for one in audit if one["entry"]["operation"] == "runs.decide")
    assert decided["subject"].startswith("key:") and decided["address"] == "127.0.0.1"


async def test_each_key_has_the_tools_of_its_roles_and_its_tenant(server: ServeProcess) -> None:
    viewer, other = new_key(server.directory, "--role", "viewer"), new_key(server.directory, "--admin", "--tenant", "other")
    async with connected(server.url, viewer) as client:
        names = [one.name for one in (await client.list_tools()).tools]
        assert "list_executions" in names and not {"start_workflow", "run_order", "cancel_execution"} & set(names)
        refused = await client.call_tool("start_workflow", {"workflow": "order", "input": {"cents": 1}})
        assert refused.is_error and refused.structured_content["code"] == "forbidden"
    async with connected(server.url, new_key(server.directory)) as client:
        _ = await called(client, "start_workflow", workflow="order", input={"cents": 1})
    async with connected(server.url, other) as client:
        assert (await called(client, "list_executions"))["items"] == []


def test_without_a_valid_key_nothing_is_said(server: ServeProcess) -> None:
    for key in ("", "prd_wrong_key"):
        answer = server.request("POST", "/mcp", LIST, key, ACCEPT)
        assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert "tools" not in answer.body.decode()


@pytest.mark.prove
def test_a_key_that_is_revoked_opens_nothing_within_seconds(server: ServeProcess) -> None:
    revoked = new_key(server.directory)
    id = server.request("GET", "/api/whoami", key=revoked).json["subject"].removeprefix("key:")
    assert server.request("POST", "/mcp", LIST, revoked, ACCEPT).status == 200
    assert server.request("DELETE", f"/api/keys/{id}", key=new_key(server.directory)).status == 200
    until_s = time.monotonic() + 20
    while server.request("POST", "/mcp", LIST, revoked, ACCEPT).status != 401:  # within seconds
        assert time.monotonic() < until_s
        time.sleep(0.2)


def test_there_are_no_sessions(server: ServeProcess) -> None:
    key = new_key(server.directory)
    begun = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    first = server.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begun}, key, ACCEPT)
    assert first.status == 200 and "mcp-session-id" not in first.headers and first.headers["x-request-id"]
    listed = server.request("POST", "/mcp", LIST, key, ACCEPT)  # another request, which knows nothing of the first
    assert len(listed.json["result"]["tools"]) > 40
    for method in ("GET", "DELETE", "PUT"):
        answer = server.request(method, "/mcp", key=key, headers=ACCEPT)
        assert answer.status == 405 and answer.headers["allow"] == "POST"


def test_nonsense_is_refused(server: ServeProcess) -> None:
    key = new_key(server.directory)
    for body in ([], [LIST, LIST], {}, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5}}, 5, "x"):
        answer = server.request("POST", "/mcp", body, key, ACCEPT)
        assert answer.status < 500 and ("error" in answer.json or answer.status >= 400), (body, answer)
    assert server.request("POST", "/mcp", LIST, key, {**ACCEPT, "Content-Type": "text/plain"}).status in (400, 415)
    assert server.request("POST", "/mcp", LIST, key, {**ACCEPT, "Content-Encoding": "gzip"}).status == 415
    assert server.request("POST", "/mcp", LIST, key, ACCEPT).status == 200


@pytest.mark.prove
async def test_several_processes_answer_one_client(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    with serving(tmp_path, targets=(str(SHOP),)) as one, serving(tmp_path, "--role", "api", targets=()) as other:
        async with connected(one.url, key) as client:
            started = await called(client, "start_workflow", workflow="order", input={"cents": 20_000})
        async with connected(other.url, key) as client:
            _ = await called(client, "decide_approval", id=started["approvals"][0]["id"], decision="approve", by="ada")
            assert (await called(client, "wait_for_execution", id=started["id"]))["result"] == "20000 cents are charged"


async def test_a_stop_ends_a_wait_and_the_process(tmp_path: Path) -> None:
    with shop_server(tmp_path) as server:
        await _stopped(server)


async def _stopped(server: ServeProcess) -> None:
    async with connected(server.url, new_key(server.directory)) as client:
        waiting = await called(client, "start_workflow", workflow="order", input={"cents": 20_000})
        wait = asyncio.create_task(client.call_tool("wait_for_execution", {"id": waiting["id"], "waitSeconds": 50}))
        await asyncio.sleep(0.5)
        server.process.terminate()
        async with asyncio.timeout(25):
            answer = await wait
            assert answer.is_error and answer.structured_content["code"] == "store_unavailable"
            assert await asyncio.to_thread(server.ended) == 0


async def test_dev_has_the_endpoint_for_its_own_machine_alone(tmp_path: Path) -> None:
    given = environment(tmp_path)
    words = [sys.executable, "-m", "perdure.cli", "dev", str(SHOP), "--port", "0"]
    with subprocess.Popen(words, cwd=tmp_path, env=given, stdout=subprocess.PIPE, text=True) as dev:  # noqa: ASYNC220  # nothing else goes on meanwhile
        try:
            assert dev.stdout is not None
            for line in dev.stdout:
                if line.startswith("ready"):
                    break
            found = read_dev_server(tmp_path / DEV_FILE)
            assert found is not None
            async with connected(found.url, found.token) as client:
                assert (await called(client, "start_workflow", workflow="order", input={"cents": 7}))["result"] == "7 cents are charged"
            async with httpx2.AsyncClient(headers={"authorization": f"Bearer {found.token}", **ACCEPT}) as http:
                assert (await http.post(f"{found.url}/mcp", json=LIST)).status_code == 200
                for headers in ({"host": "evil.example.com"}, {"origin": "https://evil.example.com"}, {"x-forwarded-for": "192.0.2.1"}):
                    refused = await http.post(f"{found.url}/mcp", json=LIST, headers=headers)
                    assert refused.status_code == 403, headers
                assert (await http.post(f"{found.url}/mcp", json=LIST, headers={"authorization": "Bearer wrong"})).status_code == 401
        finally:
            dev.terminate()


async def test_an_installation_without_the_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.streamable_http_manager", None)
    async with mcp_service(tmp_path, mcp=McpEndpoint()) as service:
        answer = await service.by(await service.key("viewer"), "POST", "/mcp", LIST)
        assert answer.status == 501 and "perdure[mcp]" in answer.json["detail"]


async def test_a_message_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with mcp_service(tmp_path, mcp=McpEndpoint()) as service:
        answer = await service("POST", "/mcp", raw=b"x" * (BODY_BYTES_MAX + 1), authorization=f"Bearer {await service.key('viewer')}", **ACCEPT)
        assert answer.status == 413


async def test_an_api_without_the_endpoint_has_no_such_route(tmp_path: Path) -> None:
    async with mcp_service(tmp_path) as service:
        assert (await service.by(await service.key("viewer"), "POST", "/mcp", LIST)).status == 404


async def test_the_api_in_a_server_of_your_own_has_the_endpoint_if_that_is_wanted_also_after_it_was_opened_again(tmp_path: Path) -> None:
    app = perdure.api.app(f"sqlite:///{tmp_path}/own.db", authenticate=lambda _: _local(), mcp=True)
    for _ in range(2):
        async with app.lifespan(), httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://own.example.com") as http:
            answer = await http.post("/mcp", json=LIST, headers=ACCEPT)
            assert answer.status_code == 200 and len(answer.json()["result"]["tools"]) > 40


async def _local() -> Caller:
    return LOCAL


async def test_an_application_around_it_may_know_who_asks_by_any_header_and_by_what_it_has_added_to_the_scope(tmp_path: Path) -> None:
    async def caller_of(request: ApiRequest) -> Caller:
        if (request.header("x-user"), request.scope.get("session")) != ("ada", {"team": "ops"}):
            raise Unauthenticated("sign in to the shop")
        return LOCAL

    service = perdure.api.app(f"sqlite:///{tmp_path}/own.db", authenticate=caller_of, mcp=True)

    async def host(scope: Any, receive: Any, send: Any) -> None:
        await service({**scope, "session": {"team": "ops"}}, receive, send)

    headers = {**ACCEPT, "x-user": "ada", "idempotency-key": "of the message"}
    async with service.lifespan(), httpx2.AsyncClient(transport=httpx2.ASGITransport(app=host), base_url="http://own.example.com") as http:
        answer = await http.post("/mcp", json=LIST, headers=headers)
        assert len(answer.json()["result"]["tools"]) > 40, answer.text
        call = {**LIST, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}
        answer = await http.post("/mcp", json=call, headers=headers)
        assert answer.json()["result"]["structuredContent"]["subject"] == "local", answer.text


async def test_the_endpoint_begins_once_for_many_first_requests(tmp_path: Path) -> None:
    async with mcp_service(tmp_path, mcp=McpEndpoint(PublishedWorkflows(["all"]))) as service:
        key = await service.key("viewer")
        answers = await asyncio.gather(*(service.by(key, "POST", "/mcp", LIST, accept=ACCEPT["accept"]) for _ in range(5)))
        assert {one.status for one in answers} == {200}


def imported_by(*words: str) -> set[str]:
    """The modules that Python has after it has run the words."""
    code = ";".join([*words, "import sys, json", "sys.stderr.write(json.dumps(sorted(sys.modules)))"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONWARNINGS": ""})
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "words",
    [
        ("import perdure",),
        ("import perdure.mcp_server", "perdure.mcp_server.McpEndpoint()", "import perdure.mcp_server.tool_service", "import perdure.mcp_server.stdio_server"),
        ("import click.testing", "from perdure.cli.command_list import root", "click.testing.CliRunner().invoke(root, ['--help'])"),
        ("import click.testing", "from perdure.cli.command_list import root", "click.testing.CliRunner().invoke(root, ['mcp', '--help'])"),
        ("import click.testing", "from perdure.cli.command_list import root", "click.testing.CliRunner().invoke(root, ['serve', '--help'])"),
    ],
)
def test_the_library_of_the_protocol_is_not_imported_before_it_is_used(words: tuple[str, ...]) -> None:
    found: Any = imported_by(*words)
    assert not {"mcp", "mcp_types", "fastmcp", "pydantic", "starlette"} & found
