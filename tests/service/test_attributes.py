"""Claims about finding executions by attributes: as they were started with, as their workflow has changed them, and as those that came of them have them."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import Context, Is, Key, Retry, step, workflow
from perdure.async_handle import AsyncHandle
from perdure.core import values
from perdure.core.attribute_filter import AttributeFilter
from perdure.core.attributes import checked_attributes, index_attributes, value_of_sortable
from perdure.core.envelopes import StartAdmission
from perdure.core.errors import BadName, BadValue, ExecutionFailed, TooManyActive
from perdure.runtime.engine import Engine
from perdure.service.execution_operations import StartRequest, start_execution
from perdure.stores.configured_store import open_store
from perdure.stores.encryption import Encrypted
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import AsyncClient
from tests.crash_budgets import Budget, crash_budgets
from tests.proof.crash_search import Play, ScriptStage, crash_at_every_write
from tests.proof.disks import Disk, MemoryDisk, SqliteDisk
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

DUE = datetime(2026, 1, 31, 12, tzinfo=UTC)
MONTH_S = 30 * 86_400.0
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _whole() -> None:
    broken.clear()


@step(retry=Retry(max=1))
async def do(what: str) -> str:
    if what in broken:
        raise ValueError(f"{what} is broken")
    return what


@workflow
async def order(ctx: Context, customer: str = "c1", cents: int = 500) -> dict[str, Any]:
    ctx.set_attributes({"customer": customer, "cents": cents, "stage": "new"})
    await ctx.step("pay", do, "pay")
    ctx.set_attributes({"stage": "paid"})
    await ctx.listen("go")
    ctx.set_attributes({"stage": "shipped", "cents": None})
    await ctx.step("ship", do, "ship")
    return ctx.execution.attributes


@workflow
async def plain(ctx: Context) -> None:
    await ctx.listen("go")


@workflow
async def parent(ctx: Context) -> None:
    await ctx.call(plain.with_(id="child", attributes={"of": ctx.execution.id, "due": DUE}))


@workflow
async def looping(ctx: Context) -> dict[str, Any]:
    async for turn in ctx.loop("laps", state=0, keep=1):
        turn.set_attributes({"lap": turn.number, "even" if turn.number % 2 == 0 else "odd": turn.number})
        await turn.step("lap", do, "lap")
        if turn.number == 150:
            break
    return ctx.execution.attributes


WORKFLOWS = (order, plain, parent, looping)


async def found(client: AsyncClient, where: Any = None, **how: Any) -> list[str]:
    """The ids of those that are found, in order of creation."""
    return [one.key.id for one in reversed(await client.list(where=where, **how))]


async def healthy(client: AsyncClient) -> bool:
    return await client.upkeep.verify() == []


# Given at the start.


@virtually
async def test_each_comparison_finds_those_that_have_such_a_value_and_no_others(c: Cluster, client: AsyncClient) -> None:
    started: dict[str, Any] = {"whole": 500, "real": 500.0, "more": 500.5, "text": "500", "truth": True, "one": 1, "due": DUE, "käse": "🐘", "none": ""}
    for id, value in started.items():
        given: dict[str, Any] = {"a": value, "id": id}
        await client.start(plain.with_(id=id, attributes=given))
    await client.start(plain.with_(id="bare"))
    expected: list[tuple[Any, list[str]]] = [
        (500, ["whole", "real"]),
        (500.0, ["whole", "real"]),
        ("500", ["text"]),
        (True, ["truth"]),
        (1, ["one"]),
        (Is("!=", True), [id for id in started if id != "truth"]),
        (Is(">", 1), ["whole", "real", "more"]),
        ([Is(">=", 1), Is("<", 500.5)], ["whole", "real", "one"]),
        (DUE.astimezone(), ["due"]),
        (Is("<", DUE + timedelta(microseconds=1)), ["due"]),
        (Is(">=", ""), ["text", "käse", "none"]),
        ("", ["none"]),
        ("🐘", ["käse"]),
        (Is("exists"), [*started]),
        (2**63 - 1, []),
    ]
    for wanted, ids in expected:
        assert await found(client, {"a": wanted}) == ids, wanted
    assert await found(client, {"a": 500, "id": "real"}) == ["real"]
    assert (
        await found(client, {"b": Is("exists")}) == await found(client, {"a": 500}, tenant="other") == await found(client, {"a": 500}, workflow="order") == []
    )
    assert await found(client, {}) == [*started, "bare"]


@virtually
async def test_what_is_listed_says_its_attributes_with_their_types(c: Cluster, client: AsyncClient) -> None:
    given: dict[str, Any] = {"a": 500.0, "b": 500, "c": True, "d": "500", "e": DUE}
    handle = await client.start(plain.with_(id="e", attributes=given))
    (listed,) = await client.list()
    for told in (listed.attributes, (await handle.status()).attributes):
        assert told == given and [type(one) for one in told.values()] == [float, int, bool, str, datetime]
    await c.engine(plain)
    await settle()
    assert (await handle.status()).attributes == given and await healthy(client)


@virtually
async def test_pages_of_those_that_are_found_have_each_once(c: Cluster, client: AsyncClient) -> None:
    for number in range(23):
        await client.start(plain.with_(id=f"{number:02}", attributes={"n": number, "third": number % 3 == 0}))
    asked: list[tuple[AttributeFilter, int]] = [({"third": True}, 8), ({"n": Is(">=", 4)}, 19), ({"third": False, "n": Is("!=", 1)}, 14)]
    for where, count in asked:
        pages, last = list[str](), None
        while page := await client.list(where=where, limit=5, after=last):
            pages += [one.key.id for one in page]
            last = page[-1]
        assert pages == sorted(set(pages), reverse=True) and len(pages) == count


@virtually
async def test_alternatives_find_what_one_of_them_finds_once_in_pages_and_in_order(c: Cluster, client: AsyncClient) -> None:
    for number in range(23):
        await client.start(plain.with_(id=f"{number:02}", attributes={"n": number, "third": number % 3 == 0, "rank": -number}))
    either: list[AttributeFilter] = [
        [{"third": True}, {"n": Is("<", 4)}],
        [{"third": True, "n": Is(">", 3)}, {"n": Is("<", 4)}],
        ({"n": Is("<", 4)}, {"n": Is(">=", 3), "third": True}, {"none": 1}),
    ]
    meant = [f"{number:02}" for number in range(23) if number % 3 == 0 or number < 4]
    for where in either:
        assert await found(client, where) == meant
        assert [one.key.id for one in await client.list(where=where, order_by="rank", limit=4)] == meant[::-1][:4]
        for how in ({}, {"order_by": "rank"}, {"order_by": "n", "descending": True}):
            pages, last = list[str](), None
            while page := await client.list(where=where, limit=3, after=last, **how):
                pages += [one.key.id for one in page]
                last = page[-1]
            assert pages == meant[::-1], how
        assert sorted(key.id for key in await client.select(where=where).keys()) == meant
    assert len((await client.select(where=either[0]).cancel("sold out")).accepted) == len(meant)
    await c.engine(plain)
    await settle()
    assert len(await client.list(status="cancelled")) == len(meant)


@virtually
async def test_what_moves_from_one_alternative_to_another_is_in_every_list(c: Cluster, client: AsyncClient) -> None:
    """A list is read at one moment: of two that were read one after the other, each could miss it."""
    await c.engine(*WORKFLOWS)
    for number in range(5):
        handle = await client.start(order.with_(id=f"e{number}", attributes={"stage": "queued"}))
        await handle.send("go")
        while (await handle.status()).ended_at_s is None:
            assert len(await client.list(where=[{"stage": stage} for stage in ("shipped", "paid", "new", "queued")])) == number + 1
            await asyncio.sleep(0)


BAD: list[tuple[Any, type[Exception], str]] = [
    ({"a": None}, BadValue, "exists"),
    ({"a": [1]}, BadValue, "comparisons"),
    ({"a b": 1}, BadName, "up to 64 letters"),
    ({"a": 2**63}, BadValue, "64 bits"),
    ({"a": "x" * 1025}, BadValue, "at most 1,024 bytes"),
    ({"a": datetime(2026, 1, 1)}, BadValue, "with its zone"),  # noqa: DTZ001  # which is the point
    ("a=1", BadValue, "a mapping of attributes to values or comparisons"),
    ({f"a{number}": 1 for number in range(33)}, BadValue, "at most 32"),
    ({"a": [Is("!=", number) for number in range(33)]}, BadValue, "at most 32"),
]


@pytest.mark.parametrize(("where", "error", "said"), BAD)
def test_a_condition_that_makes_no_sense_is_refused_and_it_says_what_is_meant(where: Any, error: type[Exception], said: str) -> None:
    @virtually
    async def refused(c: Cluster, client: AsyncClient) -> None:
        with pytest.raises(error, match=said):
            await client.list(where=where)

    refused()


@virtually
async def test_a_start_with_attributes_that_can_t_be_kept_starts_nothing(c: Cluster, client: AsyncClient) -> None:
    bad: list[Any] = [{"a": None}, {"a b": 1}, {"a": "x" * 2000}, {f"a{number}": 1 for number in range(33)}, "a"]
    for attributes in bad:
        with pytest.raises((BadValue, BadName), match="attribute"):
            await client.start(plain.with_(id="e", attributes=attributes))
    assert await client.list() == []


@virtually
async def test_a_second_start_changes_no_attributes_and_a_replaced_one_has_the_new_ones(c: Cluster, client: AsyncClient) -> None:
    await client.start(plain.with_(id="e", attributes={"a": 1}))
    assert not (await client.start(plain.with_(id="e", attributes={"a": 2, "b": 1}))).created
    assert await found(client, {"a": 1}) == ["e"] and await found(client, {"a": 2}) == []
    await client.start(plain.with_(id="d", debounce="5s", attributes={"a": 5}))
    await client.start(plain.with_(id="d", debounce="5s", attributes={"a": 6}))
    await c.engine(plain)
    await settle(10)
    (last,) = await client.list(where={"a": 6}, status="waiting")
    assert last.key.id.startswith("d@") and await healthy(client)


@virtually
async def test_what_was_paused_or_cancelled_before_it_began_is_found_as_it_was_started(c: Cluster, client: AsyncClient) -> None:
    for id, tell in (("p", AsyncHandle.pause), ("c", AsyncHandle.cancel)):
        await tell(await client.start(plain.with_(id=id, attributes={"a": id})))
    await client.start(plain.with_(id="t", ttl="1s", attributes={"a": "t"}))
    await settle(2)
    await c.engine(plain)
    await settle()
    assert [(one.key.id, one.status) for one in await client.list(where={"a": Is("exists")})] == [("t", "cancelled"), ("c", "cancelled"), ("p", "paused")]
    assert await healthy(client)


# Changed by workflows.


@virtually
async def test_what_a_workflow_changes_is_found_from_that_commit_on(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handles = [
        await client.start(order.with_(id=f"e{number}", attributes={"stage": "queued", "kept": number}), f"c{number % 2}", number * 100) for number in range(4)
    ]
    await settle()
    assert await found(client, {"stage": "queued"}) == await found(client, {"stage": "new"}) == []
    assert await found(client, {"stage": "paid", "customer": "c1"}, status="waiting") == ["e1", "e3"]
    assert await found(client, {"cents": Is(">=", 200)}) == ["e2", "e3"]
    await handles[1].send("go")
    assert await handles[1].result() == {"customer": "c1", "stage": "shipped", "kept": 1}
    assert await found(client, {"stage": "paid", "customer": "c1"}) == ["e3"]
    assert await found(client, {"cents": Is("exists")}) == ["e0", "e2", "e3"]
    assert await found(client, {"stage": "shipped"}, status="completed") == ["e1"]
    assert await healthy(client)


@virtually
async def test_another_engine_that_takes_over_goes_on_with_them(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(*WORKFLOWS)
    handle = await client.start(order.with_(id="e", attributes={"kept": True}))
    await settle()
    await engine.kill()
    await settle(20)
    await c.engine(*WORKFLOWS)
    await handle.send("go")
    assert await handle.result() == {"customer": "c1", "stage": "shipped", "kept": True}
    assert await found(client, {"stage": "shipped", "kept": True}) == ["e"] and await healthy(client)


@virtually
async def test_a_child_has_its_own(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    await client.start(parent.with_(id="p", attributes={"a": 1}))
    await settle()
    assert await found(client, {"of": "p", "due": Is("<=", DUE)}) == ["child"] and await found(client, {"a": 1}) == ["p"]
    assert await healthy(client)


@pytest.mark.slow
@virtually
async def test_a_compacted_log_has_them_and_so_has_the_index(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(looping)
    handle = await client.start(looping.with_(id="e", attributes={"kept": 1}))
    last = {"kept": 1, "lap": 150, "even": 150, "odd": 149}
    assert await handle.result(timeout="1h") == last
    assert len(await c.events(handle.key)) < 400
    assert (await handle.status()).attributes == last and await found(client, {"odd": 149}) == ["e"] and await healthy(client)
    await engine.stop()


# Of what comes of them.


@virtually
async def test_a_retry_goes_on_with_them_a_rerun_begins_as_it_began_and_a_fork_as_it_was_there(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    broken.add("ship")
    handle = await client.start(order.with_(id="e", attributes={"stage": "queued", "kept": 1}))
    await handle.send("go")
    with pytest.raises(ExecutionFailed):
        await handle.result()
    assert (await handle.status()).attributes == {"customer": "c1", "stage": "shipped", "kept": 1}
    again, fork = await handle.rerun(id="rerun"), await handle.fork(from_step="ship", id="fork")
    for one, stage in ((again, "paid"), (fork, "shipped")):
        await settle()
        assert (await one.status()).attributes["stage"] == stage and (await one.status()).attributes["kept"] == 1
    broken.clear()
    other = await handle.fork("ship", input=("c9", 900), id="other")
    assert (await other.result(timeout="1h"))["customer"] == "c9" and await found(client, {"customer": "c9"}) == ["other"]
    await handle.retry()
    assert await handle.result() == (await handle.status()).attributes == {"customer": "c1", "stage": "shipped", "kept": 1}
    await again.send("go")
    assert await again.result() == (await handle.status()).attributes
    assert await healthy(client)


@virtually
async def test_what_is_pruned_is_found_by_them_as_before(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(*WORKFLOWS)
    handle = await client.start(order.with_(id="e", attributes={"kept": DUE}))
    await handle.send("go")
    before = await handle.result()
    await engine.stop()
    await settle(MONTH_S + 1)
    assert [one.key.id for one in await client.upkeep.prune("30d")] == ["e"]
    assert await found(client, {"kept": DUE, "stage": "shipped"}) == ["e"]
    assert (await handle.status()).attributes == before and await healthy(client)


@virtually
async def test_what_is_carried_elsewhere_is_found_there(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(*WORKFLOWS)
    await client.start(order.with_(id="begun", attributes={"kept": 1}))
    await settle()
    await engine.stop()
    await client.start(plain.with_(id="pending", attributes={"kept": 2}))
    other = Cluster()
    there = AsyncClient(other.store)
    for id in ("begun", "pending"):
        await there.upkeep.import_(await client.upkeep.export((await client.get(id)).key), unsigned=True)
    assert await found(there, {"kept": Is(">", 0)}) == ["begun", "pending"] and await found(there, {"stage": "paid"}) == ["begun"]
    assert await healthy(there)
    other.processes = c.processes
    await other.engine(*WORKFLOWS)
    await (await there.get("begun")).send("go")
    assert (await (await there.get("begun")).result(timeout="1h"))["stage"] == "shipped"


# Whatever happens.


async def _played(stage: ScriptStage) -> None:
    key = await stage.start(order)
    await stage.start(parent, id="p")
    await stage.send(key, "go", once="once")
    await stage.send(Key("default", "plain", "child"), "go", once="once more")


@pytest.mark.slow
@crash_budgets
@pytest.mark.parametrize("always_suspend", [False, True])
def test_killed_at_every_write_the_index_says_what_the_log_says(always_suspend: bool, budget: Budget) -> None:
    report = crash_at_every_write(Play([order, plain, parent], _played, always_suspend=always_suspend), MemoryDisk, **budget)
    assert report.problems == () and report.worlds > 10


@pytest.mark.slow
def test_killed_at_a_write_in_a_file_the_index_says_what_the_log_says(tmp_path: Path) -> None:
    places = iter(range(1000))

    def disk() -> Disk:
        return SqliteDisk(tmp_path / str(next(places)))

    report = crash_at_every_write(Play([order, plain, parent], _played), disk, once_max=12, again_max=6)
    assert report.problems == () and report.worlds >= 12


async def test_in_a_file_they_are_found_again_when_it_is_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'perdure.db'}"
    async with AsyncClient(url) as client:
        await client.start(plain.with_(id="e", attributes={"a": 2**62, "b": "é"}))
        await client.start(plain.with_(id="f", attributes={"a": float(2**62)}))
    async with AsyncClient(url) as client:
        assert await found(client, {"a": 2**62}) == ["e", "f"] and await found(client, {"a": 2**62, "b": Is("<", "ê")}) == ["e"]
        assert (await (await client.get("e")).status()).attributes == {"a": 2**62, "b": "é"}
    await asyncio.gather(SqliteStore(tmp_path / "perdure.db").close())


async def test_where_payloads_are_encrypted_they_are_in_the_clear_and_found(tmp_path: Path) -> None:
    file = tmp_path / "perdure.db"
    store = open_store(f"sqlite:///{file}", codec=Encrypted({"a": bytes(range(32))}))
    engine = Engine(store, [order.code])
    running = asyncio.create_task(engine.run())
    await engine.ready()
    async with AsyncClient(store) as client:
        handle = await client.start(order.with_(id="e", attributes={"open": "in the clear"}), "secret")
        await handle.send("go")
        await handle.result(timeout="10s")
        assert await found(client, {"open": "in the clear", "stage": "shipped"}) == ["e"] and await healthy(client)
    engine.stop()
    await running
    await store.close()
    with closing(sqlite3.connect(file)) as database:
        told = {name: value_of_sortable(value) for name, value in database.execute("SELECT name, value FROM attributes")}
        assert told == {"open": "in the clear", "customer": "secret", "stage": "shipped"}
        assert b"secret" not in b"".join(row for (row,) in database.execute("SELECT row FROM log"))


@virtually
async def test_lists_are_in_order_of_an_attribute_page_by_page(c: Cluster, client: AsyncClient) -> None:
    for number, tags in enumerate((["d"], ["b", "e"], [], ["c", "a"], ["b"])):
        await client.start(plain.with_(id=f"{number}", attributes={"tag": tags, "n": number}))
    up, down = ["3", "1", "4", "0"], ["1", "0", "3", "4"]
    for descending, expected in ((False, up), (True, down)):
        pages, last = list[str](), None
        while page := await client.list(order_by="tag", descending=descending, limit=2, after=last):
            pages += [one.key.id for one in page]
            last = page[-1]
        assert pages == expected
    listed = await client.list(where={"tag": "e"}, order_by="n", status="pending")
    assert [one.attributes for one in listed] == [{"tag": ["b", "e"], "n": 1}]
    with pytest.raises(BadValue, match="attribute to order by"):
        await client.list(descending=True)
    with pytest.raises(BadName):
        await client.list(order_by="a b")


@virtually
async def test_a_start_that_its_admission_does_not_allow_says_what_is_in_the_way(c: Cluster, client: AsyncClient) -> None:
    def wanted(id: str) -> StartRequest:
        attributes = checked_attributes({"user": "ada"})
        limit = StartAdmission("user", index_attributes(attributes)[0][1], 2)
        return StartRequest(key=Key("default", "plain", id), input=values.encode([[], {}], "input"), attributes=attributes, admission=limit)

    for id in ("1", "2", "1"):
        await start_execution(client._access.on_store("a test"), wanted(id))
    with pytest.raises(TooManyActive, match="plain/3 was not started: 2 executions with user=ada have not ended") as refused:
        await start_execution(client._access.on_store("a test"), wanted("3"))
    assert (refused.value.code, refused.value.max_active) == ("too_many_active", 2)
    assert [one.key.id for one in await client.list()] == ["2", "1"]
    with pytest.raises(BadValue, match="admission"):
        await start_execution(client._access.on_store("a test"), msgspec.structs.replace(wanted("3"), debounce_s=5.0))
