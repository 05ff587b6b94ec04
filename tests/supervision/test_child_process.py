"""Supervised children: each ends with every process that it has started, however this process ends, and leaves nothing behind."""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import perdure
from perdure.supervision.child_process import ChildProcess
from perdure.supervision.child_supervisor import NOT_STARTED
from tests.open_descriptors import open_descriptors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the processes of a child are found in /proc")

ENVIRONMENT = {"PATH": os.environ["PATH"]}
FAMILY = """
import os, subprocess, sys, time
def note(name):
    with open(f"pid.{name}", "w") as file:
        file.write(str(os.getpid()))
note("child")
if os.fork() == 0:
    os.setsid()                 # away from the group and the session
    if os.fork() == 0:          # and from the parent
        note("daemon")
        time.sleep(1000)
    os._exit(0)
if os.fork() == 0:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("deaf")
    time.sleep(1000)
time.sleep(float(sys.argv[1]))
"""


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def family(directory: Path, wait_s: float = 10.0) -> list[int]:
    """The processes that a child has started, itself included."""
    until_s = time.monotonic() + wait_s
    names = ("child", "daemon", "deaf")
    while not all((directory / f"pid.{name}").exists() and (directory / f"pid.{name}").read_text() for name in names):
        assert time.monotonic() < until_s
        time.sleep(0.01)
    return [int((directory / f"pid.{name}").read_text()) for name in names]


def left(directory: Path) -> list[int]:
    """The processes noted anywhere below a directory that have not ended."""
    noted = [file.read_text() for file in directory.rglob("pid.*")]
    return [int(pid) for pid in noted if pid and alive(int(pid))]


def script(directory: Path) -> str:
    file = directory / "family.py"
    file.write_text(f"import os\nos.chdir({str(directory)!r})\n{FAMILY}")
    return str(file)


async def started(directory: Path, lives_s: float) -> ChildProcess:
    return await ChildProcess.start([sys.executable, "-I", "-S", script(directory), str(lives_s)], ENVIRONMENT)


@pytest.mark.slow
async def test_ending_a_child_ends_every_process_that_it_has_started(tmp_path: Path) -> None:
    child = await started(tmp_path, 1000)
    pids = family(tmp_path)
    assert all(map(alive, pids))
    assert await child.end() == 128 + signal.SIGTERM
    assert not any(map(alive, pids)) and not alive(child.process.pid)


@pytest.mark.prove
async def test_a_child_that_exits_leaves_no_process(tmp_path: Path) -> None:
    child = await started(tmp_path, 0.1)
    pids = family(tmp_path)
    assert await child.process.wait() == 0 and await child.end() == 0
    assert not any(map(alive, pids))


@pytest.mark.slow
async def test_a_child_ends_when_this_process_is_killed(tmp_path: Path) -> None:
    source = Path(perdure.__file__).parents[1]
    parent = f"""
import asyncio, sys
sys.path.insert(0, {str(source)!r})
import os
from perdure.supervision.child_process import ChildProcess
async def main():
    await ChildProcess.start([sys.executable, "-I", "-S", {script(tmp_path)!r}, "1000"], os.environ)
    await asyncio.sleep(1000)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", parent)
    pids = await asyncio.to_thread(family, tmp_path)
    process.kill()
    await process.wait()
    until_s = time.monotonic() + 10.0
    while any(map(alive, pids)):
        assert time.monotonic() < until_s
        await asyncio.sleep(0.02)


@pytest.mark.prove
async def test_a_start_or_an_end_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    for cancel_after_s in (0.0, 0.001, 0.01):
        (tmp_path / str(cancel_after_s)).mkdir()
        starting = asyncio.create_task(started(tmp_path / str(cancel_after_s), 1000))
        await asyncio.sleep(cancel_after_s)
        starting.cancel()
        with suppress(asyncio.CancelledError):
            _ = await (await starting).end()
    child = await started(tmp_path, 1000)
    pids = family(tmp_path)
    ending = asyncio.create_task(child.end())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert not any(map(alive, pids)) and child.process.returncode is not None
    assert not left(tmp_path)


@pytest.mark.slow
async def test_all_descriptors_are_closed(tmp_path: Path) -> None:
    before = open_descriptors()
    for _ in range(5):
        child = await ChildProcess.start(["true"], ENVIRONMENT, piped=True)
        assert await child.end() in (0, 128 + signal.SIGTERM)
    await asyncio.sleep(0.05)
    assert open_descriptors() <= before + 1


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
async def test_the_exit_code_is_the_child_s(command: str, code: int) -> None:
    child = await ChildProcess.start(["sh", "-c", command], ENVIRONMENT)
    assert await child.process.wait() == code and await child.end() == code


async def test_a_command_that_can_not_be_started_reports_why() -> None:
    child = await ChildProcess.start(["/no/such/program"], ENVIRONMENT)
    assert child.process.stdout is not None
    output = await child.process.stdout.read()
    assert output == b"/no/such/program: No such file or directory\n" and await child.end() == NOT_STARTED
