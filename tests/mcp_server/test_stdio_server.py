"""Claims about `perdure mcp` as a real process, with the client of the protocol's own library: both generations of the protocol, its end, and a kill -9."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types
import pytest

from perdure.mcp_server.stdio_server import LINE_BYTES_MAX
from tests.cli.serve_process import new_key, serving
from tests.mcp_server.mcp_setup import INVOICE, called, stdio

pytestmark = pytest.mark.slow

SHOP = Path(__file__).with_name("served_shop.py")


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.prove)])
async def test_a_client_starts_a_workflow_of_code_decides_and_reads_the_result(tmp_path: Path, mode: str) -> None:
    async with stdio(tmp_path, str(SHOP), mode=mode) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        hints = tools["list_executions"].annotations
        assert hints is not None and hints.read_only_hint is True
        assert client.server_info is not None and client.server_info.name == "perdure" and "list_workflows" in (client.instructions or "")
        started = await called(client, "start_workflow", workflow="order", input={"cents": 20_000})
        assert started["status"] == "waiting_approval"
        refused = await client.call_tool("decide_approval", {"id": started["approvals"][0]["id"], "decision": "approve"})
        assert refused.is_error and "Next: " in refused.content[0].text  # type: ignore[union-attr]  # it is text
        _ = await called(client, "decide_approval", id=started["approvals"][0]["id"], decision="approve", by="ada")
        assert (await called(client, "wait_for_execution", id=started["id"]))["result"] == "20000 cents are charged"
    assert (tmp_path / "charged").read_text() == "20000\n"
    assert "a line that is no message" in (tmp_path / "mcp.log").read_text()


async def test_calls_run_side_by_side(tmp_path: Path) -> None:
    async with stdio(tmp_path, str(SHOP)) as client:
        waiting = asyncio.create_task(client.call_tool("start_workflow", {"workflow": "linger", "waitSeconds": 30}))
        await asyncio.sleep(0.3)
        async with asyncio.timeout(5):
            assert (await called(client, "list_executions"))["items"][0]["workflow"] == "linger"
        waiting.cancel()
        async with asyncio.timeout(5):
            assert (await called(client, "count_executions"))["open"]["count"] == 1


async def test_definitions_that_a_model_publishes_run_and_become_tools_and_the_client_is_told(tmp_path: Path) -> None:
    told = asyncio.Event()

    async def message(found: Any) -> None:
        if isinstance(found, mcp_types.ToolListChangedNotification):
            told.set()

    async with stdio(tmp_path, "--workflows", "all", mode="legacy", message_handler=message) as client:
        assert "run_invoice" not in [one.name for one in (await client.list_tools()).tools]
        _ = await called(client, "create_workflow", document=INVOICE)
        async with asyncio.timeout(15):
            _ = await told.wait()
        assert "run_invoice" in [one.name for one in (await client.list_tools()).tools]
        assert (await called(client, "run_invoice"))["result"] == 1


async def test_a_client_of_the_present_protocol_that_listens_is_told_too(tmp_path: Path) -> None:
    async with stdio(tmp_path, "--workflows", "invoice", "--no-engine") as client, client.listen(tools_list_changed=True) as changes:
        assert "run_invoice" not in [one.name for one in (await client.list_tools()).tools]
        _ = await called(client, "create_workflow", document=INVOICE)
        async with asyncio.timeout(15):
            async for _ in changes:
                break
        assert "run_invoice" in [one.name for one in (await client.list_tools()).tools]


async def test_without_an_engine_another_process_runs_what_is_started(tmp_path: Path) -> None:
    async with stdio(tmp_path, "--no-engine") as client:
        made = await called(client, "run_document", document=INVOICE, id="later")
        stuck = await called(client, "wait_for_execution", id=made["id"], waitSeconds=1)
        assert stuck["status"] == "pending"
        async with stdio(tmp_path) as other:
            assert (await called(other, "wait_for_execution", id="later"))["result"] == 1


async def test_the_tools_of_a_server_are_those_of_the_key(tmp_path: Path) -> None:
    viewer, admin = new_key(tmp_path, "--role", "viewer"), new_key(tmp_path)
    with serving(tmp_path) as server:
        async with stdio(tmp_path, PERDURE_DB="", PERDURE_SERVER=server.url, PERDURE_TOKEN=viewer) as client:
            names = [one.name for one in (await client.list_tools()).tools]
            assert "list_executions" in names and "start_workflow" not in names
            assert (await client.call_tool("start_workflow", {"workflow": "order"})).is_error
        async with stdio(tmp_path, "--server", server.url, PERDURE_DB="", PERDURE_TOKEN=admin) as client:
            _ = await called(client, "create_workflow", document=INVOICE)
            assert (await called(client, "start_workflow", workflow="invoice"))["result"] == 1
        async with stdio(tmp_path, "--server", server.url, PERDURE_DB="", PERDURE_TOKEN="prd_wrong_key") as client:
            assert (await client.call_tool("list_executions", {})).is_error
        async with stdio(tmp_path, "--server", server.url, "--tenant", "other", PERDURE_DB="", PERDURE_TOKEN=admin) as client:
            assert (await client.call_tool("list_executions", {})).structured_content["code"] == "forbidden"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--server", "http://127.0.0.1:9", str(SHOP)], "the engines of the server run what is started; leave targets out"),
        (["--server", "http://127.0.0.1:9", "--no-engine"], "leave --no-engine out"),
        (["--server", "ftp://example.com"], "the URL of a server"),
        (["--server", "http://["], "the URL of a server"),
        (["--no-engine", "--queue", "mails"], "--no-engine performs no steps of queues"),
        (["no_such_file.py"], "no_such_file.py"),
    ],
)
def test_options_that_do_not_fit_are_refused_on_standard_error(tmp_path: Path, words: list[str], said: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    command = [sys.executable, "-m", "perdure.cli", "mcp", *words]
    done = subprocess.run(command, cwd=tmp_path, env={**kept, "PYTHONWARNINGS": ""}, input="", capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0 and done.stdout == "" and said in " ".join(done.stderr.split()), done.stderr


# As a program that is killed, or that gets nonsense


class RawProcess:
    """`perdure mcp`, spoken to by its lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self._last = process, 0

    async def send(self, method: str, params: Any = None, *, is_notification: bool = False) -> int:
        """Sends a message, and returns its id."""
        self._last += 0 if is_notification else 1
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}, **({} if is_notification else {"id": self._last})}
        await self.write(json.dumps(message).encode() + b"\n")
        return self._last

    async def write(self, raw: bytes) -> None:
        """Writes what may be no message."""
        assert self.process.stdin is not None
        self.process.stdin.write(raw)
        await self.process.stdin.drain()

    async def answer(self, id: int) -> Any:
        """The answer to a message. Every line has to be one of the protocol."""
        assert self.process.stdout is not None
        while True:
            found = json.loads(await self.process.stdout.readline())
            assert found["jsonrpc"] == "2.0"
            if found.get("id") == id:
                return found

    async def begin(self) -> None:
        """Shakes hands."""
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        assert (await self.answer(await self.send("initialize", about)))["result"]["serverInfo"]["name"] == "perdure"
        _ = await self.send("notifications/initialized", is_notification=True)


