"""Claims about watching: who waits is told at once or soon, thousands cost little more than one, and a store that is away is waited for."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from random import Random
from typing import Any

import pytest

from perdure import Context, ExecutionFailed, NeedsAttention, NotFound, workflow
from perdure.core import values
from perdure.core.errors import StoreUnavailable
from perdure.core.messages import Parent, ResumeMessage, StartMessage
from perdure.core.paths import Key
from perdure.runtime.change_watcher import KEYS_PER_QUERY_MAX, POLL_S, QUICK_S, ChangeWatcher
from perdure.runtime.execution_results import wait_for_result
from perdure.runtime.local_engine import wait_for_end
from perdure.stores.protocol import ALL_HEADS, Head, HeadFilter
from perdure.testing.faults import NO_FAULTS, Faults, FaultyStore
from perdure.testing.virtual_time import run
from tests.runtime.cluster import DOWN_BEFORE, Cluster, cluster, now_s, settle


class CountingFaultyStore(FaultyStore):
    """A store that counts how often it is asked for heads, and for how many."""

    def __init__(self, c: Cluster, faults: Faults = NO_FAULTS) -> None:
        super().__init__(c.store, Random(0), faults)
        self.asked: list[int] = []

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        self.asked.append(len(which.keys or ()))
        return await super().heads(which)


def virtually(test: Callable[[Cluster], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in a cluster, in virtual time."""

    @wraps(test)
    async def inside() -> None:
        async with cluster() as c:
            await test(c)

    def virtual() -> None:
        run(inside, handles_max=2_000_000)

    virtual.__name__, virtual.__doc__ = test.__name__, test.__doc__
    return virtual


@workflow
async def sleeper(ctx: Context, duration_s: float) -> str:
    await ctx.sleep(duration_s)
    return "awake"


@workflow
async def listener(ctx: Context) -> Any:
    return await ctx.listen("go")


@workflow
async def failing(ctx: Context) -> None:
    raise LookupError("no such order")


@workflow(name="changing")
async def changing(ctx: Context) -> str:
    return str(await ctx.listen("go"))


@workflow(name="changing")
async def changed(ctx: Context) -> str:
    return str(await ctx.listen("come"))


def ended(head: Head | None) -> bool:
    return head is not None and head.status == "completed"


@virtually
async def test_an_end_is_told_at_once_whoever_made_it(c: Cluster) -> None:
    first = await c.engine(sleeper)
    second = await c.engine(listener)
    key = await c.post(sleeper, 7.5)
    began_s = now_s()
    assert await wait_for_end(second.engine, key) == await wait_for_end(first.engine, key)
    assert now_s() - began_s < 7.5 + 0.05


@virtually
async def test_an_end_is_seen_within_a_second_when_the_notification_is_lost(c: Cluster) -> None:
    await c.engine(sleeper)
    store = FaultyStore(c.store, Random(0), Faults(lose_notification=1.0))
    key = await c.post(sleeper, 7.5)
    began_s = now_s()
    _ = await ChangeWatcher(store).until(key, ended)
    assert now_s() - began_s <= 7.5 + POLL_S + 0.1


@virtually
async def test_a_change_without_a_notification_is_seen_soon_by_who_follows_closely(c: Cluster) -> None:
    await c.engine(listener)
    watch = ChangeWatcher(c.store)
    key = await c.post(listener)
    await settle(5)
    version = (await c.head(key)).version
    waiting = [asyncio.create_task(watch.until(key, lambda head: head is not None and head.version > version, quick=quick)) for quick in (True, False)]
    await asyncio.sleep(0.35)
    await c.send(key, "something else")
    sent_s = now_s()
    await waiting[0]
    assert now_s() - sent_s <= QUICK_S + 0.01
    await waiting[1]
    assert now_s() - sent_s <= POLL_S + 0.01


class SlowStore(CountingFaultyStore):
    """A store in which each query for heads takes a while."""

    took_s = 0.0

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        await asyncio.sleep(self.took_s)
        return await super().heads(which)


