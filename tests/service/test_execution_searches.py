"""Lists by why executions failed, which the index answers, and by text, which nothing but looking through them does."""

from typing import Any

import msgspec
import pytest

from perdure import Context, ExecutionFailed, Retry, step, workflow
from perdure.code.call_options import DEFAULT_TENANT
from perdure.core.attributes import ADDED_PREFIX, IndexedAttributes, checked_attribute_name
from perdure.core.errors import BadName, BadValue
from perdure.operations import on_executions
from perdure.service import execution_searches
from perdure.service.execution_searches import ExecutionSearch
from perdure.service.queries import ExecutionFilter
from perdure.stores.protocol import HeadFilter
from perdure.sync_client import AsyncClient
from tests.crash_budgets import Budget, crash_budgets
from tests.proof.crash_search import Play, ScriptStage, crash_at_every_write
from tests.proof.disks import MemoryDisk
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

mended: set[int] = set()


@pytest.fixture(autouse=True)
def _none_is_mended() -> None:
    mended.clear()


@step(retry=Retry(max=1))
async def charge(number: int) -> int:
    if number % 3 == 0 and number not in mended:
        raise ValueError(f"card {number} was declined")
    if number % 3 == 1 and number not in mended:
        raise KeyError(f"no customer {number}")
    return number


@workflow
async def pay(ctx: Context, number: int) -> int:
    ctx.set_attributes({"customer": f"Ünal {number}"})
    return await ctx.step(charge, number)


@workflow(name="changing")
async def before(ctx: Context) -> None:
    await ctx.listen("go")


@workflow(name="changing")
async def after(ctx: Context) -> None:
    await ctx.sleep("1d")


async def ids(client: AsyncClient, **which: Any) -> list[str]:
    return [one.key.id for one in await client.list(**which)]


async def payments(client: AsyncClient, many: int) -> None:
    for number in range(many):
        handle = await client.start(pay.with_(id=str(number)), number)
        if number % 3 == 2:
            await handle.result()
        else:
            with pytest.raises(ExecutionFailed):
                await handle.result()


@virtually
async def test_those_that_failed_by_an_error_are_listed_by_its_type_and_with_those_that_failed_alike(c: Cluster, client: AsyncClient) -> None:
    await c.engine(pay)
    await payments(client, 7)
    assert await ids(client, error_type="ValueError") == ["6", "3", "0"] and await ids(client, error_type="KeyError") == ["4", "1"]
    assert await ids(client, error_type="Value") == await ids(client, error_type="ValueError", tenant="other") == []
    one = (await client.list(error_type="ValueError", limit=1))[0]
    (group,) = [group for group in await client.dead_letters.groups() if group.type == "ValueError"]
    assert (one.error_type, one.fingerprint) == ("ValueError", group.fingerprint)
    assert await ids(client, fingerprint=group.fingerprint, status="failed") == ["6", "3", "0"]
    assert await ids(client, fingerprint=group.fingerprint, error_type="KeyError") == await ids(client, fingerprint="x") == []
    assert await ids(client, fingerprint=group.fingerprint[:6]) == ["6", "3", "0"] and await ids(client, fingerprint=group.fingerprint + "0") == []
    assert await ids(client, fingerprint=group.fingerprint, where={"customer": "Ünal 3"}) == ["3"]
    assert await ids(client, error_type="ValueError", where=[{"customer": "Ünal 3"}, {"customer": "Ünal 4"}, {"customer": "Ünal 6"}]) == ["6", "3"]
    assert await ids(client, error_type="ValueError", order_by="customer") == ["0", "3", "6"]
    last = (await client.list(error_type="ValueError", limit=2))[-1]
    assert await ids(client, error_type="ValueError", after=last) == ["0"]
    assert [(one.error_type, one.fingerprint) for one in await client.list(status="completed")] == [("", ""), ("", "")]
    assert await client.upkeep.verify() == []


