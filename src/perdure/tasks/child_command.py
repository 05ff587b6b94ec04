"""The command, the environment and the log output of a child process that performs tasks.

A child knows nothing of the store: its environment is small, and holds none of the variables that configure Perdure.
"""

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping

from perdure.core.errors import BadValue

INHERITED_VARIABLES = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SHELL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The variables of this process that children inherit, unless more are named."""

LINE_BYTES_MAX = 8192
"""Longer lines of log output of a child are cut."""


def split_command(command: str, option: str) -> list[str]:
    """Splits a command into a program and its arguments, as a shell does, without a shell.

    Raises:
        BadValue: it is not a command, its program is not found, or this system can't supervise children.
    """
    if sys.platform == "win32":
        raise BadValue(option, command, "used on Linux or macOS; on Windows, connect workers over HTTP with --listen")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadValue(option, command, f"a command: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise BadValue(option, command, "a command that can be found: a program in PATH, or the path of one, with its arguments")
    return words


def child_environment(more: Iterable[str] = (), environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment of a child; `more` names further variables to pass on, or sets them (``NAME=value``).

    Raises:
        BadValue: `more` names a variable that configures Perdure.
    """
    passed_on = {name: environment[name] for name in INHERITED_VARIABLES if name in environment}
    for entry in more:
        name, is_set, value = entry.partition("=")
        if not name or name.upper().startswith("PERDURE_"):
            raise BadValue("--env", name, "a variable other than those with which Perdure is configured")
        if is_set:
            passed_on[name] = value
        elif name in environment:
            passed_on[name] = environment[name]
    return passed_on


async def forward_lines(stream: asyncio.StreamReader, write: Callable[[str], object]) -> None:
    """Calls `write` with each line of a stream until the stream ends. Long lines are cut into several."""
    rest = b""
    while chunk := await stream.read(LINE_BYTES_MAX):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) >= LINE_BYTES_MAX:
            lines, rest = [*lines, rest], b""
        for line in lines:
            write(line[:LINE_BYTES_MAX].decode("utf-8", "backslashreplace").rstrip())
    if rest:
        write(rest.decode("utf-8", "backslashreplace").rstrip())
