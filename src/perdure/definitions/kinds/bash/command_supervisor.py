"""The supervisor of one shell command: it starts the command, captures its output, and ends all of its processes. It runs in a process of its own.

It receives one request on a socket, as JSON behind its length, and answers in lines of JSON: ``{}`` before it starts the command (without that line, the
engine knows that nothing was started), ``{"progress": ...}`` from time to time, and at last ``{"ended": ...}``, ``{"refused": why}`` if the command could not
be started, or ``{"broken": traceback}``. If the engine closes the socket or dies, the supervisor ends the command.
"""

import codecs
import json
import os
import select
import selectors
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from errno import E2BIG, EADDRINUSE
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from perdure.definitions.kinds.bash.isolation import isolate
from perdure.supervision.process_supervisor import GIVE_UP_S, GRACE_S, ProcessSupervisor
from perdure.supervision.process_tree import become_subreaper

KEPT_CHARACTERS = 64 * 1024
"""How much of each stream is kept: one half from its beginning, one from its end."""

LAST_LINES, LAST_CHARACTERS = 5, 500
"""How much of the end of a stream a progress report holds."""


class OutputCapture:
    """One output stream of a command, as text of bounded size. Bytes that are not UTF-8 become U+FFFD."""

    def __init__(self, kept_characters: int = KEPT_CHARACTERS) -> None:
        self._half = kept_characters // 2
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = self._tail = ""
        self.characters = 0

    def take(self, raw: bytes, final: bool = False) -> None:
        """Adds bytes; `final` marks the last ones."""
        text = self._decoder.decode(raw, final)
        self.characters += len(text)
        if (room := self._half - len(self._head)) > 0:
            self._head += text[:room]
            text = text[room:]
        if text:
            self._tail = text[-self._half :] if len(text) >= self._half else (self._tail + text)[-self._half :]

    @property
    def left_out(self) -> int:
        """The number of characters that are not kept."""
        return self.characters - len(self._head) - len(self._tail)

    @property
    def text(self) -> str:
        """The text that is kept. A line in the middle says how much is missing."""
        between = f"\n[... {self.left_out:,} characters left out ...]\n" if self.left_out else ""
        return f"{self._head}{between}{self._tail}"

    @property
    def last(self) -> str:
        """The last lines."""
        shown = (self._head[-LAST_CHARACTERS:] + self._tail[-LAST_CHARACTERS:])[-LAST_CHARACTERS:]
        return "\n".join(shown.splitlines()[-LAST_LINES:])


REPORT_INTERVAL_S = 1.0
"""The interval of progress reports."""

CHUNK_BYTES, CHUNKS_MAX = 1 << 16, 64
DIRECTORY_MODE = 0o700


class CommandStartRefused(Exception):  # sent to the engine, which raises what users see
    """The command can't be started; the text says why."""


class SupervisedCommand:
    """A command that was started, and its output. After `run`, `gave_up` says whether processes of it may be left.

    Raises:
        CommandStartRefused: it can't be started.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        self._streams = {name: OutputCapture() for name in ("stdout", "stderr")}
        self._supervisor = ProcessSupervisor(partial(_start_shell, request), limit_s=request["limit_s"], grace_s=request["grace_s"])
        self._selector, self._shell = self._supervisor.selector, self._supervisor.process
        for name, stream in self._streams.items():
            pipe = getattr(self._shell, name)
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, partial(self._read, pipe, stream))
        if request["stdin"] is not None:
            assert self._shell.stdin is not None
            os.set_blocking(self._shell.stdin.fileno(), False)
            self._selector.register(self._shell.stdin, selectors.EVENT_WRITE, partial(self._feed, self._shell.stdin, memoryview(request["stdin"].encode())))
        self._reported_characters, self._report_s = 0, self._supervisor.began_s + REPORT_INTERVAL_S

    @property
    def gave_up(self) -> bool:
        """Whether processes of the command may be left."""
        return self._supervisor.gave_up

    def stop_when_readable(self, file: Any) -> None:
        """Ends the command when `file` becomes readable."""
        self._supervisor.stop_when_readable(file, "unwanted")

    def run(self, report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Waits until the command and all of its processes have ended, and returns the result. Calls `report` with progress from time to time."""
        supervisor = self._supervisor
        supervisor.run(partial(self._report_if_due, report))
        for name, stream in self._streams.items():
            self._drain(getattr(self._shell, name), stream)
        return {
            "why": supervisor.end_reason,
            "status": None if supervisor.status is None else os.waitstatus_to_exitcode(supervisor.status),
            "truncated": any(stream.left_out for stream in self._streams.values()),
            "duration_s": round(time.monotonic() - supervisor.began_s, 3),
            **{name: stream.text for name, stream in self._streams.items()},
        }

    def _close(self, pipe: Any) -> None:
        self._selector.unregister(pipe)
        pipe.close()

    def _read(self, pipe: Any, stream: OutputCapture) -> None:
        raw = pipe.read(CHUNK_BYTES)
        if raw:
            stream.take(raw)
        elif raw is not None:
            self._close(pipe)

    def _feed(self, pipe: Any, rest: memoryview) -> None:
        try:
            written = pipe.write(rest) or 0
        except BrokenPipeError:  # the command need not read all of its input
            written = len(rest)
        if written < len(rest):
            self._selector.modify(pipe, selectors.EVENT_WRITE, partial(self._feed, pipe, rest[written:]))
        else:
            self._close(pipe)

    def _drain(self, pipe: Any, stream: OutputCapture) -> None:
        """Reads what is left in a pipe. The bound matters: a process outside of the command may hold the other end and write for ever."""
        for _ in range(CHUNKS_MAX):
            if pipe.closed or not (raw := pipe.read(CHUNK_BYTES)):
                break
            stream.take(raw)
        stream.take(b"", final=True)

    def _report_if_due(self, report: Callable[[dict[str, Any]], None]) -> float:
        """Reports progress if there is new output and the interval is over; returns when to look again."""
        now_s, characters = time.monotonic(), sum(stream.characters for stream in self._streams.values())
        if characters == self._reported_characters:
            return inf
        if now_s >= self._report_s:
            self._reported_characters, self._report_s = characters, now_s + REPORT_INTERVAL_S
            report({"duration_s": round(now_s - self._supervisor.began_s, 1), **{name: stream.last for name, stream in self._streams.items()}})
            return inf
        return self._report_s


