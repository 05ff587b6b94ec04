"""Engines for tests: real ones, on stores in memory, in virtual time; each test runs warm and in always-suspend mode."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any

from perdure.code.code_program import CodeProgram
from perdure.code.context import new_code_program
from perdure.core import events as e
from perdure.core import log_format, messages, values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import ErrorInfo, PerdureError
from perdure.core.execution import Execution
from perdure.core.messages import ExecutionMessage, SignalMessage
from perdure.core.operations import Success
from perdure.core.paths import Key, path_text
from perdure.core.program import program_name
from perdure.core.replay import LoadBlob, fold_events, replay_program
from perdure.core.values import Blob
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import wait_for_end
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Commit, Post
from perdure.testing.virtual_time import run
from perdure.workflow_function import Workflow

LONG_S = 1e6
"""How long engines here wait when nothing calls them: so that days of virtual time cost nothing, and every ring counts. One that
does not have its executions in memory must ask for them every second."""

IDLE_S = {"warm": 1e9, "suspended": 0.0}
_mode: ContextVar[str] = ContextVar("mode", default="warm")


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in virtual time, once with warm executions and once with executions that leave memory after each commit."""

    @functools.wraps(test)
    def both_ways(*args: Any, **kwargs: Any) -> None:
        for mode in IDLE_S:
            token = _mode.set(mode)
            try:
                run(lambda: test(*args, **kwargs))
            except BaseException as error:
                error.add_note(f"in mode {mode}")
                raise
            finally:
                _mode.reset(token)

    return both_ways


