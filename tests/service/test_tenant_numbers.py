"""Claims about the numbers of a tenant: each counts what its list has, whoever began it and when, up to a bound, and Perdure's own executions are left out."""

import asyncio

import pytest

from perdure import Context, Retry, step, workflow
from perdure.core.errors import BadValue
from perdure.service import tenant_numbers
from perdure.service.tenant_numbers import BoundedCount
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually


@step(retry=Retry(max=1))
async def broken() -> None:
    raise ValueError("broken")


@workflow
async def fails(ctx: Context) -> None:
    await ctx.sleep("2h")
    await ctx.step(broken)


@workflow
async def asks(ctx: Context) -> None:
    await ctx.approve("Pay?", timeout="10d")


@workflow
async def waits(ctx: Context) -> None:
    await ctx.listen("go")


@virtually
async def test_each_number_is_that_of_its_list(c: Cluster, client: AsyncClient) -> None:
    await c.engine(fails, asks, waits)
    for number in range(3):
        await client.start(fails.with_(id=f"early{number}"))
    await asyncio.sleep(3 * 3600)
    for flow in (asks, waits):
        await client.start(flow)
    await client.start(waits.with_(tenant="acme"))
    await asyncio.sleep(90 * 60)
    await client.start(fails.with_(id="late"))
    await asyncio.sleep(10)
    found = await client.counts("3h")
    assert (found.open.count, found.waiting_for_people.count, found.needs_attention.count) == (3, 1, 0)
    assert (found.failed.count, found.dead_letters.count) == (3, 3), "they began 4.5 hours ago, and failed 2.5 hours ago"
    listed = await client.list(status="failed", failed_since="3h")
    assert {one.key.id for one in listed} == {"early0", "early1", "early2"}
    assert (await client.counts("1h")).failed.count == 0 and await client.list(failed_since="1h") == []
    assert (await client.select(failed_since="3h").count("retry")).total == 3
    assert (await client.counts(tenant="acme")).open.count == 1


@virtually
async def test_numbers_are_bounded_and_say_so(c: Cluster, client: AsyncClient) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tenant_numbers, "COUNTED_MAX", 2)
        for number in range(3):
            await client.start(waits.with_(id=str(number)))
            found = await client.counts()
            assert found.open == BoundedCount(min(number + 1, 2), number == 2)


@virtually
async def test_a_duration_that_is_none_is_refused(c: Cluster, client: AsyncClient) -> None:
    with pytest.raises(BadValue, match="failed_since"):
        await client.counts(-1)
