"""Starts a process for each task: the program reads the task from one file, writes its result to another, and reports success by its exit code.

`PERDURE_TASK_FILE` has the task, as JSON. The program writes its result to `PERDURE_RESULT_FILE`, as JSON (nothing means null), and its port to
`PERDURE_PORT_FILE`. A write to `PERDURE_PROGRESS_FILE` reports progress and is a heartbeat. `PERDURE_CANCELLED_FILE` exists as soon as the result is no longer
needed. Every exit code but 0 is a failure.
"""

import asyncio
import logging
import shutil
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from perdure.core import error_codes, values
from perdure.core.error_text import exception_text
from perdure.core.errors import BadValue, ErrorInfo, ProgrammingError, StoreError, TooLarge
from perdure.core.limits import BLOB_BYTES_MIN, VALUE_BYTES_MAX
from perdure.runtime.task_broker import TASK_WAIT_MAX_S, LeaseEnd, LeaseRequest, TaskBroker, TaskLease, TaskWorker
from perdure.supervision.child_process import ChildProcess
from perdure.supervision.child_supervisor import NOT_STARTED
from perdure.tasks import worker_protocol
from perdure.tasks.child_command import forward_lines

logger = logging.getLogger("perdure.tasks")

PROGRESS_POLL_S = 0.5
"""How often the progress file of a program is read."""

TAIL_LINES, TAIL_CHARACTERS = 20, 4000
"""How much of the last output of a failed program is in its error."""


