"""The processes below a process: finding, reaping and signalling them.

On Linux no process escapes. On other systems, a process escapes by leaving its process group.
"""

import ctypes
import os
import sys
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Makes this process adopt all orphans below it, where the system supports that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int, besides: Container[int] = ()) -> list[int]:
    """The processes below `root`, parents first, without those in `besides` and their descendants.

    The list is no snapshot: processes that start meanwhile may be missing, and some of those listed may have ended. Call it again until it is empty.
    """
    children = _listed_children if Path("/proc/self/task", str(os.getpid()), "children").exists() else _scanned_children().get
    found = [root]
    for pid in found:
        found += [child for child in children(pid) or () if child not in besides]
    return found[1:]


def _listed_children(pid: int) -> list[int]:
    """The children of a process, as the kernel lists them."""
    found = list[int]()
    with suppress(OSError):  # the process has ended
        for thread in Path("/proc", str(pid), "task").iterdir():
            found += map(int, (thread / "children").read_bytes().split())
    return found


def _scanned_children() -> dict[int, list[int]]:
    """The children of every process, for kernels that do not list them."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with suppress(OSError):  # the process has ended
                # The second field is the program's name, which may hold spaces and parentheses. The fields behind it hold neither.
                parent = (directory / "stat").read_bytes().rpartition(b")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(directory.name))
    return children


def group_exists(group: int) -> bool:
    """Whether any process is left in a process group."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def reap_children() -> tuple[dict[int, int], bool]:
    """Reaps all children that have ended; returns their statuses, and whether other children are left."""
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
    """Sends signals to processes. Skips those that have ended and those of other users."""
    for pid in pids:
        for number in signals:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
