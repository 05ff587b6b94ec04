"""What the tests of the SQLite store have in common: commits, and real processes that use a store as they are told."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage, QueuedMessage
from perdure.core.paths import Key, QueueAddress
from perdure.stores.protocol import (
    Claim,
    Claimed,
    ClaimedExecution,
    Commit,
    Committed,
    Conflict,
    Head,
    HeadFilter,
    HolderStatus,
    Post,
    StoredLog,
    StoreTime,
    Superseded,
)
from perdure.stores.sqlite.store import SqliteStore

WAIT_S = 30.0
"""How long something may take on a slow machine that should take no time."""


def key(id: str = "1", tenant: str = "acme", workflow: str = "order") -> Key:
    """The key of an execution. (As in the world of the conformance suite, whose import takes as long as all of this.)"""
    return Key(tenant, workflow, id)


def queue(name: str = "pay") -> QueueAddress:
    """A queue."""
    return QueueAddress("acme", name)


def message(to: Key | QueueAddress, name: str = "letter") -> OutgoingMessage:
    """A message that opens nothing."""
    return OutgoingMessage(to, name, name.encode())


def opening(key: Key) -> OutgoingMessage:
    """The message that starts an execution."""
    return OutgoingMessage(key, "start", b"start", opens=NewExecution("order", key))


NAMES = {
    one.__name__: one
    for one in (
        Ack,
        QueuedMessage,
        NewExecution,
        OutgoingMessage,
        Key,
        QueueAddress,
        ClaimedExecution,
        Claim,
        Claimed,
        Commit,
        Committed,
        Conflict,
        HeadFilter,
        Head,
        HolderStatus,
        StoredLog,
        StoreTime,
        Post,
        Superseded,
    )
} | {one.__name__: one for one in (key, message, opening, queue)}

CHILD = """
import asyncio, os, sys, time
from perdure.core.errors import *
from tests.stores.sqlite.store_processes import *

async def timed(answer):
    await answer
    return time.monotonic()

async def main():
    loop = asyncio.get_running_loop()
    store = SqliteStore(sys.argv[1], **eval(sys.argv[2]))
    names = {**NAMES, "store": store, "step": step, "claim": claim, "timed": timed, "rings": [], "time": time, "os": os}
    print("ready", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            answer = eval(line, names)
            answer = await answer if asyncio.iscoroutine(answer) else answer
            print(None if callable(answer) else repr(answer), flush=True)
        except PerdureError as error:
            print(repr(f"{type(error).__name__}: {error}"), flush=True)

asyncio.run(main())
"""


class Child:
    """A process of its own with a `store` on `file`, which evaluates what it is asked, and awaits it where that is to be done."""

    def __init__(self, file: Path, **settings: Any) -> None:
        command = [sys.executable, "-c", CHILD, str(file), repr(settings)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
        assert self.read() == "ready"

    @property
    def pid(self) -> int:
        return self.process.pid

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def begin(self, code: str) -> None:
        """Ask, and do not wait for the answer, which `end` returns."""
        assert self.process.stdin is not None
        self.process.stdin.write(code + "\n")
        self.process.stdin.flush()

    def end(self) -> Any:
        return eval(self.read(), dict(NAMES))  # it is what the child has printed

    def ask(self, code: str) -> Any:
        """What this expression is there."""
        self.begin(code)
        return self.end()

    def signal(self, number: int) -> None:
        """Send a signal, and wait until it has had its effect."""
        os.kill(self.pid, number)
        if number == signal.SIGKILL:
            self.process.wait(WAIT_S)
        elif number == signal.SIGSTOP:
            os.waitpid(self.pid, os.WUNTRACED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()


def run(script: str, *arguments: object) -> str:
    """What a script prints that runs in a process of its own, and ends well."""
    command = [sys.executable, "-W", "error", "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * WAIT_S, cwd=Path(__file__).parents[3], check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def until(holds: Callable[[], object], what: str = "it") -> float:
    """Wait for something that tells nobody; return how long that took."""
    began_s = time.monotonic()
    while not holds():
        assert time.monotonic() - began_s < WAIT_S, f"{what} did not happen"
        time.sleep(0.001)
    return time.monotonic() - began_s


def tell(figures: str) -> None:
    """Print what was measured; pytest shows it with -rP."""
    sys.stdout.write(f"{figures}\n")


def step(key: Key, version: int = 0, row: bytes = b"row", epoch: int = 1, **fields: Any) -> Commit:
    """A commit of one event; the first creates the execution."""
    given: dict[str, Any] = {"holder": "one", "program": "order", "creates": version == 0, "root": key}
    return Commit(key=key, epoch=epoch, version=version, row=row, count=1, **given | fields)


def claim(holder: str = "one", epoch: int = 1, **fields: Any) -> Claim:
    """A claim of executions of ``order``, and of the queue ``pay``."""
    return Claim(holder=holder, epoch=epoch, programs=frozenset(["order"]), queues=frozenset(["pay"]), **fields)


def several(count: int) -> list[Key]:
    """So many keys."""
    return [key(str(number)) for number in range(count)]


@contextmanager
def database(file: Path) -> Iterator[sqlite3.Connection]:
    """SQLite's own connection to the file."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


__all__ = ["NAMES", "Child", "SqliteStore", "claim", "database", "key", "message", "opening", "queue", "run", "several", "step", "tell", "until"]
