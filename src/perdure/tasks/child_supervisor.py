"""The keeper: a small process between this one and a child. When the child has ended, or nobody is there any more, it ends all that the child has started.

    python -I -S child_supervisor.py LIFELINE GRACE COMMAND...

The child has the keeper's own input and outputs. While the other end of the descriptor LIFELINE is open, the child is wanted; however that closes, also
by a kill -9, everything below the keeper is asked to end, and killed after GRACE seconds. It needs nothing but Python, and imports nothing of Perdure.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SUBREAPER = 36
"""What `prctl` calls it to be the parent of every process below this one whose own parent has ended."""

KILL_TIMEOUT_S = 5.0
"""How long it is tried to kill what does not end: what runs as another user can't be."""

NOT_STARTED = 127
"""The exit code of a command that could not be started."""


def main(lifeline: int, grace_s: float, command: list[str]) -> int:
    """Keep a command, and return its exit code, as a shell would."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # who wants it to end closes the lifeline; a handler, and no SIG_IGN, which the child would inherit
    bell, ring = os.pipe()
    for one in (bell, ring):
        os.set_blocking(one, False)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        child = subprocess.Popen(command, start_new_session=True)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201  # where its own complaints would be
        return NOT_STARTED
    with Path(os.devnull).open("r+b") as nothing:
        for one in (0, 1, 2):
            os.dup2(nothing.fileno(), one)  # so that its readers see when the child and its like have closed them
    status: int | None = None
    while status is None and lifeline not in select.select([lifeline, bell], [], [])[0]:
        with suppress(BlockingIOError):
            os.read(bell, 4096)
        status = reap_children(child.pid)
    return exit_code(end_descendants(child.pid, status, grace_s))


def end_descendants(pid: int, status: int | None, grace_s: float) -> int | None:
    """End what is left below; return how the child ended."""
    began_s = time.monotonic()
    asked = False
    while True:
        left = descendants(os.getpid()) if sys.platform == "linux" else _group(pid)
        found = reap_children(pid)  # after looking: what has ended in between is none of those left, and its status is known
        status = found if status is None else status
        if not left or time.monotonic() > began_s + grace_s + KILL_TIMEOUT_S:
            return status
        if not asked:
            send_signals(left, signal.SIGTERM, signal.SIGCONT)
        elif time.monotonic() > began_s + grace_s:
            send_signals(left, signal.SIGKILL)
        asked = True
        time.sleep(0.01)


def descendants(root: int) -> list[int]:
    """The processes below `root` that have not ended."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with suppress(OSError):  # it has ended
                state, parent = (directory / "stat").read_bytes().rpartition(b")")[2].split()[:2]
                if state != b"Z":
                    children.setdefault(int(parent), []).append(int(directory.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def _group(pid: int) -> list[int]:
    """The group of the child, where nothing more is known of who is below."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, 0)
        return [-pid]
    return []


def reap_children(child: int) -> int | None:
    """How the child has ended, if it has since this was asked last. Whoever else has ended is let go, too."""
    status: int | None = None
    with suppress(ChildProcessError):  # there is nobody any more
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            status = ended[1] if ended[0] == child else status
    return status


def send_signals(pids: list[int], *signals: int) -> None:
    """Send signals to processes, of which some may have ended meanwhile."""
    for pid in pids:
        for number in signals:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def exit_code(status: int | None) -> int:
    """An exit code, that of a signal as shells have it."""
    code = 128 + signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