@virtually
async def test_a_notification_right_after_a_short_poll_is_answered_at_once(c: Cluster) -> None:
    store = SlowStore(c)
    watch, key = ChangeWatcher(store), await c.post(listener)
    await c.engine(listener)
    await settle(5)
    store.took_s = 0.001
    waiting = asyncio.create_task(watch.until(key, ended))
    await asyncio.sleep(0.0015)  # the first poll has just been answered
    await c.send(key, "go")
    sent_s = now_s()
    await waiting
    assert now_s() - sent_s < 0.0025


@virtually
async def test_who_waits_for_one_after_the_other_has_each_answer_at_once_however_long_polls_take(c: Cluster) -> None:
    store = SlowStore(c)
    watch, keys = ChangeWatcher(store), [await c.post(listener) for _ in range(20)]
    await c.engine(listener)
    await settle(5)
    store.took_s = 0.1
    for key in keys:
        waiting = asyncio.create_task(watch.until(key, ended))
        await asyncio.sleep(0.15)
        await c.send(key, "go")
        sent_s = now_s()
        await waiting
        assert now_s() - sent_s < 2 * store.took_s


@virtually
async def test_polls_take_a_fifth_of_the_time_however_often_the_store_notifies(c: Cluster) -> None:
    store = SlowStore(c)
    watch, key = ChangeWatcher(store), await c.post(listener)
    store.took_s = 0.001
    waiting = asyncio.create_task(watch.until(key, ended))
    for _ in range(1000):
        await asyncio.sleep(0.001)
        watch.poll_now()
    waiting.cancel()
    assert 150 < len(store.asked) < 220


@pytest.mark.slow
@virtually
async def test_thousands_who_wait_are_served_by_few_questions(c: Cluster) -> None:
    store = CountingFaultyStore(c)
    watch = ChangeWatcher(store)
    await c.engine(listener)
    await c.post_all(listener, [(f"e{number}", ()) for number in range(2000)])
    await asyncio.sleep(60)
    waiting = [asyncio.create_task(watch.until(listener.key(f"e{number}"), ended)) for number in range(2000)]
    await settle()
    assert sum(store.asked) == 2000 and max(store.asked) <= KEYS_PER_QUERY_MAX
    store.asked.clear()
    await asyncio.sleep(10.5 * POLL_S)
    assert len(store.asked) <= 11 * 2000 / KEYS_PER_QUERY_MAX
    store.asked.clear()
    for number in range(2000):
        await c.send(listener.key(f"e{number}"), "go")
    await asyncio.gather(*waiting)
    assert len(store.asked) < 200


@virtually
async def test_each_that_comes_is_looked_at_alone_and_at_once(c: Cluster) -> None:
    store = CountingFaultyStore(c)
    watch = ChangeWatcher(store)
    await c.engine(sleeper)
    done = await c.post(sleeper, 0.0, id="done")
    others = [asyncio.create_task(watch.until(Key("default", "none", str(number)), ended)) for number in range(300)]
    await settle(0.5)
    store.asked.clear()
    began_s = now_s()
    assert ended(await watch.until(done, ended))
    assert now_s() == began_s and store.asked == [1]
    for other in others:
        other.cancel()


@virtually
async def test_who_is_cancelled_is_forgotten_and_an_idle_watch_asks_nothing(c: Cluster) -> None:
    store = CountingFaultyStore(c)
    watch = ChangeWatcher(store)
    waiting = [asyncio.create_task(watch.until(sleeper.key(str(number)), ended)) for number in range(10)]
    await settle(1)
    for one in waiting:
        one.cancel()
    await settle(2)
    store.asked.clear()
    await asyncio.sleep(100)
    assert store.asked == []
    assert await watch.until(sleeper.key("e"), lambda head: head is None) is None
    watch.close()
    assert c.store._news._listeners == []


@virtually
async def test_a_store_that_is_away_is_waited_for(c: Cluster) -> None:
    await c.engine(sleeper)
    store = CountingFaultyStore(c, DOWN_BEFORE)
    watch = ChangeWatcher(store)
    key = await c.post(sleeper, 1.0)
    waiting = asyncio.create_task(watch.until(key, ended))
    await asyncio.sleep(20)
    assert not waiting.done() and len(store.asked) < 20
    store.faults = NO_FAULTS
    assert ended(await asyncio.wait_for(waiting, 6))


