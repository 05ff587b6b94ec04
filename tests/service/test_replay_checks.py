"""Claims about checking: which open executions would go on with changed code, which would not and where, and that looking changes nothing."""

from typing import Any

from perdure import Context, Retry, Workflow, step, workflow
from perdure.core.paths import Key
from perdure.stores.protocol import ALL_HEADS
from perdure.sync_client import AsyncClient, ReplayCheck
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

did: list[str] = []


@step(retry=Retry(max=1))
async def do(what: str) -> str:
    did.append(what)
    if what == "fails":
        raise ValueError("it fails")
    return what


@workflow(name="order")
async def before(ctx: Context, text: str = "a") -> list[Any]:
    first = await ctx.step("reserve", do, text)
    return [first, await ctx.listen("go")]


@workflow(name="order")
async def same(ctx: Context, text: str = "a") -> list[Any]:
    first = await ctx.step("reserve", do, text)
    body = await ctx.listen("go")
    return [first, await ctx.step("more", do, body)]


@workflow(name="order")
async def renamed(ctx: Context, text: str = "a") -> list[Any]:
    first = await ctx.step("hold", do, text)
    return [first, await ctx.listen("go")]


@workflow(name="order")
async def shorter(ctx: Context, text: str = "a") -> list[Any]:
    return [await ctx.listen("go")]


@workflow(name="order")
async def gated(ctx: Context, text: str = "a") -> list[Any]:
    await ctx.removed("reserve")
    return [await ctx.listen("go")]


@workflow(name="order", version=3, replays=(2,))
async def newer(ctx: Context, text: str = "a") -> list[Any]:
    return []


@workflow(name="order")
async def broken(ctx: Context, text: int) -> list[Any]:
    return []


@workflow
async def failing(ctx: Context) -> None:
    await ctx.step("fails", do, "fails")


@workflow(name="failing")
async def mended(ctx: Context) -> None:
    await ctx.step("works", do, "works")


async def begun(c: Cluster, client: AsyncClient, *args: Any) -> None:
    """An execution that waits, an approval of nobody, and no engine any more."""
    engine = await c.engine(before)
    await client.start(before.with_(id="o1"), *args)
    await settle()
    await engine.stop()
    did.clear()


async def verdict(client: AsyncClient, code: Workflow[..., Any], **which: Any) -> ReplayCheck:
    (one,) = await client.check([code], **which)
    return one


@virtually
async def test_code_that_only_adds_behind_where_they_stand_fits(c: Cluster, client: AsyncClient) -> None:
    await begun(c, client)
    assert await verdict(client, same) == ReplayCheck(Key("default", "order", "o1"), "waiting", 1, "fits")


@virtually
async def test_what_would_diverge_is_told_with_its_place_its_diff_and_what_to_do(c: Cluster, client: AsyncClient) -> None:
    await begun(c, client)
    found = await verdict(client, renamed)
    assert (found.verdict, found.path) == ("diverges", "hold")
    assert found.diff == ("renamed: reserve (call do) is now hold (call do)",)
    assert found.advice[0] == 'keep the old name: ctx.step("old name", new_function)'
    assert any("ctx.version" in line for line in found.advice) and "perdure fork o1" in found.advice[-1]
    assert any("higher version" in line for line in found.advice)
    gone = await verdict(client, shorter)
    assert gone.diff[0].startswith("removed:") and "ctx.removed" in gone.advice[0]
    assert (await verdict(client, gated)).verdict == "fits"


@virtually
async def test_the_diff_is_the_one_with_which_an_engine_parks_it(c: Cluster, client: AsyncClient) -> None:
    await begun(c, client)
    found = await verdict(client, renamed)
    await c.engine(renamed)
    await c.send(found.key, "go", 1)
    await settle()
    parked = (await c.fold(found.key)).parked
    assert parked is not None and parked.detail == found.diff
    assert (await verdict(client, same)).verdict == "fits"  # it is parked, and would go on with this


@virtually
async def test_a_pinned_version_that_the_code_does_not_replay_is_reported_as_such(c: Cluster, client: AsyncClient) -> None:
    await begun(c, client)
    found = await verdict(client, newer)
    assert (found.verdict, found.diff) == ("unadvertised", ("order@1 is pinned, and the code replays order@2, order@3",))
    assert found.advice[-1] == "or say that this code replays it: @workflow(version=3, replays=[1, 2])"


@virtually
async def test_executions_of_workflows_that_are_not_there_are_unknown(c: Cluster, client: AsyncClient) -> None:
    await begun(c, client)
    assert (await verdict(client, failing)).verdict == "unknown"


@virtually
async def test_one_that_can_t_be_read_does_not_keep_the_others_from_being_looked_at(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(before)
    await client.start(before.with_(id="large"), "x" * 70_000)
    await client.start(before.with_(id="small"))
    await settle()
    await engine.stop()
    kept = dict(c.store._blobs)
    c.store._blobs.clear()
    found = {one.key.id: one for one in await client.check([same])}
    assert {id: one.verdict for id, one in found.items()} == {"large": "unreadable", "small": "fits"}
    assert "is missing" in found["large"].diff[0] and "perdure verify large" in found["large"].advice[0]
    c.store._blobs.update(kept)
    assert {one.verdict for one in await client.check([same])} == {"fits"}


@virtually
async def test_what_has_ended_is_left_out_but_for_failures_that_are_asked_for(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(failing)
    await client.start(failing.with_(id="f"))
    await settle()
    await engine.stop()
    assert await client.check([failing]) == []
    assert (await verdict(client, failing, failed=True)).verdict == "fits"
    found = await verdict(client, mended, failed=True)
    assert found.verdict == "diverges" and found.advice[0].startswith("nothing, if it should not continue: a retry runs the new code")


@virtually
async def test_checking_runs_no_step_and_changes_nothing(c: Cluster, client: AsyncClient) -> None:
    await begun(c, client)
    before_it = (await c.store.heads(ALL_HEADS), await c.events(Key("default", "order", "o1")), await c.store.leases(), dict(c.store._blobs))
    for code in (same, renamed, shorter, newer, broken):
        await client.check([code])
    assert before_it == (await c.store.heads(ALL_HEADS), await c.events(Key("default", "order", "o1")), await c.store.leases(), dict(c.store._blobs))
    assert did == []


@virtually
async def test_so_many_are_checked_as_are_asked_for_the_newest_first(c: Cluster, client: AsyncClient) -> None:
    for number in range(5):
        await client.start(before.with_(id=f"o{number}"))
    assert [one.key.id for one in await client.check([before], limit=2)] == ["o4", "o3"]
    assert {one.verdict for one in await client.check([before])} == {"fits"}  # none has begun, so there is nothing to differ from
