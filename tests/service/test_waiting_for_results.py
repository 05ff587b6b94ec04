"""Claims about waiting for results: they come as what they are, to everybody, by whichever process made them."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import Context, DeadlineExceeded, ExecutionCancelled, ExecutionFailed, NeedsAttention, Timeout, step, workflow
from perdure.core.errors import BadValue, StoreUnavailable, Undecodable
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, now_s, settle
from tests.service.cluster_client import virtually


@dataclass
class Receipt:
    number: int
    lines: tuple[str, ...]


@step
async def pause(takes_s: float) -> None:
    await asyncio.sleep(takes_s)


@workflow
async def buy(ctx: Context, number: int, takes_s: float = 0.0) -> Receipt:
    await ctx.step(pause, takes_s)
    return Receipt(number, ("a", "b"))


@workflow
async def failing(ctx: Context) -> None:
    raise LookupError("no such order")


@workflow(deadline="5s")
async def late(ctx: Context) -> None:
    await ctx.sleep("1h")


@workflow
async def large(ctx: Context) -> str:
    return "x" * 1_000_000


@virtually
async def test_a_result_has_the_type_of_its_workflow_and_is_plain_data_where_that_is_not_known(c: Cluster, client: AsyncClient) -> None:
    await c.engine(buy)
    assert await client.run(buy.with_(id="k"), 5) == Receipt(5, ("a", "b"))
    assert await (await client.get("k", buy)).result() == Receipt(5, ("a", "b"))
    assert await (await client.get("k")).result() == await client.run(client.workflow("buy").with_(id="k"), 6) == {"number": 5, "lines": ["a", "b"]}


@virtually
async def test_a_large_result_comes_whole(c: Cluster, client: AsyncClient) -> None:
    await c.engine(large)
    assert await client.run(large) == "x" * 1_000_000


@virtually
async def test_a_result_that_does_not_fit_its_type_says_so(c: Cluster, client: AsyncClient) -> None:
    @workflow(name="buy")
    async def other(ctx: Context, number: int) -> int:
        return number

    await c.engine(buy)
    with pytest.raises(Undecodable, match="the result of default/buy/k"):
        await client.run(other.with_(id="k"), 5)


@virtually
async def test_other_endings_are_raised_as_what_they_are_now_and_later(c: Cluster, client: AsyncClient) -> None:
    await c.engine(failing, late, buy)
    cancelled = await client.start(buy, 1, 100.0)
    await cancelled.cancel("enough")
    endings: list[tuple[Any, type[Exception], str]] = [
        (await client.start(failing), ExecutionFailed, "LookupError: no such order"),
        (await client.start(late), DeadlineExceeded, "the execution did not end within 5 s of its start"),
        (cancelled, ExecutionCancelled, "enough"),
    ]
    for handle, kind, said in endings * 2:
        with pytest.raises(kind, match=said):
            await handle.result()


@virtually
async def test_what_needs_attention_is_told_to_who_waits_and_to_who_comes_later(c: Cluster, client: AsyncClient) -> None:
    @workflow(name="changing")
    async def before(ctx: Context) -> str:
        return str(await ctx.listen("go"))

    @workflow(name="changing")
    async def after(ctx: Context) -> str:
        return str(await ctx.listen("come"))

    engine = await c.engine(before)
    handle = await client.start(before)
    waiting = asyncio.create_task(handle.result())
    await settle(1)
    await engine.stop()
    wrong = await c.engine(after)
    await handle.send("go", 5)
    for one in (waiting, handle.result()):
        with pytest.raises(NeedsAttention, match="diverged"):
            await one
    status = await handle.status()
    assert status.status == "needs_attention" and "diverged" in status.why
    await wrong.stop()
    await c.engine(before)
    await handle.resume("mended", wait=True)
    assert await handle.result() == "5"


@virtually
async def test_a_result_that_does_not_come_in_time_is_a_timeout_and_the_execution_goes_on(c: Cluster, client: AsyncClient) -> None:
    await c.engine(buy)
    handle = await client.start(buy.with_(id="k"), 5, 100.0)
    began_s = now_s()
    with pytest.raises(Timeout, match=r"the result of default/buy/k: timed out after 10 s") as timeout:
        await handle.result(timeout="10s")
    assert issubclass(type(timeout.value), TimeoutError) and now_s() - began_s == pytest.approx(10)
    with pytest.raises(Timeout):
        await handle.result(timeout=0)
    for bad in (-1, "soon", True):
        with pytest.raises(BadValue):
            await handle.result(timeout=bad)
    assert (await handle.result(timeout=100)).number == 5
    assert (await handle.result(timeout=0.001)).number == 5


@virtually
async def test_a_timeout_of_the_workflows_own_is_not_taken_for_one_of_the_client(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def patient(ctx: Context) -> None:
        await ctx.listen("go", timeout=1)

    await c.engine(patient)
    with pytest.raises(ExecutionFailed, match="timeout"):
        await (await client.start(patient)).result(timeout=100)


@pytest.mark.slow
@virtually
async def test_thousands_wait_side_by_side(c: Cluster, client: AsyncClient) -> None:
    handles = [await client.start(buy, number, 5.0) for number in range(1000)]
    waiting = asyncio.gather(*(handle.result() for handle in handles))
    await settle(1)
    await c.engine(buy)
    began_s = now_s()
    assert [one.number for one in await waiting] == list(range(1000))
    assert now_s() - began_s < 60


@virtually
async def test_who_waits_is_told_that_the_client_was_closed(c: Cluster, client: AsyncClient) -> None:
    other = AsyncClient(c.store)
    handle = await other.start(buy, 5)
    waiting = [asyncio.create_task(one) for one in (handle.result(), handle.ask("x"))]
    await settle(1)
    await other.aclose()
    await other.aclose()
    for one in waiting:
        with pytest.raises(StoreUnavailable, match="the client was closed"):
            await one
    assert (await client.get(handle.id, buy)).key == handle.key, "the store was not the client's to close"
