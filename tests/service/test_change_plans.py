"""Claims about plans: what they say is what the command then does, what it would refuse they refuse, and they change nothing."""

import asyncio
from typing import Any

import pytest

from perdure import Context, Definition, Retry, step, workflow
from perdure.core.errors import BadDefinition, BadValue, HasEnded, NotFound
from perdure.core.paths import Key
from perdure.operations import on_execution_changes
from perdure.service.change_plans import ChangePlan, PlannedChild
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually

did: list[str] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    did.clear()
    broken.clear()


@step(retry=Retry(max=1))
async def do(name: str) -> str:
    did.append(name)
    if name in broken:
        raise ValueError(f"{name} is broken")
    return name


@do.undo
async def undo_do(result: str, name: str) -> None:
    did.append(f"-{name}")


@step(retry=Retry(max=1))
async def plain(name: str) -> str:
    did.append(name)
    if name in broken:
        raise ValueError(f"{name} is broken")
    return name


@workflow
async def steps(ctx: Context) -> str:
    await ctx.step("a", plain, "a")
    await ctx.call(child.with_(id="kid", name="child"), "b")
    ctx.set("progress", 2)
    await ctx.step("c", plain, "c")
    return await ctx.step("d", plain, "d")


@workflow
async def child(ctx: Context, name: str) -> str:
    await ctx.step("work", do, name)
    return await ctx.listen("word") if name == "waits" else name


@workflow
async def chain(ctx: Context, last: str = "d", of_child: str = "b") -> str:
    await ctx.step("a", do, "a")
    await ctx.call(child.with_(id="kid", name="child", undo=True), of_child)
    ctx.set("progress", 2)
    await ctx.step("c", do, "c")
    await ctx.step("d", do, last)
    return await ctx.listen("word") if last == "listen" else last


async def plan(client: AsyncClient, key: Key, verb: Any, **given: Any) -> ChangePlan:
    """A plan, of which it is checked that it changes nothing."""
    store = client._access.on_store("a test").store
    before = await store.read(key), await store.messages(key), await store.heads()
    found = await on_execution_changes.plan(client._access.on_store("a test"), key, verb, **given)
    assert (await store.read(key), await store.messages(key), await store.heads()) == before
    assert (found.key, found.verb) == (key, verb)
    return found


async def started(client: AsyncClient, code: Any = chain, *args: str) -> Any:
    handle = await client.start(code.with_(id="e"), *args)
    await asyncio.sleep(1)
    did.clear()
    return handle


KID = Key("default", "child", "kid")


@virtually
async def test_a_retry_reuses_and_repeats_what_its_plan_says(c: Cluster, client: AsyncClient) -> None:
    await c.engine(steps, child)
    broken.add("d")
    handle = await started(client, steps)
    found = await plan(client, handle.key, "retry")
    assert (found.status, found.has_effect) == ("failed", True)
    assert (found.reused, found.repeated, found.children) == (["a", "child", "set:progress", "c"], ["d"], [])
    await handle.retry()
    await asyncio.sleep(1)
    assert did == found.repeated
    did.clear()
    earlier = await plan(client, handle.key, "retry", from_step="c")
    assert earlier.repeated == ["c", "d"]
    await handle.retry(from_step="c")
    await asyncio.sleep(1)
    assert did == earlier.repeated


@virtually
async def test_what_was_undone_is_repeated(c: Cluster, client: AsyncClient) -> None:
    await c.engine(chain, child)
    broken.add("d")
    handle = await started(client)
    found = await plan(client, handle.key, "retry")
    assert (found.reused, found.repeated) == (["set:progress"], ["a", "child", "c", "d"])
    broken.clear()
    await handle.retry()
    assert await handle.result() == "d" and did == ["a", "b", "c", "d"]


@virtually
async def test_a_child_that_failed_is_retried_with_its_parent(c: Cluster, client: AsyncClient) -> None:
    await c.engine(steps, child)
    broken.add("b")
    handle = await started(client, steps)
    found = await plan(client, handle.key, "retry")
    assert (found.reused, found.repeated, found.children) == (["a"], ["child"], [PlannedChild(KID, "retried")])
    broken.clear()
    await handle.retry()
    assert await handle.result() == "d" and did == ["b", "c", "d"]


@virtually
async def test_a_cancelled_execution_undoes_and_stops_what_its_plan_says(c: Cluster, client: AsyncClient) -> None:
    await c.engine(chain, child)
    handle = await started(client, chain, "listen")
    found = await plan(client, handle.key, "cancel")
    assert (found.undone, found.stopped) == (["d", "c", "child", "a"], ["listen:word"])
    assert found.children == [PlannedChild(KID, "undone")]
    kept = await plan(client, handle.key, "cancel", undo=False)
    assert (kept.undone, kept.stopped, kept.children) == ([], ["listen:word"], [])
    ended = await plan(client, handle.key, "terminate")
    assert (ended.undone, ended.stopped, ended.has_effect) == ([], ["listen:word"], True)
    await handle.cancel("enough", wait=True)
    assert did == ["-listen", "-c", "-b", "-a"]
    again = await plan(client, handle.key, "cancel")
    assert (again.has_effect, again.status) == (False, "cancelled")


