"""Claims about children that are spoken with over pipes: what they have is interrupted when they die, and nothing that they say harms anybody but them."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import ExecutionCancelled, ExecutionFailed
from perdure.core import events as e
from perdure.core import messages
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.stores.protocol import Post
from perdure.tasks import pipe_worker
from perdure.tasks.child_command import child_environment, split_command
from perdure.tasks.pipe_worker import MESSAGE_BYTES_MAX, ChildProtocolError, PipeWorker, read_lines
from tests.tasks.worker_setup import WORKER, node, place, tasks

pytestmark = pytest.mark.slow

CHILD = """
import json, os, sys, time

def tell(**said):
    sys.stdout.write(json.dumps(said) + "\\n")
    sys.stdout.flush()

def heard():
    for line in sys.stdin:
        yield json.loads(line)

with open("lives", "a") as file:
    file.write("x")
LIVES = os.path.getsize("lives")
"""
ONE = tasks({"id": "a", "task": "do", "with": {"n": 1}})


def child(directory: Path, body: str) -> list[str]:
    """A child in Python, which is started in no time."""
    file = directory / "child.py"
    file.write_text(f"import os\nos.chdir({str(directory)!r})\n{CHILD}\n{body}")
    return [sys.executable, "-I", "-S", str(file)]


def piped(command: list[str], **more: str) -> Callable[[Any], PipeWorker]:
    return lambda broker: PipeWorker(broker, command, {**child_environment(), **more})


async def done(directory: Path, body: str, definition: Any = ONE) -> tuple[Any, list[e.Event]]:
    """What becomes of an execution whose tasks a child does."""
    async with place(directory, definition, piped(child(directory, body))) as it:
        await it.start(definition)
        return await it.result(), await it.events()


def count(events: list[e.Event], kind: type) -> int:
    return sum(isinstance(event, kind) for event in events)


async def test_the_worker_in_javascript_does_tasks_as_a_child(tmp_path: Path) -> None:
    steps = [
        {"id": "thumb", "task": "thumbnail", "with": {"photo": "cat.jpg", "width": 64}},
        {"id": "counted", "each": {"in": list(range(10)), "concurrency": 0}, "task": "count", "with": {"to": 3}},
        {"id": "unsteady", "task": "unsteady", "with": {"works_at": 2}},
        {"id": "score", "task": "judge", "with": {"score": 0.7}},
    ]
    definition = tasks(*steps, output={"thumb": "@thumb.file", "counted": "@counted", "unsteady": "@unsteady", "by": "@steps.score.output.port"})
    async with place(tmp_path, definition, piped(split_command(f"'{node()}' '{WORKER}'", "--exec"))) as it:
        await it.start(definition)
        counted = {"counted": 3, "attempt": 1}
        assert await it.result() == {"thumb": "cat.jpg.64.png", "counted": [counted] * 10, "unsteady": 2, "by": "sure"}


async def test_a_child_has_as_many_tasks_at_a_time_as_it_wants(tmp_path: Path) -> None:
    definition = tasks({"id": "n", "each": {"in": list(range(12)), "concurrency": 0}, "task": "do"})
    body = """
tell(say="ready", concurrency=3)
open_, most = [], 0
for said in heard():
    if said["say"] == "task":
        open_.append(said["lease"])
        most = max(most, len(open_))
        if len(open_) == 3:
            time.sleep(0.02)
            while open_:
                tell(say="complete", lease=open_.pop(), value=most)
"""
    result, _ = await done(tmp_path, body, definition)
    assert result == [3] * 12


async def test_what_a_child_had_that_dies_is_interrupted_and_done_by_the_next(tmp_path: Path) -> None:
    body = """
tell(say="ready")
for said in heard():
    if said["say"] == "task" and LIVES < 3:
        tell(say="heartbeat", lease=said["lease"], progress={"lives": LIVES})
        time.sleep(0.1)
        os.kill(os.getpid(), 9)
    elif said["say"] == "task":
        tell(say="complete", lease=said["lease"], value=[said["attempt"], said["progress"]])