@asynccontextmanager
async def raw_process(directory: Path) -> AsyncIterator[RawProcess]:
    """A process that is killed in the end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    environment = {**kept, "PERDURE_DB": f"sqlite:///{directory}/mcp.db", "PYTHONWARNINGS": "", "NOISE": "1"}
    words = (sys.executable, "-m", "perdure.cli", "mcp", str(SHOP))
    pipes: dict[str, Any] = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.DEVNULL}
    process = await asyncio.create_subprocess_exec(*words, cwd=directory, env=environment, limit=2**24, **pipes)
    try:
        yield RawProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
        _ = await process.wait()


@pytest.mark.parametrize("rounds", [pytest.param([1], id="once"), pytest.param(range(3), id="again and again", marks=pytest.mark.prove)])
async def test_a_kill_while_executions_are_started_loses_none_that_was_acknowledged_and_starts_none_twice(tmp_path: Path, rounds: Sequence[int]) -> None:
    acknowledged = set[str]()
    for round in rounds:
        async with raw_process(tmp_path) as one:
            await one.begin()
            ids = list[int]()
            for n in range(round * 20, round * 20 + 40):
                arguments = {"workflow": "order", "input": {"cents": n}, "requestId": f"r{n}", "waitSeconds": 0}
                ids.append(await one.send("tools/call", {"name": "start_workflow", "arguments": arguments}))
            for id in ids[: 5 + 10 * round]:
                acknowledged.add((await one.answer(id))["result"]["structuredContent"]["id"])
            one.process.send_signal(signal.SIGKILL)
    async with stdio(tmp_path, str(SHOP)) as client:
        for n in range(80):
            _ = await called(client, "start_workflow", workflow="order", input={"cents": n}, requestId=f"r{n}", waitSeconds=20)
        seen, after = set[str](), ""
        while True:
            page = await called(client, "list_executions", workflow="order", limit=15, after=after)
            seen |= {one["id"] for one in page["items"]}
            if not (after := page["next"]):
                break
    assert acknowledged <= seen and len(seen) == 80
    charged = (tmp_path / "charged").read_text().split()
    assert {int(one) for one in charged} == set(range(80))


async def test_it_ends_when_the_client_closes_the_input_and_at_a_signal(tmp_path: Path) -> None:
    async def ended(how: str) -> None:
        async with raw_process(tmp_path) as one:
            await one.begin()
            _ = await one.send("tools/call", {"name": "start_workflow", "arguments": {"workflow": "linger", "waitSeconds": 50}})
            await asyncio.sleep(0.5)
            if how == "close":
                assert one.process.stdin is not None
                one.process.stdin.close()
            else:
                one.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(15):
                _ = await one.process.wait()

    _ = await asyncio.gather(ended("close"), ended("signal"))  # both wait for the step as long as they may


async def test_nonsense_on_the_input_does_not_end_it(tmp_path: Path) -> None:
    async with raw_process(tmp_path) as one:
        await one.begin()
        for raw in (b"", b"nonsense", b"\xff\xfe", b"[]", b"{}", b'{"jsonrpc": "2.0", "id": 7}', b"[" * 100_000, b"x" * (LINE_BYTES_MAX + 10)):
            await one.write(raw + b"\n")
        async with asyncio.timeout(20):
            listed = await one.answer(await one.send("tools/list"))
            assert len(listed["result"]["tools"]) > 30
            wrong = await one.answer(await one.send("tools/call", {"name": 5}))
            assert "error" in wrong
            unknown = await one.answer(await one.send("no/such/method"))
            assert unknown["error"]["code"] == -32601


def test_it_ends_quietly_when_the_client_no_longer_reads(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    environment = {**kept, "PERDURE_DB": f"sqlite:///{tmp_path}/mcp.db", "PYTHONWARNINGS": ""}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-m", "perdure.cli", "mcp"], cwd=tmp_path, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}).encode() + b"\n")
        process.stdin.flush()
        assert b"serverInfo" in process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {}}\n')
        process.stdin.flush()
        printed = process.stderr.read().decode()
        assert process.wait(20) == 0, printed
    assert "Traceback" not in printed and "BrokenPipe" not in printed