@virtually
async def test_who_is_retried_or_discarded_leaves_the_list_and_keeps_its_attributes(c: Cluster, client: AsyncClient) -> None:
    await c.engine(pay)
    await payments(client, 4)
    mended.add(3)
    await (await client.get("3")).retry()
    await client.dead_letters.discard((await client.get("0")).key)
    await settle()
    assert await ids(client, error_type="ValueError") == []
    listed = {one.key.id: (one.status, one.attributes, one.error_type) for one in await client.list()}
    assert listed["3"] == ("completed", {"customer": "Ünal 3"}, "") and listed["0"] == ("cancelled", {"customer": "Ünal 0"}, "")
    assert listed["1"] == ("failed", {"customer": "Ünal 1"}, "KeyError")
    accepted = (await client.select(error_type="KeyError").cancel("sold out")).accepted
    assert [key.id for key in accepted] == []  # it has failed, so there is nothing to cancel
    assert [key.id for key in (await client.select(error_type="KeyError").retry()).accepted] == ["1"]
    await settle()
    assert await client.upkeep.verify() == []


@virtually
async def test_who_needs_attention_is_listed_by_the_reason_until_it_is_resumed(c: Cluster, client: AsyncClient) -> None:
    first = await c.engine(before)
    handle = await client.start(before.with_(id="changed"))
    await settle()
    await first.stop()
    await c.engine(after)
    await handle.send("nothing")
    await settle()
    assert await ids(client, error_type="diverged", status="needs_attention") == ["changed"]
    await handle.cancel()
    await settle()
    assert await ids(client, error_type="diverged") == []


@virtually
async def test_names_of_what_is_added_are_not_for_users(c: Cluster, client: AsyncClient) -> None:
    with pytest.raises(BadName):
        checked_attribute_name(f"{ADDED_PREFIX}errorType")
    for bad in ({"error_type": 3}, {"fingerprint": None}):
        with pytest.raises(BadValue, match="text"):
            await client.list(**bad)
    with pytest.raises(BadValue, match="keys alone"):
        client.select(keys=[], error_type="ValueError")


@virtually
async def test_a_damaged_index_of_errors_is_found(c: Cluster, client: AsyncClient) -> None:
    await c.engine(pay)
    await payments(client, 1)
    (head,) = await c.store.heads(HeadFilter(tenant=DEFAULT_TENANT))
    added: IndexedAttributes = tuple((name, b"sother") if name.endswith("errorType") else (name, form) for name, form in head.attributes)
    c.store._executions[head.key].head = msgspec.structs.replace(head, attributes=added)
    (finding,) = await client.upkeep.verify()
    assert "errorType is 'other' in the index, but 'ValueError' by the log" in finding.what


# Text


@virtually
async def test_text_is_found_in_workflow_id_attributes_and_type_of_error_in_any_case(c: Cluster, client: AsyncClient) -> None:
    await c.engine(pay)
    await payments(client, 5)
    assert await ids(client, text="üNAL 3") == ["3"] and await ids(client, text="valueerror") == ["3", "0"]
    assert await ids(client, text="PAY", limit=2) == ["4", "3"] and await ids(client, text="nothing of the kind") == []
    assert await ids(client, text="ünal", status="completed") == ["2"] and await ids(client, text="ünal", order_by="customer") == ["0", "1", "2", "3", "4"]


@virtually
async def test_a_search_reads_a_bounded_number_and_goes_on_where_it_stopped(c: Cluster, client: AsyncClient) -> None:
    for number in range(60):
        await client.start(pay.with_(id=f"{number:02}"), number)
    which = ExecutionFilter(tenant=DEFAULT_TENANT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution_searches, "SCANNED_MAX", 25)
        patch.setattr(execution_searches, "SCANNED_AT_A_TIME", 10)
        pages, after = [], ""
        while True:
            page = await client._access.call(on_executions.page, which, ExecutionSearch(text="0"), 3, after)
            pages.append(([one.key.id for one in page.items], page.scanned))
            if not (after := page.next):
                break
        assert pages == [(["50", "40"], 25), (["30", "20", "10"], 25), (["09", "08", "07"], 3), (["06", "05", "04"], 3), (["03", "02", "01"], 3), (["00"], 1)]
        assert len(await ids(client, text="0")) == 15


# Crashes


async def _played(stage: ScriptStage) -> None:
    await stage.start(pay, 3, id="fails")
    await stage.start(pay, 2, id="completes")


@crash_budgets
@pytest.mark.parametrize("always_suspend", [False, True])
def test_killed_at_every_write_the_index_of_errors_says_what_the_log_says(always_suspend: bool, budget: Budget) -> None:
    report = crash_at_every_write(Play([pay], _played, always_suspend=always_suspend), MemoryDisk, **budget)
    assert report.problems == () and report.worlds > 5