def resident(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in virtual time, with warm executions only."""

    @functools.wraps(test)
    def one_way(*args: Any, **kwargs: Any) -> None:
        run(lambda: test(*args, **kwargs))

    return one_way


class MemoryEngine:
    """A store in memory and an engine on it, with what tests want to do and know."""

    def __init__(self, workflows: Sequence[Workflow[..., Any]], store: MemoryStore | None = None) -> None:
        self.workflows = workflows
        self.store = store or MemoryStore(asyncio.get_running_loop().time)
        self._crashes = 0
        self.engine = self._new_engine()
        self._running: asyncio.Task[None] | None = None

    def _new_engine(self) -> Engine:
        poll_s = LONG_S if _mode.get() == "warm" and not self._crashes else 1.0
        return Engine(self.store, [one.code for one in self.workflows], idle_s=IDLE_S[_mode.get()], lease_s=LONG_S, poll_s=poll_s, seed=lambda: 7)

    async def begin(self) -> None:
        """Run the engine."""
        self._running = asyncio.create_task(self.engine.run())
        await self.engine.ready()

    async def end(self) -> None:
        """Stop the engine."""
        if self._running is not None:
            self.engine.stop()
            await self._running
            self._running = None

    async def crash(self) -> None:
        """Kill the engine without a word, and begin another on the same store, where the lease of the first has run out."""
        for held in self.engine._residents:  # killed, it can't give back anything in good order
            held.discard()
        self.engine._residents.clear()
        if self._running is not None:
            asyncio.get_running_loop().kill([self._running, *self.engine._tasks])  # type: ignore[attr-defined]  # a virtual loop has it
            await asyncio.wait([self._running])
        await self.store.renew(self.engine.holder, 0)
        self._crashes += 1
        self.engine = self._new_engine()
        await self.begin()

    def key(self, workflow: Workflow[..., Any], id: str = "e") -> Key:
        """The key of an execution."""
        return Key("default", workflow.code.name, id)

    async def start(self, workflow: Workflow[..., Any], *args: Any, id: str = "e") -> Key:
        """Start an execution."""
        key = self.key(workflow, id)
        await self.engine.start(key, workflow.code.codec.encode_args(args, {}, "input"))
        return key

    async def result(self, key: Key) -> Any:
        """Wait for the end and return the result, as the workflow's hint has it.

        Raises:
            WorkflowError: how else it ended.
        """
        while (await self.fold(key)).status not in ("completed", "failed", "cancelled", "needs_attention"):
            await self.engine.ending(key)
        raw = await wait_for_end(self.engine, key)
        workflow = next(one for one in self.workflows if one.code.name == key.workflow)
        return values.decode(raw, workflow.code.codec.result, "result")

    async def run(self, workflow: Workflow[..., Any], *args: Any, id: str = "e") -> Any:
        """Start an execution and return its result."""
        return await self.result(await self.start(workflow, *args, id=id))

    async def tell(self, key: Key, message: ExecutionMessage, message_key: str = "") -> None:
        """Put a message into the mail."""
        self._told = getattr(self, "_told", 0) + 1
        await self.store.commit([Post(messages=(OutgoingMessage(key, message_key or f"test:{self._told}", messages.encode_message(message)),))])

    async def send(self, key: Key, name: str, body: Any = None, once: str = "") -> None:
        """Send a message from outside; with `once`, under that key."""
        await self.tell(key, SignalMessage(name, values.encode(body, "body"), once), f"outside:{once}" if once else "")

    async def rows(self, key: Key) -> tuple[bytes, ...]:
        """The log, as it is kept."""
        found = await self.store.read(key)
        return () if found is None else found.payloads

    async def events(self, key: Key) -> list[e.Event]:
        """The log, as it is read."""
        return log_format.decode_rows(await self.rows(key))

    async def fold(self, key: Key) -> Execution:
        """What the log adds up to."""
        return fold_events(key, await self.events(key))

    async def opened(self, key: Key) -> list[str]:
        """The paths of all operations that were opened, in their order."""
        return [path_text(event.path) for event in await self.events(key) if isinstance(event, e.OpenedEvent)]

    async def error(self, key: Key) -> ErrorInfo:
        """The error with which an execution has failed."""
        with suppress(PerdureError):
            await self.result(key)
        ended = (await self.fold(key)).ended
        assert ended is not None and ended.status == "failed" and not isinstance(ended.outcome, Success), f"it ended as {ended}"
        return ended.outcome.error

    async def failure(self, workflow: Workflow[..., Any], *args: Any, id: str = "e") -> ErrorInfo:
        """Run an execution that must fail, and return its error."""
        return await self.error(await self.start(workflow, *args, id=id))

    async def replayed(self, key: Key) -> CodeProgram:
        """A cold program, fed the whole log; it must not diverge."""
        workflow = next(one for one in self.workflows if one.code.name == key.workflow)
        return (await evicted(self.store, workflow, key))[1]


@asynccontextmanager
async def world(*workflows: Workflow[..., Any], store: MemoryStore | None = None) -> AsyncIterator[MemoryEngine]:
    """A world in which these workflows run."""
    it = MemoryEngine(workflows, store)
    await it.begin()
    try:
        yield it
    finally:
        await it.end()


async def settle(s: float = 0.001) -> None:
    """Let everything happen that can happen now."""
    await asyncio.sleep(s)


async def evicted(store: MemoryStore, workflow: Workflow[..., Any], key: Key) -> tuple[Execution, CodeProgram]:
    """Rebuild an execution from its log; its program must not diverge."""
    found = await store.read(key)
    assert found is not None
    execution, instance = Execution(key), new_code_program(workflow.code, key)
    rebuilding = replay_program(execution, log_format.decode_rows(found.payloads), instance)
    diverged = None
    try:
        asked: LoadBlob = next(rebuilding)
        while True:
            raw = await store.blob(asked.blob.sha256)
            assert raw is not None
            asked = rebuilding.send(raw)
    except StopIteration as end:
        diverged = end.value
    assert diverged is None, diverged
    return execution, instance


async def cut(key: Key, rows: Sequence[bytes], blobs: dict[str, bytes]) -> MemoryStore:
    """A store that knows just these rows of an execution, as if its engine had died behind the last."""
    store = MemoryStore(asyncio.get_running_loop().time)
    moment = await store.renew("dead", 60)
    version = 0
    for number, row in enumerate(rows):
        events = log_format.decode_row(row)
        change = Commit(
            key=key,
            epoch=moment.epoch,
            holder="dead",
            version=version,
            program=program_name(key.workflow, 1),
            root=key,
            creates=number == 0,
            row=row,
            count=len(events),
            wake_at_s=0.0,
            blobs=tuple(blobs.items()),
        )
        await store.commit([change])
        version += len(events)
    await store.renew("dead", 0)
    return store


async def every_cut(
    workflow: Workflow[..., Any], *args: Any, say: Callable[[MemoryEngine, Key], Coroutine[Any, Any, None]] | None = None, turns: bool = False
) -> Any:
    """Run a workflow to its end, then again from every cut of its log; all must end alike. Return the result.

    `say` sends its messages, under keys, so that saying them again after a cut is harmless.
    """

    async def ended(it: MemoryEngine, key: Key) -> Any:
        if say is not None:
            await say(it, key)
        return await it.result(key)

    async with world(workflow) as first:
        key = await first.start(workflow, *args)
        expected = await ended(first, key)
        rows, blobs = await first.rows(key), dict(first.store._blobs)
    for end in range(1, len(rows)):
        async with world(workflow, store=await cut(key, rows[:end], blobs)) as again:
            found = await ended(again, key)
            assert found == expected, f"cut behind row {end} of {len(rows)}: {found} is not {expected}"
    return expected


def blob_paths(execution: Execution) -> set[str]:
    """Where settled values are kept as blobs."""
    return {path_text(path) for path, one in execution.settled.items() if isinstance(one.outcome, Success) and isinstance(one.outcome.value, Blob)}
