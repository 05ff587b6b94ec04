"""Engines and workers that serve some tenants only, and what is said where nobody serves one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure import Context, step, workflow
from perdure.core import messages
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.service.missing_parts import MissingParts
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Post


@step
async def add(number: int) -> int:
    """A step."""
    return number + 1


@workflow
async def adding(ctx: Context, number: int) -> int:
    """One step."""
    return await ctx.step(add, number)


@asynccontextmanager
async def engine(store: MemoryStore, *tenants: str) -> AsyncIterator[Engine]:
    """An engine that serves these tenants."""
    engine = Engine(store, [adding.code], tenants=tenants, poll_s=0.01)
    running = asyncio.create_task(engine.run())
    await engine.ready()
    yield engine
    engine.stop()
    await running


def start(key: Key) -> Post:
    """The start of an execution by a client."""
    body = messages.encode_message(messages.StartMessage(1, adding.code.codec.encode_args((1,), {}, "the input")))
    return Post(messages=(OutgoingMessage(key, "start", body, opens=NewExecution("adding@1", key)),))


async def ended(store: MemoryStore, key: Key) -> None:
    """Waits for the end of an execution."""
    while (log := await store.read(key)) is None or log.head.status != "completed":
        await asyncio.sleep(0.01)


async def test_an_engine_serves_its_tenants_and_no_others() -> None:
    store = MemoryStore()
    acme, other = (Key(tenant, "adding", "1") for tenant in ("acme", "other"))
    async with engine(store, "acme"):
        await store.commit([start(acme), start(other)])
        await ended(store, acme)
        await asyncio.sleep(0.05)
        log = await store.read(other)
        assert log is not None and log.head.version == 0
        assert await MissingParts(store).of([acme, other]) == {
            other: "no engine serves tenant other. Start an engine that has the workflow: perdure worker FILE.py, or an App"
        }
        async with engine(store, "other"):
            await ended(store, other)
