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
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from errno import E2BIG, EADDRINUSE
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from perdure.definitions.kinds.bash.isolation import isolate
from perdure.definitions.kinds.bash.process_tree import become_subreaper, descendants, reap_children, send_signals

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


GRACE_S = 2.0
"""How long processes may take to end after SIGTERM, before SIGKILL."""

GIVE_UP_S = 5.0
"""How long SIGKILL is repeated. Processes of another user can't be killed."""

ASK_AGAIN_S, KILL_AGAIN_S = 0.05, 0.01
"""How often new descendants are looked for while the command is ended."""

SHOW_S = 1.0
"""The interval of progress reports."""

CHUNK_BYTES, CHUNKS_MAX = 1 << 16, 64
DIRECTORY_MODE = 0o700


class CommandStartRefused(Exception):  # told to the engine, which raises what users see
    """The command can't be started; the text says why."""


class SupervisedCommand:
    """A command that was started. At the end, `clean` says whether all of its processes have ended.

    Raises:
        CommandStartRefused: it can't be started.
    """

    def __init__(self, asked: dict[str, Any]) -> None:
        self._selector = selectors.DefaultSelector()
        self._enders: list[Any] = []
        self._asked: set[int] = set()
        self._streams = {name: OutputCapture() for name in ("stdout", "stderr")}
        self._why, self._others = "", True
        self._status: int | None = None
        self.clean = True
        bell, ring = socket.socketpair()
        for one in (bell, ring):
            one.setblocking(False)
        self._listen(bell, partial(bell.recv, CHUNK_BYTES))
        self._ring = ring  # kept open
        signal.set_wakeup_fd(ring.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # else it would not ring
        self._shell = _started(asked)
        for name, stream in self._streams.items():
            pipe = getattr(self._shell, name)
            os.set_blocking(pipe.fileno(), False)
            self._listen(pipe, partial(self._read, pipe, stream))
        if asked["stdin"] is not None:
            pipe, rest = self._shell.stdin, memoryview(asked["stdin"].encode())
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_WRITE, partial(self._feed, pipe, rest))
        self._began_s = time.monotonic()
        self._over_s: float = self._began_s + asked["limit_s"]
        self._ends_s, self._grace_s = inf, asked["grace_s"]
        self._shown, self._show_s = 0, self._began_s + SHOW_S

    def ends_with(self, file: Any) -> None:
        """Ends the command when `file` becomes readable."""
        self._enders.append(file)
        self._listen(file, partial(self._end, "unwanted"))

    def run(self, show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Waits until the command and all of its processes have ended, and returns the result. Calls `show` with progress from time to time."""
        while not self._is_over():
            for key, _ in self._selector.select(self._patience_s()):
                key.data()
            self._go_on(show)
        for name, stream in self._streams.items():
            self._drain(getattr(self._shell, name), stream)
        return {
            "why": self._why,
            "status": None if self._status is None else os.waitstatus_to_exitcode(self._status),
            "truncated": any(stream.left_out for stream in self._streams.values()),
            "duration_s": round(time.monotonic() - self._began_s, 3),
            **{name: stream.text for name, stream in self._streams.items()},
        }

    def _listen(self, file: Any, heard: Callable[[], object]) -> None:
        self._selector.register(file, selectors.EVENT_READ, heard)

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
        except BrokenPipeError:  # it does not read all of its input, as is its right
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

    def _go_on(self, show: Callable[[dict[str, Any]], None]) -> None:
        """Reaps processes that have ended, and does what is due."""
        ended, self._others = reap_children()
        self._status = ended.get(self._shell.pid, self._status)
        now_s = time.monotonic()
        if now_s >= self._over_s:
            self._end("limit")
        elif self._status is not None and self._lives():
            self._end("")
        if now_s >= self._ends_s + self._grace_s:
            send_signals(self._left(), signal.SIGKILL)
        elif now_s >= self._ends_s:
            self._ask()
        if now_s >= self._show_s and self._unshown():
            self._shown += self._unshown()
            self._show_s = now_s + SHOW_S
            show({"duration_s": round(now_s - self._began_s, 1), **{name: stream.last for name, stream in self._streams.items()}})

    def _unshown(self) -> int:
        return sum(stream.characters for stream in self._streams.values()) - self._shown

    def _end(self, why: str) -> None:
        """Sends SIGTERM to all processes, once. Those that are left after the grace period get SIGKILL."""
        if self._ends_s != inf:
            return
        self._why, self._ends_s = why, time.monotonic()
        for file in self._enders:
            self._selector.unregister(file)
        self._ask()

    def _ask(self) -> None:
        """Sends SIGTERM to the processes that have not received it yet."""
        left = [pid for pid in self._left() if pid not in self._asked]
        self._asked.update(left)
        send_signals(left, signal.SIGTERM, signal.SIGCONT)

    def _left(self) -> list[int]:
        """The processes to signal."""
        return descendants(os.getpid()) if sys.platform == "linux" else [-self._shell.pid] if self._lives() else []

    def _lives(self) -> bool:
        """Whether any of its processes is left."""
        if sys.platform == "linux":  # where all of them are below this one, and become children of it
            return self._others
        try:
            os.killpg(self._shell.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _is_over(self) -> bool:
        if self._status is not None and not self._lives():
            return True
        self.clean = time.monotonic() < self._ends_s + self._grace_s + GIVE_UP_S
        return not self.clean

    def _patience_s(self) -> float | None:
        now_s = time.monotonic()
        if now_s >= self._ends_s + self._grace_s:
            return KILL_AGAIN_S
        if now_s >= self._ends_s:
            return ASK_AGAIN_S
        return max(0.0, min(self._over_s, self._show_s if self._unshown() else inf) - now_s)


def _started(asked: dict[str, Any]) -> Any:
    home, directory = command_directories(asked["work"], asked["parts"], asked["cwd"])
    try:
        isolate(asked["isolate"], home)
    except OSError as error:
        why = f"isolate: {asked['isolate']} is not to be had here ({error.strerror or error}); let the engine's user make user namespaces, or say none"
        raise CommandStartRefused(why) from None
    try:
        return subprocess.Popen(
            asked["command"],
            env=asked["env"],
            cwd=directory,
            stdin=subprocess.DEVNULL if asked["stdin"] is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        if error.errno == E2BIG:
            raise CommandStartRefused("its text or its environment is more than this system gives to a program; give what is large by stdin") from None
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
        asked = _received_request(control)
        lock = _attempt_lock(asked["lock"], control)
        _send_answer(control, {})
        command = SupervisedCommand(asked)
        command.ends_with(control)
        if engine is not None:
            command.ends_with(engine)
        ended = command.run(lambda progress: _send_progress(control, progress))
        if lock is not None:
            lock.close()
    except CommandStartRefused as why:
        _send_answer(control, {"refused": str(why)})
        return True
    except ResultUnwanted:
        return True
    except Exception:  # a defect, which is for the engine to tell
        _send_answer(control, {"broken": traceback.format_exc()})
        return False
    _send_answer(control, {"ended": ended})
    return command.clean


def _received_request(control: socket.socket) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_exactly(control, int.from_bytes(_exactly(control, LENGTH_BYTES), "big")))
    return found


def _exactly(control: socket.socket, size_bytes: int) -> bytes:
    found = bytearray()
    while len(found) < size_bytes:
        if not (some := control.recv(min(size_bytes - len(found), RECEIVE_BYTES_MAX))):
            raise ResultUnwanted
        found += some
    return bytes(found)


def _send_answer(control: socket.socket, said: dict[str, Any]) -> None:
    try:
        control.sendall(json.dumps(said).encode() + b"\n")
    except OSError:  # the engine has gone, and hears nothing
        return


def _send_progress(control: socket.socket, progress: dict[str, Any]) -> None:
    if select.select([], [control], [], 0)[1]:  # an engine that does not listen is not waited for
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
