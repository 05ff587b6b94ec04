"""Processes for tests, in virtual time: engines and workers on one store in memory, each behind a gate of its own, so that it can be killed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from perdure.core import events as e
from perdure.core import log_format, messages, values
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.execution import Execution
from perdure.core.messages import ExecutionMessage, SignalMessage, StartMessage
from perdure.core.paths import Address, Key, path_text
from perdure.core.program import program_name
from perdure.core.replay import fold_events
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import wait_for_end
from perdure.runtime.task_broker import TaskBroker
from perdure.runtime.worker import Worker
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Head, Post
from perdure.testing.faults import NO_FAULTS, Faults, FaultyStore
from perdure.testing.virtual_time import kill
from perdure.workflow_function import Workflow

DOWN_BEFORE = Faults(fail_before=1.0)
DOWN_AFTER = Faults(fail_after=1.0)
NEVER_S = 1e6
"""How long an engine that must rely on rings waits for its poll."""


class ClusterProcess:
    """An engine, a worker or a lender that runs, with the store as it sees it."""

    def __init__(self, inner: Engine | Worker | TaskBroker, store: FaultyStore, running: asyncio.Task[None]) -> None:
        self.inner, self.store, self.running = inner, store, running

    @property
    def engine(self) -> Engine:
        assert isinstance(self.inner, Engine)
        return self.inner

    @property
    def broker(self) -> TaskBroker:
        assert isinstance(self.inner, TaskBroker)
        return self.inner

    async def stop(self) -> None:
        """End it in good order."""
        self.inner.stop()
        await self.running

    async def kill(self) -> None:
        """End it without a word: nothing that it does any more reaches the store."""
        self.store.gate.kill()
        tasks = self.inner._running.values() if isinstance(self.inner, Worker) else self.inner._tasks
        await kill([self.running, *tasks])


class Cluster:
    """A store, what runs on it, and what tests want to do and know."""

    def __init__(self) -> None:
        self.store = MemoryStore(asyncio.get_running_loop().time)
        self.processes: list[ClusterProcess] = []
        self._told = 0

    async def engine(self, *workflows: Workflow[..., Any], **options: Any) -> ClusterProcess:
        """Begin an engine."""
        store = FaultyStore(self.store, Random(0), NO_FAULTS)
        engine = Engine(store, [one.code for one in workflows], **options)
        process = ClusterProcess(engine, store, asyncio.create_task(engine.run()))
        self.processes.append(process)
        await engine.ready()
        return process

    async def worker(self, *steps: Any, **options: Any) -> ClusterProcess:
        """Begin a worker, by default on the queue "gpu"."""
        store = FaultyStore(self.store, Random(0), NO_FAULTS)
        worker = Worker(store, steps, **{"queues": ["gpu"], **options})
        process = ClusterProcess(worker, store, asyncio.create_task(worker.run()))
        self.processes.append(process)
        return process

    async def broker(self, **options: Any) -> ClusterProcess:
        """Begin a lender, by default of the queue "gpu"."""
        store = FaultyStore(self.store, Random(0), NO_FAULTS)
        broker = TaskBroker(store, **{"queues": ["gpu"], **options})
        process = ClusterProcess(broker, store, asyncio.create_task(broker.run()))
        self.processes.append(process)
        await broker.joined.wait()
        return process

    async def outage(self, faults: Faults, duration_s: float) -> None:
        """Let every call of every process fail for so long."""
        for process in self.processes:
            process.store.faults = faults
        await asyncio.sleep(duration_s)
        for process in self.processes:
            process.store.faults = NO_FAULTS

    async def post(self, workflow: Workflow[..., Any], *args: Any, id: str = "e", version: int = 0) -> Key:
        """Start an execution by mail, as a client does; with `version`, pinned."""
        return await self.post_all(workflow, [(id, args)], version)

    async def post_all(self, workflow: Workflow[..., Any], inputs: Sequence[tuple[str, tuple[Any, ...]]], version: int = 0) -> Key:
        """Start executions by one post; return the key of the last."""
        sends, key = [], Key("default", workflow.code.name, "")
        for id, args in inputs:
            key = key._replace(id=id)
            start = StartMessage(version, workflow.code.codec.encode_args(args, {}, "input"), 7)
            sends.append(OutgoingMessage(key, f"start:{key}", messages.encode_message(start), opens=NewExecution(program_name(key.workflow, version), key)))
        await self.store.commit([Post(messages=tuple(sends))])
        return key

    async def start(self, process: ClusterProcess, workflow: Workflow[..., Any], *args: Any, id: str = "e") -> bool:
        """Start an execution in an engine."""
        return await process.engine.start(Key("default", workflow.code.name, id), workflow.code.codec.encode_args(args, {}, "input"))

    async def result(self, process: ClusterProcess, workflow: Workflow[..., Any], id: str = "e") -> Any:
        """Wait for the end at an engine; return the result as the workflow hints at it.

        Raises:
            WorkflowError: how else it ended.
        """
        raw = await wait_for_end(process.engine, Key("default", workflow.code.name, id))
        return values.decode(raw, workflow.code.codec.result, "result")

    async def tell(self, key: Key, message: ExecutionMessage) -> None:
        """Send a message."""
        self._told += 1
        await self.store.commit([Post(messages=(OutgoingMessage(key, f"test:{self._told}", messages.encode_message(message)),))])

    async def send(self, key: Key, name: str, body: Any = None) -> None:
        """Send a signal."""
        await self.tell(key, SignalMessage(name, values.encode(body, "body")))

    def posted(self, to: Address, key: str, body: bytes) -> Post:
        """Mail on its way."""
        return Post(messages=(OutgoingMessage(to, key, body),))

    async def head(self, key: Key) -> Head:
        """The head of an execution."""
        found = await self.store.read(key)
        assert found is not None, f"there is no execution {key}"
        return found.head

    async def events(self, key: Key) -> list[e.Event]:
        """The log of an execution, empty if there is none."""
        found = await self.store.read(key)
        return [] if found is None else log_format.decode_rows(found.payloads)

    async def fold(self, key: Key) -> Execution:
        """What the log adds up to."""
        return fold_events(key, await self.events(key))

    async def settled(self, key: Key) -> list[str]:
        """The paths that have settled, in order."""
        return [path_text(event.path) for event in await self.events(key) if isinstance(event, e.SettledEvent)]

    async def messages(self, to: Address) -> int:
        """How many messages wait at an address."""
        return len(await self.store.messages(to))


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """A store on which nothing runs yet; what runs at the end is killed."""
    it = Cluster()
    try:
        yield it
    finally:
        for process in it.processes:
            await process.kill()


def now_s() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()


async def settle(s: float = 0.001) -> None:
    """Let everything happen that can happen now."""
    await asyncio.sleep(s)


async def until(what: Any, within_s: float = 1000.0) -> None:
    """Wait until `what()`, awaited, is true."""
    give_up_s = now_s() + within_s
    while not await what():
        assert now_s() < give_up_s, "it never came to be"
        await asyncio.sleep(0.01)
