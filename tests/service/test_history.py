"""Claims about following: streams and events come as they happen, once, can be resumed, and survive compaction as far as they can."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from perdure import Context, Workflow, step, workflow
from perdure.core import log_format, views
from perdure.core.errors import BadValue
from perdure.core.events import Event, SnapshotEvent
from perdure.core.execution import Execution
from perdure.core.paths import Key
from perdure.core.replay import fold_events
from perdure.service.execution_folds import CACHED_EVENTS_MAX, CACHED_FOLDS_MAX, FoldCache, LogTail
from perdure.service.history import stream_history
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import StoredLog
from perdure.sync_client import AsyncClient, AsyncHandle, EmittedValue
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually


@step
async def nothing(takes_s: float = 0.0) -> None:
    await asyncio.sleep(takes_s)


@workflow
async def emitting(ctx: Context, count: int, every_s: float) -> str:
    for number in range(1, count + 1):
        await ctx.sleep(every_s)
        ctx.emit(f"value {number}")
    return "done"


async def turning(ctx: Context, turns: int, waits_at: int = 0, takes_s: float = 0.0) -> None:
    ctx.emit("first")
    async for turn in ctx.loop("turns", state=1, commit_every=1, keep=5):
        turn.emit(turn.state)
        await turn.step(nothing, takes_s)
        if turn.state == waits_at:
            await turn.listen("go")
        if turn.state == turns:
            break
        turn.state = turn.state + 1
    ctx.emit("last")


archiving = workflow(name="archiving", archive=True)(turning)
forgetting = workflow(name="forgetting")(turning)


async def taken(handle: AsyncHandle[Any], **options: Any) -> list[EmittedValue]:
    return [one async for one in handle.stream(**options)]


def numbered(items: list[EmittedValue]) -> list[tuple[int, Any]]:
    return [(one.number, one.value) for one in items]


# Streams.


@virtually
async def test_a_stream_is_followed_as_it_comes_and_ends_with_the_execution(c: Cluster, client: AsyncClient) -> None:
    await c.engine(emitting)
    handle = await client.start(emitting, 3, 10.0)
    seen = list[tuple[int, Any, bool]]()
    async for one in handle.stream():
        seen.append((one.number, one.value, (await handle.status()).status == "completed"))
    assert [(number, value) for number, value, _ in seen] == [(1, "value 1"), (2, "value 2"), (3, "value 3")]
    assert [ended for _, _, ended in seen[:2]] == [False, False]
    assert numbered(await taken(handle)) == [(number, value) for number, value, _ in seen]


@virtually
async def test_a_stream_that_is_not_followed_has_what_is_there(c: Cluster, client: AsyncClient) -> None:
    await c.engine(emitting)
    handle = await client.start(emitting, 3, 10.0)
    assert await taken(handle, follow=False) == []
    await asyncio.sleep(25)
    assert await taken(handle, follow=False) == [EmittedValue(1, "value 1"), EmittedValue(2, "value 2")]


@virtually
async def test_a_stream_is_resumed_behind_a_number(c: Cluster, client: AsyncClient) -> None:
    await c.engine(emitting)
    handle = await client.start(emitting, 5, 10.0)
    async with aclosing(handle.stream()) as stream:
        first = await anext(stream)
    assert numbered(await taken(handle, after=first.number)) == [(number, f"value {number}") for number in range(2, 6)]
    assert await taken(handle, after=5) == await taken(handle, after=99) == []


@pytest.mark.slow
@virtually
async def test_a_stream_can_be_followed_from_before_the_execution_begins_and_through_a_pause(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(emitting, 3, 10.0)
    following = asyncio.create_task(taken(handle))
    await settle(5)
    await c.engine(emitting)
    await asyncio.sleep(15)
    await handle.pause(wait=True)
    await asyncio.sleep(50)
    await handle.resume()
    assert numbered(await following) == [(1, "value 1"), (2, "value 2"), (3, "value 3")]


@pytest.mark.slow
@virtually
async def test_large_values_and_many_followers_are_served(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def bulky(ctx: Context) -> None:
        for _ in range(3):
            ctx.emit("x" * 100_000)
            await ctx.step(nothing, 1.0)

    await c.engine(bulky)
    handle = await client.start(bulky)
    streams = await asyncio.gather(*(taken(handle) for _ in range(50)))
    assert all(numbered(stream) == [(1, "x" * 100_000), (2, "x" * 100_000), (3, "x" * 100_000)] for stream in streams)


@pytest.mark.parametrize("after", [-1, "1", 1.5, None, True])
def test_a_number_that_is_none_is_refused(after: Any) -> None:
    @virtually
    async def world(c: Cluster, client: AsyncClient) -> None:
        handle = await client.start(emitting, 1, 1.0)
        with pytest.raises(BadValue):
            handle.stream(after)
        with pytest.raises(BadValue):
            handle.events(after)

    world()


# Compaction.


async def compacted(c: Cluster, client: AsyncClient, of: Workflow[..., None]) -> AsyncHandle[None]:
    await c.engine(of)
    handle = await client.start(of, 100, 100)
    await settle(5)
    assert any(isinstance(event, SnapshotEvent) for event in await c.events(handle.key)), "it was to be compacted"
    return handle


@pytest.mark.slow
@virtually
async def test_a_follower_that_is_there_from_the_beginning_misses_nothing_whatever_is_compacted(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(archiving, 100, 0)
    following, watching = asyncio.create_task(taken(handle)), asyncio.create_task(happened(handle, follow=True))
    await settle()
    await c.engine(archiving)
    await handle.result()
    assert any(isinstance(event, SnapshotEvent) for event in await c.events(handle.key)), "it was to be compacted"
    values = ["first", *range(1, 101), "last"]
    stream = await following
    assert numbered(stream) == list(enumerate(values, 1))
    assert [one.dropped for one in stream] == [0] * 102
    events = await watching
    assert [event[1] for event in events].count("step.completed") == 100
    assert [number for number, _, _ in events] == sorted(number for number, _, _ in events)


@pytest.mark.slow
@pytest.mark.parametrize("of", [archiving, forgetting])
def test_who_comes_after_a_compaction_is_told_how_much_is_missing_and_misses_nothing_that_is_left(of: Workflow[..., None]) -> None:
    @virtually
    async def world(c: Cluster, client: AsyncClient) -> None:
        handle = await compacted(c, client, of)
        there = await taken(handle, follow=False)
        emitted = (await handle.status()).emitted
        assert emitted == 101
        assert there[0].value == "first" and there[0].dropped > 50
        assert [one.value for one in there[1:]] == list(range(there[1].value, 101))
        assert there[0].dropped + sum(one.dropped for one in there[1:]) + len(there) == emitted == there[-1].number
        for seen in (there[3].number, there[-1].number):
            assert await taken(handle, after=seen, follow=False) == [one for one in there if one.number > seen]
        following = asyncio.create_task(taken(handle, after=emitted))
        await settle()
        await handle.send("go")
        assert numbered(await following) == [(102, "last")]

    world()


@pytest.mark.slow
@virtually
async def test_a_fold_that_is_kept_goes_on_through_a_compaction(c: Cluster, client: AsyncClient) -> None:
    handles = [await client.start(of, 100, 50) for of in (archiving, forgetting)]
    await c.engine(archiving, forgetting)
    await settle(5)
    for handle in handles:
        assert (await handle.status()).emitted == 51
        await handle.send("go")
        await handle.result()
        status = await handle.status()
        known = views.execution_summary(fold_events(handle.key, await c.events(handle.key)))
        assert (status.status, status.version, status.settled, status.emitted) == ("completed", known.version, known.settled, 102)


# Events.


async def happened(handle: AsyncHandle[Any], **options: Any) -> list[tuple[int, str, str]]:
    return [(event.id, event.type, event.subject) async for event in handle.events(**options)]


@virtually
async def test_events_are_those_of_the_log_followed_or_read_at_the_end(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def short(ctx: Context) -> None:
        await ctx.step(nothing, 5.0)
        await ctx.listen("go")

    handle = await client.start(short)
    assert await happened(handle) == []
    following = asyncio.create_task(happened(handle, follow=True))
    await c.engine(short)
    await asyncio.sleep(10)
    await handle.send("go")
    await handle.result()
    read = await happened(handle)
    assert await following == read
    assert [type for _, type, _ in read] == [
        "execution.created",
        "execution.started",
        "step.started",
        "step.completed",
        "execution.waiting",
        "message.received",
        "execution.completed",
    ]
    found = await c.store.read(handle.key)
    assert found is not None
    known = views.public_history(handle.key, [log_format.decode_row(row) for row in found.payloads])
    assert read == [(event.id, event.type, event.subject) for event in known]


@virtually
async def test_events_are_resumed_behind_an_id(c: Cluster, client: AsyncClient) -> None:
    await c.engine(emitting)
    handle = await client.start(emitting, 3, 1.0)
    await handle.result()
    read = await happened(handle)
    for id in sorted({id for id, _, _ in read}):
        assert await happened(handle, after=id) == [event for event in read if event[0] > id]


@virtually
async def test_the_pages_of_a_history_fold_its_log_once(c: Cluster, client: AsyncClient) -> None:
    await c.engine(emitting)
    handle = await client.start(emitting, 40, 1.0)
    await handle.result()
    whole = await happened(handle)
    access, read, folded, apply = StoreAccess(c.store), list[tuple[int, str, str]](), list[Event](), Execution.apply

    def counted(self: Execution, event: Event) -> None:
        folded.append(event)
        apply(self, event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Execution, "apply", counted)
        while page := await some_events(access, handle.key, read[-1][0] if read else 0):
            read += page
    assert read == whole and len(folded) == len(await c.events(handle.key))
    assert [event.id async for event in stream_history(access, handle.key, 2, follow=False)] == [id for id, _, _ in whole if id > 2]


async def some_events(access: StoreAccess, key: Key, after: int) -> list[tuple[int, str, str]]:
    """The next three events, and those that have the id of the last of them."""
    found: list[tuple[int, str, str]] = []
    async with aclosing(stream_history(access, key, after, follow=False)) as events:
        async for event in events:
            if len(found) >= 3 and event.id != found[-1][0]:
                break
            found.append((event.id, event.type, event.subject))
    return found


@pytest.mark.slow
@virtually
async def test_ids_after_a_compaction_are_never_lower_than_the_true_ones_nor_seen_twice_by_who_follows(c: Cluster, client: AsyncClient) -> None:
    handles = [await client.start(of, 100, 100) for of in (archiving, forgetting)]
    following = [asyncio.create_task(happened(handle, follow=True)) for handle in handles]
    await settle()
    await c.engine(archiving, forgetting)
    await settle(5)
    later = await happened(handles[0])
    for handle in handles:
        await handle.send("go")
    true, forgetful = [await one for one in following]
    ids = {event[1:]: event[0] for event in true if event[1].startswith("step.")}
    assert len(ids) == 200 > len([event for event in later if event[1:] in ids]) > 5
    assert all(event[0] >= ids[event[1:]] for event in later if event[1:] in ids)
    assert [id for id, _, _ in forgetful] == sorted(id for id, _, _ in forgetful)


@pytest.mark.slow
@virtually
async def test_who_follows_sees_nothing_twice_though_the_log_is_compacted_without_an_archive(c: Cluster, client: AsyncClient) -> None:
    await c.engine(forgetting)
    handle = await client.start(forgetting, 100, 0, 0.04)
    events, stream = await asyncio.gather(happened(handle, follow=True), taken(handle))
    assert any(isinstance(event, SnapshotEvent) for event in await c.events(handle.key)), "it was to be compacted"
    completed = [subject for _, type, subject in events if type == "step.completed"]
    assert len(completed) == len(set(completed)) > 90
    assert stream[0].value == "first" and len(stream) == len({one.number for one in stream}) > 90


@virtually
async def test_a_tail_that_is_read_closely_has_every_event_ever_written(c: Cluster, client: AsyncClient) -> None:
    handle = await compacted(c, client, archiving)
    await handle.send("go")
    await handle.result()
    version = (await c.head(handle.key)).version
    tail = LogTail(c.store, handle.key, read_archives=True)
    rows = list[Sequence[Event]]()
    while (row := await tail.next()) is not None:
        rows.append(row)
    assert sum(len(row) for row in rows) == tail.version == version
    assert not any(isinstance(event, SnapshotEvent) for row in rows for event in row)
    assert fold_events(handle.key, [event for row in rows for event in row]).emitted == 102
    for first in (1, 2, 50, 150, len(rows) - 1, len(rows)):
        tail = LogTail(c.store, handle.key, sum(len(row) for row in rows[:first]), read_archives=True)
        following = list[Sequence[Event]]()
        while (row := await tail.next()) is not None:
            following.append(row)
        assert following == rows[first:]


@pytest.mark.slow
@pytest.mark.parametrize("of", [archiving, forgetting])
def test_events_of_a_compacted_log_go_as_far_as_the_log_and_their_ids_as_far_as_its_version(of: Workflow[..., None]) -> None:
    @virtually
    async def world(c: Cluster, client: AsyncClient) -> None:
        handle = await compacted(c, client, of)
        read = await happened(handle)
        ids = [id for id, _, _ in read]
        assert ids == sorted(ids) and ids[-1] == (await handle.status()).version
        assert [type for _, type, _ in read][:2] == ["execution.created", "execution.started"]
        assert await happened(handle, after=ids[-1]) == []
        await handle.send("go")
        await handle.result()
        assert [type for _, type, _ in await happened(handle, after=ids[-1])] == ["message.received", "execution.completed"]

    world()


@pytest.mark.slow
@virtually
async def test_a_long_log_is_folded_with_turns_for_others_in_between(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def long(ctx: Context) -> None:
        for _ in range(2):
            for number in range(5_000):
                ctx.emit(number)
            await ctx.listen("go")

    await c.engine(long)
    handle = await client.start(long)
    await handle.send("go")
    await settle(1)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    assert (await handle.status()).emitted == 10_000
    counting.cancel()
    assert turns >= 20
    async with AsyncClient(c.store) as other:
        again = await other.get(handle.key)
        for _ in range(3):
            asking = asyncio.create_task(again.status())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert (await again.status()).emitted == 10_000, "who was interrupted begins anew"
        assert len(await again.steps()) == 10_002


@virtually
async def test_an_execution_that_was_folded_before_is_read_from_there_on_by_whoever_asks_again(c: Cluster, client: AsyncClient) -> None:
    await c.engine(emitting)
    handle = await client.start(emitting, 3, 0.1)
    await handle.result()
    reads: list[int] = []
    read = c.store.read

    async def counted(key: Key, after: int = 0) -> StoredLog | None:
        found = await read(key, after)
        reads.append(0 if found is None else len(found.payloads))
        return found

    c.store.read = counted  # type: ignore[method-assign]  # what is read of the store is counted
    for _ in range(5):
        assert (await (await client.get(handle.key)).status()).status == "completed"
    assert sum(map(bool, reads)) == 1, "the log was read once, and then only whether there is more"


@pytest.mark.slow
def test_folds_are_kept_within_a_bound() -> None:
    folds = FoldCache(MemoryStore())
    first = folds.of(Key("t", "w", "0"))
    assert folds.of(first.key) is first
    first.execution.logged_events = CACHED_EVENTS_MAX + 1
    assert folds.of(Key("t", "w", "1")) is not first and folds.of(first.key) is not first
    kept = [folds.of(Key("t", "w", str(number))) for number in range(CACHED_FOLDS_MAX + 10)]
    assert folds.of(kept[-1].key) is kept[-1] and folds.of(kept[0].key) is not kept[0]


@virtually
async def test_who_has_the_key_of_one_that_was_forgotten_is_another(c: Cluster, client: AsyncClient) -> None:
    await c.engine(emitting)
    seen = list[tuple[int, float, int]]()
    for count in (9, 1):
        handle = await client.start(emitting.with_(id="again"), count, 0.1)
        await handle.result()
        began_s, *_ = [event.time_s async for event in handle.events()]
        seen.append(((await handle.status()).emitted, began_s, len([one async for one in handle.stream()])))
        await settle()
        assert len(await client.upkeep.prune("0s", forget_ids=True)) == 1
    (first, first_s, first_values), (second, second_s, second_values) = seen
    assert (first, first_values, second, second_values) == (9, 9, 1, 1) and second_s > first_s
