"""Perdure's program: what the other side of the comparison does as well, in the same words."""

import asyncio
import gc
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from inspect import signature
from typing import Any

from bench._side import rss_bytes, serve, until
from perdure import Context, Signal, step, workflow
from perdure.async_client import AsyncClient
from perdure.code.context import new_code_program
from perdure.core import log_format, messages, values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.execution import Execution
from perdure.core.paths import Key
from perdure.core.replay import replay_program
from perdure.runtime.engine import Engine
from perdure.runtime.garbage_collection import relaxed_garbage_collection
from perdure.runtime.local_engine import local_engine, run_to_end, wait_for_end
from perdure.stores.configured_store import open_store
from perdure.stores.protocol import Claim, HeadFilter, Post
from perdure.stores.sqlite.store import SqliteStore
from perdure.workflow_function import Workflow

TENANT = "default"
AT_ONCE = 1000
"""So many starts are under way at a time where very many are wanted."""

held: list[int] = []
"""What waits in `hold`; negative numbers where it does not wait."""
times_s: list[float] = []
"""When steps that tell the time ran."""
holding = False
released = Signal("released", int)


@step
async def increment(number: int) -> int:
    """The smallest step there is."""
    return number + 1


@step
def increment_in_thread(number: int) -> int:
    """The same, and sync."""
    return number + 1


@step
async def timed(number: int) -> int:
    """A step that tells when it ran."""
    times_s.append(time.monotonic())
    return number + 1


@step
async def hold(number: int) -> int:
    """A step that waits for ever, in a process that is to be killed."""
    held.append(number)
    if holding:
        await asyncio.Event().wait()
    times_s.append(time.monotonic())
    return number + 1


@workflow
async def count(ctx: Context, steps: int) -> int:
    """So many async steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(increment, number)
    return number


@workflow
async def count_in_threads(ctx: Context, steps: int) -> int:
    """So many sync steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(increment_in_thread, number)
    return number


@workflow
async def count_timed(ctx: Context, steps: int) -> int:
    """So many steps that tell when they ran."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(timed, number)
    return number


@workflow
async def mapped(ctx: Context, branches: int) -> int:
    """A map of so many branches of one step."""
    return sum(await ctx.map(lambda c, number: c.step(increment, number), list(range(branches))))


@workflow
async def joined(ctx: Context, branches: int) -> int:
    """A join of so many branches of one step."""

    async def branch(c: Context) -> int:
        return await c.step(increment, 0)

    numbers: Sequence[Any] = await ctx.join(*[branch] * branches)
    return sum(numbers)


@workflow
async def held_up(ctx: Context, steps: int) -> int:
    """So many steps, one that is held where a process is to be killed, and so many steps."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(increment, number)
    number = await ctx.step(hold, number)
    for _ in range(steps):
        number = await ctx.step(increment, number)
    return number


@workflow
async def parked(ctx: Context, number: int) -> int:
    """Wait until released, then one step."""
    return await ctx.step(timed, number + await ctx.listen(released))


WORKFLOWS: list[Workflow[..., Any]] = [count, count_in_threads, count_timed, mapped, joined, held_up, parked]


