"""Claims about the commands of recordings, and about `perdure mcp --record` as a real process with a client of the protocol."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any, get_args

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from perdure.cli.plain_text import TextCell
from perdure.cli.recording_commands import ORDERS
from perdure.cli.recording_views import recording_lines, suggestion_lines
from perdure.operations.on_recordings import RecordingDetails, RecordingSuggestions
from perdure.recording.recorded_definition import StepOrder
from perdure.recording.recording_view import RecordedCall
from tests.cli.shell import run_aside

SERVER = Path(__file__).parent.parent / "mcp" / "raw_server.py"
CANARY = "canary-41c7"


def perdure(directory: Path, *arguments: str, code: int = 0) -> str:
    with chdir(directory):
        ended = run_aside(*arguments)
    assert ended.code == code, ended.err
    return ended.out if code == 0 else ended.err


def refusal(directory: Path, *arguments: str, code: int) -> str:
    command = [sys.executable, "-m", "perdure.cli", "mcp", *arguments]
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code, ended.stderr
    return ended.stderr


def recorder(directory: Path, *more: str) -> Client:
    environment = {"CALLS": str(directory / "calls"), "TOKEN": "@{secrets.TOKEN}"}
    raw = {"command": sys.executable, "args": [str(SERVER)], "env": environment}
    (directory / "mcp.json").write_text(json.dumps({"mcpServers": {"raw": raw}}))
    arguments = ["-m", "perdure.cli", "mcp", "--record", "--recording", "r1", "--tools", "mcp.json", *more]
    return Client(stdio_client(StdioServerParameters(command=sys.executable, args=arguments, cwd=str(directory), env={"PERDURE_SECRET_TOKEN": CANARY})))


def files_with_canary(directory: Path) -> list[Path]:
    return [file for file in directory.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()]


def test_the_orders_are_those_that_there_are() -> None:
    assert get_args(StepOrder) == ORDERS


@pytest.mark.slow
async def test_a_client_records_and_people_look_save_and_end(tmp_path: Path) -> None:
    async with recorder(tmp_path, "--title", "Adds") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "add" in names and "recording_status" in names
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"total": 3}
        failed = await client.call_tool("fails", {"why": "closed"})
        assert failed.is_error
        shown: Any = await client.call_tool("env", {})
        assert CANARY not in shown.content[0].text, "the server has the secret, and it is masked in what it answers"
    async with recorder(tmp_path) as client:
        echoed: Any = await client.call_tool("echo", {"text": "@add_1.total"})
        assert echoed.content[0].text == "3", "another process goes on with the recording"
    (listed,) = json.loads(perdure(tmp_path, "recording", "ls", "--json"))
    assert (listed["id"], listed["title"], listed["open"], listed["idle"]) == ("r1", "Adds", True, True)
    text = perdure(tmp_path, "recording", "show", "r1")
    assert "@echo_1  completed  raw.echo" in text and "@fails_1  failed" in text and "no: closed" in text
    assert [one["step"] for one in json.loads(perdure(tmp_path, "recording", "show", "r1", "--json"))["calls"]] == ["add_1", "fails_1", "env_1", "echo_1"]
    printed = perdure(tmp_path, "recording", "save", "r1", "adds", "--print", "--step", "add_1", "--step", "echo_1")
    assert "tool: raw.add" in printed and '"@add_1.total"' in printed and "fails" not in printed
    assert "adds has a draft" in perdure(tmp_path, "recording", "save", "r1", "adds", "--draft")
    assert "adds is at version 1.0.0" in perdure(tmp_path, "recording", "save", "r1", "adds")
    assert not files_with_canary(tmp_path)


@pytest.mark.slow
async def test_suggestions_are_shown_for_one_step_and_for_calls_that_have_failed(tmp_path: Path) -> None:
    async with recorder(tmp_path) as client:
        _ = await client.call_tool("echo", {"text": "order-48213-b"})
        _ = await client.call_tool("echo", {"text": "order-48213-b again"})
        _ = await client.call_tool("fails", {"why": "order-48213-b is closed"})

    def calls(*more: str) -> set[str]:
        return {one["call"] for one in json.loads(perdure(tmp_path, "recording", "suggest", "r1", "--json", *more))["references"]}

    assert {"echo_2", "fails_1"} <= calls("--failed") and "fails_1" not in calls()
    assert calls("--step", "echo_2") == calls("--failed", "--step", "echo_2") == {"echo_2"}
    assert calls("--failed", "--step", "fails_1") == {"fails_1"} and calls("--step", "fails_1") == set()
    assert "echo_9" in perdure(tmp_path, "recording", "suggest", "r1", "--step", "echo_2", "--step", "echo_9", code=10)


def test_what_is_not_shown_or_not_searched_is_said() -> None:
    def text(lines: Iterable[Sequence[TextCell]]) -> str:
        return "\n".join("  ".join(one.text for one in line) for line in lines)

    calls = [RecordedCall(number=1, step="a_1", tool="s.a", state="completed")]
    known: dict[str, Any] = {"id": "r1", "title": "", "open": True, "input": {}, "presets_to_come": [], "started_at_s": 0.0, "last_at_s": 0.0}
    assert "not shown" not in text(recording_lines(RecordingDetails(calls=calls, calls_in_all=1, calls_by_state={"completed": 1}, **known)))
    found = text(recording_lines(RecordingDetails(calls=calls, calls_in_all=2_003, calls_by_state={"completed": 2_003}, **known)))
    assert found.endswith("later calls are not shown: the console shows all") and re.search(r"2[^0-9]?002 later", found)
    for is_partial in (True, False):
        said = text(suggestion_lines(RecordingSuggestions(references=[], loops=[], is_partial=is_partial), weak=False))
        assert ("there may be more" in said) == is_partial


@pytest.mark.slow
def test_what_can_not_be_recorded_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('{"mcpServers": {}}')
    assert "needs MCP servers" in refusal(tmp_path, "--record", "--tools", "none.json", code=10)
    assert "is no file of MCP servers" in refusal(tmp_path, "--record", "--tools", "shop.py", code=10)
    gone = {"mcpServers": {"gone": {"command": "no-such-program-anywhere"}}}
    (tmp_path / "gone.json").write_text(json.dumps(gone))
    refused = refusal(tmp_path, "--record", "--tools", "gone.json", code=10)
    assert "the MCP server gone can't be reached" in refused and "Traceback" not in refused
    assert "belong to --record" in refusal(tmp_path, "--recording", "r1", code=20)
    assert "leave --queue out" in refusal(tmp_path, "--record", "--tools", "none.json", "--queue", "q", code=20)
