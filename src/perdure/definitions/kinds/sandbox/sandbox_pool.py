"""The pool of prepared sandboxes, each of which runs one job at a time. A sandbox that exceeds a limit, dies or violates the protocol is killed and replaced.

A process has one pool for all of its event loops and threads. The pool ends with the process; a forked child has its own.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import msgspec

from perdure.core.errors import BadValue, MissingExtra, OutOfMemory, OutOfTime, OutputTooLarge, SandboxFailed, SandboxLost, SourceFailed
from perdure.definitions.kinds.sandbox import masked_console
from perdure.definitions.kinds.sandbox.job_protocol import JobAnswer, JobFailure, SandboxJob, decode_answer, encode_job
from perdure.definitions.kinds.sandbox.sandbox_process import SandboxDied, SandboxProcess, exit_text, has_sockets

PROCESSES_MAX = max(4, os.cpu_count() or 1)
"""The largest number of sandboxes; when all are busy, further jobs wait."""

JOBS_MAX = 2_000
"""A sandbox is replaced after so many jobs, so that nothing accumulates in one."""

WAIT_S = 60.0
"""How long a job waits for a sandbox."""

GRACE_S = 0.25
"""How long a sandbox may exceed its time before it is killed: long enough to report its position itself."""

CONSOLE_BYTES_MAX = 512 * 1024
"""The size of an answer beside its output: 64 K characters of console, of up to six bytes each, and errors."""


class SandboxLimits(NamedTuple):
    """The limits of a job: seconds of wall-clock time, bytes of memory, and bytes of its output as JSON."""

    wall_s: float = 10.0
    memory_bytes: int = 64_000_000
    output_bytes: int = 16 * 1024 * 1024


class _JobType(NamedTuple):
    """A type of job: the language of its source, and the library that runs it."""

    language: str
    module: str
    library: str


_KILLED = frozenset(-getattr(signal, name) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
"""The signals of a kill from outside, for example when memory runs out. Any other end is the sandbox's own doing and would recur."""

_JOB_TYPES = {"js": _JobType("TypeScript", "quickjs", "quickjs-ng"), "jq": _JobType("jq program", "jq", "jq")}


async def run_job(job: str, given: Any, limits: SandboxLimits) -> Any:
    """Runs a job in a sandbox; returns its result as plain data.

    The job ``jq`` takes ``{"program": text, "rows": list}`` and returns the list of all outputs, row by row; it sees no environment, file or other input. The
    job ``js`` takes ``{"source": text, "input": anything}`` and returns ``{"value": anything, "console": text}``.

    Cancelling it kills the sandbox. It may be called from any loop and thread; in a loop without sockets (virtual time), it blocks.

    Raises:
        SourceFailed: the source can't be parsed, raised an error, or returned a value that is not JSON.
        OutOfTime, OutOfMemory, OutputTooLarge: it exceeded `limits`.
        SandboxFailed: the sandbox itself failed, and would again.
        SandboxLost: no sandbox was free for a minute, or one was killed from outside. The job may be retried.
        Unencodable: the input is not JSON.
        MissingExtra: the library for the job is not installed.
    """
    work = _JOB_TYPES.get(job)
    if work is None:
        raise BadValue("job", job, f"one of {', '.join(_JOB_TYPES)}")
    if not _is_installed(work.module):
        raise MissingExtra(f"{work.language} in a sandbox", work.library, "sandbox")
    frame = encode_job(SandboxJob(job, given, *limits))
    pool = _pool
    process = await pool.take()
    with pool.using(process):
        answer = await _asked(process, frame, work, limits)
        return _value(answer, work, limits)


def close_pool() -> None:
    """Kills all sandboxes of this process, and waits until they have ended. The next job starts new ones."""
    for thread in _pool.clear():
        if thread is not None:
            thread.join()


def process_ids() -> list[int]:
    """The process ids of all sandboxes, including busy ones."""
    return sorted(process.pid for process in list(_pool.processes))


async def _asked(process: SandboxProcess, frame: bytes, work: _JobType, limits: SandboxLimits) -> JobAnswer:
    try:
        raw = await process.ask(frame, limits.output_bytes + CONSOLE_BYTES_MAX, limits.wall_s + GRACE_S)
        return decode_answer(raw)
    except TimeoutError:
        raise OutOfTime(work.language, limits.wall_s) from None
    except SandboxDied as died:
        raise _died(died, work, limits) from None
    except msgspec.DecodeError:
        raise SandboxLost(f"the sandbox of the {work.language} returned an invalid answer") from None


def _died(died: SandboxDied, work: _JobType, limits: SandboxLimits) -> Exception:
    if died.returncode is None:
        return SandboxLost(f"the sandbox of the {work.language} returned an invalid answer")
    if died.returncode == -signal.SIGABRT:  # what a C library does that is given no memory
        return OutOfMemory(work.language, limits.memory_bytes)
    if died.returncode == -getattr(signal, "SIGALRM", 0):
        return OutOfTime(work.language, limits.wall_s)
    said = masked_console.masked_error(died.said, masked_console.secret_mask())
    if died.returncode in _KILLED:
        return SandboxLost(f"the sandbox of the {work.language} was ended from outside ({exit_text(died.returncode)}){f': {said}' if said else ''}")
    return SandboxFailed(work.language, exit_text(died.returncode), said)


