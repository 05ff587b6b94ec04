"""Claims about the changes of a tenant: who watches hears which executions begin, change their status and end, of nothing else, and goes on after a break."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from perdure import Context, Retry, step, workflow
from perdure.core.errors import BadValue, StoreError
from perdure.core.paths import Key
from perdure.operations.on_executions import ExecutionChange
from perdure.service import tenant_changes
from perdure.service.watched_executions import watched_keys, watched_text
from perdure.stores.protocol import HeadFilter
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import DOWN_BEFORE, Cluster
from tests.service.cluster_client import virtually


@step
def quick() -> None:
    """Does nothing."""


@workflow
async def waits(ctx: Context) -> Any:
    return await ctx.listen("go")


@workflow
async def counts(ctx: Context) -> None:
    while True:
        await ctx.listen("go")


@workflow
async def passes(ctx: Context) -> None:
    await ctx.step(quick)


mended: list[str] = []


@step(retry=Retry(max=1))
def broken(id: str) -> None:
    if id not in mended:
        raise ValueError("broken")


@workflow
async def fails(ctx: Context) -> Any:
    await ctx.step(broken, ctx.execution.id)
    return await ctx.listen("go")


@workflow
async def asks(ctx: Context) -> None:
    await ctx.approve("Ship it?")


class Watcher:
    """Somebody who watches, and what they have heard."""

    def __init__(self, changes: AsyncGenerator[ExecutionChange, None]) -> None:
        self.heard: list[ExecutionChange] = []
        self._watching = asyncio.create_task(self._watch(changes))

    async def _watch(self, changes: AsyncGenerator[ExecutionChange, None]) -> None:
        async for one in changes:
            self.heard.append(one)

    @property
    def said(self) -> list[tuple[str, str, str]]:
        """Of each change the id of the execution, what has happened, and its status."""
        return [("", one.type, "") if one.execution is None else (one.execution.key.id, one.type, one.execution.status) for one in self.heard]

    async def end(self) -> None:
        self._watching.cancel()
        _ = await asyncio.gather(self._watching, return_exceptions=True)


async def watching(client: AsyncClient, after: int = 0, **how: Any) -> Watcher:
    found = Watcher(client.changes(after, **how))
    await asyncio.sleep(0.1)
    return found


@virtually
async def test_who_watches_hears_what_begins_changes_and_ends(c: Cluster, client: AsyncClient) -> None:
    await c.engine(waits, passes)
    await c.post(waits, id="before")
    await asyncio.sleep(2)
    watcher = await watching(client)
    await c.post(waits, id="w")
    await asyncio.sleep(3)
    await c.send(waits.key("w"), "go", "on")
    await c.send(waits.key("before"), "go", "on")
    await asyncio.sleep(3)
    assert [one for one in watcher.said if one[0] == "before"] == [("before", "ended", "completed")]
    of_w = [one for one in watcher.said if one[0] == "w"]
    assert of_w[0][1] == "began" and of_w[-1] == ("w", "ended", "completed") and [one[1] for one in of_w].count("began") == 1
    await c.post(passes, id="p")
    await asyncio.sleep(3)
    assert [one[1:] for one in watcher.said if one[0] == "p"][-1] == ("ended", "completed")
    numbers = [one.number for one in watcher.heard]
    assert numbers == sorted(set(numbers))
    await watcher.end()


@virtually
async def test_executions_of_perdure_s_own_and_of_other_tenants_are_not_heard_of(c: Cluster, client: AsyncClient) -> None:
    await c.engine(asks, waits)
    watcher = await watching(client)
    await client.start(waits.with_(id="other", tenant="acme"))
    await c.post(asks, id="a")
    await asyncio.sleep(5)
    assert {one[0] for one in watcher.said} == {"a"}
    assert watcher.said[-1][2] == "waiting_approval"
    await watcher.end()


@virtually
async def test_a_reader_goes_on_behind_its_last_number(c: Cluster, client: AsyncClient) -> None:
    await c.engine(waits)
    first = await watching(client)
    await c.post(waits, id="a")
    await asyncio.sleep(3)
    await first.end()
    last = first.heard[-1].number
    await c.post(waits, id="b")
    await asyncio.sleep(3)
    second = await watching(client, last)
    assert {one[0] for one in second.said} == {"b"}
    await second.end()


@virtually
async def test_a_reader_of_another_process_or_too_late_is_told_to_read_the_lists(c: Cluster, client: AsyncClient) -> None:
    await c.engine(waits)
    for after in (5, 2**60):
        strange = await watching(client, after)
        assert strange.said == [("", "reset", "")]
        await strange.end()
    first = await watching(client)
    await c.post(waits, id="a")
    await asyncio.sleep(3)
    await first.end()
    await asyncio.sleep(tenant_changes.LINGER_S + 5)
    late = await watching(client, first.heard[0].number - 1)
    assert late.said == [("", "reset", "")]
    await late.end()


@virtually
async def test_one_that_is_retried_after_its_end_is_heard_of_again(c: Cluster, client: AsyncClient) -> None:
    await c.engine(fails)
    await c.post(fails, id="a")
    await asyncio.sleep(1)
    watcher = await watching(client)
    mended.append("a")
    await (await client.get(fails.key("a"))).retry("it is mended")
    await asyncio.sleep(tenant_changes.STOCK_S + 3)
    assert watcher.said == [("a", "changed", "waiting")]
    await c.send(fails.key("a"), "go", "on")
    await asyncio.sleep(3)
    assert watcher.said[-1] == ("a", "ended", "completed")
    await watcher.end()


@virtually
async def test_a_store_that_is_down_for_a_while_loses_nothing(c: Cluster, client: AsyncClient) -> None:
    await c.engine(waits)
    watcher = await watching(client)
    await c.outage(DOWN_BEFORE, 5)
    await c.post(waits, id="a")
    await asyncio.sleep(20)
    assert ("a", "began") in [one[:2] for one in watcher.said]
    await watcher.end()


@virtually
async def test_a_tail_that_cannot_begin_says_so(c: Cluster, client: AsyncClient) -> None:
    class Down:
        async def store_time(self) -> None:
            raise StoreError("down")

        def on_change(self, _: object) -> Any:
            return lambda: None

    tail = tenant_changes.TenantTail(Down(), "default", frozenset())  # type: ignore[arg-type]  # it asks for nothing else
    with pytest.raises(StoreError, match="down"):
        _ = [one async for one in tail.read(0, follow=False)]


@virtually
async def test_what_is_kept_is_bounded_and_a_slow_reader_is_told(c: Cluster, client: AsyncClient) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tenant_changes, "KEPT_MAX", 10)
        tail = tenant_changes.TenantTail(c.store, "default", frozenset())
    reading = tail.read(0, follow=True)
    waits_for_news = asyncio.create_task(anext(reading))
    await asyncio.sleep(1)
    await c.post_all(waits, [(f"w{number}", ()) for number in range(50)])
    told = await waits_for_news
    assert told.type == "reset", "the oldest of 50 changes in one look were dropped before it could read them"
    kept = [one async for one in tail.read(told.number - 10, follow=False)]
    assert [one.type for one in kept] == ["began"] * 10 and [one.number for one in kept] == list(range(told.number - 9, told.number + 1))
    assert [one.type async for one in tail.read(told.number - 11, follow=False)] == ["reset"]
    await c.post(waits, id="later")
    goes_on = await anext(reading)
    assert goes_on.head is not None and (goes_on.type, goes_on.head.key.id, goes_on.number) == ("began", "later", told.number + 1)
    await reading.aclose()
    await tail.aclose()


def told_of(watcher: Watcher, id: str) -> list[int]:
    """The versions of an execution that somebody was told."""
    return [one.execution.version for one in watcher.heard if one.execution is not None and one.execution.key.id == id]


@virtually
async def test_of_a_watched_execution_every_growth_of_its_log_is_heard_of(c: Cluster, client: AsyncClient) -> None:
    await c.engine(counts)
    await c.post(counts, id="followed/ä,1")
    await c.post(counts, id="other")
    await asyncio.sleep(2)
    watcher = await watching(client, watch=[counts.key("followed/ä,1")])
    begun = told_of(watcher, "followed/ä,1")
    assert len(begun) == 1, "it is told as it is when the reading begins"
    for number in range(3):
        await c.send(counts.key("followed/ä,1"), "go", number)
        await c.send(counts.key("other"), "go", number)
        await asyncio.sleep(1)
    versions = told_of(watcher, "followed/ä,1")
    assert len(versions) >= 4 and versions == sorted(set(versions)), "and after each message, once"
    assert told_of(watcher, "other") == []
    head = (await c.store.heads(HeadFilter(keys=(counts.key("followed/ä,1"),))))[0]
    assert versions[-1] == head.version
    await watcher.end()


@virtually
async def test_growth_of_a_watched_execution_is_told_at_most_ten_times_a_second(c: Cluster, client: AsyncClient) -> None:
    await c.engine(counts)
    await c.post(counts, id="a")
    await asyncio.sleep(2)
    watcher = await watching(client, watch=[counts.key("a")])
    for number in range(100):
        await c.send(counts.key("a"), "go", number)
        await asyncio.sleep(0.01)
    await asyncio.sleep(1)
    versions = told_of(watcher, "a")
    assert 3 <= len(versions) <= 16
    assert versions[-1] == (await c.store.heads(HeadFilter(keys=(counts.key("a"),))))[0].version, "the last one is never left out"
    await watcher.end()


@virtually
async def test_a_watched_execution_that_has_ended_is_heard_of_at_once_when_it_is_retried(c: Cluster, client: AsyncClient) -> None:
    await c.engine(fails)
    await c.post(fails, id="b")
    await asyncio.sleep(1)
    watcher = await watching(client, watch=[fails.key("b")])
    assert watcher.said == [("b", "changed", "failed")]
    mended.append("b")
    await (await client.get(fails.key("b"))).retry("it is mended")
    await asyncio.sleep(1)
    assert watcher.said[-1] == ("b", "changed", "waiting")
    await watcher.end()


@virtually
async def test_what_a_watcher_is_told_moves_no_number_so_that_it_misses_nothing_after_a_break(c: Cluster, client: AsyncClient) -> None:
    await c.engine(counts)
    await c.post(counts, id="a")
    await asyncio.sleep(2)
    first = await watching(client, watch=[counts.key("a")])
    await c.post(counts, id="b")
    await asyncio.sleep(2)
    await c.send(counts.key("a"), "go", 1)
    await asyncio.sleep(2)
    await first.end()
    last = first.heard[-1]
    assert last.execution is not None and last.execution.key.id == "a" and last.number == max(one.number for one in first.heard)
    await c.post(counts, id="c")
    await c.send(counts.key("a"), "go", 2)
    await asyncio.sleep(2)
    second = await watching(client, last.number, watch=[counts.key("a")])
    assert ("c", "began") in [one[:2] for one in second.said]
    assert told_of(second, "a")[-1] > told_of(first, "a")[-1]
    assert "b" not in [one[0] for one in second.said]
    await second.end()
    without_end = [one async for one in client.changes(last.number, follow=False, watch=[counts.key("a"), counts.key("gone")])]
    assert [one.execution.key.id for one in without_end if one.execution is not None][-1] == "a"


@virtually
async def test_one_that_is_watched_before_it_exists_is_heard_of_when_it_begins(c: Cluster, client: AsyncClient) -> None:
    await c.engine(waits)
    watcher = await watching(client, watch=[waits.key("later")])
    assert watcher.said == []
    await c.post(waits, id="later")
    await asyncio.sleep(3)
    await watcher.end()
    assert {one[:2] for one in watcher.said} == {("later", "began"), ("later", "changed")} and watcher.said[-1][2] == "waiting"


@virtually
async def test_watching_too_many_is_refused(c: Cluster, client: AsyncClient) -> None:
    with pytest.raises(BadValue, match="50 executions at most"):
        _ = [one async for one in client.changes(follow=False, watch=[waits.key(str(number)) for number in range(51)])]


@pytest.mark.parametrize("text", ["", "order", "order/", "/o-1", "a/b/c", "order/%ff", "order/\0"])
def test_a_text_that_names_no_execution_to_watch_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="workflow/id with both parts percent-encoded"):
        _ = watched_keys("default", [text])


def test_a_key_of_any_characters_can_be_watched() -> None:
    key = Key("acme", "order,refund", "2026/11/ä%~1")
    assert watched_keys("acme", [watched_text(key), watched_text(key)]) == (key,)