@virtually
async def test_a_store_with_a_defect_fails_all_who_wait_and_who_comes_later_asks_again(c: Cluster) -> None:
    class Broken(FaultyStore):
        async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
            raise ZeroDivisionError("planted")

    watch = ChangeWatcher(Broken(c.store, Random(0)))
    for _ in range(2):
        failed = await asyncio.gather(*(watch.until(sleeper.key("e"), ended) for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in failed] == [ZeroDivisionError] * 3


@virtually
async def test_a_watch_that_is_closed_lets_everybody_go(c: Cluster) -> None:
    watch = ChangeWatcher(c.store)
    waiting = [asyncio.create_task(watch.until(sleeper.key(str(number)), ended)) for number in range(3)]
    await settle(0.5)
    watch.close()
    for one in [*waiting, watch.until(sleeper.key("e"), ended)]:
        with pytest.raises(StoreUnavailable, match="the client was closed"):
            await one
    await c.engine(sleeper)
    await c.post(sleeper, 0.0)
    await settle(1)


@virtually
async def test_who_comes_while_the_others_are_looked_at_is_looked_at_next(c: Cluster) -> None:
    class Slow(FaultyStore):
        async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
            found = await super().heads(which)
            await asyncio.sleep(0.01)
            return found

    await c.engine(sleeper)
    key = await c.post(sleeper, 0.0)
    await settle(1)
    watch = ChangeWatcher(Slow(c.store, Random(0)))
    other = asyncio.create_task(watch.until(sleeper.key("never"), ended))
    await settle(0.005)
    began_s = now_s()
    assert ended(await watch.until(key, ended))
    assert now_s() - began_s < 0.1
    other.cancel()


@virtually
async def test_an_engine_reports_the_ends_that_it_commits_though_the_notification_is_lost(c: Cluster) -> None:
    process = await c.engine(sleeper)
    process.store.faults = Faults(lose_notification=1.0)
    assert await c.start(process, sleeper, 7.35)
    began_s = now_s()
    assert await c.result(process, sleeper) == "awake"
    assert now_s() - began_s < 7.35 + 0.05


# Endings.


@virtually
async def test_what_was_before_does_not_count(c: Cluster) -> None:
    await c.engine(failing, changed)
    key = await c.post(failing)
    await settle(1)
    with pytest.raises(ExecutionFailed, match="no such order"):
        await wait_for_result(ChangeWatcher(c.store), c.store, key)
    waiting = asyncio.create_task(wait_for_result(ChangeWatcher(c.store), c.store, key, after=(await c.head(key)).version))
    await asyncio.sleep(30)
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(NotFound):
        await wait_for_result(ChangeWatcher(c.store), c.store, failing.key("nowhere"))


@virtually
async def test_a_message_to_what_is_parked_is_no_news_of_it(c: Cluster) -> None:
    right = await c.engine(changing)
    key = await c.post(changing)
    await settle(1)
    await right.stop()
    wrong = await c.engine(changed)
    await c.send(key, "come")
    with pytest.raises(NeedsAttention, match="diverged"):
        await wait_for_result(ChangeWatcher(c.store), c.store, key)
    parked = (await c.head(key)).version
    waiting = asyncio.create_task(wait_for_result(ChangeWatcher(c.store), c.store, key, after=parked))
    await settle(2)
    for _ in range(3):
        await c.send(key, "go")
    await settle(2)
    assert (await c.head(key)).version == parked + 3 and not waiting.done()
    await wrong.stop()
    await c.engine(changing)
    await c.tell(key, ResumeMessage())
    assert await waiting == values.encode("None", "result")


@virtually
async def test_an_end_is_found_however_much_was_written_behind_it(c: Cluster) -> None:
    await c.engine(sleeper)
    key = await c.post(sleeper, 0.0)
    await settle(1)
    for number in range(300):
        await c.tell(key, StartMessage(parent=Parent(sleeper.key(f"parent {number}"), (("call", 1),))))
        assert number % 100 or await wait_for_result(ChangeWatcher(c.store), c.store, key) == values.encode("awake", "result")
    await settle(1)
    assert len(await c.events(key)) > 300
    assert await wait_for_result(ChangeWatcher(c.store), c.store, key) == values.encode("awake", "result")
