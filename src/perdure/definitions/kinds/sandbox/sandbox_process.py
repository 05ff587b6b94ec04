"""The parent's side of a sandbox process: it starts the process, sends one job at a time, and kills it. The process inherits nothing but Perdure's code.

Sending a job needs an event loop with sockets, but a sandbox belongs to no particular loop. In a loop without sockets, such as that of virtual time, it
blocks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from perdure.definitions.kinds.sandbox.job_protocol import ERROR_CHARACTERS_MAX, LENGTH

START_S = 30.0
"""How long a process may take to begin."""

STDERR_BYTES_MAX = 1 << 20
"""How much standard error is read; more than a pipe holds."""

_RECEIVED_BYTES_MAX = 1 << 18
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from perdure.definitions.kinds.sandbox.sandbox_worker import main; main()"


class SandboxDied(Exception):
    """The process has ended or violated the protocol. `returncode` is that of `subprocess` (None: a protocol violation), `said` its standard error."""

    def __init__(self, returncode: int | None, said: str = "") -> None:
        super().__init__(f"the sandbox has ended: {'it said what is no answer' if returncode is None else exit_text(returncode)}{f': {said}' if said else ''}")
        self.returncode, self.said = returncode, said


def exit_text(returncode: int) -> str:
    """The end of a process in words."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"signal {-returncode}, {signal.Signals(-returncode).name}"
    except ValueError:
        return f"signal {-returncode}"


def has_sockets(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop supports sockets; the loop of virtual time does not."""
    return type(loop).sock_recv is not asyncio.AbstractEventLoop.sock_recv


class SandboxProcess:
    """A sandbox; `jobs` counts the jobs that it was sent."""

    def __init__(self) -> None:
        self.jobs = 0
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _started(theirs)
            except BaseException:
                self._socket.close()
                raise
        self._socket.setblocking(False)

    @property
    def pid(self) -> int:
        """The id of the process and of its process group."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it has not ended, as far as the system knows: its end of the socket is closed before the system says that it has."""
        if self._process.poll() is not None:
            return False
        try:
            return self._socket.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    async def ready(self) -> None:
        """Waits until it takes work.

        Raises:
            Died: it never will.
            TimeoutError: it took too long.
        """
        _ = await self._answered(b"", 0, START_S)

    async def ask(self, frame: bytes, answer_bytes_max: int, within_s: float) -> bytes:
        """Sends a frame, and returns the body of the frame that comes back.

        Raises:
            Died: it has ended, or has answered with more than that.
            TimeoutError: it took too long. It is of no use any more, as after any error here: kill it.
        """
        self.jobs += 1
        _ = self._said()  # what it said before does not belong to this
        return await self._answered(frame, answer_bytes_max, within_s)

    async def _answered(self, frame: bytes, bytes_max: int, within_s: float) -> bytes:
        loop = asyncio.get_running_loop()
        reading = _frame_reader(bytes_max)
        try:
            if not has_sockets(loop):
                return self._answered_here(frame, reading, within_s)
            async with asyncio.timeout(within_s):
                await loop.sock_sendall(self._socket, frame)
                wanted = next(reading)
                while True:
                    wanted = reading.send(await loop.sock_recv(self._socket, wanted))
        except StopIteration as read:
            body: bytes = read.value
            return body
        except (EOFError, ConnectionError):
            returncode = await loop.run_in_executor(None, self._ended)
            raise SandboxDied(returncode, self._said()) from None

    def _answered_here(self, frame: bytes, reading: Generator[int, bytes, bytes], within_s: float) -> bytes:
        """The same, blocking."""
        end_s = time.monotonic() + within_s
        try:
            self._socket.settimeout(within_s)
            self._socket.sendall(frame)
            wanted = next(reading)
            while True:
                self._socket.settimeout(max(end_s - time.monotonic(), 1e-3))
                wanted = reading.send(self._socket.recv(wanted))
        finally:
            self._socket.setblocking(False)

    def kill(self) -> threading.Thread | None:
        """Kills the process and its group at once; the thread that it returns ends when the process is reaped. Killing twice does nothing."""
        self._close()
        if self._process.returncode is not None:
            return None
        _kill(self._process)
        waiting = threading.Thread(target=self._process.wait, name="perdure-sandbox-ending", daemon=True)
        try:
            waiting.start()
        except RuntimeError:  # no thread can be begun while the interpreter ends
            self._process.wait()
        return waiting

    def forget(self) -> None:
        """Let go of it in a forked child, whose parent goes on with it."""
        self._close()
        self._process.returncode = 0

    def _close(self) -> None:
        self._socket.close()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _said(self) -> str:
        """The latest standard error since the last call, cut to its end."""
        stderr = self._process.stderr
        if stderr is None or stderr.closed:
            return ""
        return (stderr.read(STDERR_BYTES_MAX) or b"").decode("utf-8", "replace").strip()[-ERROR_CHARACTERS_MAX:]

    def _ended(self) -> int | None:
        """The error for the end of the process. Its socket closes slightly before the process has ended."""
        try:
            return self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return None


def _frame_reader(bytes_max: int) -> Generator[int, bytes, bytes]:
    """Reads one frame: yields how many bytes to receive at most, is sent the bytes, and returns the body."""
    found, size_bytes = bytearray(), -1
    while size_bytes < 0 or len(found) < size_bytes:
        more = yield _RECEIVED_BYTES_MAX
        if not more:
            raise EOFError
        found += more
        if size_bytes < 0 and len(found) >= LENGTH.size:
            (size_bytes,) = LENGTH.unpack_from(found)
            del found[: LENGTH.size]
            if size_bytes > bytes_max:
                raise SandboxDied(None)
    if len(found) > size_bytes:
        raise SandboxDied(None)
    return bytes(found)


def _started(theirs: socket.socket) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", _PROGRAM, *filter(None, map(os.path.abspath, sys.path))]
    options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "cwd": Path(sys.executable).anchor or None}
    if sys.platform != "win32":
        process = subprocess.Popen(command, stdin=theirs.fileno(), stderr=subprocess.PIPE, bufsize=0, env={}, start_new_session=True, **options)
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        return process
    flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    environment = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}  # without it, there are no sockets
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, creationflags=flags, **options)
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(theirs.share(process.pid))
    return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has ended, and on macOS that is said so
        process.kill()