@pytest.mark.parametrize("verb", ["cancel", "terminate"])
def test_a_child_that_runs_ends_with_its_parent(verb: str) -> None:
    @virtually
    async def claim(c: Cluster, client: AsyncClient) -> None:
        await c.engine(chain, child)
        handle = await started(client, chain, "d", "waits")
        found = await plan(client, handle.key, verb)
        assert (found.stopped, found.children) == (["child"], [PlannedChild(KID, "cancelled")])
        await getattr(handle, verb)("enough", wait=True)
        await asyncio.sleep(1)
        assert (await (await client.get(KID)).status()).status == "cancelled"

    claim()


@virtually
async def test_an_undo_undoes_what_its_plan_says(c: Cluster, client: AsyncClient) -> None:
    await c.engine(chain, child)
    handle = await started(client)
    found = await plan(client, handle.key, "undo")
    assert (found.undone, found.children) == (["d", "c", "child", "a"], [PlannedChild(KID, "undone")])
    await handle.undo(wait=True)
    assert did == ["-d", "-c", "-b", "-a"]


@virtually
async def test_a_fork_and_a_rerun_take_over_what_their_plans_say(c: Cluster, client: AsyncClient) -> None:
    await c.engine(chain, child)
    handle = await started(client)
    found = await plan(client, handle.key, "fork", from_step="c")
    assert (found.reused, found.repeated) == (["a", "child"], ["set:progress", "c", "d"])
    forked = await handle.fork(from_step="c", id="forked")
    await forked.result()
    assert did == ["c", "d"]
    again = await plan(client, handle.key, "rerun")
    assert (again.reused, again.repeated) == ([], ["a", "child", "set:progress", "c", "d"])


@virtually
async def test_a_pause_a_resume_and_a_preset(c: Cluster, client: AsyncClient) -> None:
    await c.engine(chain, child)
    handle = await started(client, chain, "d", "waits")
    found = await plan(client, handle.key, "pause")
    assert (found.has_effect, found.continued, found.reused) == (True, ["child"], ["a"])
    assert not (await plan(client, handle.key, "resume")).has_effect
    given = await plan(client, handle.key, "preset", step="c")
    assert (given.given, given.continued) == (["c"], ["child"])
    await handle.pause(wait=True)
    assert (await plan(client, handle.key, "resume")).has_effect


Refused = tuple[str, dict[str, Any], type[Exception]]
REFUSED: list[Refused] = [
    ("retry", {"from_step": "nowhere"}, BadValue),
    ("cancel", {}, HasEnded),
    ("terminate", {}, HasEnded),
    ("pause", {}, HasEnded),
    ("preset", {"step": "a"}, HasEnded),
    ("fork", {"from_step": "nowhere"}, BadValue),
    ("explode", {}, BadValue),
    ("patch", {"change": []}, BadValue),
]


@pytest.mark.parametrize(("verb", "given", "error"), REFUSED, ids=[one[0] for one in REFUSED])
def test_what_the_command_would_refuse_its_plan_refuses(verb: str, given: dict[str, Any], error: type[Exception]) -> None:
    @virtually
    async def claim(c: Cluster, client: AsyncClient) -> None:
        await c.engine(chain, child)
        handle = await started(client)
        with pytest.raises(error):
            await plan(client, handle.key, verb, **given)
        with pytest.raises(NotFound):
            await plan(client, Key("default", "chain", "none"), verb if verb != "explode" else "retry", **given)

    claim()


DEFINITION = """
perdure: 1
name: doc
order: listed
vars: {n: 0}
steps:
  - {id: one, set: {n: 1}}
  - {id: wait, listen: word}
  - {id: two, set: {n: 2}}
"""


@virtually
async def test_a_patch_changes_or_is_refused_as_its_plan_says(c: Cluster, client: AsyncClient) -> None:
    definition = Definition.of(DEFINITION)
    await c.engine(definition)
    handle = await client.start(definition.with_(id="e"))
    await asyncio.sleep(1)
    fitting = [{"op": "replace", "path": "/steps/2/set/n", "value": 7}]
    found = await plan(client, handle.key, "patch", change=fitting)
    assert found.has_effect and found.refused == [] and any("two" in line for line in found.changes)
    unfitting = await plan(client, handle.key, "patch", change=[{"op": "remove", "path": "/steps/1"}])
    assert not unfitting.has_effect and unfitting.refused
    stale = await plan(client, handle.key, "patch", change=fitting, base="0" * 64)
    assert not stale.has_effect and "patched in the meantime" in stale.refused[0]
    with pytest.raises(BadDefinition):
        await plan(client, handle.key, "patch", change=[{"op": "replace", "path": "/steps/2", "value": {"nothing": 1}}])
    assert await on_execution_changes.patch(client._access.on_store("a test"), handle.key, fitting) is not None