"""
    result, events = await done(tmp_path, body)
    assert result == [3, {"lives": 2}] and count(events, e.InterruptedEvent) == 2 and count(events, e.RetryingEvent) == 0


async def test_what_a_child_has_answered_before_it_ends_counts(tmp_path: Path) -> None:
    definition = tasks({"id": "n", "each": {"in": list(range(3)), "concurrency": 0}, "task": "do"})
    body = """
tell(say="ready", concurrency=1)
for said in heard():
    if said["say"] == "task":
        with open("answered", "a") as file:
            file.write(said["path"] + "\\n")
        tell(say="complete", lease=said["lease"], value=LIVES)
        os.kill(os.getpid(), 9)
"""
    result, _ = await done(tmp_path, body, definition)
    assert len(result) == len(written(tmp_path / "answered").splitlines()) == 3


async def test_what_may_not_be_done_twice_is_interrupted_when_the_child_dies(tmp_path: Path) -> None:
    definition = tasks({"id": "a", "task": "do", "idempotent": False})
    body = """
tell(say="ready")
for said in heard():
    sys.exit(3)
"""
    with pytest.raises(ExecutionFailed, match="not declared idempotent"):
        await done(tmp_path, body, definition)


async def test_a_child_says_failures_and_ports_as_they_are_said_over_http(tmp_path: Path) -> None:
    definition = tasks(
        {"id": "a", "task": "do"}, {"id": "b", "task": "do", "on_error": "go_on", "needs": ["a"]}, output={"a": "@a", "by": "@steps.a.output.port"}
    )
    body = """
tell(say="ready")
for said in heard():
    if said["say"] == "task" and said["path"] == "b":
        tell(say="fail", lease=said["lease"], type="Broken", message="out of ink", retry=False)
    elif said["say"] == "task" and said["attempt"] == 1:
        tell(say="fail", lease=said["lease"], message="busy", after_s=0.01)
    elif said["say"] == "task":
        tell(say="complete", lease=said["lease"], value={"x": None}, port="odd")
"""
    result, events = await done(tmp_path, body, definition)
    assert result == {"a": {"x": None}, "by": "odd"} and count(events, e.RetryingEvent) == 1


async def test_an_answer_that_can_not_be_kept_fails_the_task_and_not_the_child(tmp_path: Path) -> None:
    for value, said in (("2**70", "unencodable"), ("1, port='error'", "bad_value")):
        directory = tmp_path / said
        directory.mkdir()
        body = f"""
tell(say="ready")
for said in heard():
    if said["say"] == "task":
        tell(say="complete", lease=said["lease"], value={value})
"""
        with pytest.raises(ExecutionFailed, match=said):
            await done(directory, body)
        assert (directory / "lives").read_text() == "x"


async def test_a_child_is_told_of_tasks_that_nobody_wants_any_more(tmp_path: Path) -> None:
    body = """
tell(say="ready")
for said in heard():
    with open("heard", "a") as file:
        file.write(json.dumps(said) + "\\n")
    if said["say"] == "cancel":
        tell(say="fail", lease=said["lease"], message="cancelled")
    elif said["say"] == "task":
        last = said["lease"]
    elif said["say"] == "stop":
        tell(say="complete", lease=last, value="free again")
"""
    async with place(tmp_path, ONE, piped(child(tmp_path, body))) as it:
        await it.start(ONE)
        await until_written(tmp_path / "heard", '"task"')
        await it.store.commit([Post(messages=(OutgoingMessage(Key("default", "album", "e"), "cancel", messages.encode_message(messages.CancelMessage())),))])
        with pytest.raises(ExecutionCancelled):
            await it.result()
        await it.start(ONE, "later")
        await until_written(tmp_path / "heard", '"later"')
        it.member.stop(20.0)
        assert await it.result("later") == "free again", "a task may be finished when the worker is stopping"
    heard = [msgspec.json.decode(line) for line in (tmp_path / "heard").read_text().splitlines()]
    assert [one["say"] for one in heard] == ["task", "cancel", "task", "stop"], "it is answered within its grace"
    assert heard[1]["lease"] == heard[0]["lease"] and "cancelled" in heard[1]["why"]


async def test_a_child_that_does_not_let_go_of_a_cancelled_task_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_worker, "CANCEL_S", 0.1)
    definition = tasks({"id": "a", "task": "do", "timeout": "1s", "retry": {"max": 2, "wait": "10ms"}})
    body = """
