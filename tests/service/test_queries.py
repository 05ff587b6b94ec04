"""Claims about what people ask: lists, finding one by little, how it stands and why it waits, who works here."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import Ambiguous, Context, ExecutionFailed, NotFound, Retry, Signal, step, workflow
from perdure.core.errors import BadName, BadValue
from perdure.core.paths import Key
from perdure.runtime.registrations import BUILT_IN_WORKFLOWS
from perdure.service.store_access import HEADS_PER_PAGE
from perdure.sync_client import AsyncClient, ListedExecution
from tests.runtime.cluster import Cluster, now_s, settle
from tests.service.cluster_client import virtually

LEASE_S = 15.0


@step
async def work(takes_s: float) -> float:
    await asyncio.sleep(takes_s)
    return takes_s


@step(retry=Retry(max=1))
def fail() -> None:
    raise ValueError("no such thing")


@workflow
async def one(ctx: Context, takes_s: float = 0.0) -> float:
    return await ctx.step(work, takes_s)


@workflow
async def other(ctx: Context) -> None:
    await ctx.listen(Signal("go"))


@workflow
async def failing(ctx: Context) -> None:
    await ctx.step(fail)


@workflow(version=2)
async def order(ctx: Context) -> None:
    await ctx.listen("go", timeout="1h", default=None)


def ids(listed: list[ListedExecution]) -> list[str]:
    return [one.key.id for one in listed]


# Lists.


@virtually
async def test_a_list_is_newest_first_and_goes_on_behind_its_last(c: Cluster, client: AsyncClient) -> None:
    for number in range(7):
        await client.start(one.with_(id=f"e{number}"))
        await asyncio.sleep(1)
    pages, last = list[list[str]](), None
    while page := await client.list(limit=3, after=last):
        pages.append(ids(page))
        last = page[-1]
    assert pages == [["e6", "e5", "e4"], ["e3", "e2", "e1"], ["e0"]]


@virtually
async def test_a_list_has_what_fits_all_that_is_asked_for(c: Cluster, client: AsyncClient) -> None:
    await c.engine(one, other, failing)
    for name, id in [("one", "a1"), ("failing", "a2"), ("other", "a3"), ("one", "b1")]:
        await client.start(client.workflow(name).with_(id=id))
    await asyncio.sleep(5)
    await client.start(one.with_(id="c1"))
    await settle(0.1)
    assert ids(await client.list()) == ["c1", "b1", "a3", "a2", "a1"]
    assert ids(await client.list(workflow=one)) == ids(await client.list(workflow="one")) == ["c1", "b1", "a1"]
    assert ids(await client.list(status="completed")) == ["c1", "b1", "a1"]
    assert ids(await client.list(status=["failed", "waiting"])) == ["a3", "a2"]
    assert ids(await client.list(id_prefix="a", workflow="one")) == ["a1"]
    assert ids(await client.list(since="3s")) == ["c1"]
    assert ids(await client.list(since=timedelta(seconds=3))) == ["c1"]
    assert ids(await client.list(since=datetime.fromtimestamp(now_s() - 3, UTC))) == ["c1"]
    assert await client.list(workflow="unknown") == await client.list(tenant="other") == []
    (last, *_) = await client.list()
    assert (last.status, last.workflow_version, last.holder, last.due_at_s) == ("completed", 1, None, None)
    assert last.ended_at_s is not None and last.created_at_s <= last.ended_at_s


@virtually
async def test_a_list_of_what_makes_no_sense_is_refused(c: Cluster, client: AsyncClient) -> None:
    bad: list[dict[str, Any]] = [
        {"status": "done"},
        {"status": ["completed", "x"]},
        {"since": -1},
        {"since": datetime(2020, 1, 1)},  # noqa: DTZ001  # it is wrong on purpose
        {"limit": 0},
        {"limit": "5"},
        {"after": "e1"},
        {"descending": True},
        {"id_prefix": 5},
    ]
    for options in bad:
        with pytest.raises(BadValue):
            await client.list(**options)
    with pytest.raises(BadName):
        await client.list(workflow="")


# Finding.


@virtually
async def test_an_execution_is_found_by_its_id_its_workflow_and_id_or_an_unambiguous_beginning(c: Cluster, client: AsyncClient) -> None:
    for id in ("alpha", "beta-1", "beta-2", "beta"):
        await client.start(one.with_(id=id))
    await client.start(other.with_(id="alpine"))
    found = {
        "alpha": one.key("alpha"),
        "alph": one.key("alpha"),
        "alpi": other.key("alpine"),
        "beta": one.key("beta"),
        "beta-1": one.key("beta-1"),
        "one/alpha": one.key("alpha"),
        "one/al": one.key("alpha"),
        "other/a": other.key("alpine"),
        "default/other/alpine": other.key("alpine"),
        "@latest": other.key("alpine"),
    }
    for text, key in found.items():
        assert await client.find(text) == key, text


@virtually
async def test_what_fits_several_is_refused_with_the_candidates(c: Cluster, client: AsyncClient) -> None:
    for number in range(9):
        await client.start(one.with_(id=f"e{number}"))
    await client.start(other.with_(id="e1"))
    with pytest.raises(Ambiguous, match=r"'e1' matches several executions: default/other/e1, default/one/e1. Name one") as refused:
        await client.find("e1")
    assert refused.value.candidates == (other.key("e1"), one.key("e1"))
    with pytest.raises(Ambiguous, match="default/other/e1, default/one/e8, default/one/e7, default/one/e6, default/one/e5 and more"):
        await client.find("e")
    with pytest.raises(Ambiguous):
        await client.get("e1")
    assert (await client.get("e1", other)).key == other.key("e1")
    assert (await client.get(one.key("e1"))).key == one.key("e1")


@virtually
async def test_what_fits_none_is_not_found(c: Cluster, client: AsyncClient) -> None:
    for text in ("@latest", "@failed", "e"):
        with pytest.raises(NotFound):
            await client.find(text)
    await client.start(one.with_(id="e1"))
    for text in ("@failed", "e2", "e1x", "one/e2", "other/e1", "/", "one/", "/e1", "E1", "default/one/e2", "other/one/e1"):
        with pytest.raises(NotFound, match="there is no execution"):
            await client.find(text)
    for bad in ("", None, 5, "\ud800"):
        with pytest.raises(BadValue):
            await client.find(bad)  # type: ignore[arg-type]  # it is wrong on purpose
    with pytest.raises(NotFound):
        await client.find("e1", tenant="other")


@virtually
async def test_an_id_that_looks_like_a_workflow_and_an_id_can_be_told_apart(c: Cluster, client: AsyncClient) -> None:
    await client.start(one.with_(id="other/e1"))
    assert await client.find("other/e1") == one.key("other/e1")
    await client.start(other.with_(id="e1"))
    with pytest.raises(Ambiguous) as refused:
        await client.find("other/e1")
    assert set(refused.value.candidates) == {one.key("other/e1"), other.key("e1")}
    for candidate in refused.value.candidates:
        assert await client.find(str(candidate)) == candidate
    assert await client.find("one/other%2Fe1") == await client.find("one/other/e1") == one.key("other/e1")


@pytest.mark.slow
@virtually
async def test_an_id_is_found_among_very_many_that_begin_with_it(c: Cluster, client: AsyncClient) -> None:
    await client.start(one.with_(id="1"))
    await c.post_all(one, [(f"1{number}", ()) for number in range(2 * HEADS_PER_PAGE)])
    assert await client.find("1") == one.key("1")
    assert (await client.get("1")).key == one.key("1")


@virtually
async def test_the_latest_that_failed_is_found(c: Cluster, client: AsyncClient) -> None:
    await c.engine(one, failing)
    for name, id in [("failing", "f1"), ("failing", "f2"), ("one", "o1")]:
        await client.start(client.workflow(name).with_(id=id))
    await settle(1)
    assert await client.find("@failed") == failing.key("f2")
    assert await client.find("@latest") == one.key("o1")
    with pytest.raises(ExecutionFailed, match="no such thing"):
        await (await client.get("f2")).result()


@virtually
async def test_what_is_got_must_exist_and_be_of_its_workflow(c: Cluster, client: AsyncClient) -> None:
    await client.start(one.with_(id="e1"))
    assert not (await client.get("e1", one)).created
    unknown: list[tuple[str | Key, str | None]] = [("e2", None), ("e1", "other"), ("e1", "unknown"), (one.key("e2"), None)]
    for id, name in unknown:
        with pytest.raises(NotFound):
            await client.get(id, name)
    with pytest.raises(BadValue, match="one of the workflow other"):
        await client.get(one.key("e1"), other)
    for bad in ("", 5, None):
        with pytest.raises(BadName):
            await client.get(bad)  # type: ignore[arg-type]  # it is wrong on purpose


# How one stands.


@virtually
async def test_a_summary_is_what_a_list_says_and_needs_no_log(c: Cluster, client: AsyncClient) -> None:
    await c.engine(order)
    handle = await client.start(order.with_(attributes={"customer": "c1"}))
    await settle()

    async def unread(key: Key, after: int = 0) -> None:
        raise AssertionError("the log was read")

    c.store.read = unread  # type: ignore[method-assign]  # it is the store that the client has
    found = await handle.summary()
    assert [found] == await client.list()
    assert (found.status, found.workflow_version, found.attributes) == ("waiting", 2, {"customer": "c1"})


@virtually
async def test_a_status_says_how_it_stands_through_its_life(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(one.with_(id="k"), 10.0)
    before = await handle.status()
    assert (before.status, before.version, before.started_at_s, before.workflow_version) == ("pending", 0, None, 1)
    assert before.why == "no engine is running; it has not started"
    engine = await c.engine(one)
    await asyncio.sleep(5)
    running = await handle.status()
    assert (running.status, running.why, running.open, running.settled) == ("running", "runs work", 1, 0)
    await handle.result()
    ended = await handle.status()
    assert (ended.status, ended.why, ended.open, ended.settled) == ("completed", "it has completed", 0, 1)
    assert ended.started_at_s is not None and ended.ended_at_s is not None and round(ended.ended_at_s - ended.started_at_s) == 10
    assert ended.version == (await c.head(handle.key)).version and ended.due_at_s is None
    await engine.stop()
    assert (await handle.status()).why == "it has completed"


@virtually
async def test_what_no_engine_knows_says_so(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(order.with_(id="k"))
    engine = await c.engine(one, lease_s=LEASE_S)
    assert (await handle.status()).why == "no running engine knows order@2; it has not started"
    unpinned = await client.start(client.workflow("order").with_(id="by name"))
    assert (await unpinned.status()).why == "no running engine knows order; it has not started"
    knowing = await c.engine(order, lease_s=LEASE_S)
    await settle(1)
    assert (await handle.status()).why.startswith("waits for the message go (listen:go), until 20")
    await knowing.stop()
    assert (await handle.status()).why.startswith("no running engine knows order@2; waits for")
    await engine.kill()
    await asyncio.sleep(LEASE_S + 1)
    assert (await handle.status()).why.startswith("no engine is running; waits for")


@virtually
async def test_an_engine_that_died_holding_an_execution_does_not_count(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(one, lease_s=LEASE_S)
    handle = await client.start(one, 100.0)
    await settle(1)
    await engine.kill()
    await asyncio.sleep(LEASE_S + 1)
    assert (await handle.status()).why == "no engine is running; runs work"


@virtually
async def test_a_call_on_a_queue_that_nobody_serves_says_so(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def queued(ctx: Context) -> float:
        return await ctx.step(work.with_(queue="gpu"), 60.0)

    await c.engine(queued)
    handle = await client.start(queued)
    await settle(1)
    assert (await handle.status()).why == "waits for work in queue gpu; no worker serves queue gpu"
    await c.worker(work)
    await settle(1)
    assert (await handle.status()).why == "waits for work in queue gpu"


@virtually
async def test_steps_are_listed_in_their_order(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def several(ctx: Context) -> None:
        await ctx.step(work, 1.0)
        await ctx.step(work, 2.0)
        await ctx.listen("go")

    await c.engine(several)
    handle = await client.start(several)
    await asyncio.sleep(10)
    assert [(one.path, one.kind, one.state) for one in await handle.steps()] == [
        ("work", "call", "completed"),
        ("work#2", "call", "completed"),
        ("listen:go", "receive", "waiting"),
    ]


@virtually
async def test_state_can_be_queried_while_it_runs_and_after_its_end(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def setting(ctx: Context) -> None:
        ctx.set("large", "x" * 100_000)
        for done in range(3):
            ctx.set("done", done)
            await ctx.listen("go")

    await c.engine(setting)
    handle = await client.start(setting)
    assert await handle.query() == {} and await handle.query("done") is None and await handle.query("done", -1) == -1
    for done in range(3):
        await settle(1)
        assert await handle.query("done") == done
        await handle.send("go")
    await handle.result()
    assert await handle.query() == {"large": "x" * 100_000, "done": 2}


# Who works here.

BUILT_IN_PROGRAMS = sorted(name for one in BUILT_IN_WORKFLOWS for name in one.programs)


@virtually
async def test_engines_and_workers_are_listed_with_what_they_know_and_hold(c: Cluster, client: AsyncClient) -> None:
    assert await client.engines() == []
    engine = await c.engine(one, order, lease_s=LEASE_S)
    await c.worker(work)
    await client.start(one, 100.0)
    await settle(1)
    known, worker = await client.engines()
    assert (known.kind, known.programs, known.executions, known.alive) == ("engine", ["one@", "one@1", "order@", "order@2", *BUILT_IN_PROGRAMS], 1, True)
    assert known.name == engine.engine.holder and known.pid > 0 and known.host and known.started_at_s is not None
    assert (worker.kind, worker.queues, worker.tasks, worker.alive) == ("worker", ["gpu"], 0, True)
    await engine.kill()
    await asyncio.sleep(LEASE_S + 1)
    assert [(one.kind, one.alive, one.executions) for one in await client.engines()] == [("worker", True, 0)], "a claim frees what the dead held"


@virtually
async def test_a_holder_that_says_nothing_of_itself_is_listed_and_may_know_anything(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(order)
    for about in (b"", b"{", b'{"kind": 5}', b"\xff"):
        await c.store.renew(f"quiet-{about!r}", 100.0, about)
    listed = await client.engines()
    assert len(listed) == 4 and {(one.kind, tuple(one.programs), one.alive) for one in listed} == {("", (), True)}
    assert (await handle.status()).why == "it has not started"


@virtually
async def test_a_handle_shows_whom_it_stands_for(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(one.with_(id="k/1"))
    assert repr(handle) == "<handle of default/one/k%2F1>"
    assert handle.key == Key("default", "one", "k/1")
