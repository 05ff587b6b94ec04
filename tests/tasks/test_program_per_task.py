"""Claims about a process for each task: what it leaves in files is what counts, and its exit code says whether it does."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import ExecutionCancelled, ExecutionFailed
from perdure.core import events as e
from perdure.core import messages
from perdure.core.envelopes import OutgoingMessage
from perdure.core.paths import Key
from perdure.stores.protocol import Post
from perdure.tasks.child_command import child_environment
from perdure.tasks.program_per_task import ProgramPerTask
from tests.tasks.worker_setup import place, tasks

pytestmark = pytest.mark.slow

PROGRAM = """
import json, os, sys, time
with open(os.environ["PERDURE_TASK_FILE"]) as file:
    task = json.load(file)
def leave(what, name="RESULT"):
    with open(os.environ[f"PERDURE_{name}_FILE"], "w") as file:
        file.write(what if isinstance(what, str) else json.dumps(what))
"""
ONE = tasks({"id": "a", "task": "do", "with": {"n": 1}})


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Temporary files are where the test can see that none is left."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    yield
    assert list((tmp_path / "temporary").iterdir()) == []


def each(directory: Path, body: str, concurrency: int = 4) -> Callable[[Any], ProgramPerTask]:
    file = directory / "do.py"
    file.write_text(f"{PROGRAM}\nos.chdir({str(directory)!r})\n{body}")
    return lambda broker: ProgramPerTask(broker, [sys.executable, "-I", "-S", str(file)], child_environment(), concurrency)


async def done(directory: Path, body: str, definition: Any = ONE, **options: Any) -> tuple[Any, list[e.Event]]:
    """What becomes of an execution whose tasks a program does."""
    async with place(directory, definition, each(directory, body, **options)) as it:
        await it.start(definition)
        return await it.result(), await it.events()


async def test_a_program_finds_its_task_and_leaves_its_result_and_its_port(tmp_path: Path) -> None:
    definition = tasks({"id": "a", "task": "do", "with": {"n": 1, "text": "é"}}, output={"a": "@a", "by": "@steps.a.output.port"})
    body = """
leave({"given": task["input"], "key": os.environ["PERDURE_IDEMPOTENCY_KEY"], "task": os.environ["PERDURE_TASK"], "attempt": os.environ["PERDURE_ATTEMPT"]})
leave("odd\\n", "PORT")
"""
    result, _ = await done(tmp_path, body, definition)
    assert result == {"a": {"given": {"n": 1, "text": "é"}, "key": "default/album/e:a", "task": "do", "attempt": "1"}, "by": "odd"}


async def test_a_program_that_leaves_nothing_has_the_result_null(tmp_path: Path) -> None:
    assert (await done(tmp_path, ""))[0] is None


async def test_a_program_that_fails_is_tried_again_and_what_it_said_last_is_its_error(tmp_path: Path) -> None:
    body = """
for number in range(100):
    print("line", number)
sys.exit("out of ink" if task["attempt"] < 3 else 7)
"""
    async with place(tmp_path, ONE, each(tmp_path, body)) as it:
        await it.start(ONE)
        with pytest.raises(ExecutionFailed, match=r"program_failed: .*ended with exit code 7: line 80\nline 81"):
            await it.result()
        retried = [event.error.message for event in await it.events() if isinstance(event, e.RetryingEvent)]
    assert len(retried) == 2 and all(message.endswith("line 99\nout of ink") for message in retried)


@pytest.mark.parametrize(("left", "said"), [("{", "bad_value"), ("[NaN]", "bad_value"), ("1" * 40, "unencodable"), ('"\\ud800"', "bad_value")])
async def test_a_result_that_is_none_fails_the_task_for_good(tmp_path: Path, left: str, said: str) -> None:
    with pytest.raises(ExecutionFailed, match=said):
        await done(tmp_path, f"leave({left!r})")


async def test_how_far_a_program_is_is_there_for_its_next_try(tmp_path: Path) -> None:
    body = """
if task["attempt"] == 1:
    leave("{", "PROGRESS")
    leave({"pages": 3}, "PROGRESS")
    time.sleep(0.8)
    os.kill(os.getpid(), 9)
leave(task["progress"])
"""
    result, events = await done(tmp_path, body)
    assert result == {"pages": 3} and any(isinstance(event, e.ProgressedEvent) for event in events)


async def test_so_many_run_at_a_time_and_no_more(tmp_path: Path) -> None:
    definition = tasks({"id": "n", "each": {"in": list(range(6)), "concurrency": 0}, "task": "do"})
    body = """
mark = f"running.{os.getpid()}"
open(mark, "w").close()
time.sleep(0.15)
leave(len([name for name in os.listdir(".") if name.startswith("running.")]))
os.unlink(mark)
"""
    result, _ = await done(tmp_path, body, definition, concurrency=2)
    assert max(result) == 2


async def test_a_program_that_takes_too_long_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    definition = tasks({"id": "a", "task": "do", "timeout": "700ms", "retry": {"max": 1}})
    body = """
import subprocess
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
with open("pids", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
time.sleep(1000)
"""
    with pytest.raises(ExecutionFailed, match=r"timeout: no answer within 0\.7 s"):
        await done(tmp_path, body, definition)
    assert left(tmp_path / "pids") == []


async def test_a_program_whose_task_nobody_wants_any_more_is_ended(tmp_path: Path) -> None:
    body = """
open("begun", "w").close()
time.sleep(1000)
"""
    brief = tasks({"id": "a", "task": "do", "with": {"n": 1}, "grace": "1s"})
    async with place(tmp_path, brief, each(tmp_path, body)) as it:
        await it.start(brief)
        await appears(tmp_path / "begun")
        await it.store.commit([Post(messages=(OutgoingMessage(Key("default", "album", "e"), "cancel", messages.encode_message(messages.CancelMessage())),))])
        with pytest.raises(ExecutionCancelled):
            await it.result()
        async with asyncio.timeout(10.0):
            while it.member.broker.task_leases.open or it.member._running:
                await asyncio.sleep(0.02)


async def test_a_program_that_may_not_be_run_twice_and_is_ended_by_a_stop_is_interrupted(tmp_path: Path) -> None:
    definition = tasks({"id": "a", "task": "do", "idempotent": False})
    body = """
open("begun", "w").close()
time.sleep(1000)
"""
    async with place(tmp_path, definition, each(tmp_path, body)) as it:
        await it.start(definition)
        await appears(tmp_path / "begun")
        it.member.stop(0.0)
    (tmp_path / "begun").unlink()
    async with place(tmp_path, definition, each(tmp_path, body)) as it:
        with pytest.raises(ExecutionFailed, match="interrupted"):
            await it.result()
    assert not (tmp_path / "begun").exists()


def left(file: Path) -> list[str]:
    """The processes of a list that there are still."""
    return [pid for pid in file.read_text().split() if Path(f"/proc/{pid}").exists()]


async def appears(file: Path) -> None:
    """Wait until there is a file."""
    async with asyncio.timeout(20.0):
        while not await asyncio.to_thread(os.path.exists, file):
            await asyncio.sleep(0.02)
