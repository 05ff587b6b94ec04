"""Claims about the times of an execution: it is created, starts and ends in this order, and no event is earlier than the one before."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from perdure import Context, ExecutionFailed, Retry, step, workflow
from perdure.core.events import StartedEvent
from perdure.sync_client import Client
from perdure.testing.virtual_time import VirtualLoop
from tests.runtime.cluster import Cluster, until
from tests.runtime.processes import History, ProcessDirectory


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ProcessDirectory]:
    with ProcessDirectory(tmp_path) as stage:
        yield stage


@step
async def double(number: int) -> int:
    if number < 0:
        raise ValueError("it is negative")
    return 2 * number


@workflow
async def child(ctx: Context, number: int) -> int:
    return await ctx.step(double.with_(retry=Retry(max=1)), number)


@workflow
async def parent(ctx: Context, number: int) -> int:
    await ctx.sleep(0.01)
    return await ctx.call(child, number) + await ctx.step(double, number)


@workflow
async def refusing(ctx: Context) -> None:
    raise ValueError("at once")


def in_order(history: History) -> None:
    """Check the times of an execution that has ended."""
    started_s = next((event.at_s for event in history.events if isinstance(event, StartedEvent)), None)
    times_s = [at_s for event in history.events if (at_s := getattr(event, "at_s", None)) is not None]
    assert times_s == sorted(times_s), history
    assert history.head.ended_at_s is not None
    assert history.head.created_at_s <= (started_s or times_s[0]) <= history.head.ended_at_s, history


@pytest.mark.slow
def test_an_execution_is_created_before_it_starts_and_starts_before_it_ends(stage: ProcessDirectory) -> None:
    for number in range(5):
        assert parent.with_(id=f"run {number}", db=stage.url).run(number) == 4 * number
    for fails, args in ((refusing, ()), (child, (-1,))):
        with pytest.raises(ExecutionFailed):
            fails.with_(id="failed", db=stage.url).run(*args)
    with Client(stage.url) as client:
        withdrawn = client.start(parent.with_(id="withdrawn"), 1)
        withdrawn.cancel()
    histories = stage.histories()
    assert len(histories) == 5 * 2 + 3
    for history in histories.values():
        in_order(history)


def test_an_execution_is_created_before_it_starts_though_the_clock_of_its_engine_is_behind() -> None:
    async def main() -> None:
        loop, behind_s = asyncio.get_running_loop(), 0.0
        cluster = Cluster()
        cluster.store._clock = lambda: loop.time() - behind_s
        process = await cluster.engine(refusing, poll_s=1.0)
        await asyncio.sleep(1.0)
        behind_s = -5.0
        key = await cluster.post(refusing)
        behind_s = 5.0  # the server's time was set back, before the engine looks

        async def over() -> bool:
            return (await cluster.head(key)).ended_at_s is not None

        await until(over)
        in_order(History(await cluster.head(key), await cluster.events(key)))
        await process.stop()

    VirtualLoop(Random(0)).run_until_complete(main())
