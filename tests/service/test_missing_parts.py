"""Claims about waiting for a result that cannot come: who waits is warned of what is missing, and a timeout says it too."""

import asyncio
import logging

import pytest

from perdure import Context, Timeout, step, workflow
from perdure.service.missing_parts import START_ENGINE
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually


@step(queue="gpu")
async def render() -> str:
    return "a picture"


@step
async def slow() -> str:
    await asyncio.sleep(200)
    return "at last"


@workflow
async def order(ctx: Context) -> str:
    return await ctx.step(slow)


@workflow
async def rendering(ctx: Context) -> str:
    return await ctx.step(render)


warned: list[str] = []


@pytest.fixture(autouse=True)
def listening(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.WARNING, "perdure.sync_client")
    monkeypatch.setitem(globals(), "warned", caplog.messages)
    monkeypatch.setattr(caplog.handler, "emit", lambda record: warned.append(record.getMessage()) if record.name == "perdure.sync_client" else None)


@pytest.mark.slow
@virtually
async def test_who_waits_for_a_workflow_that_no_engine_knows_is_warned_after_two_seconds_and_once_a_minute(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(order)
    waiting = asyncio.create_task(handle.result())
    await asyncio.sleep(1.9)
    assert warned == []
    await asyncio.sleep(0.3)
    assert warned == [f"waiting for the result of {handle.key}: no engine is running. {START_ENGINE}"]
    await c.engine(rendering)
    await asyncio.sleep(60)
    assert warned[1:] == [f"waiting for the result of {handle.key}: no running engine knows order@1. {START_ENGINE}"]
    await asyncio.sleep(120)
    assert len(warned) == 4
    await c.engine(order)
    assert await waiting == "at last"
    assert len(warned) == 4, "while an engine is at work on it, nothing is missing"


@pytest.mark.slow
@virtually
async def test_a_thousand_who_wait_for_the_same_are_one_line_and_a_few_looks(c: Cluster, client: AsyncClient) -> None:
    handles = [await client.start(order) for _ in range(300)]
    waiting = [asyncio.create_task(handle.result()) for handle in handles]
    await asyncio.sleep(3)
    assert warned == [f"waiting for the result of {handles[0].key} and of 299 more: no engine is running. {START_ENGINE}"]
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.sleep(200)
    assert len(warned) == 1, "nobody waits any more"


@virtually
async def test_who_waits_for_a_queue_that_nobody_serves_or_for_what_is_paused_is_warned(c: Cluster, client: AsyncClient) -> None:
    await c.engine(rendering, order)
    one, other, later = await client.start(rendering), await client.start(order), await client.start(order)
    await other.pause(wait=True)
    waiting = [asyncio.create_task(handle.result()) for handle in (one, other, later)]
    await asyncio.sleep(3)
    assert sorted(warned) == sorted(
        [f"waiting for the result of {one.key}: no worker serves queue gpu", f"waiting for the result of {other.key}: it is paused; resume it"]
    )
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@virtually
async def test_an_engine_with_another_version_is_named(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(order.with_(id="k"))
    misspelled = await client.start(client.workflow("ordr").with_(id="k"))
    await c.engine(workflow(name="order", version=2)(order.code.fn), rendering)
    assert (await handle.status()).why.startswith("no running engine knows order@1 (only order@2)")
    assert (await misspelled.status()).why.startswith("no running engine knows ordr (did you mean order?)")


@virtually
async def test_a_timeout_says_why_nothing_came(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(order.with_(id="k"))
    with pytest.raises(Timeout, match=r"the result of default/order/k: timed out after 1 s: no engine is running; it has not started") as caught:
        await handle.result(timeout="1s")
    assert caught.value.why == "no engine is running; it has not started"
    await c.engine(order)
    with pytest.raises(Timeout, match=r"timed out after 1 s: runs slow"):
        await handle.result(timeout="1s")
    assert warned == []
