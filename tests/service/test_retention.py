"""Claims about retention: what was done long ago goes, that it was done stays; nobody who goes on misses anything, and nothing is begun twice."""

import asyncio
from typing import Any

import pytest

from perdure import Context, InputDiffers, Retry, step, workflow
from perdure.core import events as e
from perdure.core.errors import BadValue, ChildFailed, ExecutionFailed, Removed
from perdure.core.paths import Key
from perdure.service import execution_bundles, retention, store_access
from perdure.stores.protocol import ALL_HEADS
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

did: list[str] = []
MONTH_S = 30 * 86_400.0


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    did.clear()


@step(retry=Retry(max=1))
async def do(what: str) -> str:
    did.append(what)
    if what == "fails":
        raise ValueError("it fails")
    return what


@do.undo
async def undo(result: str, what: str) -> None:
    did.append(f"-{what}")


@workflow
async def plain(ctx: Context, what: str = "a") -> str:
    return await ctx.step("do", do, what)


@workflow
async def parent(ctx: Context) -> str:
    found = await ctx.call(plain.with_(id="child", undo=True), "c")
    await ctx.listen("go")
    return found


@workflow
async def late(ctx: Context) -> str:
    try:
        return await ctx.call(plain.with_(id="child"), "c")
    except ChildFailed as error:
        return f"{error.error.type}: {error.error.message[:14]}"


WORKFLOWS = (plain, parent, late)


async def ended(c: Cluster, client: AsyncClient, *ids: str, what: str = "a") -> None:
    """Some that ended a month ago."""
    engine = await c.engine(*WORKFLOWS)
    for id in ids:
        await client.start(plain.with_(id=id), what)
    await settle()
    await engine.stop()
    await settle(MONTH_S + 1)


def ids(found: list[Any]) -> list[str]:
    return [one.key.id for one in found]


@virtually
async def test_what_ended_long_ago_goes_and_its_id_status_and_times_stay(c: Cluster, client: AsyncClient) -> None:
    await ended(c, client, "old")
    engine = await c.engine(*WORKFLOWS)
    await client.start(plain.with_(id="new"))
    await settle()
    await engine.stop()
    before = {head.key.id: head for head in await c.store.heads(ALL_HEADS)}
    assert ids(await client.upkeep.prune("30d")) == ["old"]
    after = {head.key.id: head for head in await c.store.heads(ALL_HEADS)}
    assert after["new"] == before["new"]
    assert (after["old"].status, after["old"].ended_at_s, after["old"].created_at_s) == ("completed", before["old"].ended_at_s, before["old"].created_at_s)
    assert after["old"].version == before["old"].version + 1
    assert [type(event) for event in await c.events(Key("default", "plain", "old"))] == [e.RemovedEvent]
    assert (await (await client.get("old")).status()).status == "completed"
    assert await client.upkeep.verify() == []
    found = await c.store.read(Key("default", "plain", "old"))
    assert found is not None and [len(row) < 100 for row in found.payloads] == [True]


@virtually
async def test_nothing_is_left_of_what_is_forgotten_and_its_id_runs_again(c: Cluster, client: AsyncClient) -> None:
    await ended(c, client, "old", "older")
    assert ids(await client.upkeep.prune("30d")) == ["older", "old"]
    assert await client.upkeep.prune("30d") == []
    assert ids(await client.upkeep.prune("30d", forget_ids=True, dry_run=True)) == ["older", "old"]
    assert ids(await client.upkeep.prune("30d", forget_ids=True)) == ["older", "old"]
    assert await c.store.heads(ALL_HEADS) == []
    await c.engine(*WORKFLOWS)
    handle = await client.start(plain.with_(id="old"), "again")
    assert handle.created and await handle.result() == "again"
    assert did == ["a", "a", "again"]


