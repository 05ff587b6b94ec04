"""Claims about archives and sweeps: what is archived can be listed and pruned, and nothing that is referred to is removed, whatever happens meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest

from perdure import Context, step, workflow
from perdure.core import events as e
from perdure.core import messages, values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import BadValue, LogDamaged, NotFound
from perdure.core.paths import Key
from perdure.core.traversal import referenced_blobs
from perdure.service.execution_bundles import Bundle, decode_bundle
from perdure.service.reruns import RerunRequest, fork_execution
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Commit, LogRow, Post, StoredLog
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

DAY_S = 1.0
"""A day of these tests: an engine renews its lease all the time, and virtual time costs real time for each."""
TURNS = 300


def large(seed: object) -> str:
    """A value that is kept as a blob."""
    return f"{seed}:".ljust(70_000, "x")


@workflow(archive=True)
async def turning(ctx: Context, value: str = "") -> None:
    async for turn in ctx.loop("turns", state=0, keep=1, commit_every=1):
        turn.state += 1
        if value and turn.state % 100 == 1:
            await turn.step("make", make, f"{value} {turn.state}")
        await turn.sleep(DAY_S)


@step
async def make(seed: str) -> str:
    return large(seed)


@workflow
async def making(ctx: Context, seed: str) -> str:
    return await ctx.step("make", make, seed)


@workflow
async def joining(ctx: Context, id: str) -> int:
    return len(await ctx.call(making.with_(id=id), ""))


@workflow
async def listening(ctx: Context) -> int:
    return len(await ctx.listen("value"))


WORKFLOWS = (turning, making, joining, listening)


async def blobs(c: Cluster) -> set[str]:
    """The names of the blobs that are there."""
    return set(c.store._blobs)


async def damage(client: AsyncClient) -> list[str]:
    """What is damaged."""
    return [one.what for one in await client.upkeep.verify() if one.level == "damage"]


async def turned(c: Cluster, client: AsyncClient, days: int = TURNS, value: str = "") -> Key:
    """An execution that has archived turns, and goes on."""
    await c.engine(*WORKFLOWS)
    handle = await client.start(turning.with_(id="t"), value)
    await settle(days * DAY_S)
    return handle.key


# Archives.


@pytest.mark.slow
@virtually
async def test_archives_list_each_forgotten_turn_once_with_events_and_bytes(c: Cluster, client: AsyncClient) -> None:
    key = await turned(c, client)
    found = await client.upkeep.archives("t")
    assert len(found) > 2 and all(one.key == key and one.pruned_at_s is None and not one.missing for one in found)
    spans = [one.turns["turns"] for one in reversed(found)]
    forgotten = (await (await client.get("t")).status()).forgotten["turns"]
    assert [first for first, _ in spans] == [1, *(last + 1 for _, last in spans[:-1])]
    snapshot = next(event for event in await c.events(key) if isinstance(event, e.SnapshotEvent))
    assert spans[-1][1] <= forgotten and found[0].archived_at_s == snapshot.at_s and found[0].name == snapshot.archive
    assert sum(one.events for one in found) == snapshot.version
    assert [one.size_bytes for one in found] == [len(await c.store.blob(one.name) or b"") for one in found]
    assert [one.archived_at_s for one in found] == sorted((one.archived_at_s for one in found), reverse=True)


@virtually
async def test_there_are_no_archives_of_what_was_not_compacted_and_none_of_what_is_not_there(c: Cluster, client: AsyncClient) -> None:
    await turned(c, client, 5)
    assert await client.upkeep.archives("t") == []
    with pytest.raises(NotFound):
        await client.upkeep.archives("other")


@pytest.mark.slow
@virtually
async def test_archives_that_are_old_are_pruned_and_the_execution_goes_on(c: Cluster, client: AsyncClient) -> None:
    key = await turned(c, client)
    before = await client.upkeep.archives("t")
    age_s = asyncio.get_running_loop().time() - before[1].archived_at_s
    planned = await client.upkeep.prune_archives(age_s - 1, dry_run=True)
    assert await client.upkeep.archives("t") == before
    swept = await client.upkeep.prune_archives(age_s - 1)
    assert swept == planned and swept.archives == before[1:]
    assert swept.size_bytes == sum(one.size_bytes for one in before[1:]) and swept.values == 0
    left = await client.upkeep.archives("t")
    assert left[0] == before[0] and len(left) == 2
    assert (left[1].name, left[1].turns["turns"], left[1].size_bytes) == (before[1].name, (1, before[1].turns["turns"][1]), 0)
    assert left[1].pruned_at_s is not None
    assert (await (await client.get("t")).status()).archives_pruned_at_s is None
    assert (await client.upkeep.prune_archives(age_s - 1)).archives == []
    version = (await c.head(key)).version
    await settle(TURNS * DAY_S)
    assert (await c.head(key)).version > version + TURNS and await damage(client) == []
    assert len(await client.upkeep.archives("t")) > 3


@pytest.mark.slow
@virtually
async def test_what_was_pruned_is_said_and_fails_nothing(c: Cluster, client: AsyncClient) -> None:
    key = await turned(c, client)
    handle = await client.get("t")
    assert (await handle.status()).archived
    (kept,) = [one for one in [await client.upkeep.prune_archives("0s")] if one.archives]
    status = await handle.status()
    assert status.archives_pruned_at_s is not None
    (gone,) = await client.upkeep.archives("t")
    assert gone.pruned_at_s == status.archives_pruned_at_s and gone.turns["turns"][0] == 1
    (note,) = await client.upkeep.verify()
    assert (note.level, note.kind, "archives were pruned at" in note.what) == ("note", "pruned", True)
    assert [event async for event in handle.events()]
    raw = await client.upkeep.export("t")
    assert decode_bundle(raw, b"").bundle.removed == {gone.name: gone.pruned_at_s} and kept.archives[0].name not in decode_bundle(raw, b"").bundle.blobs
    await client.upkeep.import_(raw, id="copy", unsigned=True)
    async with AsyncClient(MemoryStore(asyncio.get_running_loop().time)) as elsewhere:
        await elsewhere.upkeep.import_(raw, unsigned=True)
        assert [one.kind for one in await elsewhere.upkeep.verify() if one.level == "damage" or one.kind == "pruned"] == ["pruned"]
        assert (await elsewhere.upkeep.archives("t"))[0].pruned_at_s == gone.pruned_at_s
    with pytest.raises(BadValue, match=r"iterations 1–\d+ of turns are forgotten"):
        await fork_execution(StoreAccess(c.store), key, RerunRequest(key=key._replace(id="f"), from_step="turns/~3/sleep:1s"))
    await client.upkeep.prune_values()
    assert (await handle.status()).archives_pruned_at_s == gone.pruned_at_s, "the note stays for as long as something refers to it"


@pytest.mark.slow
@virtually
async def test_values_that_only_pruned_archives_need_go_with_them(c: Cluster, client: AsyncClient) -> None:
    await turned(c, client, value="v")
    await client.start(making.with_(id="shares"), "v 1")
    await settle()
    names = await blobs(c)
    archives = {one.name for one in await client.upkeep.archives("t")}
    swept = await client.upkeep.prune_archives("0s")
    there = await blobs(c)
    assert {one.name for one in swept.archives} == archives and swept.values > 0
    assert len(names) - len(there) == swept.values + len(archives)
    result = await (await client.get("shares")).result()
    assert result == large("v 1") and await damage(client) == []


@pytest.mark.slow
@virtually
async def test_an_archive_that_another_execution_keeps_is_not_pruned(c: Cluster, client: AsyncClient) -> None:
    await turned(c, client)
    await client.upkeep.import_(await client.upkeep.export("t"), id="copy", paused=True, unsigned=True)
    names = {one.name for one in await client.upkeep.archives("copy")}
    swept = await client.upkeep.prune_archives("0s", status=["waiting"])
    assert not names & {one.name for one in swept.archives}
    assert {one.name for one in await client.upkeep.archives("copy")} == names
    assert {one.name for one in (await client.upkeep.prune_archives("0s")).archives} >= names


@pytest.mark.slow
@virtually
async def test_only_archives_of_what_is_meant_are_pruned_and_each_execution_is_exported_before(c: Cluster, client: AsyncClient) -> None:
    key = await turned(c, client)
    assert (await client.upkeep.prune_archives("0s", workflow="other")).archives == []
    assert (await client.upkeep.prune_archives("0s", status=["completed"])).archives == []
    assert (await client.upkeep.prune_archives("0s", tenant="other")).archives == []
    with pytest.raises(BadValue, match="status"):
        await client.upkeep.prune_archives("0s", status=["gone"])
    exported: list[tuple[Key, Bundle]] = []
    names = {one.name for one in await client.upkeep.archives("t")}
    await client.upkeep.prune_archives("0s", archive=lambda *one: exported.append(one))
    ((whose, bundle),) = exported
    assert whose == key and names <= bundle.blobs.keys()


# Values.


@virtually
async def test_values_of_removed_executions_go_and_those_that_anything_refers_to_stay(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    for id in ("old", "new"):
        await client.start(making.with_(id=id), id)
        await settle(DAY_S)
    raw = values.encode(large("early"), "")
    light: dict[str, bytes] = {}
    signal = messages.SignalMessage("value", values.offload_if_large(raw, light), "k")
    expected = Key("default", "listening", "expected")
    await c.store.commit([Post(messages=(OutgoingMessage(expected, "message:k", messages.encode_message(signal)),), blobs=tuple(light.items()))])
    assert (await client.upkeep.prune_values()).values == 0
    assert [one.key.id for one in await client.upkeep.prune(1.5 * DAY_S)] == ["old"]
    assert (await client.upkeep.prune_values(dry_run=True)).values == 1
    swept = await client.upkeep.prune_values()
    assert swept.values == 1 and swept.size_bytes > 70_000
    assert await (await client.get("new")).result() == large("new")
    handle = await client.start(listening.with_(id="expected"))
    assert await handle.result() == len(large("early"))


@pytest.mark.slow
@virtually
async def test_nothing_is_removed_if_something_cannot_be_read(c: Cluster, client: AsyncClient) -> None:
    key = await turned(c, client)
    await c.store.commit([Post(blobs=(("0" * 64, b"useless"),))])
    names = await blobs(c)
    rows = c.store._executions[key].rows
    whole = list(rows)
    rows[-1] = LogRow(rows[-1].version, b"\x02damaged")
    with pytest.raises(LogDamaged, match="so none was removed"):
        await client.upkeep.prune_values()
    rows[:] = whole
    newest = (await client.upkeep.archives("t"))[0].name
    archive = c.store._blobs.pop(newest)
    with pytest.raises(LogDamaged, match="is missing"):
        await client.upkeep.prune_values()
    c.store._blobs[newest] = archive
    assert await blobs(c) == names
    assert (await client.upkeep.prune_values()).values == 1


# Others write meanwhile.


class InterceptedStore(MemoryStore):
    """A memory store in which something happens right before the log of an execution is read, or before a post is carried out."""

    before_read: tuple[Key, Callable[[], Awaitable[object]]] | None = None
    before_post: Callable[[], Awaitable[object]] | None = None

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        if self.before_read is not None and self.before_read[0] == key and after == 0:
            happens, self.before_read = self.before_read[1], None
            await happens()
        return await super().read(key, after)

    async def commit(self, changes: Sequence[Commit | Post]) -> list[Any]:
        if self.before_post is not None and isinstance(changes[0], Post):
            happens, self.before_post = self.before_post, None
            await happens()
        return await super().commit(changes)


def watched(test: Callable[[Cluster, AsyncClient, InterceptedStore], Awaitable[None]]) -> Callable[[], None]:
    """As `virtually`, with a store in which something may happen in between."""

    @virtually
    async def inside(c: Cluster, client: AsyncClient) -> None:
        store = c.store = InterceptedStore(asyncio.get_running_loop().time)
        async with AsyncClient(store) as own:
            await test(c, own, store)

    inside.__name__ = test.__name__
    return inside


@watched
async def test_what_a_parent_has_begun_to_refer_to_after_it_was_looked_at_is_not_removed(c: Cluster, client: AsyncClient, store: InterceptedStore) -> None:
    await c.engine(*WORKFLOWS)
    child = await client.start(making.with_(id="child"), "c")
    await child.result()
    await settle(DAY_S)
    parent = await client.start(joining.with_(id="parent", delay=2 * DAY_S), "child")

    async def joins_and_loses_its_child() -> None:
        await settle(3 * DAY_S)
        assert await parent.result() == len(large("c"))
        assert [one.key for one in await client.upkeep.prune(2 * DAY_S)] == [child.key]

    store.before_read = (child.key, joins_and_loses_its_child)
    assert (await client.upkeep.prune_values()).values == 0
    assert store.before_read is None and await damage(client) == []
    events = await c.events(parent.key)
    assert referenced_blobs(events) and referenced_blobs(events).keys() <= await blobs(c)


@watched
async def test_a_fork_of_what_was_removed_meanwhile_is_refused(c: Cluster, client: AsyncClient, store: InterceptedStore) -> None:
    await c.engine(*WORKFLOWS)
    origin = await client.start(making.with_(id="o"), "o")
    await origin.result()
    await settle(DAY_S)

    async def is_removed() -> None:
        assert len(await client.upkeep.prune(DAY_S / 2)) == 1
        assert (await client.upkeep.prune_values()).values == 1

    store.before_post = is_removed
    with pytest.raises(NotFound):
        await fork_execution(StoreAccess(store), origin.key, RerunRequest(key=origin.key._replace(id="f")))
    assert await store.read(origin.key._replace(id="f")) is None


@virtually
async def test_a_fork_keeps_what_it_has_copied(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    origin = await client.start(making.with_(id="o"), "o")
    await origin.result()
    await settle(DAY_S)
    await fork_execution(StoreAccess(c.store), origin.key, RerunRequest(key=origin.key._replace(id="f")))
    assert await (await client.get("f")).result() == large("o")
    await client.upkeep.prune(DAY_S / 2, forget_ids=True)
    assert [head.key.id for head in await c.store.heads()] == ["f"]
    assert (await client.upkeep.prune_values()).values == 0
    assert await (await client.get("f")).result() == large("o")


@pytest.mark.slow
@virtually
async def test_whatever_interrupts_a_sweep_no_archive_lacks_what_it_refers_to(c: Cluster, client: AsyncClient) -> None:
    await turned(c, client, TURNS // 2, value="v")
    removal, calls = c.store.blob_removal, 0
    with pytest.MonkeyPatch.context() as patched:
        remove = removal.remove

        async def interrupted(sweep: str, noted: Any = None, limit: int = 1) -> Any:
            nonlocal calls
            calls += 1
            if calls % 2:
                raise asyncio.CancelledError
            return await remove(sweep, noted, 1)

        patched.setattr(removal, "remove", interrupted)
        for _ in range(100):
            try:
                await client.upkeep.prune_archives("0s")
                break
            except asyncio.CancelledError:
                assert await damage(client) == []
                await client.upkeep.export("t")
    assert calls > 5
    await client.upkeep.prune_archives("0s")
    assert await damage(client) == [] and not (await client.upkeep.prune_values()).values


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_sweeps_at_any_time_remove_nothing_that_is_referred_to(seed: int) -> None:
    @virtually
    async def world(c: Cluster, client: AsyncClient) -> None:
        random = Random(seed)
        await c.engine(*WORKFLOWS)
        await client.start(turning.with_(id="t"), "v")
        looks = c.store.messages

        async def slowly(to: Any) -> Any:
            await asyncio.sleep(random.choice((0, 0.1, DAY_S)))
            return await looks(to)

        async def sweeps() -> None:
            for _ in range(6):
                await asyncio.sleep(random.random() * 20 * DAY_S)
                await client.upkeep.prune_archives(random.choice((0, 60 * DAY_S)))
                await client.upkeep.prune(5 * DAY_S)

        async def works() -> None:
            for number in range(60):
                await asyncio.sleep(random.random() * 4 * DAY_S)
                id = f"m{random.randrange(number + 1)}"
                await client.start(making.with_(id=id), id if random.random() < 0.5 else "shared")
                if random.random() < 0.5:
                    await client.start(joining.with_(id=f"j{number}"), id)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(c.store, "messages", slowly)
            await asyncio.gather(works(), sweeps(), sweeps())
        await settle(10 * DAY_S)
        assert await damage(client) == []
        await client.upkeep.prune_archives("0s")
        assert await damage(client) == []
        needed = {name for head in await c.store.heads() for name in referenced_blobs(await c.events(head.key))}
        assert await blobs(c) <= needed

    world()
