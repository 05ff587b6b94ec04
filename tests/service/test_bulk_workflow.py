"""Claims about bulk executions: each acts on all executions of its filter, once where that matters, and says how far it is."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perdure import Context, Retry, Signal, Workflow, step, workflow
from perdure.core import values
from perdure.core.errors import BadValue, Forbidden, InputDiffers
from perdure.core.operations import BULK_WORKFLOW
from perdure.core.paths import Key
from perdure.operations import on_execution_changes
from perdure.service import bulk_workflow
from perdure.service.bulk_workflow import BULK_CODE, BulkFailure, BulkProgress
from perdure.service.callers import LOCAL, Caller
from perdure.service.queries import ExecutionFilter
from perdure.stores.protocol import ChangeAnswer, Commit, Post
from perdure.sync_client import AsyncClient
from perdure.testing.virtual_time import run
from tests.runtime.cluster import Cluster, ClusterProcess, cluster
from tests.service.cluster_client import virtually

BULK = cast("Workflow[..., Any]", SimpleNamespace(code=BULK_CODE))
JOBS = ExecutionFilter(tenant="default", workflow="job")
go = Signal("go", str)
attempts: list[str] = []


@step(retry=Retry(max=1))
def fails(id: str) -> None:
    attempts.append(id)
    raise ValueError("broken")


@workflow
async def job(ctx: Context, breaks: bool = False) -> str:
    """Waits for a word, or fails."""
    if breaks:
        await ctx.step(fails, ctx.execution.id)
    return await ctx.listen(go)


@workflow
async def family(ctx: Context) -> str:
    """Waits for a child."""
    return await ctx.call(job.with_(id="child"))


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_workflow, "PIECE", 2)
    attempts.clear()


async def begun(c: Cluster, count: int, *args: Any) -> None:
    await c.post_all(job, [(f"j{number}", args) for number in range(count)])
    await asyncio.sleep(1)


async def bulk(client: AsyncClient, action: str, which: ExecutionFilter = JOBS, **given: Any) -> Any:
    """Starts a bulk execution, and returns its handle."""
    access = client._access.on_store("a test")
    started = await on_execution_changes.start_bulk(access, LOCAL, which, cast(Any, action), bulk_id="b", **given)
    assert started.key == Key("default", BULK_WORKFLOW, "b") and started.created
    return await client.get(started.key)


async def progress(client: AsyncClient, action: str, which: ExecutionFilter = JOBS, **given: Any) -> BulkProgress:
    """Performs a bulk execution, and returns its result, which is also what its state shows."""
    handle = await bulk(client, action, which, **given)
    raw = await handle.result()
    found: BulkProgress = values.decode(values.encode(raw, "x"), BulkProgress, "x")
    assert values.decode(values.encode(await handle.query("progress"), "x"), BulkProgress, "x") == found
    return found


async def statuses(client: AsyncClient) -> Counter[str]:
    return Counter([one.status for one in await client.list(workflow="job")])


@virtually
async def test_all_executions_of_a_filter_are_cancelled_and_counted(c: Cluster, client: AsyncClient) -> None:
    await c.engine(job, BULK)
    await begun(c, 5)
    assert await progress(client, "cancel", reason="sold out") == BulkProgress(5, done=5)
    await asyncio.sleep(1)
    assert await statuses(client) == {"cancelled": 5}


@virtually
async def test_what_has_not_begun_is_cancelled_without_an_engine_for_it(c: Cluster, client: AsyncClient) -> None:
    await c.engine(BULK)
    await begun(c, 3)
    assert (await progress(client, "cancel")).done == 3
    assert await statuses(client) == {"cancelled": 3}


@virtually
async def test_pause_resume_send_and_prune(c: Cluster, client: AsyncClient) -> None:
    await c.engine(job, BULK)
    await begun(c, 5)
    for number, (action, given, after) in enumerate(
        [("pause", {}, {"paused": 5}), ("resume", {}, {"waiting": 5}), ("send", {"signal": "go", "body": values.encode("on", "x")}, {"completed": 5})]
    ):
        access = client._access.on_store("a test")
        started = await on_execution_changes.start_bulk(access, LOCAL, JOBS, cast(Any, action), bulk_id=f"b{number}", **cast(Any, given))
        assert started.key is not None
        assert (await (await client.get(started.key)).result())["done"] == 5
        await asyncio.sleep(1)
        assert await statuses(client) == after
    assert (await progress(client, "prune")).done == 5
    assert len(await client.list(workflow="job")) == 5, "their tombstones are kept"


@virtually
async def test_failures_are_counted_listed_and_streamed(c: Cluster, client: AsyncClient) -> None:
    await c.engine(job, BULK)
    await begun(c, 3)
    which = ExecutionFilter(tenant="default", workflow="job", status=("waiting",))
    handle = await bulk(client, "undo", which)
    found = await handle.result()
    assert (found["total"], found["done"], found["failed"], found["left"]) == (3, 0, 3, 0)
    streamed = [values.decode(values.encode(one.value, "x"), BulkFailure, "x") async for one in handle.stream()]
    assert [one.id for one in streamed] == ["j2", "j1", "j0"] and {one.code for one in streamed} == {"bad_value"}
    assert [one["id"] for one in found["failures"]] == ["j2", "j1", "j0"]


@virtually
async def test_roots_are_cancelled_before_others(c: Cluster, client: AsyncClient) -> None:
    await c.post(family)
    await c.engine(job, family)
    await asyncio.sleep(1)
    order: list[str] = []
    commit = c.store.commit

    async def watched(changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        order.extend(str(send.to.id) for one in changes if isinstance(one, Post) for send in one.messages if send.key == "cancel" and isinstance(send.to, Key))
        return await commit(changes)

    c.store.commit = watched  # type: ignore[method-assign]  # which is what is watched
    bulk_engine = await c.engine(BULK)
    assert bulk_engine.engine.known.keys() >= {BULK_WORKFLOW}
    assert (await progress(client, "cancel", ExecutionFilter(tenant="default", workflow=None))).done >= 1
    assert order[0] == "e"


@virtually
async def test_a_bulk_execution_that_is_cancelled_leaves_the_rest(c: Cluster, client: AsyncClient) -> None:
    await begun(c, 60)
    commit, pieces = c.store.commit, 0

    async def watched(changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        nonlocal pieces
        told = sum(isinstance(one, Post) and any(send.key.startswith("pause") for send in one.messages) for one in changes)
        if told:
            pieces += 1
            if pieces == 2:
                await (await client.get(Key("default", BULK_WORKFLOW, "b"))).cancel("enough")
        return await commit(changes)

    c.store.commit = watched  # type: ignore[method-assign]  # which is what is watched
    await c.engine(BULK)
    handle = await bulk(client, "pause", ExecutionFilter(tenant="default", workflow="job", status=("pending",)))
    await asyncio.sleep(10)
    assert (await handle.status()).status == "cancelled" and 2 <= pieces < 30
    assert 2 * (pieces - 1) <= (await handle.query("progress"))["done"] <= 2 * pieces


def test_wherever_an_engine_dies_each_execution_is_retried_once() -> None:
    async def dies_at(number: int) -> bool:
        """Whether the engine of the bulk execution has made so many commits."""
        attempts.clear()
        async with cluster() as c, AsyncClient(c.store) as client:
            await c.engine(job)
            await begun(c, 5, True)
            assert await statuses(client) == {"failed": 5}
            dying = await c.engine(BULK)
            has_died = asyncio.create_task(_die(dying, number))
            handle = await bulk(client, "retry")
            await asyncio.sleep(30)
            died = has_died.done()
            has_died.cancel()
            if died:
                await c.engine(BULK)
            found = await handle.result()
            assert (found["done"], found["failed"], found["left"]) == (5, 0, 0)
            await asyncio.sleep(5)
            assert Counter(attempts) == {f"j{one}": 2 for one in range(5)}, f"died at commit {number}"
            return died

    deaths = 0
    while run(partial(dies_at, deaths + 1), handles_max=1_000_000):
        deaths += 1
    assert deaths >= 8


async def _die(process: ClusterProcess, number: int) -> None:
    """Kills a process as soon as its commit of this number is durable."""
    reached, commit, commits = asyncio.Event(), process.store.commit, 0

    async def counted(changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        nonlocal commits
        answers = await commit(changes)
        commits += 1
        if commits == number:
            reached.set()
            await asyncio.Event().wait()
        return answers

    process.store.commit = counted  # type: ignore[method-assign]  # which is what is counted
    await reached.wait()
    await process.kill()


@virtually
async def test_a_dry_run_counts_and_starts_nothing(c: Cluster, client: AsyncClient) -> None:
    await c.engine(job, BULK)
    await begun(c, 3)
    access = client._access.on_store("a test")
    found = await on_execution_changes.start_bulk(access, LOCAL, JOBS, "cancel", dry_run=True)
    assert found.key is None and found.count is not None
    assert (found.count.total, found.count.statuses, [one.id for one in found.count.newest]) == (3, {"waiting": 3}, ["j2", "j1", "j0"])
    assert await client.list(workflow=BULK_WORKFLOW) == [] and await statuses(client) == {"waiting": 3}


@virtually
async def test_what_is_wrong_is_refused_before_anything_starts(c: Cluster, client: AsyncClient) -> None:
    access = client._access.on_store("a test")
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"action": "explode"}, BadValue, "one of cancel"),
        ({"action": "send"}, BadValue, "the name of a message"),
        ({"action": "cancel", "signal": "go"}, BadValue, "not given with any other"),
        ({"action": "send", "signal": "go", "body": bytes(2_000_000)}, BadValue, "small"),
        ({"action": "cancel", "which": ExecutionFilter(tenant="default", order_by="due")}, BadValue, "begins with the newest"),
        ({"action": "prune", "caller": Caller("default", "key:1", frozenset(("operator",)))}, Forbidden, "admin"),
    ]
    for given, error, text in wrong:
        with pytest.raises(error, match=text):
            await on_execution_changes.start_bulk(access, **{"caller": LOCAL, "which": JOBS, **given})
    assert await client.list(workflow=BULK_WORKFLOW) == []


@virtually
async def test_the_id_of_a_bulk_execution_names_one_order(c: Cluster, client: AsyncClient) -> None:
    recent = client.select(workflow="job", since="1h")
    first = await recent.begin("cancel", "sold out", id="b")
    await asyncio.sleep(5)
    assert first.created and not (await recent.begin("cancel", "sold out", id="b")).created, "an hour ago is another time now"
    for other in (recent.begin("cancel", id="b"), recent.begin("pause", "sold out", id="b"), client.select(workflow="job").begin("cancel", "sold out", id="b")):
        with pytest.raises(InputDiffers, match=r"perdure.bulk/b was started with another order. Use a new id for another order"):
            await other
    await c.engine(BULK)
    await first.result()
    with pytest.raises(InputDiffers):
        await recent.begin("cancel", id="b")