class Ours:
    """Perdure on the store of a URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._open = AsyncExitStack()
        self._started = 0

    async def open(self) -> float:
        """Begin an engine, as `perdure serve` does; return the seconds until it was ready."""
        begun = time.perf_counter()
        self._open.enter_context(relaxed_garbage_collection())
        self._engine: Engine = await self._open.enter_async_context(local_engine([one.code for one in WORKFLOWS], self._url))
        return time.perf_counter() - begun

    async def close(self) -> None:
        """End the engine."""
        await self._open.aclose()

    async def memory(self) -> int:
        """The memory of this process, in bytes."""
        return rss_bytes()

    async def about(self) -> dict[str, Any]:
        """What it is, and how durable its store is by default."""
        synchronous = signature(SqliteStore).parameters["synchronous"].default
        return {"version": version("perdure"), "journal_mode": "wal", "synchronous": synchronous}

    async def memory_when_quiet(self) -> int:
        """The memory of this process, a moment after it has opened."""
        await asyncio.sleep(0.5)
        gc.collect()
        return rss_bytes()

    async def one_by_one(self, name: str, argument: int, times: int) -> list[float]:
        """Run executions one after the other; the seconds from start to result of each."""
        taken = []
        for _ in range(times):
            begun = time.perf_counter()
            await self._run(name, argument)
            taken.append(time.perf_counter() - begun)
        return taken

    async def together(self, name: str, argument: int, executions: int) -> float:
        """Run executions all at once; the seconds until all have ended."""
        begun = time.perf_counter()
        await asyncio.gather(*(self._run(name, argument) for _ in range(executions)))
        return time.perf_counter() - begun

    async def row_bytes(self) -> int:
        """The mean size of a row of the log of the last execution that ended."""
        (head, *_) = await self._engine.store.heads(HeadFilter(limit=1))
        found = await self._engine.store.read(head.key)
        assert found is not None
        return sum(map(len, found.payloads)) // len(found.payloads)

    async def from_client(self, argument: int, times: int) -> list[float]:
        """As a client in a process of its own: the seconds from start to result, one after the other."""
        taken = []
        async with AsyncClient(self._url) as client:
            for _ in range(times):
                begun = time.perf_counter()
                await client.run(count, argument)
                taken.append(time.perf_counter() - begun)
        return taken

    # killed and taken over

    async def hold(self, executions: int, steps: int) -> None:
        """Start executions, and return when each waits in its step for ever."""
        global holding
        holding = True

        async def all_held() -> bool:
            return len(held) == executions

        await asyncio.gather(*(self._start("held_up", steps) for _ in range(executions)))
        await until(all_held)

    async def recovered(self, executions: int) -> tuple[float, float]:
        """When the first of the steps that were held ran, and when all executions had ended, on the monotonic clock."""
        which = HeadFilter(statuses=frozenset({"completed"}), limit=executions)

        async def all_ended() -> bool:
            return len(times_s) >= executions and len(await self._engine.store.heads(which)) == executions

        await until(all_ended)
        return times_s[0], time.monotonic()

    # parked

    async def park(self, executions: int) -> float:
        """Start executions that wait for a message; the seconds until all do."""
        begun = time.perf_counter()
        for first in range(0, executions, AT_ONCE):
            await asyncio.gather(*(self._start("parked", 0) for _ in range(first, min(first + AT_ONCE, executions))))
        return time.perf_counter() - begun

    async def release(self, ids: list[int]) -> list[float]:
        """Send a message to parked executions, one after the other; the seconds from sending to the step behind it."""
        taken = []
        for id in ids:
            done, sent_s = len(times_s), time.monotonic()
            await self._engine.store.commit([Post(messages=(self._signal(id),))])
            await wait_for_end(self._engine, Key(TENANT, "parked", str(id)))
            taken.append(times_s[done] - sent_s)
        return taken

    async def claim(self, ids: list[int]) -> list[float]:
        """Without an engine: wake parked executions one after the other, and claim each; the seconds of the claims."""
        store, programs, taken = open_store(self._url), frozenset(parked.code.programs), []
        moment = await store.renew("bench", 60.0)
        for id in ids:
            _ = await store.commit([Post(messages=(self._signal(id),))])
            begun = time.perf_counter()
            claimed = await store.claim(Claim(holder="bench", epoch=moment.epoch, programs=programs))
            taken.append(time.perf_counter() - begun)
            assert len(claimed.executions) == 1
        await store.renew("bench", 0)
        await store.close()
        return taken

    # long histories

    async def grow(self, steps: int, window: int) -> tuple[float, float]:
        """Run one execution of many steps; the steps per second of the first `window` of them, and of the last."""
        times_s.clear()
        await self._run("count_timed", steps)
        first, last = times_s[:window], times_s[-window:]
        return (window - 1) / (first[-1] - first[0]), (window - 1) / (last[-1] - last[0])

    async def replay(self, times: int) -> list[float]:
        """Read, fold and replay the last execution, its end aside; the steps per second of each time."""
        (head, *_) = await self._engine.store.heads(HeadFilter(limit=1))
        rates = []
        for _ in range(times):
            begun = time.perf_counter()
            found = await self._engine.store.read(head.key)
            assert found is not None
            events = log_format.decode_rows(found.payloads)[:-2]
            for _ in replay_program(Execution(head.key), events, new_code_program(count_timed.code, head.key)):
                raise RuntimeError("a small value asked for a blob")
            rates.append(len(times_s) / (time.perf_counter() - begun))
        return rates

    # what it is made of

    async def _start(self, name: str, argument: int) -> Key:
        key, value = self._named(name, argument)
        await self._engine.start(key, value)
        return key

    def _named(self, name: str, argument: int) -> tuple[Key, bytes]:
        one = next(one for one in WORKFLOWS if one.code.name == name)
        self._started += 1
        return Key(TENANT, name, str(self._started)), one.code.codec.encode_args((argument,), {}, "the input")

    async def _run(self, name: str, argument: int) -> bytes:
        return await run_to_end(self._engine, *self._named(name, argument))

    def _signal(self, id: int) -> OutgoingMessage:
        message = messages.SignalMessage(released.name, values.encode(1, "a message"))
        return OutgoingMessage(Key(TENANT, "parked", str(id)), f"release:{id}:{time.monotonic_ns()}", messages.encode_message(message))


if __name__ == "__main__":
    serve(Ours(sys.argv[1]))
