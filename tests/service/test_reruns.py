"""Claims about repeating: from an earlier step on, as another execution, with another input or other code; what was reached is done once."""

import asyncio
from typing import Any

import pytest

from perdure import AlreadyExists, Context, ExecutionFailed, HasEnded, JoinFailed, NotFound, RaceFailed, Retry, step, workflow
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

did: list[str] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    did.clear()
    broken.clear()


@step(retry=Retry(max=1))
async def do(name: str, result: str = "") -> str:
    did.append(name)
    if name in broken:
        raise ValueError(f"{name} is broken")
    return result or name


@do.undo
async def undo_do(result: str, name: str, made: str = "") -> None:
    did.append(f"-{name}")


@step(retry=Retry(max=1))
async def plain(name: str) -> str:
    did.append(name)
    if name in broken:
        raise ValueError(f"{name} is broken")
    return name


@workflow
async def child(ctx: Context, name: str) -> str:
    return f"child {await ctx.step(plain, name)}"


@workflow
async def chain(ctx: Context, end: str = "d") -> list[Any]:
    found: list[Any] = [await ctx.step("a", plain, "a"), await ctx.call(child, "b"), await ctx.step("c", plain, "c")]
    ctx.set("progress", len(found))
    ctx.emit("c is done")
    return [*found, await ctx.step("d", plain, end)]


async def failed(c: AsyncClient, workflow: Any, *args: Any, id: str) -> Any:
    handle = await c.start(workflow.with_(id=id), *args)
    with pytest.raises(ExecutionFailed):
        await handle.result()
    return handle


async def _engine(c: Cluster, *more: Any) -> None:
    await c.engine(chain, child, branches, collects, *more)


@virtually
async def test_a_retry_goes_on_from_what_failed_or_from_an_earlier_step_on(c: Cluster, client: AsyncClient) -> None:
    await _engine(c)
    broken.add("d")
    handle = await failed(client, chain, id="e")
    await handle.retry()
    with pytest.raises(ExecutionFailed):
        await handle.result()
    assert did == ["a", "b", "c", "d", "d"]
    broken.clear()
    await handle.retry(from_step="c")
    assert await handle.result() == ["a", "child b", "c", "d"]
    assert did == ["a", "b", "c", "d", "d", "c", "d"]
    assert [one.value async for one in handle.stream()] == ["c is done"] * 2 and await handle.query("progress") == 3


@virtually
async def test_a_retry_from_a_step_that_is_none_names_those_that_are(c: Cluster, client: AsyncClient) -> None:
    await _engine(c)
    broken.add("d")
    handle = await failed(client, chain, id="e")
    for wrong in ("x", "", "//", "~undo/a", "d#2"):
        with pytest.raises(BadValue, match=r"a step of default/chain/e that has settled: a, call:child, c, "):
            await handle.retry(from_step=wrong)
    assert (await handle.status()).status == "failed"


@virtually
async def test_two_failures_in_a_row_forget_nothing_that_was_done_before_the_first(c: Cluster, client: AsyncClient) -> None:
    early: list[bool] = []

    @workflow
    async def twice(ctx: Context) -> list[str]:
        if early:
            raise RuntimeError("the code was broken before it did anything")
        return [await ctx.step("a", plain, "a"), await ctx.step("b", plain, "b")]

    await _engine(c, twice)
    broken.add("b")
    handle = await failed(client, twice, id="e")
    early.append(True)
    await handle.retry()
    with pytest.raises(ExecutionFailed, match="before it did anything"):
        await handle.result()
    early.clear()
    broken.clear()
    await handle.retry()
    assert await handle.result() == ["a", "b"] and did == ["a", "b", "b"]


@workflow
async def branches(ctx: Context) -> list[Any]:
    joined = await ctx.join(a=lambda c: c.step(plain, "a"), b=lambda c: c.step(plain, "b"))
    won = await ctx.race(x=lambda c: c.step(plain, "x"), y=lambda c: c.step(plain, "y"))
    return [joined["a"], joined["b"], won.name in "xy"]


