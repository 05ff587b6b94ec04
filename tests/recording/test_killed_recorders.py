"""Claims about recorders that are killed: every call is recorded once, what may not be done twice is not, and what is in doubt is said to be."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.operations import on_recordings
from perdure.operations.on_recordings import RecordingDetails
from perdure.service.store_access import StoreAccess
from perdure.stores.configured_store import open_store

PROGRAM = Path(__file__).with_name("killed_recorder.py")
SERVER = Path(__file__).parent.parent / "mcp" / "raw_server.py"
STEPS = ["add_1", "charge_1", "put_1", "fails_1", "echo_1"]
SAMPLE = (2, 6, 9, 11, 14, 17)


def server_file(directory: Path) -> Path:
    """Writes the file with the MCP server of the recorders of a directory."""
    config = directory / "mcp.json"
    calls = {"CALLS": str(directory / "calls")}
    config.write_text(json.dumps({"mcpServers": {"raw": {"command": sys.executable, "args": [str(SERVER)], "env": calls, "timeout": "5s"}}}))
    return config


def run(point: int, directory: Path) -> tuple[int, list[dict[str, Any]]]:
    """Runs the recorder; returns how it ended and what it printed."""
    config = server_file(directory)
    ended = subprocess.run([sys.executable, str(PROGRAM), str(config), str(point)], cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()]


async def _recorded(directory: Path) -> RecordingDetails:
    store = open_store(f"sqlite:///{directory / 'recording.db'}")
    access = StoreAccess(store)
    try:
        return await on_recordings.read(access, "default", "r1")
    finally:
        await access.aclose()
        await store.close()


def recorded(directory: Path) -> RecordingDetails:
    return asyncio.run(_recorded(directory))


def check_after(point: int, directory: Path) -> bool:
    """Kills a recorder at a point, lets another one go on, and checks what it has recorded. Returns whether there was such a point."""
    code, before = run(point, directory)
    if code == 0:
        return False
    _, after = run(0, directory)
    assert after[: len(before)] == before, "what was answered once is answered again, and nothing is done for it"
    found = recorded(directory)
    assert [call.step for call in found.calls] == STEPS and [call.number for call in found.calls] == [1, 2, 3, 4, 5]
    done = [line.split(" ", 1) for line in (directory / "calls").read_text().splitlines()]
    times = {name: sum(one[0] == name for one in done) for name in ("add", "charge", "put", "fails", "echo")}
    assert times["charge"] <= 1 and times["fails"] <= 1, "what may not be done twice is not"
    assert all(1 <= times[name] <= 2 for name in ("add", "put")) and times["echo"] <= 1
    states = {call.step: call.state for call in found.calls}
    assert states["add_1"] == "completed" and found.calls[0].value == {"total": 42}
    assert states["charge_1"] in ("completed", "in_doubt") and (states["charge_1"] == "completed" or after[1]["error"])
    assert states["fails_1"] in ("failed", "in_doubt") and after[3]["error"]
    assert found.calls[1].sent == {"cents": 42} and found.calls[1].arguments == {"cents": "@add_1.total"}
    return True


@pytest.mark.slow
@pytest.mark.parametrize("point", [pytest.param(point, marks=[] if point == SAMPLE[0] else pytest.mark.prove) for point in SAMPLE])
def test_a_recorder_that_is_killed_has_recorded_every_call_once(point: int, tmp_path: Path) -> None:
    assert check_after(point, tmp_path)


@pytest.mark.prove
def test_a_recorder_may_be_killed_at_every_write_and_call(tmp_path: Path) -> None:
    point = 1
    while True:
        (directory := tmp_path / str(point)).mkdir()
        if not check_after(point, directory):
            break
        point += 1
    assert point > 30


@pytest.mark.prove
def test_two_recorders_make_the_calls_of_one_recording_once(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(server_file(tmp_path)), "0"]
    both = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate(timeout=120) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    first, second = ([json.loads(line) for line in out.splitlines()][:-1] for out, _ in said)
    assert first == second
    found = recorded(tmp_path)
    assert [call.step for call in found.calls] == STEPS
    assert [line.split(" ", 1)[0] for line in (tmp_path / "calls").read_text().splitlines()] == ["add", "charge", "put", "fails", "echo"]
