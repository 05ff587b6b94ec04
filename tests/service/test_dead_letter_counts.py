"""Claims about counts of dead letters, which come from the index, and about bulk executions that requeue them with edited input or another version."""

import asyncio

import pytest

from perdure import Context, Retry, step, workflow
from perdure.core.errors import BadValue
from perdure.service import dead_letter_counts
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually
from tests.service.test_bulk_workflow import BULK


@step(retry=Retry(max=1))
async def charge(card: str) -> str:
    if card != "good":
        raise ValueError(f"no card {card!r}")
    return card


@workflow
async def pays(ctx: Context, card: str) -> str:
    return await ctx.step("pay", charge, card)


@workflow
async def ships(ctx: Context) -> None:
    raise OSError("no ship")


async def failed(c: Cluster, client: AsyncClient, count: int) -> None:
    await c.engine(pays, ships)
    for number in range(count):
        await client.start(pays.with_(id=f"p{number}"), card=f"bad{number}")
        await asyncio.sleep(60)
    await client.start(ships.with_(id="s"))
    await asyncio.sleep(10)


@virtually
async def test_groups_are_counted_with_their_times_and_a_sample(c: Cluster, client: AsyncClient) -> None:
    await failed(c, client, 3)
    found = await client.dead_letters.counts()
    assert (found.scanned, found.is_partial) == (4, False)
    shipped, paid = found.items
    assert (shipped.workflow, shipped.error_type, shipped.count) == ("ships", "OSError", 1)
    assert (paid.workflow, paid.error_type, paid.count, paid.statuses) == ("pays", "ValueError", 3, {"failed": 3})
    assert 110 <= paid.last_at_s - paid.first_at_s <= 130
    assert paid.sample is not None and (paid.sample.key.id, paid.sample.path, paid.sample.message) == ("p2", "pay", "no card 'bad2'")
    (group,) = await client.dead_letters.groups(fingerprint=paid.fingerprint)
    assert (group.count, group.first_at_s, group.last_at_s) == (paid.count, paid.first_at_s, paid.last_at_s)
    assert [one.workflow for one in (await client.dead_letters.counts(workflow=pays)).items] == ["pays"]
    assert [one.workflow for one in (await client.dead_letters.counts(since="30s")).items] == ["ships"]


@virtually
async def test_counts_that_are_partial_say_so(c: Cluster, client: AsyncClient) -> None:
    await failed(c, client, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dead_letter_counts, "SCANNED_MAX", 2)
        found = await client.dead_letters.counts()
    assert (found.scanned, found.is_partial) == (2, True)


@virtually
async def test_a_group_is_requeued_with_edited_input_each_once_in_bulk(c: Cluster, client: AsyncClient) -> None:
    await failed(c, client, 3)
    await c.engine(BULK)
    (group,) = [one for one in (await client.dead_letters.counts()).items if one.workflow == "pays"]
    selection = client.select(workflow="pays", fingerprint=group.fingerprint)
    assert (await selection.count("requeue")).total == 3
    handle = await selection.begin("requeue", "the card is mended", edits={"card": "good"})
    await asyncio.sleep(60)
    progress = await handle.result()
    assert (progress.total, progress.done, progress.failed) == (3, 3, 0)
    listed = {one.key.id: one.status for one in await client.list(workflow=pays)}
    assert sorted(listed.values()) == ["cancelled"] * 3 + ["completed"] * 3 and all(listed[f"p{number}"] == "cancelled" for number in range(3))
    assert [one.workflow for one in (await client.dead_letters.counts()).items] == ["ships"]


@virtually
async def test_a_dead_letter_is_requeued_on_another_version(c: Cluster, client: AsyncClient) -> None:
    @workflow(name="pays", version=2)
    async def pays_again(ctx: Context, card: str) -> str:
        return f"paid by {card}"

    await failed(c, client, 1)
    await c.engine(pays_again)
    handle = await client.dead_letters.requeue("p0", "version 2 is there", version=2)
    assert await handle.result() == "paid by bad0" and handle.key.id != "p0"
    again = await client.dead_letters.requeue("p0", version=2)
    assert again.key == handle.key


@virtually
async def test_edits_are_for_requeue_alone(c: Cluster, client: AsyncClient) -> None:
    with pytest.raises(BadValue, match="requeue"):
        await client.select(workflow="pays").begin("retry", edits={"card": "good"})
