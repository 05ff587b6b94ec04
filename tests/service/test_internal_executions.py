"""Claims about what people are shown: their own executions, and messages that nothing waits for."""

import asyncio

import pytest

from perdure import AlreadyDecided, Context, NotFound, workflow
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually


@workflow
async def asking(ctx: Context) -> bool:
    return (await ctx.approve("Ship it?")).approved


@workflow
async def listening(ctx: Context) -> str:
    return str(await ctx.listen("approved"))


@virtually
async def test_perdures_own_executions_are_listed_only_where_they_are_asked_for(c: Cluster, client: AsyncClient) -> None:
    await c.engine(asking)
    for number in range(3):
        await client.start(asking.with_(id=str(number)))
    await asyncio.sleep(1)
    assert [one.key.workflow for one in await client.list()] == ["asking"] * 3
    assert [one.key.id for one in await client.list(limit=2)] == ["2", "1"]
    assert sorted(one.key.workflow for one in await client.list(internal=True)) == ["asking"] * 3 + [APPROVAL_WORKFLOW] * 3
    assert len(await client.list(workflow=APPROVAL_WORKFLOW)) == 3


@virtually
async def test_a_message_that_nothing_waits_for_is_shown(c: Cluster, client: AsyncClient) -> None:
    await c.engine(listening)
    handle = await client.start(listening)
    assert (await handle.status()).unread == {}
    await handle.send("approvd", 1)
    await handle.send("approvd", 2)
    await asyncio.sleep(1)
    assert (await handle.status()).unread == {"approvd": 2}
    await handle.send("approved", "yes")
    assert await handle.result() == "yes" and (await handle.status()).unread == {"approvd": 2}


@virtually
async def test_a_decision_by_the_id_of_the_execution_that_asked_says_who_decided_before(c: Cluster, client: AsyncClient) -> None:
    await c.engine(asking, listening)
    handle = await client.start(asking.with_(id="o1"))
    await asyncio.sleep(1)
    await client.approve("o1", by="ada")
    assert await handle.result() is True
    for which in ("o1", handle.id):
        with pytest.raises(AlreadyDecided, match=r"the approval 'Ship it\?' was decided already: approved by ada at \d{4}-"):
            await client.reject(which, by="bob")
    await client.start(listening.with_(id="l"))
    with pytest.raises(NotFound, match="no approval of l waits for a decision"):
        await client.approve("l", by="ada")
