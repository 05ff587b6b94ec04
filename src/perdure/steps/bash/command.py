"""Command: a shell and all that is below it, from its start to the end of its last process. It is the only one of the process that it is in."""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from errno import E2BIG
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from perdure.steps.bash.isolation import isolate
from perdure.steps.bash.processes import below, reap, tell
from perdure.steps.bash.streams import Stream

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


class Refused(Exception):  # told to the engine, which raises what users see
    """The command can't be started, and why."""


class Command:
    """A command that has been started. `clean` says in the end whether all of its processes have ended.

    Raises:
        Refused: it can't be started.
    """

    def __init__(self, asked: dict[str, Any]) -> None:
        self._selector = selectors.DefaultSelector()
        self._enders: list[Any] = []
        self._asked: set[int] = set()
        self._streams = {name: Stream() for name in ("stdout", "stderr")}
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

    def _read(self, pipe: Any, stream: Stream) -> None:
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

    def _drain(self, pipe: Any, stream: Stream) -> None:
        """Read what is there; who holds the other end and is none of its processes may go on writing, and is not heard."""
        for _ in range(CHUNKS_MAX):
            if pipe.closed or not (raw := pipe.read(CHUNK_BYTES)):
                break
            stream.take(raw)
        stream.take(b"", final=True)

    def _go_on(self, show: Callable[[dict[str, Any]], None]) -> None:
        """See who has ended, and do what is due."""
        ended, self._others = reap()
        self._status = ended.get(self._shell.pid, self._status)
        now_s = time.monotonic()
        if now_s >= self._over_s:
            self._end("limit")
        elif self._status is not None and self._lives():
            self._end("")
        if now_s >= self._ends_s + self._grace_s:
            tell(self._left(), signal.SIGKILL)
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
        tell(left, signal.SIGTERM, signal.SIGCONT)

    def _left(self) -> list[int]:
        """Who is to be told to end."""
        return below(os.getpid()) if sys.platform == "linux" else [-self._shell.pid] if self._lives() else []

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
    home, directory = directories(asked["work"], asked["parts"], asked["cwd"])
    try:
        isolate(asked["isolate"], home)
    except OSError as error:
        why = f"isolate: {asked['isolate']} is not to be had here ({error.strerror or error}); let the engine's user make user namespaces, or say none"
        raise Refused(why) from None
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
            raise Refused("its text or its environment is more than this system gives to a program; give what is large by stdin") from None
        raise Refused(f"{error.filename or 'bash'}: {error.strerror}") from None


def directories(work: str, parts: list[str], cwd: str) -> tuple[Path, Path]:
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
        raise Refused(f"the working directory {home} can't be made ({error.strerror}); {ELSEWHERE}") from None
    if not os.access(home, os.W_OK | os.X_OK):
        raise Refused(f"the working directory {home} can't be written to; {ELSEWHERE}")
    directory = (home / cwd).resolve()
    if not Path(cwd).is_absolute() and not directory.is_relative_to(home.resolve()):
        raise Refused(f"cwd: {cwd} leads out of the working directory; write the whole path if that is meant")
    if not directory.is_dir():
        raise Refused(f"cwd: there is no directory {cwd}; make it in a step before")
    return home, directory


ELSEWHERE = "name another with Deployment(work=...)"