tell(say="ready")
for said in heard():
    if said["say"] == "task" and LIVES > 1:
        tell(say="complete", lease=said["lease"], value=said["attempt"])
"""
    result, events = await done(tmp_path, body, definition)
    assert result == 2 and count(events, e.RetryingEvent) == 1


def written(file: Path) -> str:
    """What is in a file; nothing, if there is none."""
    return file.read_text() if file.exists() else ""


async def until_written(file: Path, text: str) -> None:
    """Wait until a file has some text."""
    async with asyncio.timeout(20.0):
        while text not in written(file):
            await asyncio.sleep(0.01)


# What a child says.


@pytest.mark.parametrize(
    "noise",
    [
        'sys.stdout.write("hello\\n\\n  \\n[1, 2]\\nnull\\n")',
        'sys.stdout.buffer.write(bytes(range(128, 256)) * 100 + b"\\n")',
        'sys.stderr.write("x" * 100_000 + "\\n" + "no end")',
        'sys.stdout.write("y" * 1_000_000 + "\\n")',
        "sys.stderr.buffer.write(bytes(range(256)) * 1000)",
        'sys.stdout.write("\\r\\n")',
    ],
)
async def test_what_is_no_message_is_for_people_and_harms_nobody(tmp_path: Path, noise: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "perdure.tasks")
    body = f"""
tell(say="ready")
for said in heard():
    {noise}
    sys.stdout.flush(); sys.stderr.flush()
    if said["say"] == "task":
        tell(say="complete", lease=said["lease"], value="done")
"""
    result, events = await done(tmp_path, body)
    assert result == "done" and count(events, e.InterruptedEvent) == 0
    assert max((len(record.getMessage()) for record in caplog.records), default=0) < 50_000


@pytest.mark.parametrize(
    "nonsense",
    [
        '{"say": "complete"',
        '{"say": "sing"}',
        '{"say": "complete", "lease": "x", "valu": 1}',
        '{"say": "ready", "concurrency": 0}',
        '{"say": "ready", "concurrency": 1e9}',
        '{"say": "fail", "lease": "x"}',
        '{"say": "heartbeat", "lease": "x", "progress": ' + '"' + "x" * 70_000 + '"}',
        "{" * 5000,
        '{"say": ["complete"]}',
        '{"lease": {}, "say": "complete"}',
        '{"say": "complete", "lease": "x", "value": 1, "value": 2}',
    ],
)
async def test_a_child_that_says_what_is_no_message_of_the_protocol_is_started_again(tmp_path: Path, nonsense: str) -> None:
    (tmp_path / "nonsense").write_text(nonsense)
    body = """
tell(say="ready")
for said in heard():
    if said["say"] == "task" and LIVES == 1:
        sys.stdout.write(open("nonsense").read() + "\\n")
        sys.stdout.flush()
    elif said["say"] == "task":
        tell(say="complete", lease=said["lease"], value=said["attempt"])
"""
    result, events = await done(tmp_path, body)
    assert result == 2 and count(events, e.InterruptedEvent) == 1


async def test_an_answer_to_a_lease_that_is_none_is_refused_and_nothing_else_happens(tmp_path: Path) -> None:
    body = """
tell(say="ready")
for said in heard():
    if said["say"] == "task":
        lease = said["lease"]
        tell(say="complete", lease="x" * 32, value=1)
        tell(say="heartbeat", lease="x" * 32)
    elif said["say"] == "refused":
        tell(say="complete", lease=lease, value=said["why"])
