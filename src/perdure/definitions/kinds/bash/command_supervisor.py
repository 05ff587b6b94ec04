"""Streams: what is kept of what a command says. Whatever and however much it is, it costs the same memory at most.

Command: a shell and all that is below it, from its start to the end of its last process. It is the only one of the process that it is in.

Keeper: starts one command, reads what it says, and ends with all of its processes.

It is asked by a mapping, in JSON behind its length, on a socket, and answers there in lines of JSON: ``{}`` before it starts the command, so that who
does not hear it knows that nothing was started; ``{"progress": ...}`` now and then; and at last ``{"ended": ...}``, or ``{"refused": why}`` if the command
could not be started, or ``{"broken": traceback}``. When the socket is closed from the other side, or the engine's process ends, nobody wants the result
any more.
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
"""How much of each stream is kept: half of it from the beginning, half from the end."""

LAST_LINES, LAST_CHARACTERS = 5, 500
"""How much of a stream its watchers are shown."""


class OutputCapture:
    """One output of a command, as text: bytes that are no UTF-8 stand as U+FFFD."""

    def __init__(self, kept_characters: int = KEPT_CHARACTERS) -> None:
        self._half = kept_characters // 2
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = self._tail = ""
        self.characters = 0

    def take(self, raw: bytes, final: bool = False) -> None:
        """Go on with these bytes; with `final`, they are the last."""
        text = self._decoder.decode(raw, final)
        self.characters += len(text)
        if (room := self._half - len(self._head)) > 0:
            self._head += text[:room]
            text = text[room:]
        if text:
            self._tail = text[-self._half :] if len(text) >= self._half else (self._tail + text)[-self._half :]

    @property
    def left_out(self) -> int:
        """How many characters of it are not kept."""
        return self.characters - len(self._head) - len(self._tail)

    @property
    def text(self) -> str:
        """What is kept of it, with a line in the middle that says how much is not, if it is not all."""
        between = f"\n[... {self.left_out:,} characters left out ...]\n" if self.left_out else ""
        return f"{self._head}{between}{self._tail}"

    @property
    def last(self) -> str:
        """Its last lines."""
        shown = (self._head[-LAST_CHARACTERS:] + self._tail[-LAST_CHARACTERS:])[-LAST_CHARACTERS:]
        return "\n".join(shown.splitlines()[-LAST_LINES:])


GRACE_S = 2.0
"""How long processes that were asked to end may take, before they are killed."""

GIVE_UP_S = 5.0
"""How long it is tried to kill them: those that run as another user can't be."""

ASK_AGAIN_S, KILL_AGAIN_S = 0.05, 0.01
"""Those that begin while others are ended are found by looking again."""

SHOW_S = 1.0
"""How often its watchers are told what it says."""

CHUNK_BYTES, CHUNKS_MAX = 1 << 16, 64
DIRECTORY_MODE = 0o700


class CommandStartRefused(Exception):  # told to the engine, which raises what users see
    """The command can't be started, and why."""


class SupervisedCommand:
    """A command that has been started. `clean` says in the end whether all of its processes have ended.

    Raises:
        Refused: it can't be started.
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
        """End it when there is something to be read from `file`."""
        self._enders.append(file)
        self._listen(file, partial(self._end, "unwanted"))

    def run(self, show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Go on until it and all of its processes have ended; return what came of it. `show` is told now and then what it says last."""
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
        """Read what is there; who holds the other end and is none of its processes may go on writing, and is not heard."""
        for _ in range(CHUNKS_MAX):
            if pipe.closed or not (raw := pipe.read(CHUNK_BYTES)):
                break
            stream.take(raw)
        stream.take(b"", final=True)

    def _go_on(self, show: Callable[[dict[str, Any]], None]) -> None:
        """See who has ended, and do what is due."""
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
        """Ask all to end, unless they were asked; those who have not when the grace is over are killed."""
        if self._ends_s != inf:
            return
        self._why, self._ends_s = why, time.monotonic()
        for file in self._enders:
            self._selector.unregister(file)
        self._ask()

    def _ask(self) -> None:
        """Ask those to end that were not asked before."""
        left = [pid for pid in self._left() if pid not in self._asked]
        self._asked.update(left)
        send_signals(left, signal.SIGTERM, signal.SIGCONT)

    def _left(self) -> list[int]:
        """Who is to be told to end."""
        return descendants(os.getpid()) if sys.platform == "linux" else [-self._shell.pid] if self._lives() else []

    def _lives(self) -> bool:
        """Whether some of its processes have not ended."""
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
    """The working directory of an execution, which is made if it is not there, and the directory in which a command of it begins.

    Raises:
        Refused: it can't be made or written to, or the other is none.
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
    """Nobody wants the result any more."""


def supervise(control: socket.socket, engine: int | None) -> bool:
    """Do what is asked on `control`, while the process of the descriptor `engine` lives; return whether nothing is left of it."""
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
    """Wait until no other try of the step has processes on this machine; from then on, none begins before this one has ended.

    The name is an address, which the system frees when its holder ends, however that is; where there are no such addresses, nothing is waited for.
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
