"""A process for each task: a program finds the task in one file, leaves its result in another, and says by its exit code whether it has done it.

`PERDURE_TASK_FILE` has the task, as JSON. What the program writes to `PERDURE_RESULT_FILE` is the result, as JSON (nothing: null), and to
`PERDURE_PORT_FILE` the port; what it writes to `PERDURE_PROGRESS_FILE` is how far it is, and that it is alive. `PERDURE_CANCELLED_FILE` is there as soon as
nobody waits for it any more. It has failed if it ends with anything but 0.
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
"""How often is looked whether a program has said how far it is."""

TAIL_LINES, TAIL_CHARACTERS = 20, 4000
"""How much of what it said last is in the error of a program that has failed."""


class ProgramPerTask:
    """Does the tasks of `lender` with a program, so many at a time, until stopped."""

    def __init__(self, broker: TaskBroker, command: Sequence[str], environment: Mapping[str, str], concurrency: int) -> None:
        self.broker = broker
        self._command, self._environment, self._concurrency = tuple(command), dict(environment), concurrency
        self._task_worker = TaskWorker("", Path(command[0]).name)
        self._at_work: set[asyncio.Task[None]] = set()

    async def ready(self) -> None:
        """Wait until it does tasks."""
        await self.broker.joined.wait()

    async def run(self) -> None:
        """Do tasks until cancelled or stopped; programs that run then are ended."""
        lending = asyncio.create_task(self.broker.run())
        doing = asyncio.create_task(self._do_all())
        try:
            _ = await asyncio.wait((lending, doing), return_when=asyncio.FIRST_COMPLETED)
            if doing.done() and doing.exception() is None:  # it has been stopped, and what it has may be answered yet
                _ = await asyncio.wait((lending,))
        finally:
            tasks = [lending, doing, *self._at_work]
            for task in (lending, doing):
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    def stop(self, grace_s: float = 0.0) -> None:
        """Make `run` return; what runs may end within `grace_s`."""
        self.broker.stop(grace_s)

    async def _do_all(self) -> None:
        while True:
            while len(self._at_work) >= self._concurrency:
                _ = await asyncio.wait(self._at_work, return_when=asyncio.FIRST_COMPLETED)
            wanted = LeaseRequest(self.broker.queues, limit=self._concurrency - len(self._at_work), wait_s=TASK_WAIT_MAX_S, lease_s=None)
            task_leases = await self.broker.lease(self._task_worker, wanted)
            if isinstance(task_leases, LeaseEnd):
                return
            for task_lease in task_leases:
                task = asyncio.create_task(self._do(task_lease))
                self._at_work.add(task)
                task.add_done_callback(self._at_work.discard)

    async def _do(self, task_lease: TaskLease) -> None:
        place = Path(tempfile.mkdtemp(prefix="perdure-task-"))
        try:
            await self._perform(task_lease, place)
        except ProgrammingError as error:
            self.broker.refuse(task_lease, error)
        except (OSError, ValueError) as error:
            info = ErrorInfo(type(error).__name__, f"the task could not be handed to a program: {exception_text(error)}")
            _ = await self.broker.fail(task_lease.task_worker, task_lease.id, info)
        except StoreError as error:
            logger.error("the answer to %s of %s could not be kept: %s", task_lease.work.target, task_lease.work.key, error)
        finally:
            self.broker.interrupt([task_lease])  # unless it was answered
            shutil.rmtree(place, ignore_errors=True)

    async def _perform(self, task_lease: TaskLease, place: Path) -> None:
        """Run the program, and answer with what it came to."""
        files = {f"PERDURE_{name.upper()}_FILE": str(place / f"{name}.json") for name in ("task", "result", "port", "progress", "cancelled")}
        (place / "task.json").write_bytes(msgspec.json.encode(worker_protocol.leased_task(task_lease)))
        about = {"PERDURE_TASK": task_lease.work.target, "PERDURE_IDEMPOTENCY_KEY": task_lease.work.key, "PERDURE_ATTEMPT": str(task_lease.work.attempt)}
        child = await ChildProcess.start(self._command, {**self._environment, **files, **about})
        said = deque[str](maxlen=TAIL_LINES)
        helping = [
            asyncio.create_task(self._listen(child, task_lease, said)),
            asyncio.create_task(self._keep(task_lease, place / "progress.json")),
            asyncio.create_task(_write_cancelled_file(task_lease, place / "cancelled.json")),
        ]
        try:
            exited = asyncio.create_task(child.process.wait())
            _ = await asyncio.wait((exited, task_lease.ended), return_when=asyncio.FIRST_COMPLETED)
            exited.cancel()
        finally:
            try:
                code = await child.end()
                _ = await asyncio.wait((helping[0],), timeout=PROGRESS_POLL_S)  # what it has said last
            finally:
                for task in helping:
                    task.cancel()
                _ = await asyncio.gather(*helping, return_exceptions=True)
        if task_lease.ended.done():
            logger.info("%s of %s was ended: %s", task_lease.work.target, task_lease.work.key, task_lease.ended.result().why)
        else:
            await self._answer(task_lease, code, place, said)

    async def _answer(self, task_lease: TaskLease, code: int, place: Path, said: Sequence[str]) -> None:
        if code == 0:
            port = _read_port(place / "port.json", "success")
            gone = await self.broker.complete(task_lease.task_worker, task_lease.id, _read_result(place / "result.json"), worker_protocol.checked_port(port))
        else:
            tail = "\n".join(said)[-TAIL_CHARACTERS:]
            kind = error_codes.PROGRAM_NOT_STARTED if code == NOT_STARTED else error_codes.PROGRAM_FAILED
            gone = await self.broker.fail(
                task_lease.task_worker, task_lease.id, ErrorInfo(kind, f"{self._command[0]} ended with {_exit_text(code)}{tail and f': {tail}'}")
            )
        if gone is not None:
            logger.info("the answer to %s of %s came in vain: %s", task_lease.work.target, task_lease.work.key, gone.why)

    async def _listen(self, child: ChildProcess, task_lease: TaskLease, said: "deque[str]") -> None:
        def tell(line: str) -> None:
            hidden = task_lease.mask.text(line) if task_lease.mask else line
            said.append(hidden)
            logger.info("%s %s: %s", task_lease.work.target, task_lease.work.key, hidden)

        if child.process.stdout is not None:
            await forward_lines(child.process.stdout, tell)

    async def _keep(self, task_lease: TaskLease, file: Path) -> None:
        """Take what the program says of how far it is, each time that it says so."""
        known: tuple[int, int] | None = None
        while True:
            await asyncio.sleep(PROGRESS_POLL_S)
            found = _read_progress(file, known)
            if found is not None:
                known, progress = found
                _ = await self.broker.heartbeat(task_lease.task_worker, task_lease.id, progress)


async def _write_cancelled_file(task_lease: TaskLease, file: Path) -> None:
    """Make the file that tells a program that nobody waits for it any more."""
    gone = await asyncio.shield(task_lease.cancelled)
    await asyncio.to_thread(file.write_bytes, msgspec.json.encode({"why": gone.why}))


def _read_progress(file: Path, known: tuple[int, int] | None) -> tuple[tuple[int, int], bytes | None] | None:
    """When a file was written and how large it is, if that is not `known`, and the encoded progress in it; None, if there is nothing to be read."""
    try:
        stat = file.stat()
        now = (stat.st_mtime_ns, stat.st_size)
        if now == known or stat.st_size >= BLOB_BYTES_MIN:
            return None
        raw = file.read_bytes()
    except OSError:  # it has said nothing yet
        return None
    try:
        return now, values.encode(msgspec.json.decode(raw), "the progress of a task") if raw.strip() else None
    except (msgspec.MsgspecError, UnicodeDecodeError, ProgrammingError):  # it may be about to write it
        return None


def _read_result(file: Path) -> bytes:
    """The encoded result that a program has left.

    Raises:
        BadValue, TooLarge, Unencodable: it is none that can be kept.
    """
    if not file.exists() or not file.stat().st_size:
        return values.ENCODED_NONE
    if file.stat().st_size > VALUE_BYTES_MAX:
        raise TooLarge("the result of a task", file.stat().st_size, VALUE_BYTES_MAX)
    found: Any = worker_protocol.decode_body(file.read_bytes(), msgspec.json.decode, "PERDURE_RESULT_FILE")
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
