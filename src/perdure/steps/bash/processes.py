"""Processes below this one: who they are, and signals to all of them. On Linux none of them gets away; elsewhere those do that leave their process group."""

import ctypes
import os
import sys
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Be the parent of every process below this one whose own parent ends, where the system knows of such a thing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def below(root: int, besides: Container[int] = ()) -> list[int]:
    """The processes below `root`, parents first, without those `besides` and what is below them. What begins meanwhile may be missing."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with suppress(OSError):  # it has ended
                state, parent = (directory / "stat").read_bytes().rpartition(b")")[2].split()[:2]
                if state != b"Z":
                    children.setdefault(int(parent), []).append(int(directory.name))
    found = [root]
    for pid in found:
        found += [child for child in children.get(pid, []) if child not in besides]
    return found[1:]


def reap() -> tuple[dict[int, int], bool]:
    """The children that have ended, with how; and whether there are others."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = status


def tell(pids: list[int], *signals: int) -> None:
    """Send signals to processes; those that have ended meanwhile, and those of others, get none."""
    for pid in pids:
        for number in signals:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