@pytest.mark.slow
@virtually
async def test_so_many_that_they_take_several_pages_are_all_removed_and_forgotten(c: Cluster, client: AsyncClient) -> None:
    await ended(c, client, *(f"n{number}" for number in range(25)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store_access, "HEADS_PER_PAGE", 10)
        patched.setattr(retention, "PRUNE_BATCH", 3)
        assert len(await client.upkeep.prune("30d")) == 25
        assert len(await client.upkeep.prune("30d", forget_ids=True)) == 25
    assert await c.store.heads(ALL_HEADS) == []


@virtually
async def test_it_is_not_begun_again_and_its_result_says_that_it_was_removed(c: Cluster, client: AsyncClient) -> None:
    await ended(c, client, "old", what="x" * 70_000)
    await client.upkeep.prune("30d")
    await c.engine(*WORKFLOWS)
    handle = await client.start(plain.with_(id="old"), "x" * 70_000)
    assert not handle.created
    with pytest.raises(Removed, match=r"the SHA-256 of its result began with [0-9a-f]{32}\."):
        await handle.result(timeout="1m")
    assert len(did) == 1
    for asked in (handle.undo(), client.dead_letters.requeue("old")):
        with pytest.raises((Removed, BadValue)):
            await asked


@virtually
async def test_a_strict_start_compares_what_was_kept_of_the_input(c: Cluster, client: AsyncClient) -> None:
    await ended(c, client, "small", "large")
    await client.upkeep.prune("30d")
    assert not (await client.start(plain.with_(id="small", strict=True), "a")).created
    with pytest.raises(InputDiffers):
        await client.start(plain.with_(id="small", strict=True), "b")
    with pytest.raises(InputDiffers):
        await client.start(plain.with_(id="small", strict=True), "b" * 70_000)


@virtually
async def test_it_goes_on_where_it_was_interrupted_and_removes_nothing_twice(c: Cluster, client: AsyncClient) -> None:
    await ended(c, client, "a", "b", "c")
    from perdure.service.retention import RetentionFilter, prune_executions

    which = RetentionFilter(tenant="default", before_s=asyncio.get_running_loop().time())
    async for _ in prune_executions(c.store, which):
        break
    assert ids(await client.upkeep.prune("30d", dry_run=True)) == ids(await client.upkeep.prune("30d"))
    assert await client.upkeep.prune("30d") == []


@virtually
async def test_only_what_is_meant_is_removed(c: Cluster, client: AsyncClient) -> None:
    await ended(c, client, "done")
    await ended(c, client, "failed", what="fails")
    assert ids(await client.upkeep.prune("90d")) == []
    assert ids(await client.upkeep.prune("1d", workflow="other")) == ids(await client.upkeep.prune("1d", tenant="other")) == []
    assert ids(await client.upkeep.prune("30d", dry_run=True)) == ["done"]
    assert ids(await client.upkeep.prune("30d", status=["failed"])) == ["failed"]
    for statuses in (["running"], []):
        with pytest.raises(BadValue, match="some of cancelled, completed, failed"):
            await client.upkeep.prune("1d", status=statuses)
    with pytest.raises(ExecutionFailed, match="it fails"):
        await (await client.get("failed")).result()
    with pytest.raises(Removed):
        await (await client.get("failed")).retry()


@virtually
async def test_what_another_has_waited_for_stays_until_that_has_ended(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(*WORKFLOWS)
    await client.start(parent.with_(id="p"))
    await settle()
    await engine.stop()
    await settle(MONTH_S + 1)
    assert await client.upkeep.prune("1d") == []
    engine = await c.engine(*WORKFLOWS)
    await c.send(Key("default", "parent", "p"), "go")
    await settle(60.0)
    await engine.stop()
    await settle(MONTH_S + 1)
    assert ids(await client.upkeep.prune("1d")) == ["p"]


@virtually
async def test_what_would_be_undone_with_another_stays_until_that_is_removed(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(*WORKFLOWS)
    await client.start(parent.with_(id="p"))
    await settle()
    await c.send(Key("default", "parent", "p"), "go")
    await settle()
    await engine.stop()
    await settle(MONTH_S + 1)
    assert await client.upkeep.prune("1d", workflow="plain") == []
    assert ids(await client.upkeep.prune("1d")) == ["p"]
    assert ids(await client.upkeep.prune("1d")) == ["child"]


@virtually
async def test_who_joins_what_was_removed_is_told_so(c: Cluster, client: AsyncClient) -> None:
    await ended(c, client, "child")
    assert ids(await client.upkeep.prune("1d")) == ["child"]
    await c.engine(*WORKFLOWS)
    assert await client.run(late.with_(id="l")) == "removed: it was removed"
    assert did == ["a"]


@virtually
async def test_what_is_told_meanwhile_to_an_engine_wins_or_does_nothing(c: Cluster, client: AsyncClient) -> None:
    await ended(c, client, "old", what="fails")
    key = Key("default", "plain", "old")
    stale = await c.head(key)
    await client.upkeep.prune("30d", status=["failed"])
    from perdure.core import messages

    await c.engine(*WORKFLOWS)
    await c.tell(key, messages.RetryMessage("again"))
    await c.tell(key, messages.UndoMessage("again"))
    await settle()
    assert (await c.head(key)).status == "failed" and did == ["fails"] and await c.messages(key) == 0
    assert (await c.head(key)).version >= stale.version + 1


@virtually
async def test_an_archive_has_each_before_it_goes_and_it_can_be_imported_from_there(c: Cluster, client: AsyncClient) -> None:
    await ended(c, client, "old")
    kept: dict[Key, execution_bundles.Bundle] = {}
    await client.upkeep.prune("30d", archive=kept.__setitem__)
    (archived,) = kept.values()
    await client.upkeep.import_(execution_bundles.encode_bundle(archived, b""), id="again", unsigned=True)
    assert await (await client.get("again")).result() == "a"

    def fails(key: Key, _: execution_bundles.Bundle) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        await client.upkeep.prune("0s", archive=fails)
    assert await (await client.get("again")).result() == "a"
