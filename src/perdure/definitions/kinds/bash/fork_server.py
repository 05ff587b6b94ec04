"""Keepers: the process that forks a keeper for each command. It is small, so that forking it is cheap; it does nothing else, so nothing holds it up.

On its socket come, one for each command, the descriptors on which the keepers are asked. It ends when that is closed, or the engine's process has ended,
and its last keeper has. Should a keeper be killed, what is left of its command becomes a child of this process, and is killed.
"""

import gc
import os
import selectors
import signal
import socket
import sys
from contextlib import suppress

from perdure.definitions.kinds.bash.command_supervisor import supervise
from perdure.definitions.kinds.bash.process_tree import become_subreaper, descendants, reap_children, send_signals

SWEEP_S, SWEEPS = 0.02, 5
"""What a killed keeper has left behind is looked for again until so often nothing was found: what begins meanwhile may be overlooked."""

FORK_REQUEST = b"k"


def run_fork_server(arguments: list[str]) -> None:
    """Fork keepers for the engine; `arguments` are the descriptor of its socket, and the id of its process."""
    descriptor, engine = map(int, arguments)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    gc.freeze()
    with socket.socket(fileno=descriptor) as doors:
        ForkServer(doors, _watched(engine)).serve()


def _watched(engine: int) -> int | None:
    """A descriptor that can be read from once the process has ended, where there is such a thing."""
    if sys.platform != "linux":
        return None
    with suppress(ProcessLookupError):
        return os.pidfd_open(engine)
    sys.exit()


class ForkServer:
    """The keepers at work."""

    def __init__(self, doors: socket.socket, engine: int | None) -> None:
        self._doors, self._engine = doors, engine
        self._pids: set[int] = set()
        self._open, self._sweeps = True, 0
        self._bell, self._ring = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for one in (self._bell, self._ring):
            one.setblocking(False)

    def serve(self) -> None:
        """Fork keepers as long as somebody asks for them, and wait for the last."""
        signal.set_wakeup_fd(self._ring.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # else it would not ring
        self._selector.register(self._bell, selectors.EVENT_READ, lambda: self._bell.recv(1024))
        self._selector.register(self._doors, selectors.EVENT_READ, self._asked)
        if self._engine is not None:
            self._selector.register(self._engine, selectors.EVENT_READ, self._shut)
        while self._open or self._pids or self._sweeps:
            for key, _ in self._selector.select(SWEEP_S if self._sweeps else None):
                key.data()
            self._bury()

    def _asked(self) -> None:
        word, descriptors, _, _ = socket.recv_fds(self._doors, 1, 1)
        if not word:
            self._shut()
        for descriptor in descriptors:
            self._fork(descriptor)

    def _shut(self) -> None:
        if self._open:
            self._open = False
            self._selector.unregister(self._doors)
            if self._engine is not None:
                self._selector.unregister(self._engine)

    def _fork(self, descriptor: int) -> None:
        try:
            pid = os.fork()
        except OSError:  # there are too many processes; who asked sees that nobody is there
            pid = -1
        if pid:
            self._pids |= {pid} - {-1}
            os.close(descriptor)
            return
        failed = 1
        try:
            self._selector.close()
            for one in (self._doors, self._bell, self._ring):
                one.close()
            with socket.socket(fileno=descriptor) as control:
                failed = not supervise(control, self._engine)
        finally:
            os._exit(failed)

    def _bury(self) -> None:
        """Take note of keepers that have ended. What one has left behind is killed, again and again until nothing is left."""
        ended, _ = reap_children()
        if any(status for pid, status in ended.items() if pid in self._pids):
            self._sweeps = SWEEPS
        self._pids -= ended.keys()
        if self._sweeps:
            left = descendants(os.getpid(), self._pids)
            send_signals(left, signal.SIGKILL)
            self._sweeps = SWEEPS if left else self._sweeps - 1
