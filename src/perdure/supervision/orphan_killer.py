"""Kills processes once this process has ended, however it ended.

It is for processes that a library starts, and that therefore have no supervisor. The killer is a process of its own: its standard input receives the ids of
the processes to watch, and the kernel closes that input when this process ends.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from perdure.supervision.helper_process import helper_command, helper_environment


class OrphanKiller:
    """Kills the processes that it watches once its standard input is closed, by `close` or by the end of this process."""

    def __init__(self) -> None:
        self._process = _start_killer()

    def watch(self, pid: int) -> None:
        """Adds a process to those that are killed."""
        for _ in range(2):
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(b"%d\n" % pid)
            except BrokenPipeError:  # the killer was itself killed
                self.close()
                self._process = _start_killer()
            else:
                return

    def close(self) -> None:
        """Makes it kill the processes that are left, and waits until it has ended."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


def _start_killer() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        helper_command(__name__, kill_after_input.__name__),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=helper_environment(),
        bufsize=0,
        start_new_session=True,  # the terminal's signals are for the engine alone
    )


def kill_after_input(_arguments: Sequence[str] = ()) -> None:
    """Reads process ids until standard input ends, and then kills these processes.

    Where the system has pidfds, a process is opened as soon as its id arrives, so that a later process with the same id is not killed.
    """
    targets: dict[int, int] = {}
    if sys.platform == "linux":
        for line in sys.stdin.buffer:
            pid = int(line)
            if pid in targets:
                os.close(targets.pop(pid))
            with suppress(ProcessLookupError):
                targets[pid] = os.pidfd_open(pid)
        for descriptor in targets.values():
            with suppress(OSError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return
    targets = {int(line): 0 for line in sys.stdin.buffer}
    for pid in targets:
        with suppress(OSError):
            os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
