"""The fork server: one process that forks supervisors, for as long as there is an engine."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure.core.errors import SandboxFailed
from perdure.definitions.kinds.bash import fork_server_client
from perdure.runtime.step_runner import failure_of_exception
from tests.definitions.kinds.bash.command_runner import CommandRunner, children, lives, until
from tests.open_descriptors import open_descriptors

pytestmark = pytest.mark.slow


def pid() -> int:
    """The process that forks supervisors."""
    return fork_server_client._fork_servers[0]._process.pid


def descriptors(process: int) -> int:
    """How many a process has open."""
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


async def test_two_hundred_commands_at_once_leave_no_process_no_zombie_and_no_descriptor(shell: CommandRunner) -> None:
    await shell.run("true")
    before, of_server = open_descriptors(), descriptors(pid())
    found = await asyncio.gather(*(shell.run(f"echo {number}; (sleep 60 &); exit {number % 7}") for number in range(200)))
    assert [(one["exit_code"], one["stdout"]) for one in found] == [(number % 7, f"{number}\n") for number in range(200)]
    await until(lambda: children(pid()) == [], "no supervisor, and no zombie")
    assert open_descriptors() <= before and descriptors(pid()) == of_server
    assert shell.left() == [] and pid() in children(os.getpid())


async def test_one_that_is_killed_is_replaced(shell: CommandRunner) -> None:
    await shell.run("true")
    first = pid()
    os.kill(first, signal.SIGKILL)
    await until(lambda: not lives(first), "it is gone")
    assert (await shell.run("echo again"))["stdout"] == "again\n"
    assert pid() != first and first not in children(os.getpid())


async def test_running_commands_outlive_the_fork_server_of_their_supervisors(shell: CommandRunner) -> None:
    task = shell.begin("until test -e go; do sleep 0.01; done; echo went")
    await until(lambda: shell.left(), "it runs")
    os.kill(pid(), signal.SIGKILL)
    await shell.run("touch go")
    assert (await task)["stdout"] == "went\n"


async def test_ending_the_fork_server_waits_only_for_its_supervisors_and_the_next_command_starts_another(shell: CommandRunner) -> None:
    await shell.run("true")
    first = pid()
    began_s = time.monotonic()
    fork_server_client.stop_fork_server()
    assert not lives(first) and first not in children(os.getpid()) and time.monotonic() - began_s < 10
    await shell.run("true")
    assert pid() != first


async def test_a_fork_server_that_can_not_start_says_why_and_is_not_retried(shell: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    fork_server_client.stop_fork_server()
    monkeypatch.setattr(fork_server_client, "FORK_SERVER_MODULE", "a_module_that_is_missing")
    with pytest.raises(SandboxFailed, match=r"exit code 1[\s\S]*No module named 'a_module_that_is_missing'") as failed:
        await shell.run("true")
    assert failure_of_exception(None, failed.value).kind == "fatal"
    monkeypatch.undo()
    assert (await shell.run("echo again"))["stdout"] == "again\n"


FORKED = """
import asyncio, os, sys, tempfile
from pathlib import Path
from tests.definitions.kinds.bash.command_runner import CommandRunner
from perdure.definitions.kinds.bash import fork_server_client

shell = CommandRunner(Path(sys.argv[1]))
asyncio.run(shell.run("true"))
first = fork_server_client._fork_servers[0]._process.pid
child = os.fork()
found = asyncio.run(shell.run("echo fine"))
assert found["stdout"] == "fine\\n", found
assert (fork_server_client._fork_servers[0]._process.pid == first) == (child != 0)
if child:
    assert os.waitpid(child, 0)[1] == 0
print("ended", flush=True)
"""


def test_a_process_that_was_forked_has_one_of_its_own(tmp_path: Path) -> None:
    root = Path(__file__).parents[4]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    done = subprocess.run([sys.executable, "-c", FORKED, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "ended\nended\n"), done.stderr


@pytest.mark.prove
async def test_thousands_of_commands_one_after_the_other_leave_nothing(shell: CommandRunner) -> None:
    await shell.run("true")
    before, of_server = open_descriptors(), descriptors(pid())
    for number in range(40):
        tasks = [shell.begin(f"sleep 0.0{number % 3}; echo x; (setsid sleep 60 &)") for _ in range(50)]
        await asyncio.sleep(0.01 * (number % 4))
        for one in tasks[:: 1 + number % 5]:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await until(lambda: children(pid()) == [], "no supervisor, and no zombie")
    assert open_descriptors() <= before and descriptors(pid()) == of_server
    assert shell.left() == []
