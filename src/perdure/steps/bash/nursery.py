"""Nursery: the engine's side of the process that forks keepers. There is one in each process that runs commands, from the first one on."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from perdure.steps.bash.keepers import WORD

SEND_S, END_S, ENDING_S = 10.0, 10.0, 0.2
SAID_BYTES_MAX = 1 << 20
PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What Python itself may need of the environment."""

HERE = str(Path(__file__).parents[3])
PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from perdure.steps.bash.keepers import main; main(sys.argv[2:])"


class Nursery:
    """A process that forks keepers, for this process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(SEND_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "utf8", "-I", "-S", "-c", PROGRAM, json.dumps([HERE, *sys.path]), str(theirs.fileno()), str(self.owner)],
                env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # what a terminal says to the engine is for the engine
            )

        assert self._process.stderr is not None
        self._stderr = self._process.stderr
        os.set_blocking(self._stderr.fileno(), False)

    def begin(self) -> socket.socket:
        """Have a keeper forked; return the socket on which it is asked.

        Raises:
            OSError: the process has ended.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._socket, [WORD], [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return ours

    def failure(self) -> tuple[int, str] | None:
        """The exit code and the error output of the process, if it has ended by itself."""
        try:
            code = self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            return None
        return (code, self._said()) if code >= 0 else None

    def _said(self) -> str:
        return (self._stderr.read(SAID_BYTES_MAX) or b"").decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Wait until its last keeper has ended."""
        self._socket.close()
        if self.owner == os.getpid():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
        self._stderr.close()


_lock = threading.Lock()
_nurseries: list[Nursery] = []


def begin() -> socket.socket:
    """Have a keeper forked; return the socket on which it is asked. The process that does it is started if it does not run."""
    with _lock:
        if _nurseries and _nurseries[0].owner == os.getpid():
            with suppress(OSError):  # it was killed
                return _nurseries[0].begin()
        end()
        _nurseries.append(Nursery())
        return _nurseries[0].begin()


def failure() -> tuple[int, str] | None:
    """The exit code and the error output of the process, if it has ended by itself."""
    with _lock:
        last = _nurseries[0] if _nurseries and _nurseries[0].owner == os.getpid() else None
    return None if last is None else last.failure()


def end() -> None:
    """End the process, when its last keeper has ended. The next command starts another one."""
    while _nurseries:
        _nurseries.pop().close()


atexit.register(end)