class ProgramPerTask:
    """Performs the tasks of `broker` with one process each, at most `concurrency` at a time, until stopped."""

    def __init__(self, broker: TaskBroker, command: Sequence[str], environment: Mapping[str, str], concurrency: int) -> None:
        self.broker = broker
        self._command, self._environment, self._concurrency = tuple(command), dict(environment), concurrency
        self._task_worker = TaskWorker("", Path(command[0]).name)
        self._running: set[asyncio.Task[None]] = set()

    async def ready(self) -> None:
        """Waits until the broker has joined the store."""
        await self.broker.joined.wait()

    async def run(self) -> None:
        """Performs tasks until cancelled or stopped. Programs that still run then are ended."""
        broker_task = asyncio.create_task(self.broker.run())
        performing = asyncio.create_task(self._perform_tasks())
        try:
            _ = await asyncio.wait((broker_task, performing), return_when=asyncio.FIRST_COMPLETED)
            if performing.done() and performing.exception() is None:  # it was stopped, and its tasks may still be answered within the grace
                _ = await asyncio.wait((broker_task,))
        finally:
            tasks = [broker_task, performing, *self._running]
            for task in (broker_task, performing):
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return. Running programs may end within `grace_s`."""
        self.broker.stop(grace_s)

    async def _perform_tasks(self) -> None:
        while True:
            while len(self._running) >= self._concurrency:
                _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            wanted = LeaseRequest(self.broker.served, limit=self._concurrency - len(self._running), wait_s=TASK_WAIT_MAX_S, lease_s=None)
            task_leases = await self.broker.lease(self._task_worker, wanted)
            if isinstance(task_leases, LeaseEnd):
                return
            for task_lease in task_leases:
                task = asyncio.create_task(self._perform(task_lease))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def _perform(self, task_lease: TaskLease) -> None:
        place = Path(tempfile.mkdtemp(prefix="perdure-task-"))
        try:
            await self._run_program(task_lease, place)
        except ProgrammingError as error:
            self.broker.refuse(task_lease, error)
        except (OSError, ValueError) as error:
            info = ErrorInfo(type(error).__name__, f"could not start a program for the task: {exception_text(error)}")
            _ = await self.broker.fail(task_lease.task_worker, task_lease.id, info)
        except StoreError as error:
            logger.error("could not store the answer to %s of %s: %s. The task is performed again", task_lease.work.target, task_lease.work.key, error)
        finally:
            self.broker.interrupt([task_lease])  # no effect if it was answered
            shutil.rmtree(place, ignore_errors=True)

    async def _run_program(self, task_lease: TaskLease, place: Path) -> None:
        """Runs the program, and answers with its result or failure."""
        files = {f"PERDURE_{name.upper()}_FILE": str(place / f"{name}.json") for name in ("task", "result", "port", "progress", "cancelled")}
        (place / "task.json").write_bytes(msgspec.json.encode(worker_protocol.leased_task(task_lease)))
        about = {"PERDURE_TASK": task_lease.work.target, "PERDURE_IDEMPOTENCY_KEY": task_lease.work.key, "PERDURE_ATTEMPT": str(task_lease.work.attempt)}
        child = await ChildProcess.start(self._command, {**self._environment, **files, **about})
        output = deque[str](maxlen=TAIL_LINES)
        helpers = [
            asyncio.create_task(self._log_output(child, task_lease, output)),
            asyncio.create_task(self._report_progress(task_lease, place / "progress.json")),
            asyncio.create_task(_write_cancelled_file(task_lease, place / "cancelled.json")),
        ]
        try:
            exited = asyncio.create_task(child.process.wait())
            _ = await asyncio.wait((exited, task_lease.ended), return_when=asyncio.FIRST_COMPLETED)
            exited.cancel()
        finally:
            try:
                code = await child.end()
                _ = await asyncio.wait((helpers[0],), timeout=PROGRESS_POLL_S)  # its last output
            finally:
                for task in helpers:
                    task.cancel()
                _ = await asyncio.gather(*helpers, return_exceptions=True)
        if task_lease.ended.done():
            logger.info("ended the program for %s of %s: %s", task_lease.work.target, task_lease.work.key, task_lease.ended.result().why)
        else:
            await self._answer(task_lease, code, place, output)

    async def _answer(self, task_lease: TaskLease, code: int, place: Path, output: Sequence[str]) -> None:
        if code == 0:
            port = _read_port(place / "port.json", "success")
            gone = await self.broker.complete(task_lease.task_worker, task_lease.id, _read_result(place / "result.json"), worker_protocol.checked_port(port))
        else:
            tail = "\n".join(output)[-TAIL_CHARACTERS:]
            kind = error_codes.PROGRAM_NOT_STARTED if code == NOT_STARTED else error_codes.PROGRAM_FAILED
            gone = await self.broker.fail(
                task_lease.task_worker, task_lease.id, ErrorInfo(kind, f"{self._command[0]} ended with {_exit_text(code)}{tail and f': {tail}'}")
            )
        if gone is not None:
            logger.info("the answer to %s of %s had no effect: %s", task_lease.work.target, task_lease.work.key, gone.why)

    async def _log_output(self, child: ChildProcess, task_lease: TaskLease, output: "deque[str]") -> None:
        def tell(line: str) -> None:
            hidden = task_lease.mask.text(line) if task_lease.mask else line
            output.append(hidden)
            logger.info("%s %s: %s", task_lease.work.target, task_lease.work.key, hidden)

        if child.process.stdout is not None:
            await forward_lines(child.process.stdout, tell)

    async def _report_progress(self, task_lease: TaskLease, file: Path) -> None:
        """Sends a heartbeat with the progress of the program each time that it writes its progress file."""
        known: tuple[int, int] | None = None
        while True:
            await asyncio.sleep(PROGRESS_POLL_S)
            found = _read_progress(file, known)
            if found is not None:
                known, progress = found
                _ = await self.broker.heartbeat(task_lease.task_worker, task_lease.id, progress)


async def _write_cancelled_file(task_lease: TaskLease, file: Path) -> None:
    """Creates the file that tells a program that its result is no longer needed."""
    gone = await asyncio.shield(task_lease.cancelled)
    await asyncio.to_thread(file.write_bytes, msgspec.json.encode({"why": gone.why}))


def _read_progress(file: Path, known: tuple[int, int] | None) -> tuple[tuple[int, int], bytes | None] | None:
    """Returns the time and size of the progress file, and the encoded progress in it. Returns None if they are as `known`, or it can't be read."""
    try:
        stat = file.stat()
        now = (stat.st_mtime_ns, stat.st_size)
        if now == known or stat.st_size >= BLOB_BYTES_MIN:
            return None
        raw = file.read_bytes()
    except OSError:  # the program has not written it yet
        return None
    try:
        return now, values.encode(msgspec.json.decode(raw), "the progress of a task") if raw.strip() else None
    except (msgspec.MsgspecError, UnicodeDecodeError, ProgrammingError):  # the program may not have finished writing it
        return None


def _read_result(file: Path) -> bytes:
    """Returns the encoded result that a program has written.

    Raises:
        BadValue, TooLarge, Unencodable: it can't be stored.
    """
    if not file.exists() or not file.stat().st_size:
        return values.ENCODED_NONE
    if file.stat().st_size > VALUE_BYTES_MAX:
        raise TooLarge("the result of a task", file.stat().st_size, VALUE_BYTES_MAX)
    found: Any = worker_protocol.decode_body(file.read_bytes(), object, "PERDURE_RESULT_FILE")
    return values.encode(found, "the result of a task")


def _read_port(file: Path, default: str) -> str:
    if not file.exists():
        return default
    try:
        return file.read_text(encoding="utf-8")[:10_000].strip() or default
    except UnicodeDecodeError as error:
        raise BadValue("PERDURE_PORT_FILE", str(error), "a name, in UTF-8") from error


def _exit_text(code: int) -> str:
    return f"exit code {code}" if code <= 128 else f"exit code {code} (signal {code - 128})"
