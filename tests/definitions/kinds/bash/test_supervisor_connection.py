"""Conversations: whoever stops listening, in whatever way, leaves no process of the command behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from perdure.core.errors import CommandLost, CommandRefused
from tests.definitions.kinds.bash.command_runner import MARK, CommandRunner, marked, until
from tests.open_descriptors import open_descriptors
from tests.sampling import some

TREE = "sleep 60 & (setsid sleep 60 &) ; (sleep 60 & wait; sleep 60) & sleep 60"
STUBBORN = f"trap '' TERM; {TREE}"
GROWN = 5
"""How many processes of it there are at least, once it has grown."""

ENGINE = """
import sys
from perdure import Definition
from perdure.definitions.kinds.deployment import Allowed, Deployment
from pathlib import Path

steps = [{"id": "a", "bash": {"command": sys.argv[1]}, "env": {sys.argv[4]: sys.argv[2]}, **eval(sys.argv[3])}]
document = {"perdure": 1, "name": "it", "steps": steps}
it = Definition.of(document, deployment=Deployment(allowed=Allowed(bash=True), work=Path("work")))
print(it.with_(id="1", db="sqlite:///it.db").run()["stdout"], end="", flush=True)
"""


async def grown(shell: CommandRunner) -> None:
    await until(lambda: len(shell.left()) >= GROWN, "it has grown")


@pytest.mark.slow
async def test_a_command_that_is_cancelled_is_ended_with_all_below_it_before_the_step_is(shell: CommandRunner) -> None:
    task = shell.begin(STUBBORN)
    await grown(shell)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert shell.left() == []


@pytest.mark.slow
async def test_a_command_whose_time_is_over_is_ended_with_all_below_it(shell: CommandRunner) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await shell.run(TREE)
    assert shell.left() == []


@pytest.mark.slow
async def test_who_is_cancelled_twice_does_not_wait_and_all_is_ended_all_the_same(shell: CommandRunner) -> None:
    task = shell.begin(STUBBORN)
    await grown(shell)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.02)
    assert task.cancelled()
    await until(lambda: shell.left() == [], "nothing is left")


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_it_may_be_cancelled_at_any_moment_of_its_beginning(shell: CommandRunner, turns: int) -> None:
    before = open_descriptors()
    for _ in range(5):
        task = shell.begin("sleep 60")
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert shell.left() == []
    assert open_descriptors() <= before + 2  # the socket of the fork server, if this has started it


@pytest.mark.slow
async def test_the_next_try_of_a_step_begins_when_the_one_before_has_ended(shell: CommandRunner) -> None:
    first = shell.begin("trap '' TERM; sleep 60 & touch ready; wait; sleep 60", step="a", attempt=1)
    await until(lambda: (shell.home / "ready").exists(), "it runs")
    for _ in range(2):  # so that nobody waits
        first.cancel()
        await asyncio.sleep(0.02)
    assert len(shell.left()) >= 1
    other = await shell.run("echo $MARK_OF_THE_TEST")
    assert other["duration_s"] < 1 and len(shell.left()) >= 1
    found = await shell.run(f"grep -c {shell.mark} /proc/[0-9]*/environ 2>/dev/null | grep -c :1$", step="a", attempt=2)
    assert int(found["stdout"]) <= 3, "its shell, and the two of its pipe"


@pytest.mark.slow
async def test_a_supervisor_that_is_killed_takes_its_command_with_it(shell: CommandRunner) -> None:
    task = shell.begin("trap '' TERM; (setsid sleep 60 &) ; echo $PPID > made; mv made supervisor; sleep 60")
    await until(lambda: len(shell.left()) >= 2 and (shell.home / "supervisor").exists(), "it runs")
    os.kill(int((shell.home / "supervisor").read_text()), signal.SIGKILL)
    with pytest.raises(CommandLost, match="was killed with its supervisor, by another process"):
        await task
    await until(lambda: shell.left() == [], "nothing is left")


class Engine:
    """An engine in a process of its own, that runs a definition of one command."""

    def __init__(self, directory: Path, command: str, options: str = "{}") -> None:
        self.mark = uuid4().hex
        self._begin = [sys.executable, "-c", ENGINE, command, self.mark, options, MARK]
        self._directory = directory
        self.process = self.begin()

    def begin(self) -> "subprocess.Popen[str]":
        self.process = subprocess.Popen(self._begin, cwd=self._directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return self.process

    def end(self, by: int) -> None:
        """End it by a signal."""
        self.process.send_signal(by)
        self.process.communicate(timeout=30)

    @property
    def ran(self) -> int:
        """How often its command has written that it began."""
        return next(self._directory.rglob("ran")).read_text().count("began\n")

    @property
    def left(self) -> list[int]:
        """The processes of its command, but for its own, in whose arguments the mark stands."""
        return marked(self.mark)


@pytest.mark.parametrize("tree", [TREE, pytest.param(STUBBORN, marks=pytest.mark.prove)])
@pytest.mark.parametrize(("options", "said"), [("{}", ""), ('{"idempotent": True}', "2\n")])
async def test_an_engine_that_is_killed_leaves_nothing_and_does_not_run_a_command_twice_unless_it_may(
    tmp_path: Path, tree: str, options: str, said: str
) -> None:
    engine = Engine(tmp_path, f'echo began >> ran; if test "$(wc -l < ran)" = 1; then {tree}; fi; echo "$PERDURE_ATTEMPT"', options)
    await until(lambda: len(engine.left) >= GROWN, "it has grown")
    killed_s = time.monotonic()
    engine.end(signal.SIGKILL)
    await until(lambda: engine.left == [], "nothing is left")
    assert time.monotonic() - killed_s < 5
    answer, errors = engine.begin().communicate(timeout=60)
    assert answer == said and ("interrupted: " in errors) == (said == ""), errors
    assert engine.ran == (2 if said else 1) and engine.left == []


@pytest.mark.slow
@pytest.mark.parametrize("by", some([signal.SIGINT, signal.SIGTERM], 1))
async def test_an_engine_that_is_stopped_leaves_nothing(tmp_path: Path, by: int) -> None:
    engine = Engine(tmp_path, TREE)
    await until(lambda: len(engine.left) >= GROWN, "it has grown")
    engine.end(by)
    await until(lambda: engine.left == [], "nothing is left")


async def test_a_refusal_is_read_though_the_supervisor_no_longer_listens(shell: CommandRunner) -> None:
    with pytest.raises(CommandRefused, match="no directory nowhere"):
        await shell.run("cat", stdin="x" * 3_000_000, cwd="nowhere")
