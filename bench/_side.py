"""A side of the comparison: a program in a process of its own, asked one thing at a time by lines of JSON.

Both sides are driven in the same way, so that neither carries the other's memory, threads or garbage. Only the standard
library is used here: the peer's program runs in an environment that has no Perdure.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
LOOK_EVERY_S = 0.005


class SideFailed(Exception):
    """A side could not do what it was asked, or has died."""


class Side:
    """The asking end. Ended without ceremony by `kill`, in good order by leaving the block."""

    def __init__(self, python: str, program: str, arguments: Sequence[str]) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        command = [python, str(ROOT / "bench" / program), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.communicate()
        self._close()

    def ask(self, do: str, **arguments: Any) -> Any:
        """Have it do something, and wait for the answer.

        Raises:
            SideFailed: with its traceback.
        """
        self.tell(do, **arguments)
        return self.answer()

    def tell(self, do: str, **arguments: Any) -> None:
        """Have it do something; the answer is to be fetched before it is asked anything else."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise SideFailed(f"it has died with {self._process.wait()}, before it could be asked to {do}") from error

    def answer(self) -> Any:
        """Wait for the answer to what it was told.

        Raises:
            SideFailed: with its traceback.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SideFailed(f"it has died with {self._process.wait()}")
        found = json.loads(line)
        if "error" in found:
            raise SideFailed(found["error"])
        return found["answer"]

    def kill(self) -> float:
        """End it with SIGKILL; return when, on the monotonic clock that processes share."""
        killed_s = time.monotonic()
        self._process.kill()
        self._process.wait()
        self._close()
        return killed_s

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


def serve(target: Any) -> None:
    """The answering end: each request names an async method of `target`. Ends with the end of its input, by `target.close()`."""
    asyncio.run(_serve(target))


async def _serve(target: Any) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    loop, reader = asyncio.get_running_loop(), ThreadPoolExecutor(1)
    while line := await loop.run_in_executor(reader, sys.stdin.readline):
        request = json.loads(line)
        try:
            found = {"answer": await getattr(target, request.pop("do"))(**request)}
        except Exception:
            found = {"error": traceback.format_exc()}
        _ = answers.write(json.dumps(found) + "\n")
        answers.flush()
    await target.close()
    reader.shutdown()


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is true, looking every few milliseconds."""
    while not await true():  # noqa: ASYNC110  # what is waited for happens in the store, or in another loop
        await asyncio.sleep(LOOK_EVERY_S)


def rss_bytes() -> int:
    """The memory that this process holds at present; 0 where the system doesn't say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
