"""A shell for tests: commands as their steps run them, without an engine, and the processes that they have left behind."""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from perdure.code.step_environment import StepControl, StepInfo, current_step
from perdure.core.paths import Key
from perdure.definitions.kinds.bash.bash_kind import run_command
from perdure.definitions.kinds.deployment import Allowed, Deployment

MARK = "MARK_OF_THE_TEST"
SHORT_GRACE_S = 0.4
WAIT_S = 20.0
"""How long something may take on a slow machine that should take no time."""


class CommandRunner:
    """A working directory, and the commands that are run there as steps of one execution. `beats` are the encoded progress of which they told."""

    def __init__(self, work: Path) -> None:
        self.deployment = Deployment(allowed=Allowed(bash=True), work=work)
        self.key = Key("default", "it", "1")
        self.home = work / "default" / "it" / "1"
        self.mark = uuid4().hex
        self.beats: list[bytes] = []
        self._count = 0

    async def run(self, command: str, input: Any = None, *, env: dict[str, Any] | None = None, attempt: int = 1, step: str = "", **more: Any) -> dict[str, Any]:
        """What comes of a command, whatever its exit code is; all of its processes can be told by their environment."""
        self._count += 1
        path = ((step or f"s{self._count}", 0),)
        current_step.set(StepInfo(self.key, path, attempt, life=StepControl(self.beats.append)))
        config = {"command": command, "check": False, **more}
        return await run_command(self.deployment, config, input, {MARK: self.mark, **(env or {})})

    def begin(self, command: str, **more: Any) -> "asyncio.Task[dict[str, Any]]":
        """A command, as a task."""
        return asyncio.create_task(self.run(command, **more))

    def left(self) -> list[int]:
        """The processes of its commands that have not ended."""
        return marked(self.mark)


def marked(mark: str) -> list[int]:
    """The processes that have this mark in their environment."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with suppress(OSError):  # it has ended
                if f"{MARK}={mark}".encode() in (directory / "environ").read_bytes():
                    found.append(int(directory.name))
    return found


def children(pid: int) -> list[int]:
    """The children of a process, zombies included."""
    return [int(child) for thread in Path(f"/proc/{pid}/task").iterdir() for child in (thread / "children").read_text().split()]


async def until(what: Any, claim: str) -> None:
    """Wait until something holds."""
    ends_s = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < ends_s, f"it never came to this: {claim}"
        await asyncio.sleep(0.01)


def resident_bytes(pid: int) -> int:
    """How much memory a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def lives(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