"""
    result, _ = await done(tmp_path, body)
    assert "no such lease" in result


async def stream(*parts: bytes) -> AsyncIterator[bytes]:
    reader = asyncio.StreamReader()

    async def feed() -> None:
        for part in parts:
            reader.feed_data(part)
            await asyncio.sleep(0)
        reader.feed_eof()

    feeding = asyncio.create_task(feed())
    async for line in read_lines(reader):
        yield line
    await feeding


async def test_lines_are_whole_however_they_come() -> None:
    raw = b'{"a": 1}\n\n{"b": "\xc3\xa9"}\n' + b"x" * 200_000 + b"\nrest without an end"
    wanted = [b'{"a": 1}', b"", b'{"b": "\xc3\xa9"}', b"x" * 200_000]
    for size in (1, 7, 65_536, len(raw)):
        if size > 1 or len(raw) < 1000:
            assert [line async for line in stream(*(raw[at : at + size] for at in range(0, len(raw), size)))] == wanted
    assert [line async for line in stream(*(raw[at : at + 1] for at in range(20)))] == wanted[:2]


async def test_a_line_that_never_ends_is_not_kept() -> None:
    with pytest.raises(ChildProtocolError, match="a line of more than"):
        async for _ in stream(*[b"x" * 2**20] * (MESSAGE_BYTES_MAX // 2**20 + 2)):
            pass


# Beginning and ending.


async def test_a_child_that_is_never_ready_is_started_again_and_leases_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_worker, "READY_S", 1.5)
    body = """
if LIVES > 1:
    tell(say="ready")
for said in heard():
    if said["say"] == "task":
        tell(say="complete", lease=said["lease"], value=[LIVES, said["attempt"]])
"""
    result, _ = await done(tmp_path, body)
    assert result == [2, 1]


async def test_a_stop_lets_the_child_end_what_it_has_and_leaves_nobody(tmp_path: Path) -> None:
    body = """
tell(say="ready")
with open("pid", "w") as file:
    file.write(str(os.getpid()))
for said in heard():
    if said["say"] == "stop":
        tell(say="complete", lease=lease, value="with its last breath")
    elif said["say"] == "task":
        lease = said["lease"]
        with open("begun", "w") as file:
            file.write("begun")
"""
    command = child(tmp_path, body)
    async with place(tmp_path, ONE, piped(command)) as it:
        await it.start(ONE)
        await until_written(tmp_path / "begun", "begun")
        it.member.stop(20.0)
        assert await it.result() == "with its last breath"
    assert not lives(int((tmp_path / "pid").read_text()))


def lives(pid: int) -> bool:
    """Whether there is such a process."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" if sys.platform == "linux" else True
    return False


async def test_the_child_knows_nothing_of_the_store_nor_of_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PERDURE_DB", "PERDURE_SIGNING_SECRET", "PERDURE_ENCRYPTION_KEYS", "AWS_SECRET_ACCESS_KEY", "MINE"):
        monkeypatch.setenv(name, "canary-of-the-test")
    body = """
tell(say="ready")
for said in heard():
    if said["say"] == "task":
        tell(say="complete", lease=said["lease"], value=dict(os.environ))
"""
    async with place(tmp_path, ONE, lambda broker: PipeWorker(broker, child(tmp_path, body), child_environment(["MINE", "MORE=x=y"]))) as it:
        await it.start(ONE)
        found = await it.result()
    assert [name for name, value in found.items() if "canary" in value] == ["MINE"] and found["MORE"] == "x=y"
    assert found["PATH"] == os.environ["PATH"] and not any(name.startswith("PERDURE") for name in found)


def test_what_perdure_is_configured_with_is_not_passed_on_by_name_either() -> None:
    for name in ("PERDURE_DB", "perdure_secret=x", "", "=x"):
        with pytest.raises(BadValue, match="--env"):
            child_environment([name])
    for command in ("", "   ", "'", "there-is-no-such-program x"):
        with pytest.raises(BadValue, match="--exec"):
            split_command(command, "--exec")
