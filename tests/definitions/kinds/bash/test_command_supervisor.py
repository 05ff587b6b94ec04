"""Commands: what they say, however they say it, and the end of all of their processes."""

import asyncio
import random
import sys
import time

import pytest

from perdure.definitions.kinds.bash.command_supervisor import KEPT_CHARACTERS
from tests.definitions.kinds.bash.command_runner import SHORT_GRACE_S, CommandRunner, marked, resident_bytes, until

SAYING = """
import os, random, sys, time
rng = random.Random(int(sys.argv[1]))
for _ in range(rng.randrange(1, 30)):
    what = rng.choice([b"x" * rng.randrange(100_000), rng.randbytes(rng.randrange(70_000)), b"line\\n", "é€😀".encode()[: rng.randrange(9)]])
    out = rng.choice([1, 2])
    while what:
        what = what[os.write(out, what):]
"""


def expected(seed: int) -> dict[str, bytes]:
    """What `SAYING` says with this seed."""
    rng, said = random.Random(seed), {1: b"", 2: b""}
    for _ in range(rng.randrange(1, 30)):
        what = rng.choice([b"x" * rng.randrange(100_000), rng.randbytes(rng.randrange(70_000)), b"line\n", "é€😀".encode()[: rng.randrange(9)]])
        said[rng.choice([1, 2])] += what
    return {"stdout": said[1], "stderr": said[2]}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_whatever_it_says_is_kept_or_counted(shell: CommandRunner, seed: int) -> None:
    shell.home.mkdir(parents=True)
    (shell.home / "saying.py").write_text(SAYING)
    found = await shell.run(f"{sys.executable} saying.py {seed}")
    half = KEPT_CHARACTERS // 2
    for name, raw in expected(seed).items():
        whole, kept = raw.decode("utf-8", "replace"), found[name]
        if len(whole) <= KEPT_CHARACTERS:
            assert kept == whole
        else:
            assert kept == f"{whole[:half]}\n[... {len(whole) - 2 * half:,} characters left out ...]\n{whole[-half:]}"
            assert found["truncated"]


@pytest.mark.slow
async def test_endless_output_is_cut_and_costs_its_supervisor_bounded_memory(shell: CommandRunner) -> None:
    task = shell.begin("echo $PPID > made; mv made supervisor; exec cat /dev/zero")
    await until((shell.home / "supervisor").exists, "it runs")
    supervisor = int((shell.home / "supervisor").read_text())
    peaks = []
    for _ in range(5):
        time.sleep(0.05)  # noqa: ASYNC251  # the supervisor works meanwhile, this process need not
        peaks.append(resident_bytes(supervisor))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert max(peaks) < 64_000_000 and peaks[-1] - peaks[0] < 8_000_000


@pytest.mark.parametrize(
    "command",
    [
        "exec >&- 2>&-; sleep 0.05; exit 5",  # closes its outputs, and goes on
        "exec <&- >&- 2>&-; exit 5",
        "sleep 60 & exit 5",  # leaves somebody who holds them open
        "(sleep 60; echo late) & exit 5",
        "nohup sleep 60 >/dev/null 2>&1 & exit 5",
        "setsid sleep 60 & exit 5",
        "(setsid bash -c 'sleep 60 & sleep 60 & wait' &) ; exit 5",  # which has no parent any more
        "(setsid bash -c '(setsid sleep 60 &) ; sleep 60' >/dev/null 2>&1 </dev/null &) ; exit 5",
        "kill -STOP $BASHPID & sleep 0.02; exit 5",  # which is stopped
    ],
)
async def test_it_ends_when_its_shell_ends_and_nothing_is_left(shell: CommandRunner, command: str) -> None:
    began_s = time.monotonic()
    found = await shell.run(command)
    assert (found["exit_code"], shell.left()) == (5, [])
    assert time.monotonic() - began_s < 30


@pytest.mark.slow
async def test_what_will_not_end_is_killed_when_its_grace_is_over(shell: CommandRunner) -> None:
    found = await shell.run("(trap '' TERM; while :; do sleep 0.1; done) & sleep 0.1; exit 5")
    assert (found["exit_code"], shell.left()) == (5, []) and SHORT_GRACE_S < found["duration_s"] < SHORT_GRACE_S + 1


async def test_what_is_asked_to_end_may_say_something(shell: CommandRunner) -> None:
    found = await shell.run("(trap 'echo cleaned; exit' TERM; echo ready > r; while :; do sleep 0.01; done) & until test -e r; do sleep 0.01; done; exit 5")
    assert (found["exit_code"], found["stdout"]) == (5, "cleaned\n")


@pytest.mark.slow
async def test_who_forks_faster_than_it_is_looked_at_is_killed_as_well(shell: CommandRunner) -> None:
    found = await shell.run("trap '' TERM; f() { sleep 0.001; f & }; for i in 1 2 3; do f & done; sleep 0.1; exit 5")
    assert found["exit_code"] == 5
    await until(lambda: shell.left() == [], "nothing is left")


async def test_what_its_shell_becomes_is_what_is_waited_for(shell: CommandRunner) -> None:
    assert (await shell.run("exec sh -c 'exit 9'"))["exit_code"] == 9


async def test_marks_are_found(shell: CommandRunner) -> None:
    task = shell.begin("sleep 60 & wait")
    await until(lambda: len(marked(shell.mark)) == 2, "a shell and what it has started")
    task.cancel()