@pytest.mark.slow
@virtually
async def test_a_join_and_a_race_that_failed_are_retried_with_what_succeeded_in_them(c: Cluster, client: AsyncClient) -> None:
    await _engine(c)
    broken.update("bxy")
    handle = await client.start(branches.with_(id="e"))
    with pytest.raises(ExecutionFailed, match=JoinFailed.__name__):
        await handle.result()
    broken.remove("b")
    await handle.retry()
    with pytest.raises(ExecutionFailed, match=RaceFailed.__name__):
        await handle.result()
    broken.clear()
    await handle.retry()
    assert await handle.result() == ["a", "b", True]
    assert (did.count("a"), did.count("b"), did.count("x")) == (1, 2, 2)


@virtually
async def test_a_fork_takes_over_what_is_earlier_children_too_and_leaves_the_original_as_it_is(c: Cluster, client: AsyncClient) -> None:
    await _engine(c)
    original = await client.start(chain.with_(id="e"))
    assert await original.result() == ["a", "child b", "c", "d"]
    before = [event async for event in original.events()]
    did.clear()
    fork = await original.fork("c", id="f")
    assert await fork.result() == ["a", "child b", "c", "d"] and did == ["c", "d"]
    assert [one.value async for one in fork.stream()] == ["c is done"] and await fork.query("progress") == 3
    did.clear()
    whole = await original.fork(input=["other"])
    assert await whole.result() == ["a", "child b", "c", "d"] and did == [], "d had its result already"
    again = await original.fork("d", input=["other"])
    assert await again.result() == ["a", "child b", "c", "other"] and did == ["other"]
    assert [event async for event in original.events()] == before
    with pytest.raises(AlreadyExists, match="default/chain/f"):
        await original.fork(id="f")
    with pytest.raises(BadValue):
        await original.fork("nowhere")


@virtually
async def test_a_fork_of_a_failed_execution_begins_where_it_failed(c: Cluster, client: AsyncClient) -> None:
    await _engine(c)
    broken.add("d")
    handle = await failed(client, chain, id="e")
    broken.clear()
    assert await (await handle.fork()).result() == ["a", "child b", "c", "d"] and did == ["a", "b", "c", "d", "d"]
    assert (await handle.status()).status == "failed"


@workflow
async def collects(ctx: Context) -> list[Any]:
    first = await ctx.listen("note")
    await ctx.step("a", plain, "a")
    async for turn in ctx.loop("turns", state=list[Any](), keep=2):
        turn.state = [*turn.state, await turn.listen("note")]
        await turn.step(plain, f"turn {turn.number}")
        if turn.number == 5:
            return [first, *turn.state]
    return []


@virtually
async def test_a_fork_of_one_that_waits_opens_that_anew_and_leaves_messages_with_the_original(c: Cluster, client: AsyncClient) -> None:
    await _engine(c)
    original = await client.start(collects.with_(id="e"))
    for number in range(5):
        await original.send("note", number)
    await settle(1.0)
    await original.send("unheard", "kept")
    fork = await original.fork(id="f")
    for number in (10, 11, 12):
        await fork.send("note", number)
    for number in (20, 21):
        await original.send("note", number)
    assert await original.result() == [0, 1, 2, 3, 4, 20, 21] and await fork.result() == [0, 1, 2, 3, 4, 10, 11]
    assert [did.count(f"turn {number}") for number in range(6)] == [1, 1, 1, 1, 2, 2], "the forgotten turns, and those that were over, are not run again"