def _value(answer: JobAnswer, work: _JobType, limits: SandboxLimits) -> Any:
    if isinstance(answer, JobFailure):
        raise _failed(answer, work, limits)
    try:
        return msgspec.json.decode(answer)
    except RecursionError:
        raise SourceFailed(work.language, "", "its result is nested too deeply") from None
    except msgspec.DecodeError as error:
        why = "a text in it has a lone surrogate" if "surrogate" in str(error) else str(error)
        raise SourceFailed(work.language, "", f"its result can't be stored: {why}") from None


def _failed(failure: JobFailure, work: _JobType, limits: SandboxLimits) -> Exception:
    mask = masked_console.secret_mask()
    console = masked_console.masked_console(failure.console, mask)
    match failure.kind:
        case "time":
            return OutOfTime(work.language, limits.wall_s, console)
        case "memory":
            return OutOfMemory(work.language, limits.memory_bytes, console)
        case "output":
            return OutputTooLarge(work.language, limits.output_bytes, console)
        case "absent":
            return MissingExtra(f"{work.language} in a sandbox ({failure.text})", work.library, "sandbox")
    type, text = masked_console.masked_error(failure.type, mask), masked_console.masked_error(failure.text, mask)
    if failure.kind == "sandbox":
        return SandboxFailed(work.language, text.strip().rpartition("\n")[2] or type, text)
    return SourceFailed(work.language, type, text, (failure.line, failure.column), console)


class _Pool:
    """Sandboxes, with the most recently used idle one first, and a queue of waiting jobs. A waiting job receives a sandbox, or the permission to start one."""

    def __init__(self) -> None:
        self.processes: set[SandboxProcess] = set()
        self._idle: list[SandboxProcess] = []
        self._begun = 0
        self._waiting: deque[Future[SandboxProcess | None]] = deque()
        self._lock = threading.Lock()

    async def take(self) -> SandboxProcess:
        """A sandbox that is ready, for this job alone."""
        turn: Future[SandboxProcess | None] | None = None
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_alive():
                    return process
                self._end(process)
            if self._begun < PROCESSES_MAX:
                self._begun += 1
            else:
                turn = Future()
                self._waiting.append(turn)
        found = None if turn is None else await self._turn(turn)
        return await self._begin() if found is None else found

    async def _turn(self, turn: Future[SandboxProcess | None]) -> SandboxProcess | None:
        try:
            if not has_sockets(asyncio.get_running_loop()):
                return turn.result(WAIT_S)
            async with asyncio.timeout(WAIT_S):
                return await asyncio.wrap_future(turn)
        except BaseException as error:
            if not turn.cancel():  # it came at the last moment
                self._give_on(turn.result())
            if isinstance(error, TimeoutError):
                raise SandboxLost(f"all {PROCESSES_MAX} sandboxes were busy for {WAIT_S:g} s") from None
            raise

    async def _begin(self) -> SandboxProcess:
        """Starts a sandbox; the caller holds the permission for it."""
        process = None
        try:
            process = SandboxProcess()
            self.processes.add(process)
            await process.ready()
        except BaseException as error:
            if process is not None:
                self._kill(process)
            self._give_on(None)
            if isinstance(error, SandboxDied | TimeoutError | OSError):
                raise SandboxLost(f"a sandbox could not begin: {error}") from error
            raise
        return process

    @contextmanager
    def using(self, process: SandboxProcess) -> Iterator[None]:
        """Returns a sandbox to the pool afterwards, or replaces it if something was wrong."""
        try:
            yield
        except SourceFailed:
            self._put(process, process.jobs < JOBS_MAX)
            raise
        except BaseException:
            self._put(process, False)
            raise
        self._put(process, process.jobs < JOBS_MAX)

    def _put(self, process: SandboxProcess, keep: bool) -> None:
        if keep and process in self.processes:
            self._give_on(process)
        else:
            self._kill(process)
            self._give_on(None)

    def _give_on(self, found: SandboxProcess | None) -> None:
        """Passes a sandbox, or the permission to start one (None), to the first waiting job. If none waits, the sandbox becomes idle."""
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(found)
                    return
            if found is None:
                self._begun -= 1
            else:
                self._idle.append(found)

    def _end(self, process: SandboxProcess) -> None:
        """Removes an idle sandbox."""
        self._begun -= 1
        self._kill(process)

    def _kill(self, process: SandboxProcess) -> threading.Thread | None:
        self.processes.discard(process)
        return process.kill()

    def clear(self) -> list[threading.Thread | None]:
        """Kills all sandboxes. Jobs that wait for an answer fail as if theirs had died."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._begun -= len(idle)
        return [self._kill(process) for process in list(self.processes)]

    def forget(self) -> None:
        """Closes the sockets to all sandboxes, in a forked child."""
        for process in self.processes:
            process.forget()


_pool = _Pool()


@cache
def _is_installed(module: str) -> bool:
    return find_spec(module) is not None


def _forked() -> None:
    global _pool
    _pool.forget()
    _pool = _Pool()


atexit.register(close_pool)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
