"""Claims about carrying executions elsewhere: they go on from where they stood, nothing that had settled is done again, and nothing there is overwritten."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from perdure import AlreadyExists, Context, NotFound, Retry, Signal, step, workflow
from perdure.core import events as e
from perdure.core.errors import ExportRefused, LogDamaged
from perdure.core.paths import Key
from perdure.service.execution_bundles import decode_bundle
from perdure.stores.protocol import ALL_HEADS
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, cluster, settle
from tests.service.cluster_client import virtually

did: list[str] = []
slow: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    did.clear()
    slow.clear()


@step(retry=Retry(max=1))
async def do(what: str) -> str:
    did.append(what)
    if what in slow:
        await asyncio.sleep(1e5)
    return what


@step(queue="gpu")
async def render(what: str) -> str:
    did.append(f"render {what}")
    return f"rendered {what}"


@workflow
async def order(ctx: Context, text: str = "a") -> list[Any]:
    first = await ctx.step("reserve", do, text)
    return [first[:3], await ctx.listen("go"), await ctx.step("ship", do, "ship")]


@workflow
async def letters(ctx: Context) -> list[Any]:
    await ctx.listen("start")
    return [await ctx.listen("note") for _ in range(4)]


@workflow
async def asked(ctx: Context) -> list[Any]:
    found = []
    for _ in range(2):
        message = await ctx.listen(Signal("ask", str), completable=True)
        found.append(message.body)
        message.complete(f"re: {message.body}")
    return [*found, await ctx.listen("go")]


@workflow
async def queued(ctx: Context) -> str:
    return await ctx.step(render, "q")


@workflow
async def child(ctx: Context, what: str) -> str:
    first = await ctx.step("first", do, f"child {what}")
    await ctx.listen("go")
    return f"{first}, gone"


@workflow
async def parent(ctx: Context) -> list[Any]:
    return [await ctx.call(child, "c"), await ctx.step("after", do, "after")]


@workflow(archive=True)
async def lapping(ctx: Context) -> int:
    async for turn in ctx.loop("laps", state=0, keep=1):
        turn.state += len(await turn.step("lap", do, "x" * (70_000 if turn.number < 2 else 1)))
        if turn.number == 80:
            await turn.listen("go")
        if turn.number == 82:
            return turn.state
    return 0


WORKFLOWS = (order, letters, asked, queued, child, parent, lapping)
Carried = Callable[[Cluster, Cluster], Coroutine[Any, Any, None]]


async def carried(c: Cluster, other: Cluster, key: Key, **how: Any) -> list[Key]:
    """Have what is here in the other store."""
    raw = await AsyncClient(c.store).upkeep.export(key, children=how.pop("children", False))
    return [one.key for one in await AsyncClient(other.store).upkeep.import_(raw, unsigned=True, **how)]


async def result(c: Cluster, key: Key) -> Any:
    return await (await AsyncClient(c.store).get(key)).result(timeout="1h")


async def both(c: Cluster, *args: Any, code: Any = order, id: str = "e", **how: Any) -> tuple[Cluster, Key]:
    """One begun here, up to where it waits, and another store."""
    engine = await c.engine(*WORKFLOWS)
    await AsyncClient(c.store).start(code.with_(id=id), *args)
    await settle(how.get("after_s", 0.001))
    await engine.stop() if how.get("stops", True) else await engine.kill()
    return beside(c), Key("default", code.code.name, id)


def beside(c: Cluster) -> Cluster:
    """Another store, on which what runs ends with what runs here."""
    other = Cluster()
    other.processes = c.processes
    other._told = 100  # so that its messages have other keys
    return other


@virtually
async def test_it_goes_on_from_where_it_stood_and_nothing_that_had_settled_is_done_again(c: Cluster, client: AsyncClient) -> None:
    other, key = await both(c, "x" * 70_000)
    assert await carried(c, other, key) == [key]
    assert (await other.head(key)).holder is None
    await other.engine(*WORKFLOWS)
    await other.send(key, "go", 5)
    assert await result(other, key) == ["xxx", 5, "ship"]
    assert did == ["x" * 70_000, "ship"]
    assert (await c.head(key)).status == "waiting"


@virtually
async def test_what_has_ended_has_its_result_there(c: Cluster, client: AsyncClient) -> None:
    other, key = await both(c)
    await c.engine(*WORKFLOWS)
    await c.send(key, "go", 1)
    await result(c, key)
    await carried(c, other, key)
    assert await result(other, key) == ["a", 1, "ship"]
    assert (await other.head(key)).ended_at_s == (await c.head(key)).ended_at_s
    assert (await other.head(key)).version == (await c.head(key)).version


@virtually
async def test_messages_keep_their_order_those_that_wait_and_those_that_come_later(c: Cluster, client: AsyncClient) -> None:
    other, key = await both(c, code=letters)
    engine = await c.engine(letters)
    for number in range(2):
        await c.send(key, "note", number)
    await settle()
    await engine.stop()
    await c.send(key, "note", 2)
    await other.send(Key("default", "order", "nobody"), "note")  # whose number is that of another message in the other store
    await carried(c, other, key)
    await other.send(key, "note", 3)
    await other.send(key, "start")
    await other.engine(letters)
    assert await result(other, key) == [0, 1, 2, 3]


@virtually
async def test_what_was_replied_to_is_replayed_under_the_numbers_that_it_has_there(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(asked)
    handle = await client.start(asked.with_(id="e"))
    assert await handle.ask("ask", "one", timeout="1h") == "re: one"
    await engine.stop()
    other = beside(c)
    await carried(c, other, handle.key)
    assert [one.verdict for one in await AsyncClient(other.store).check([asked])] == ["fits"]
    await other.engine(asked)
    there = await AsyncClient(other.store).get(handle.key)
    assert await there.ask("ask", "two", timeout="1h") == "re: two"
    await other.send(handle.key, "go", 3)
    assert await result(other, handle.key) == ["one", "two", 3]


@virtually
async def test_a_call_that_was_in_hand_counts_as_interrupted_and_is_done_again(c: Cluster, client: AsyncClient) -> None:
    slow.add("a")
    other, key = await both(c, stops=False)
    await carried(c, other, key)
    slow.clear()
    await other.engine(*WORKFLOWS)
    await other.send(key, "go", 1)
    assert await result(other, key) == ["a", 1, "ship"]
    assert did == ["a", "a", "ship"]
    assert any(isinstance(event, e.InterruptedEvent) for event in await other.events(key))


@virtually
async def test_work_that_waited_on_a_queue_waits_there_as_well(c: Cluster, client: AsyncClient) -> None:
    other, key = await both(c, code=queued)
    await carried(c, other, key)
    await other.engine(queued)
    await other.worker(render)
    assert await result(other, key) == "rendered q"


@virtually
async def test_one_that_has_not_begun_begins_there(c: Cluster, client: AsyncClient) -> None:
    key = (await client.start(order.with_(id="p"), "late")).key
    other = beside(c)
    await carried(c, other, key)
    await other.engine(order)
    await other.send(key, "go", 1)
    assert await result(other, key) == ["lat", 1, "ship"]


@virtually
async def test_children_come_along_when_asked_and_answer_their_parent_there(c: Cluster, client: AsyncClient) -> None:
    other, key = await both(c, code=parent)
    keys = await carried(c, other, key, children=True)
    assert [one.workflow for one in keys] == ["parent", "child"]
    assert {head.root for head in await other.store.heads(ALL_HEADS)} == {key}
    await other.engine(*WORKFLOWS)
    await other.send(keys[1], "go")
    assert await result(other, key) == ["child c, gone", "after"]
    assert did == ["child c", "after"]


@virtually
async def test_a_child_that_does_not_come_along_is_begun_anew(c: Cluster, client: AsyncClient) -> None:
    other, key = await both(c, code=parent)
    assert await carried(c, other, key) == [key]
    await other.engine(*WORKFLOWS)
    await settle()
    (begun,) = [head.key for head in await other.store.heads(ALL_HEADS) if head.key.workflow == "child"]
    await other.send(begun, "go")
    assert await result(other, key) == ["child c, gone", "after"]
    assert did == ["child c", "child c", "after"]


@virtually
async def test_a_parent_hears_of_a_child_that_had_ended_when_it_was_exported(c: Cluster, client: AsyncClient) -> None:
    other, key = await both(c, code=parent)
    engine = await c.engine(child)
    (inner,) = [head.key for head in await c.store.heads(ALL_HEADS) if head.key.workflow == "child"]
    await c.send(inner, "go")
    await settle()
    await engine.stop()
    assert (await c.head(inner)).status == "completed" and (await c.head(key)).status == "waiting"
    await carried(c, other, key, children=True)
    await other.engine(*WORKFLOWS)
    assert await result(other, key) == ["child c, gone", "after"]
    assert did == ["child c", "after"]


@virtually
async def test_an_id_that_is_taken_is_refused_and_what_is_there_stays_as_it_is(c: Cluster, client: AsyncClient) -> None:
    other, key = await both(c, code=parent)
    (inner,) = [head.key for head in await c.store.heads(ALL_HEADS) if head.key.workflow == "child"]
    await carried(c, other, inner)
    before = (await other.store.heads(ALL_HEADS), await other.events(inner), await other.store.messages(inner), dict(other.store._blobs))
    with pytest.raises(AlreadyExists) as refused:
        await carried(c, other, key, children=True)
    assert refused.value.key == inner
    assert before == (await other.store.heads(ALL_HEADS), await other.events(inner), await other.store.messages(inner), dict(other.store._blobs))
    with pytest.raises(AlreadyExists):
        await carried(c, c, key)


@virtually
async def test_under_another_id_it_is_another_one_also_for_its_children(c: Cluster, client: AsyncClient) -> None:
    other, key = await both(c, code=parent)
    keys = await carried(c, other, key, children=True, id="copy")
    assert keys[0] == key._replace(id="copy")
    await other.engine(*WORKFLOWS)
    await other.send(keys[1], "go")
    assert await result(other, keys[0]) == ["child c, gone", "after"]
    with pytest.raises(NotFound):
        await AsyncClient(other.store).get(key)


@virtually
async def test_beside_the_original_a_copy_goes_on_by_itself(c: Cluster, client: AsyncClient) -> None:
    _, key = await both(c)
    (copy,) = await carried(c, c, key, id="copy")
    await c.engine(*WORKFLOWS)
    await c.send(copy, "go", "copied")
    await c.send(key, "go", "original")
    assert (await result(c, copy), await result(c, key)) == (["a", "copied", "ship"], ["a", "original", "ship"])
    assert did == ["a", "ship", "ship"]


@pytest.mark.slow
@virtually
async def test_paused_it_does_nothing_until_it_is_resumed(c: Cluster, client: AsyncClient) -> None:
    slow.add("a")
    other, key = await both(c, stops=False)
    slow.clear()
    await carried(c, other, key, paused=True)
    pending = (await client.start(order.with_(id="p"))).key
    await carried(c, other, pending, paused=True)
    await other.engine(*WORKFLOWS)
    for one in (key, pending):
        await other.send(one, "go", 1)
    await settle(3600)
    assert did == ["a"]
    for one in (key, pending):
        assert (await other.head(one)).status == "paused"
        await (await AsyncClient(other.store).get(one)).resume()
        assert await result(other, one) == ["a", 1, "ship"]


@pytest.mark.slow
@virtually
async def test_a_compacted_log_comes_with_its_archive_and_all_that_this_refers_to(c: Cluster, client: AsyncClient) -> None:
    other, key = await both(c, code=lapping, after_s=1.0)
    found = decode_bundle(await client.upkeep.export(key), b"").bundle
    assert len(found.blobs) >= 2 and any(isinstance(event, e.SnapshotEvent) for event in await c.events(key))
    await carried(c, other, key)
    assert (await other.head(key)).version == (await c.head(key)).version
    await other.engine(lapping)
    await other.send(key, "go")
    assert await result(other, key) == 2 * 70_000 + 81


@virtually
async def test_what_is_not_there_or_not_whole_is_not_exported(c: Cluster, client: AsyncClient) -> None:
    _, key = await both(c, "x" * 70_000)
    c.store._blobs.clear()
    with pytest.raises(LogDamaged, match="is missing"):
        await client.upkeep.export(key)
    with pytest.raises(NotFound):
        await client.upkeep.export("nobody")


@virtually
async def test_who_signed_it_matters_unless_that_is_said_not_to(c: Cluster, client: AsyncClient) -> None:
    _, key = await both(c)
    signed = await client.upkeep.export(key, secret="a secret that is long enough")
    async with cluster() as other:
        there = AsyncClient(other.store).upkeep
        for secret in ("another one that is long enough", ""):
            with pytest.raises(ExportRefused, match="--unsigned"):
                await there.import_(signed, secret=secret)
        damaged = signed[:100] + b"?" + signed[101:]
        with pytest.raises(ExportRefused, match="damaged"):
            await there.import_(damaged, unsigned=True)
        assert [one.key for one in await there.import_(signed, secret="a secret that is long enough")] == [key]
