"""Children: programs of users that are started to do tasks. Each ends with all that it has started, also when this process is killed, and is told nothing
of the store: its environment is small, and what Perdure is configured with is not in it."""

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from perdure.core.errors import BadValue

SUPERVISOR = Path(__file__).with_name("child_supervisor.py")

GRACE_S = 2.0
"""How long a child may take to end when it is asked to, before it is killed."""

SUPERVISOR_GRACE_S = 10.0
"""How long the keeper of a child may take to end it, before the keeper itself is killed."""

INHERITED_VARIABLES = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SHELL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What children have of this process's environment, unless more is named."""

LINE_BYTES_MAX = 8192
"""Longer lines of what a child says to people are cut."""


def split_command(command: str, option: str) -> list[str]:
    """A command with its arguments, as a shell would part them; no shell runs it.

    Raises:
        BadValue: it is none, or children can't be started here.
    """
    if sys.platform == "win32":
        raise BadValue(option, command, "used on Linux or macOS; on Windows, let workers come over HTTP")
    try:
        found = shlex.split(command)
    except ValueError as error:
        raise BadValue(option, command, f"a command: {error}") from error
    if not found or shutil.which(found[0]) is None:
        raise BadValue(option, command, "a command that can be found: a program in PATH, or where it is, with its arguments")
    return found


def child_environment(more: Iterable[str] = (), given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of children; `more` names variables that are passed on as well, or sets them (``NAME=value``).

    Raises:
        BadValue: one of them is how Perdure is configured.
    """
    made = {name: given[name] for name in INHERITED_VARIABLES if name in given}
    for one in more:
        name, is_set, value = one.partition("=")
        if not name or name.upper().startswith("PERDURE_"):
            raise BadValue("--env", name, "a variable other than those with which Perdure is configured")
        if is_set:
            made[name] = value
        elif name in given:
            made[name] = given[name]
    return made


class ChildProcess:
    """A child that was started, with its keeper. `process` is the keeper, whose input and outputs are the child's, and whose exit code is too."""

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int) -> None:
        self.process = process
        self._lifeline: int | None = lifeline

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str], *, piped: bool = False) -> "ChildProcess":
        """Start a command. `piped`: it reads what is written to it, and its output is apart from what it says to people; else it reads nothing."""
        theirs, ours = os.pipe()
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(SUPERVISOR), str(theirs), str(GRACE_S), *command),
                stdin=pipe if piped else nothing,
                stdout=pipe,
                stderr=pipe if piped else asyncio.subprocess.STDOUT,
                env=dict(environment),
                pass_fds=(theirs,),
                start_new_session=True,  # what a terminal says to this process is for this process
            )
        )
        starting.add_done_callback(lambda _: os.close(theirs))
        try:
            return cls(await asyncio.shield(starting), ours)
        except BaseException:
            os.close(ours)  # from now on its keeper ends it, or never starts it; killed in the middle, it could not
            with suppress(asyncio.CancelledError):
                _ = await asyncio.wait((starting,))
            if starting.done() and not starting.exception():
                _ = await starting.result().wait()
            raise

    def unwanted(self) -> None:
        """Ask it to end, with all that it has started."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    async def end(self) -> int:
        """End it with all that it has started, unless it has; return its exit code. Who is cancelled meanwhile waits for it all the same."""
        self.unwanted()
        ending = asyncio.create_task(self._end())
        try:
            return await asyncio.shield(ending)
        except asyncio.CancelledError:
            _ = await asyncio.wait((ending,))
            raise

    async def _end(self) -> int:
        try:
            async with asyncio.timeout(SUPERVISOR_GRACE_S):
                return await self.process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self.process.kill()
            return await self.process.wait()


async def forward_lines(stream: asyncio.StreamReader, tell: Callable[[str], object]) -> None:
    """Tell each line that a child says to people, cut where it is long, until it says nothing more."""
    rest = b""
    while some := await stream.read(LINE_BYTES_MAX):
        *lines, rest = (rest + some).split(b"\n")
        if len(rest) >= LINE_BYTES_MAX:
            lines, rest = [*lines, rest], b""
        for line in lines:
            tell(line[:LINE_BYTES_MAX].decode("utf-8", "backslashreplace").rstrip())
    if rest:
        tell(rest.decode("utf-8", "backslashreplace").rstrip())
