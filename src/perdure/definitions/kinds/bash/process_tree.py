"""Processes below this one: who they are, and signals to all of them. On Linux none of them gets away; elsewhere those do that leave their process group."""

import ctypes
import os
import sys
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Be the parent of every process below this one whose own parent ends, where the system knows of such a thing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int, besides: Container[int] = ()) -> list[int]:
    """The processes below `root`, parents first, without those `besides` and what is below them. What begins or ends meanwhile may be missing or gone."""
    children = _listed if Path("/proc/self/task", str(os.getpid()), "children").exists() else _searched().get
    found = [root]
    for pid in found:
        found += [child for child in children(pid) or () if child not in besides]
    return found[1:]


def _listed(pid: int) -> list[int]:
    """The children of a process, as the kernel lists them."""
    found = list[int]()
    with suppress(OSError):  # it has ended
        for thread in Path("/proc", str(pid), "task").iterdir():
            found += map(int, (thread / "children").read_bytes().split())
    return found


def _searched() -> dict[int, list[int]]:
    """All children of all processes, for kernels that do not list them."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with suppress(OSError):  # it has ended
                parent = (directory / "stat").read_bytes().rpartition(b")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(directory.name))
    return children


def reap_children() -> tuple[dict[int, int], bool]:
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


def send_signals(pids: list[int], *signals: int) -> None:
    """Send signals to processes; those that have ended meanwhile, and those of others, get none."""
    for pid in pids:
        for number in signals:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
