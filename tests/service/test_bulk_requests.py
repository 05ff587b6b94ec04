"""Claims about bulk requests: many executions are told in one commit, an interruption leaves whole batches, and what has ended is no error."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from perdure import Context, HasEnded, NotFound, Retry, Timeout, step, workflow
from perdure.core.errors import BadValue, StoreUnavailable
from perdure.core.paths import Key
from perdure.service import bulk_requests
from perdure.stores.protocol import ChangeAnswer, Commit, Post
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually


@workflow
async def job(ctx: Context) -> str:
    await ctx.sleep("1h")
    return "done"


@step(retry=Retry(max=1))
def breaks() -> None:
    raise ValueError("broken")


@workflow
async def broken(ctx: Context) -> None:
    await ctx.step(breaks)


@workflow
async def quick(ctx: Context) -> str:
    return "done"


Committing = Callable[[Sequence[Commit | Post]], Awaitable[list[ChangeAnswer]]]


def commits_of(c: Cluster, fail_at: int = 0, before: Callable[[], Awaitable[Any]] | None = None) -> list[list[str]]:
    """The ids in each commit from now on, of which that of number `fail_at` fails; `before` is awaited once, before the first."""
    seen: list[list[str]] = []
    commit: Committing = c.store.commit
    hooks = [before] if before else []

    async def watched(changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        while hooks:
            await hooks.pop()()
        seen.append([_id(change) for change in changes])
        if len(seen) == fail_at:
            raise StoreUnavailable("the store is gone")
        return await commit(changes)

    c.store.commit = watched  # type: ignore[method-assign]  # which is what is watched
    return seen


def _id(change: Commit | Post) -> str:
    key = change.key if isinstance(change, Commit) else change.messages[0].to
    assert isinstance(key, Key)
    return key.id


async def queued(c: Cluster, count: int) -> list[Key]:
    key = await c.post_all(job, [(str(number), ()) for number in range(count)])
    return [key._replace(id=str(number)) for number in range(count)]


async def statuses(client: AsyncClient, workflow: Any = job) -> dict[str, str]:
    return {one.key.id: one.status for one in await client.list(workflow=workflow)}


@virtually
async def test_many_are_told_in_one_commit_parents_before_their_children(c: Cluster, client: AsyncClient) -> None:
    keys = await queued(c, 5)
    seen = commits_of(c)
    result = await client.select(workflow=job).cancel("sold out")
    assert (result.accepted, result.ended, result.failed) == (keys, [], {})
    assert seen == [["0", "1", "2", "3", "4"]]
    assert set((await statuses(client)).values()) == {"cancelled"}


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_batch_has_so_many_and_no_more(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_requests, "BULK_BATCH", 2)

    @virtually
    async def claim(c: Cluster, client: AsyncClient) -> None:
        await queued(c, 5)
        seen = commits_of(c)
        assert len((await getattr(client.select(), verb)()).accepted) == 5
        assert seen == [["0", "1"], ["2", "3"], ["4"]]

    claim()


def test_one_that_dies_between_two_batches_has_told_the_first_and_another_tells_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_requests, "BULK_BATCH", 2)

    @virtually
    async def claim(c: Cluster, client: AsyncClient) -> None:
        keys = await queued(c, 5)
        commits_of(c, fail_at=2)
        with pytest.raises(StoreUnavailable):
            await client.select().cancel()
        assert await statuses(client) == {"0": "cancelled", "1": "cancelled", "2": "pending", "3": "pending", "4": "pending"}
        assert (await client.select().cancel()).accepted == keys[2:]
        assert (await client.select(keys=keys).cancel()).ended == keys
        assert (await client.select().cancel()) == bulk_requests.BulkResult()

    claim()


@virtually
async def test_what_has_ended_is_counted_apart_and_what_can_not_be_told_has_its_error(c: Cluster, client: AsyncClient) -> None:
    await c.engine(job, quick)
    running, ended, nowhere = (await client.start(job)).key, (await client.start(quick)).key, Key("default", "job", "nowhere")
    await settle()
    result = await client.select(keys=[ended, nowhere, running, running]).pause()
    assert (result.accepted, result.ended, list(result.failed)) == ([running], [ended], [nowhere])
    assert isinstance(result.failed[nowhere], NotFound)
    result = await client.select(keys=[ended, running]).undo()
    assert (result.accepted, list(result.failed)) == ([ended], [running])
    with pytest.raises(HasEnded):
        await (await client.get(ended)).pause()


@virtually
async def test_one_that_an_engine_takes_while_it_is_cancelled_is_told_there(c: Cluster, client: AsyncClient) -> None:
    await queued(c, 2)

    async def engine() -> None:
        await c.engine(job)
        await settle()

    seen = commits_of(c, before=engine)
    result = await client.select().cancel(wait=True)
    assert len(result.accepted) == 2
    assert ["0", "1"] in seen
    assert await statuses(client) == {"0": "cancelled", "1": "cancelled"}


@virtually
async def test_who_waits_hears_of_each_what_became_of_it(c: Cluster, client: AsyncClient) -> None:
    await queued(c, 3)
    late = await client.select().pause(wait=True, timeout="1s")
    assert late.accepted == [] and {type(error) for error in late.failed.values()} == {Timeout}
    await c.engine(job, broken)
    await settle()
    assert len((await client.select().resume(wait=True)).accepted) == 3
    failing = await client.start(broken)
    await settle()
    assert (await client.select().retry("again", wait=True)).accepted == [failing.key]
    await settle()
    assert (await client.select().discard(wait=True)).accepted == [failing.key]
    assert (await failing.status()).status == "cancelled"


@virtually
async def test_those_that_were_begun_last_are_retried_first(c: Cluster, client: AsyncClient) -> None:
    await c.engine(broken)
    keys = [(await client.start(broken)).key for _ in range(3)]
    await settle()
    assert (await client.select(status="failed").retry()).accepted == keys[::-1]
    await settle()
    assert (await client.select().requeue()).accepted == keys[::-1]


@virtually
async def test_keys_and_a_filter_are_not_given_together(c: Cluster, client: AsyncClient) -> None:
    with pytest.raises(BadValue):
        client.select(keys=[], workflow="job")
    assert (await client.select(keys=[]).cancel()).accepted == []
