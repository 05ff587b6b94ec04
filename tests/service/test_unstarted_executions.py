"""Claims about executions that have not begun: withdrawn at once, replaced by a later start, one at a time, too late to begin."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import ChildFailed, Context, ExecutionCancelled, HasEnded, step, workflow
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.stores.protocol import ChangeAnswer, Commit, Post
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

did: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    did.clear()


@step
async def note(what: Any, takes_s: float = 0.0) -> None:
    await asyncio.sleep(takes_s)
    did.append(what)


@workflow
async def notes(ctx: Context, what: Any, takes_s: float = 0.0) -> Any:
    await ctx.step(note, what, takes_s)
    return what


@pytest.mark.slow
@virtually
async def test_what_has_not_begun_is_cancelled_at_once_without_an_engine(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(notes.with_(id="e", delay="1h"), "a")
    await handle.send("hello", 1)
    await handle.cancel("changed my mind")
    status = await handle.status()
    assert (status.status, await c.messages(handle.key)) == ("cancelled", 0) and "changed my mind" in status.why
    with pytest.raises(HasEnded):
        await handle.send("hello", 2)
    await handle.cancel("again")
    await c.engine(notes)
    await asyncio.sleep(7200)
    with pytest.raises(ExecutionCancelled, match="changed my mind"):
        await handle.result()
    assert did == [] and not (await client.start(notes.with_(id="e"), "b")).created


@virtually
async def test_who_waits_for_what_is_withdrawn_is_told(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        try:
            await ctx.call(unknown.with_(id="child"), "x")
        except ChildFailed as failed:
            return failed.kind
        return ""

    @workflow
    async def unknown(ctx: Context, what: str) -> None:
        """A workflow that no running engine knows."""

    await c.engine(parent)
    handle = await client.start(parent)
    await settle(1.0)
    child = await client.get(Key("default", "unknown", "child"))
    await child.terminate("nobody runs it")
    assert await handle.result() == "cancelled" and (await child.status()).status == "cancelled"


@pytest.mark.slow
@virtually
async def test_an_engine_that_begins_and_a_client_that_withdraws_never_both_do(c: Cluster, client: AsyncClient) -> None:
    await c.engine(notes)
    handles = [await client.start(notes.with_(id=str(number), delay=1.0), number, 1.0) for number in range(30)]
    await asyncio.sleep(0.9997)
    await asyncio.gather(*(handle.cancel("race") for handle in handles))
    await settle(5.0)
    for number, handle in enumerate(handles):
        assert (await handle.status()).status == "cancelled" and number not in did


@virtually
async def test_a_start_and_what_it_replaces_are_one_change_so_that_a_client_that_dies_leaves_one_of_them(c: Cluster, client: AsyncClient) -> None:
    first = await client.start(notes.with_(id="row", debounce="5s"), 0)
    commit, changes = c.store.commit, list[int]()

    async def counted(wanted: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        changes.append(len(wanted))
        return await commit(wanted)

    c.store.commit = counted  # type: ignore[assignment,method-assign]  # watched
    second = await client.start(notes.with_(id="row", debounce="5s"), 1)
    assert [(await handle.status()).status for handle in (first, second)] == ["cancelled", "pending"] and changes == [2]


@virtually
async def test_a_start_that_has_not_begun_is_replaced_by_the_next_of_its_row(c: Cluster, client: AsyncClient) -> None:
    await c.engine(notes)
    handles = []
    for number in range(4):
        handles.append(await client.start(notes.with_(id="row", debounce="5s"), number))
        await asyncio.sleep(3.0)
    assert did == [] and [handle.id for handle in handles] == ["row@1", "row@2", "row@3", "row@4"]
    assert await handles[-1].result() == 3 and did == [3]
    for handle in handles[:-1]:
        with pytest.raises(ExecutionCancelled, match="superseded by row@"):
            await handle.result()
    again = await client.start(notes.with_(id="row", debounce="5s"), "later")
    assert again.id == "row@5" and await again.result() == "later"


@pytest.mark.slow
@virtually
async def test_a_start_while_one_of_the_row_runs_begins_after_it(c: Cluster, client: AsyncClient) -> None:
    await c.engine(notes)
    first = await client.start(notes.with_(id="row", debounce="1s"), "first", 60.0)
    await asyncio.sleep(10)
    second = await client.start(notes.with_(id="row", debounce="1s"), "second")
    assert await second.result() == "second" and await first.result() == "first"


@virtually
async def test_of_starts_at_once_in_a_row_the_last_one_runs_and_no_two_do(c: Cluster, client: AsyncClient) -> None:
    await c.engine(notes)
    handles = await asyncio.gather(*(client.start(notes.with_(id="row", debounce="5s"), number) for number in range(8)))
    assert sorted(handle.id for handle in handles) == [f"row@{number}" for number in range(1, 9)]
    await asyncio.sleep(30)
    assert len(did) == 1 and (await handles[did[0]].status()).status == "completed" and handles[did[0]].id == "row@8"


@virtually
async def test_of_a_singleton_one_goes_on_at_a_time(c: Cluster, client: AsyncClient) -> None:
    await c.engine(notes)
    handles = await asyncio.gather(*(client.start(notes.with_(id="one", singleton=True), number, 10.0) for number in range(5)))
    assert {handle.id for handle in handles} == {"one@1"} and [handle.created for handle in handles].count(True) == 1
    result = await handles[0].result()
    assert did == [result]
    again = await client.start(notes.with_(id="one", singleton=True), "again")
    assert (again.id, again.created) == ("one@2", True) and await again.result() == "again"
    whole = await client.start(notes.with_(singleton=True), "whole")
    assert whole.id == "notes@1"


@virtually
async def test_a_start_whose_time_to_begin_is_over_does_not_begin(c: Cluster, client: AsyncClient) -> None:
    soon = await client.start(notes.with_(ttl="1m"), "soon")
    late = await client.start(notes.with_(ttl="10s", delay="5s"), "late")
    await asyncio.sleep(30)
    await c.engine(notes)
    assert await soon.result() == "soon"
    with pytest.raises(ExecutionCancelled, match="it did not begin before it expired"):
        await late.result()
    assert did == ["soon"]


@virtually
async def test_options_that_contradict_each_other_are_refused(c: Cluster, client: AsyncClient) -> None:
    wrong: list[dict[str, Any]] = [
        {"debounce": "1s", "singleton": True},
        {"debounce": "1s", "strict": True},
        {"singleton": True, "strict": True},
        {"lane": "a"},
        {"priority": 1},
        {"queue": "q", "priority": "high"},
        {"ttl": "never"},
    ]
    for options in wrong:
        with pytest.raises(BadValue):
            await client.start(notes.with_(id="x", **options), "x")
    assert await client.list() == []
