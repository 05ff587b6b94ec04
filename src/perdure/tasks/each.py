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

from perdure.core import values
from perdure.core.error_text import said_by
from perdure.core.errors import BadValue, ErrorInfo, ProgrammingError, StoreError, TooLarge
from perdure.core.limits import BLOB_BYTES_MIN, VALUE_BYTES_MAX
from perdure.runtime.lending import Lender, Wanted
from perdure.runtime.loans import WAIT_MAX_S, Borrower, Gone, Loan
from perdure.tasks import messages
from perdure.tasks.children import Child, told
from perdure.tasks.keeper import NOT_STARTED

logger = logging.getLogger("perdure.tasks")

LOOK_S = 0.5
"""How often is looked whether a program has said how far it is."""

TAIL_LINES, TAIL_CHARACTERS = 20, 4000
"""How much of what it said last is in the error of a program that has failed."""


class Each:
    """Does the tasks of `lender` with a program, so many at a time, until stopped."""

    def __init__(self, lender: Lender, command: Sequence[str], environment: Mapping[str, str], concurrency: int) -> None:
        self.lender = lender
        self._command, self._environment, self._concurrency = tuple(command), dict(environment), concurrency
        self._borrower = Borrower("", Path(command[0]).name)
        self._at_work: set[asyncio.Task[None]] = set()

    async def ready(self) -> None:
        """Wait until it does tasks."""
        await self.lender.joined.wait()

    async def run(self) -> None:
        """Do tasks until cancelled or stopped; programs that run then are ended."""
        lending = asyncio.create_task(self.lender.run())
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
        self.lender.stop(grace_s)

    async def _do_all(self) -> None:
        while True:
            while len(self._at_work) >= self._concurrency:
                _ = await asyncio.wait(self._at_work, return_when=asyncio.FIRST_COMPLETED)
            wanted = Wanted(self.lender.queues, limit=self._concurrency - len(self._at_work), wait_s=WAIT_MAX_S, lease_s=None)
            loans = await self.lender.lease(self._borrower, wanted)
            if isinstance(loans, Gone):
                return
            for loan in loans:
                task = asyncio.create_task(self._do(loan))
                self._at_work.add(task)
                task.add_done_callback(self._at_work.discard)

    async def _do(self, loan: Loan) -> None:
        place = Path(tempfile.mkdtemp(prefix="perdure-task-"))
        try:
            await self._perform(loan, place)
        except ProgrammingError as error:
            self.lender.refuse(loan, error)
        except (OSError, ValueError) as error:
            info = ErrorInfo(type(error).__name__, f"the task could not be handed to a program: {said_by(error)}")
            _ = await self.lender.fail(loan.borrower, loan.id, info)
        except StoreError as error:
            logger.error("the answer to %s of %s could not be kept: %s", loan.work.target, loan.work.key, error)
        finally:
            self.lender.interrupt([loan])  # unless it was answered
            shutil.rmtree(place, ignore_errors=True)

    async def _perform(self, loan: Loan, place: Path) -> None:
        """Run the program, and answer with what it came to."""
        files = {f"PERDURE_{name.upper()}_FILE": str(place / f"{name}.json") for name in ("task", "result", "port", "progress", "cancelled")}
        (place / "task.json").write_bytes(msgspec.json.encode(messages.task(loan)))
        about = {"PERDURE_TASK": loan.work.target, "PERDURE_KEY": loan.work.key, "PERDURE_ATTEMPT": str(loan.work.attempt)}
        child = await Child.start(self._command, {**self._environment, **files, **about})
        said = deque[str](maxlen=TAIL_LINES)
        helping = [
            asyncio.create_task(self._listen(child, loan, said)),
            asyncio.create_task(self._keep(loan, place / "progress.json")),
            asyncio.create_task(_tell_cancelled(loan, place / "cancelled.json")),
        ]
        try:
            exited = asyncio.create_task(child.process.wait())
            _ = await asyncio.wait((exited, loan.ended), return_when=asyncio.FIRST_COMPLETED)
            exited.cancel()
        finally:
            try:
                code = await child.end()
                _ = await asyncio.wait((helping[0],), timeout=LOOK_S)  # what it has said last
            finally:
                for task in helping:
                    task.cancel()
                _ = await asyncio.gather(*helping, return_exceptions=True)
        if loan.ended.done():
            logger.info("%s of %s was ended: %s", loan.work.target, loan.work.key, loan.ended.result().why)
        else:
            await self._answer(loan, code, place, said)

    async def _answer(self, loan: Loan, code: int, place: Path, said: Sequence[str]) -> None:
        if code == 0:
            port = _text(place / "port.json", "success")
            gone = await self.lender.complete(loan.borrower, loan.id, _result(place / "result.json"), messages.port(port))
        else:
            tail = "\n".join(said)[-TAIL_CHARACTERS:]
            kind = "ProgramNotStarted" if code == NOT_STARTED else "ProgramFailed"
            gone = await self.lender.fail(loan.borrower, loan.id, ErrorInfo(kind, f"{self._command[0]} ended with {_ended(code)}{tail and f': {tail}'}"))
        if gone is not None:
            logger.info("the answer to %s of %s came in vain: %s", loan.work.target, loan.work.key, gone.why)

    async def _listen(self, child: Child, loan: Loan, said: "deque[str]") -> None:
        def tell(line: str) -> None:
            hidden = loan.mask.text(line) if loan.mask else line
            said.append(hidden)
            logger.info("%s %s: %s", loan.work.target, loan.work.key, hidden)

        if child.process.stdout is not None:
            await told(child.process.stdout, tell)

    async def _keep(self, loan: Loan, file: Path) -> None:
        """Take what the program says of how far it is, each time that it says so."""
        known: tuple[int, int] | None = None
        while True:
            await asyncio.sleep(LOOK_S)
            found = _progress(file, known)
            if found is not None:
                known, progress = found
                _ = await self.lender.heartbeat(loan.borrower, loan.id, progress)


async def _tell_cancelled(loan: Loan, file: Path) -> None:
    """Make the file that tells a program that nobody waits for it any more."""
    gone = await asyncio.shield(loan.cancelled)
    await asyncio.to_thread(file.write_bytes, msgspec.json.encode({"why": gone.why}))


def _progress(file: Path, known: tuple[int, int] | None) -> tuple[tuple[int, int], bytes | None] | None:
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


def _result(file: Path) -> bytes:
    """The encoded result that a program has left.

    Raises:
        BadValue, TooLarge, Unencodable: it is none that can be kept.
    """
    if not file.exists() or not file.stat().st_size:
        return values.NOTHING
    if file.stat().st_size > VALUE_BYTES_MAX:
        raise TooLarge("the result of a task", file.stat().st_size, VALUE_BYTES_MAX)
    found: Any = messages.read(file.read_bytes(), msgspec.json.decode, "PERDURE_RESULT_FILE")
    return values.encode(found, "the result of a task")


def _text(file: Path, default: str) -> str:
    if not file.exists():
        return default
    try:
        return file.read_text(encoding="utf-8")[:10_000].strip() or default
    except UnicodeDecodeError as error:
        raise BadValue("PERDURE_PORT_FILE", str(error), "a name, in UTF-8") from error


def _ended(code: int) -> str:
    return f"exit code {code}" if code <= 128 else f"exit code {code} (signal {code - 128})"
