"""The engine's side of the fork server: it starts the server with the first command, has a supervisor forked for each, and talks to the supervisors.

However a call of `run_supervised` ends, no process of the command is left.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from perdure.definitions.kinds.bash.command_supervisor import LENGTH_BYTES
from perdure.definitions.kinds.bash.fork_server import FORK_REQUEST, run_fork_server
from perdure.supervision.helper_process import helper_command, helper_environment
from perdure.supervision.process_supervisor import GIVE_UP_S, GRACE_S

SEND_S, END_S, ENDING_S = 10.0, 10.0, 0.2
SAID_BYTES_MAX = 1 << 20
FORK_SERVER_MODULE = run_fork_server.__module__


class ForkServerClient:
    """The fork server of this process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(SEND_S)
        with theirs:
            self._process = subprocess.Popen(
                helper_command(FORK_SERVER_MODULE, run_fork_server.__name__, [str(theirs.fileno()), str(self.owner)]),
                env=helper_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # the terminal's signals are for the engine alone
            )

        assert self._process.stderr is not None
        self._stderr = self._process.stderr
        os.set_blocking(self._stderr.fileno(), False)

    def begin(self) -> socket.socket:
        """Has a supervisor forked; returns the socket to it.

        Raises:
            OSError: the fork server has ended.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._socket, [FORK_REQUEST], [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return ours

    def failure(self) -> tuple[int, str] | None:
        """The exit code and the standard error of the fork server, if it has exited by itself."""
        try:
            code = self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            return None
        return (code, self._said()) if code >= 0 else None

    def _said(self) -> str:
        return (self._stderr.read(SAID_BYTES_MAX) or b"").decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Closes the socket, and waits until the last supervisor has ended."""
        self._socket.close()
        if self.owner == os.getpid():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
        self._stderr.close()


_lock = threading.Lock()
_fork_servers: list[ForkServerClient] = []


def fork_supervisor() -> socket.socket:
    """Has a supervisor forked; returns the socket to it. Starts the fork server if it does not run."""
    with _lock:
        if _fork_servers and _fork_servers[0].owner == os.getpid():
            with suppress(OSError):  # it was killed
                return _fork_servers[0].begin()
        stop_fork_server()
        _fork_servers.append(ForkServerClient())
        return _fork_servers[0].begin()


def fork_server_failure() -> tuple[int, str] | None:
    """The exit code and the standard error of the fork server, if it has exited by itself."""
    with _lock:
        last = _fork_servers[0] if _fork_servers and _fork_servers[0].owner == os.getpid() else None
    return None if last is None else last.failure()


def stop_fork_server() -> None:
    """Stops the fork server once its last supervisor has ended. The next command starts another one."""
    while _fork_servers:
        _fork_servers.pop().close()


atexit.register(stop_fork_server)


T = TypeVar("T")

CHUNK_BYTES = 1 << 18
ATTEMPTS_MAX = 3
MORE_S = 5.0
"""The additional time that a supervisor gets to end a command."""


async def run_supervised(asked: Mapping[str, Any], shown: Callable[[Any], None]) -> dict[str, Any]:
    """Sends a request to a new supervisor and returns its answer; calls `shown` with each progress report. An empty answer means that the supervisor was
    killed.

    A cancelled call waits until the command has ended. Cancelled a second time, it returns at once; the command is ended all the same.
    """
    raw = json.dumps(asked).encode()
    for _ in range(ATTEMPTS_MAX):
        if (answer := await _supervised_attempt(len(raw).to_bytes(LENGTH_BYTES, "big") + raw, shown)) is not None:
            return answer
    return {}


async def _supervised_attempt(raw: bytes, shown: Callable[[Any], None]) -> dict[str, Any] | None:
    """The answer of one supervisor; None if it, or the fork server, ended before it started anything."""
    try:
        control = fork_supervisor()
    except (BrokenPipeError, ConnectionResetError):  # the fork server exited as it began: `fork_server_failure` says why
        return None
    answer, rest = None, b""
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # it was killed, or has said already why it will not
            await _send(control, raw)
        while some := await _receive(control):
            *lines, rest = (rest + some).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                if "progress" in answer:
                    shown(answer.pop("progress"))
                if answer:
                    return dict(answer)
        return answer
    except BaseException:
        await _stop_supervisor(control)
        raise
    finally:
        control.close()


async def _stop_supervisor(control: socket.socket) -> None:
    """Tells a supervisor that the result is no longer wanted, and waits until it has ended everything."""
    with suppress(OSError):
        control.shutdown(socket.SHUT_WR)
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(GRACE_S + GIVE_UP_S + MORE_S):
            while await _receive(control):
                pass


async def _send(control: socket.socket, raw: bytes) -> None:
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(control, raw)
    except NotImplementedError:
        await _in_thread(lambda: _blocking(control, lambda: control.sendall(raw)))


async def _receive(control: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    try:
        return await loop.sock_recv(control, CHUNK_BYTES)
    except NotImplementedError:
        return await _in_thread(lambda: _blocking(control, lambda: control.recv(CHUNK_BYTES)))
    except ConnectionResetError:
        return b""


async def _in_thread(work: Callable[[], T]) -> T:
    """Runs blocking work in a thread, for event loops without sockets. In the loop of virtual time this takes no time."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def _blocking(control: socket.socket, work: Callable[[], T]) -> T:
    control.setblocking(True)
    try:
        return work()
    finally:
        control.setblocking(False)