@virtually
async def test_a_retry_from_before_a_message_hears_it_again(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def hears(ctx: Context) -> str:
        await ctx.step("a", plain, "a")
        note = await ctx.listen("note")
        await ctx.step("b", plain, "b")
        return str(note)

    await _engine(c, hears)
    broken.add("b")
    handle = await client.start(hears.with_(id="e"))
    await handle.send("note", "hello")
    with pytest.raises(ExecutionFailed):
        await handle.result()
    broken.clear()
    await handle.retry(from_step="a")
    assert await handle.result() == "hello" and did == ["a", "b", "a", "b"]


@virtually
async def test_a_fork_goes_on_in_another_version_of_the_code(c: Cluster, client: AsyncClient) -> None:
    @workflow(name="order", version=1)
    async def one(ctx: Context) -> list[str]:
        return [await ctx.step("a", plain, "a"), await ctx.step("b", plain, "b")]

    @workflow(name="order", version=2)
    async def two(ctx: Context) -> list[str]:
        return [await ctx.step("a", plain, "a"), await ctx.step("c", plain, "c")]

    old = await c.engine(one)
    broken.add("b")
    handle = await failed(client, one, id="e")
    await old.stop()
    await c.engine(two)
    fork = await handle.fork(version=2)
    assert await fork.result() == ["a", "c"] and did == ["a", "b", "c"]


@pytest.mark.slow
@virtually
async def test_a_rerun_has_the_same_input_and_nothing_else(c: Cluster, client: AsyncClient) -> None:
    await _engine(c)
    original = await client.start(chain.with_(id="e"), "end")
    assert await original.result() == ["a", "child b", "c", "end"]
    did.clear()
    again = await original.rerun()
    assert again.id != "e" and again.created and await again.result() == ["a", "child b", "c", "end"] and did == ["a", "b", "c", "end"]
    with pytest.raises(AlreadyExists):
        await original.rerun(id="e")
    with pytest.raises(NotFound):
        await (await client.start(client.workflow("nobody knows this one").with_(id="x"))).rerun()


@virtually
async def test_a_preset_result_stands_in_for_the_work(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def work(ctx: Context) -> list[Any]:
        await ctx.listen("go")
        found: list[Any] = [await ctx.step("a", plain, "a")]
        await ctx.sleep("100d", name="long")
        return [*found, await ctx.step("b", plain, "b"), await ctx.call(child.with_(name="c"), "c")]

    await _engine(c, work)
    broken.update("b")
    handle = await client.start(work.with_(id="e"))
    await handle.preset("a", "given")
    await handle.preset("c", "given child")
    await handle.send("go")
    await settle(1.0)
    with pytest.raises(BadValue, match="is settled"):
        await handle.preset("a", "late")
    await handle.preset("long")  # which is open
    with pytest.raises(ExecutionFailed, match="b is broken"):
        await handle.result()
    await handle.preset("b", "ü" * 40_000)
    await handle.retry()
    assert await handle.result() == ["given", "ü" * 40_000, "given child"] and did == ["b"]
    with pytest.raises(HasEnded):
        await handle.preset("a", "late")
    with pytest.raises(NotFound):
        await client.get(Key("default", "work", "nobody"))


@virtually
async def test_a_preset_frees_a_step_that_hangs_and_a_message_is_not_preset(c: Cluster, client: AsyncClient) -> None:
    @step
    async def hangs() -> str:
        await asyncio.Event().wait()
        return ""

    @workflow
    async def stuck(ctx: Context) -> list[Any]:
        return [await ctx.step(hangs), await ctx.listen("note")]

    await _engine(c, stuck)
    handle = await client.start(stuck.with_(id="e"))
    await settle(5.0)
    await handle.preset("hangs", "freed")
    await settle(1.0)
    with pytest.raises(BadValue, match="waits for a message: send it"):
        await handle.preset("listen:note", 1)
    await handle.send("note", 2)
    assert await handle.result() == ["freed", 2]


@virtually
async def test_what_a_fork_has_taken_over_is_undone_by_it_and_a_child_by_its_own_handlers(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def inner(ctx: Context) -> str:
        return await ctx.step(do, "inner")

    @workflow
    async def outer(ctx: Context) -> None:
        await ctx.step("a", do, "a")
        await ctx.call(inner.with_(undo=True))
        await ctx.listen("go")
        raise RuntimeError("no")

    await _engine(c, inner, outer)
    original = await client.start(outer.with_(id="e"))
    await settle(5.0)
    fork = await original.fork(id="f")
    await fork.send("go")
    with pytest.raises(ExecutionFailed):
        await fork.result()
    assert did == ["a", "inner", "-inner", "-a"]
