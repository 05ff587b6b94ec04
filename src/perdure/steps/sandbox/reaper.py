"""The reaper: a small process that kills this process's sandboxes for Python when this process has ended, however that came.

An interpreter that is busy does not notice that its parent is gone, and would go on to the end of its own limit.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

PROGRAM = """
import os, signal, sys
has_descriptors = hasattr(os, "pidfd_open")
watched = {}
for line in sys.stdin.buffer:
    pid = int(line)
    if has_descriptors:
        if pid in watched:
            os.close(watched[pid])
        try:
            watched[pid] = os.pidfd_open(pid)
        except ProcessLookupError:
            watched.pop(pid, None)
    else:
        watched[pid] = pid
for pid in watched.values():
    try:
        signal.pidfd_send_signal(pid, signal.SIGKILL) if has_descriptors else os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    except OSError:
        pass
"""


class Reaper:
    """Kills the processes that it was told of, once its standard input is closed: by `close`, or by the end of this process."""

    def __init__(self) -> None:
        self._process = self._begun()

    def watch(self, pid: int) -> None:
        """Kill this process when the time has come."""
        for _ in range(2):
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(b"%d\n" % pid)
            except BrokenPipeError:  # somebody has killed it
                self.close()
                self._process = self._begun()
            else:
                return

    def close(self) -> None:
        """Have it kill what is left, and wait until it has ended."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _begun(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # what a terminal says to the engine is for the engine
        )
