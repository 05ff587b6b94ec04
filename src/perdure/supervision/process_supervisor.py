"""Supervises one child process from inside a supervisor process, and ends it with every process below it.

The tree is ended when the child has exited and left others behind, when a watched descriptor becomes readable, or when the time limit is reached. All of it
receives SIGTERM, and SIGKILL after the grace period. The supervisor gives up in the end, because it can't kill the processes of another user.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from perdure.supervision.process_tree import descendants, group_exists, reap_children, send_signals

GRACE_S = 2.0
"""How long processes may take to end after SIGTERM, before SIGKILL."""

GIVE_UP_S = 5.0
"""How long SIGKILL is repeated before the supervisor gives up."""

TERMINATE_INTERVAL_S, KILL_INTERVAL_S = 0.05, 0.01
"""How often the supervisor looks for new descendants while it ends the tree: during the grace period, and after it."""


class ChildExitNotifier:
    """Wakes up a selector when a child of this process has ended. One process can have only one of these at a time."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._receiver, self._sender = socket.socketpair()
        for end in (self._receiver, self._sender):
            end.setblocking(False)
        selector.register(self._receiver, selectors.EVENT_READ, lambda: self._receiver.recv(4096))
        signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler, the signal would not write to the wake-up descriptor

    def close(self) -> None:
        """Closes both sockets; the selector must not be used any more."""
        self._receiver.close()
        self._sender.close()


class ProcessSupervisor:
    """A child process that `start` starts in a session of its own, and all processes below it. This process must be a subreaper.

    `selector` may be used for further descriptors; its data are functions without arguments, called when the descriptor is ready.
    """

    def __init__(self, start: Callable[[], "subprocess.Popen[bytes]"], *, limit_s: float = inf, grace_s: float = GRACE_S) -> None:
        self.selector = selectors.DefaultSelector()
        self._notifier = ChildExitNotifier(self.selector)  # first: the child may exit before `start` returns
        self.process = start()
        self.began_s = time.monotonic()
        self.end_reason = ""
        self.status: int | None = None
        """The wait status of the child; None while it runs, and if it could not be killed."""
        self.gave_up = False
        self._has_children = True
        self._limit_s = self.began_s + limit_s
        self._terminate_s, self._grace_s = inf, grace_s
        self._terminated = set[int]()
        self._stop_files = list[Any]()

    def stop_when_readable(self, file: Any, reason: str) -> None:
        """Ends the tree when `file` becomes readable; `end_reason` is then `reason`."""
        self._stop_files.append(file)
        self.selector.register(file, selectors.EVENT_READ, partial(self._end, reason))

    def run(self, after_wakeup: Callable[[], float] = lambda: inf) -> None:
        """Waits until the child and all processes below it have ended, or cannot be killed.

        Calls `after_wakeup` each time that something has happened; it returns the monotonic time at which it wants to be called again.
        """
        wakeup_s = inf
        while not self._is_over():
            for key, _ in self.selector.select(self._wait_s(wakeup_s)):
                key.data()
            self._advance()
            wakeup_s = after_wakeup()

    def _advance(self) -> None:
        """Reaps processes that have ended, and sends the signals that are due."""
        ended, self._has_children = reap_children()
        self.status = ended.get(self.process.pid, self.status)
        now_s = time.monotonic()
        if now_s >= self._limit_s:
            self._end("limit")
        elif self.status is not None and self._has_processes():
            self._end("")
        if now_s >= self._terminate_s + self._grace_s:
            send_signals(self._remaining(), signal.SIGKILL)
        elif now_s >= self._terminate_s:
            self._terminate()

    def _end(self, reason: str) -> None:
        """Begins to end the tree, once."""
        if self._terminate_s != inf:
            return
        self.end_reason, self._terminate_s = reason, time.monotonic()
        for file in self._stop_files:  # they stay readable, so that waiting for them would spin
            self.selector.unregister(file)
        self._terminate()

    def _terminate(self) -> None:
        """Sends SIGTERM to the processes that have not received it yet, and SIGCONT, as a stopped process handles no signal."""
        new = [pid for pid in self._remaining() if pid not in self._terminated]
        self._terminated.update(new)
        send_signals(new, signal.SIGTERM, signal.SIGCONT)

    def _remaining(self) -> list[int]:
        """The processes to signal; a negative number is a process group."""
        if sys.platform == "linux":
            return descendants(os.getpid())
        return [-self.process.pid] if self._has_processes() else []

    def _has_processes(self) -> bool:
        """Whether any process of the tree is left. On Linux all of them become children of this process, as it is a subreaper."""
        return self._has_children if sys.platform == "linux" else group_exists(self.process.pid)

    def _is_over(self) -> bool:
        if self.status is not None and not self._has_processes():
            return True
        self.gave_up = time.monotonic() >= self._terminate_s + self._grace_s + GIVE_UP_S
        return self.gave_up

    def _wait_s(self, wakeup_s: float) -> float | None:
        now_s = time.monotonic()
        if now_s >= self._terminate_s + self._grace_s:
            return KILL_INTERVAL_S
        if now_s >= self._terminate_s:
            return TERMINATE_INTERVAL_S
        next_s = min(self._limit_s, wakeup_s)
        return None if next_s == inf else max(0.0, next_s - now_s)
