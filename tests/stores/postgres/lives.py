"""An execution that does all that an execution does, its client and its engine in this process, each on a store of its own; and the ledger of its steps."""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from perdure import Context, Signal, step, step_info, workflow
from perdure.core.errors import HasEnded, StoreUnavailable
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Store
from perdure.sync_client import AsyncClient, AsyncHandle
from tests.stores.postgres.fault_rows import Verdict

T = TypeVar("T")

LARGE_BYTES = 70_000
"""What is kept as a blob."""

END_S = 60.0
"""How long an execution may take to end, once nothing is wrong any more."""

ledger: list[tuple[str, int]] = []
"""The attempts at steps that began, in order: the idempotency key of the step, and the number of the attempt."""

go: Signal[int] = Signal("go", int)


def begin() -> None:
    """Enter the running attempt into the ledger."""
    ledger.append((step_info().key, step_info().attempt))


@step
async def noted(number: int) -> int:
    begin()
    return number + 1


@step
async def large(number: int) -> str:
    begin()
    return f"{number:08d}" * (LARGE_BYTES // 8)


@step
async def slow(number: int, takes_s: float) -> int:
    begin()
    await asyncio.sleep(takes_s)
    return number


@workflow
async def child(ctx: Context, number: int) -> int:
    return 2 * await ctx.step(noted, number)


@workflow
async def life(ctx: Context, number: int) -> list[int]:
    one = await ctx.step(noted, number)
    two = await ctx.listen(go)
    three, four = await ctx.join(lambda c: c.step(noted, number), lambda c: c.call(child, number))
    text = await ctx.step(large, number)
    await ctx.sleep(0.01)
    return [one, two, three, four, len(text), await ctx.step(noted, one)]


@workflow
async def long_step(ctx: Context, number: int, takes_s: float) -> int:
    return await ctx.step(slow, number, takes_s)


@workflow
async def stored(ctx: Context, text: str) -> int:
    return len(text)


WORKFLOWS = (life, child, long_step)
"""What engines run; `stored` is only stored."""


STEPS_AFTER_GO = 4
"""How many steps of a `life` are behind its message, with that of its child."""


def result_of_life(number: int) -> list[int]:
    """What `life` returns for a number when it is sent 7."""
    return [number + 1, 7, number + 1, 2 * (number + 1), LARGE_BYTES // 8 * 8, number + 2]


@asynccontextmanager
async def engine_on(store: Store, **options: Any) -> AsyncIterator[Engine]:
    """An engine that runs on a store; the store is closed behind it."""
    engine = Engine(store, [one.code for one in WORKFLOWS], **options)
    task = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        engine.stop()
        await task
        await store.close()


@asynccontextmanager
async def client_on(url: str) -> AsyncIterator[AsyncClient]:
    """A client of the database at a URL."""
    store = PostgresStore(url)
    async with AsyncClient(store) as client:
        yield client
    await store.close()


async def insist(call: Callable[[], Awaitable[T]], for_s: float = END_S) -> T:
    """Call until the store is available, as a user of the client does: what was done already is not done again."""
    async with asyncio.timeout(for_s):
        while True:
            try:
                return await call()
            except StoreUnavailable:
                await asyncio.sleep(0.01)


async def lead(client: AsyncClient, id: str, number: int) -> Any:
    """Start a `life`, tell it to go, and return its result."""
    handle = await insist(lambda: client.start(life.with_(id=id), number))

    async def tell() -> None:
        try:
            await handle.send(go, 7, key="go")
        except HasEnded:
            return

    await insist(tell)
    return await insist(handle.result)


async def tell_to_go(handle: AsyncHandle[Any]) -> None:
    """Send an execution of `life` its message, once."""
    await insist(lambda: handle.send(go, 7, key="go"))


async def until_waiting(client: AsyncClient, count: int) -> None:
    """Wait until so many executions wait."""
    async with asyncio.timeout(END_S):
        while len(await insist(lambda: client.list(status=["waiting"], limit=1000))) < count:
            await asyncio.sleep(0.02)


def raise_epoch(url: str) -> str:
    """Raise the epoch by the command; return what it prints. The event loop stands still meanwhile, so that no engine here comes first."""
    command = [sys.executable, "-m", "perdure.cli", "db", "raise-epoch", "--db", url]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def doubled(attempts: Iterable[tuple[str, int]] | None = None) -> int:
    """How many attempts of the ledger began more often than once. None may: that another begins is recorded before it does, and not after an outcome was."""
    return sum(times - 1 for times in Counter(ledger if attempts is None else attempts).values())


async def examine(url: str, acknowledged: Iterable[Key]) -> Verdict:
    """What is there of the executions whose start was acknowledged, apart from steps that ran twice."""
    lost = stuck = 0
    store = PostgresStore(url)
    for key in acknowledged:
        found = await store.read(key)
        lost += found is None
        stuck += found is not None and found.head.ended_at_s is None
    await store.close()
    return Verdict(lost=lost, stuck=stuck, doubled=doubled())
