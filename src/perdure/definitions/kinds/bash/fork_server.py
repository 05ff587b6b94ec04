"""The fork server: a small process that forks a supervisor for each shell command. It does nothing else, so that forking is cheap and never delayed.

Each request on its socket brings the descriptor of the socket to the new supervisor. It exits once the socket is closed or the engine has died, and its last
supervisor has ended. If a supervisor is killed, the processes of its command become children of this process, which kills them.
"""

import gc
import os
import selectors
import signal
import socket
import sys
from contextlib import suppress

from perdure.definitions.kinds.bash.command_supervisor import supervise
from perdure.supervision.process_supervisor import ChildExitNotifier
from perdure.supervision.process_tree import become_subreaper, descendants, reap_children, send_signals

SWEEP_S, SWEEPS = 0.02, 5
"""Orphans of a killed supervisor are killed in sweeps until this many sweeps in a row found none: a process that starts during a sweep may be missed."""

FORK_REQUEST = b"k"


def run_fork_server(arguments: list[str]) -> None:
    """Runs the fork server; `arguments` are the descriptor of its socket and the process id of the engine."""
    descriptor, engine = map(int, arguments)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    gc.freeze()
    with socket.socket(fileno=descriptor) as requests:
        ForkServer(requests, _engine_descriptor(engine)).serve()


def _engine_descriptor(engine: int) -> int | None:
    """A pidfd of the engine, which becomes readable when the engine ends; None where the system has no pidfds."""
    if sys.platform != "linux":
        return None
    with suppress(ProcessLookupError):
        return os.pidfd_open(engine)
    sys.exit()


class ForkServer:
    """Forks supervisors and reaps them."""

    def __init__(self, requests: socket.socket, engine: int | None) -> None:
        self._requests, self._engine = requests, engine
        self._pids: set[int] = set()
        self._open, self._sweeps = True, 0
        self._selector = selectors.DefaultSelector()
        self._notifier = ChildExitNotifier(self._selector)

    def serve(self) -> None:
        """Forks supervisors until the socket is closed, and waits for the last of them."""
        self._selector.register(self._requests, selectors.EVENT_READ, self._accept)
        if self._engine is not None:
            self._selector.register(self._engine, selectors.EVENT_READ, self._stop_accepting)
        while self._open or self._pids or self._sweeps:
            for key, _ in self._selector.select(SWEEP_S if self._sweeps else None):
                key.data()
            self._reap()

    def _accept(self) -> None:
        request, descriptors, _, _ = socket.recv_fds(self._requests, 1, 1)
        if not request:
            self._stop_accepting()
        for descriptor in descriptors:
            self._fork(descriptor)

    def _stop_accepting(self) -> None:
        if self._open:
            self._open = False
            self._selector.unregister(self._requests)
            if self._engine is not None:
                self._selector.unregister(self._engine)

    def _fork(self, descriptor: int) -> None:
        try:
            pid = os.fork()
        except OSError:  # too many processes: closing the descriptor tells the engine
            pid = -1
        if pid:
            self._pids |= {pid} - {-1}
            os.close(descriptor)
            return
        failed = 1
        try:
            self._selector.close()
            self._notifier.close()
            self._requests.close()
            with socket.socket(fileno=descriptor) as control:
                failed = not supervise(control, self._engine)
        finally:
            os._exit(failed)

    def _reap(self) -> None:
        """Reaps supervisors that have ended. If one failed, kills what it has left behind, until nothing is found."""
        ended, _ = reap_children()
        if any(status for pid, status in ended.items() if pid in self._pids):
            self._sweeps = SWEEPS
        self._pids -= ended.keys()
        if self._sweeps:
            left = descendants(os.getpid(), self._pids)
            send_signals(left, signal.SIGKILL)
            self._sweeps = SWEEPS if left else self._sweeps - 1