def _start_shell(request: dict[str, Any]) -> "subprocess.Popen[bytes]":
    home, directory = command_directories(request["work"], request["parts"], request["cwd"])
    try:
        isolate(request["isolate"], home)
    except OSError as error:
        why = f"isolate: {request['isolate']} is not to be had here ({error.strerror or error}); let the engine's user make user namespaces, or say none"
        raise CommandStartRefused(why) from None
    try:
        return subprocess.Popen(
            request["command"],
            env=request["env"],
            cwd=directory,
            stdin=subprocess.DEVNULL if request["stdin"] is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        if error.errno == E2BIG:
            raise CommandStartRefused("its text or its environment is larger than this system allows; pass large data by stdin") from None
        raise CommandStartRefused(f"{error.filename or 'bash'}: {error.strerror}") from None


def command_directories(work: str, parts: list[str], cwd: str) -> tuple[Path, Path]:
    """The working directory of the execution, created if it is missing, and the directory in which the command starts.

    Raises:
        CommandStartRefused: one of them can't be used.
    """
    home = Path(work)
    try:
        home.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        for part in parts:
            home /= part
            home.mkdir(DIRECTORY_MODE, exist_ok=True)
    except OSError as error:
        raise CommandStartRefused(f"the working directory {home} can't be made ({error.strerror}); {OTHER_DIRECTORY_HINT}") from None
    if not os.access(home, os.W_OK | os.X_OK):
        raise CommandStartRefused(f"the working directory {home} can't be written to; {OTHER_DIRECTORY_HINT}")
    directory = (home / cwd).resolve()
    if not Path(cwd).is_absolute() and not directory.is_relative_to(home.resolve()):
        raise CommandStartRefused(f"cwd: {cwd} leads out of the working directory; write the whole path if that is meant")
    if not directory.is_dir():
        raise CommandStartRefused(f"cwd: there is no directory {cwd}; make it in a step before")
    return home, directory


OTHER_DIRECTORY_HINT = "name another with Deployment(work=...)"


RECEIVE_BYTES_MAX = 1 << 16
LENGTH_BYTES = 8


class ResultUnwanted(Exception):  # an expected outcome on its way to where it is handled
    """The engine no longer wants the result."""


def supervise(control: socket.socket, engine: int | None) -> bool:
    """Runs the command that is requested on `control`, as long as the process behind the descriptor `engine` lives. Returns whether no process is left."""
    become_subreaper()
    try:
        request = _received_request(control)
        lock = _attempt_lock(request["lock"], control)
        _send_answer(control, {})
        command = SupervisedCommand(request)
        command.stop_when_readable(control)
        if engine is not None:
            command.stop_when_readable(engine)
        ended = command.run(lambda progress: _send_progress(control, progress))
        if lock is not None:
            lock.close()
    except CommandStartRefused as why:
        _send_answer(control, {"refused": str(why)})
        return True
    except ResultUnwanted:
        return True
    except Exception:  # a defect, which the engine reports
        _send_answer(control, {"broken": traceback.format_exc()})
        return False
    _send_answer(control, {"ended": ended})
    return not command.gave_up


def _received_request(control: socket.socket) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(_receive_exactly(control, int.from_bytes(_receive_exactly(control, LENGTH_BYTES), "big")))
    return request


def _receive_exactly(control: socket.socket, size_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < size_bytes:
        if not (chunk := control.recv(min(size_bytes - len(received), RECEIVE_BYTES_MAX))):
            raise ResultUnwanted
        received += chunk
    return bytes(received)


def _send_answer(control: socket.socket, answer: dict[str, Any]) -> None:
    with suppress(OSError):  # the engine has ended
        control.sendall(json.dumps(answer).encode() + b"\n")


def _send_progress(control: socket.socket, progress: dict[str, Any]) -> None:
    if select.select([], [control], [], 0)[1]:  # never wait for an engine that does not read
        _send_answer(control, {"progress": progress})


def _attempt_lock(name: str, control: socket.socket) -> socket.socket | None:
    """Waits until no other attempt of the step has processes on this machine, and keeps others from starting until this one has ended.

    The lock is an abstract socket address, which the kernel frees when its holder ends, in whatever way. Systems without such addresses do not wait.
    """
    if sys.platform != "linux":
        return None
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    until_s = time.monotonic() + 2 * (GRACE_S + GIVE_UP_S)
    while True:
        try:
            lock.bind(f"\0perdure.{name}")
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise
            if select.select([control], [], [], 0.02)[0]:
                raise ResultUnwanted from None
            if time.monotonic() > until_s:
                raise CommandStartRefused("an earlier try of this step still has processes that do not end; end them, and run it again") from None
        else:
            return lock
