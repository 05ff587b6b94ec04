"""Claims about the sentence that says why an execution does not go on: what it waits for, who and what it takes, and until when, as text and as data."""

import asyncio
from typing import Any

import pytest

from perdure import Context, Queue, Retry, step, workflow
from perdure.core.errors import ExecutionFailed, StepFailed
from perdure.service.execution_reasons import ExecutionReason
from perdure.service.execution_records import read_record
from perdure.sync_client import AsyncClient
from perdure.testing import Run, World
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually


@step(retry=Retry(max=5, wait="1m", jitter=0))
async def charge() -> None:
    raise ConnectionError("the bank does not answer")


@step(retry=Retry(max=1))
async def broken() -> None:
    raise ValueError("no such card")


@workflow
async def asks(ctx: Context) -> None:
    await ctx.approve("Pay 500?", assignees=["ada", "carl", "eve", "joe", "kim"], timeout="3h", quorum=2)


@workflow
async def sleeps(ctx: Context) -> None:
    await ctx.sleep("1h")


@workflow
async def listens(ctx: Context) -> None:
    await ctx.listen("paid", timeout="10m")


@workflow
async def tries(ctx: Context) -> None:
    await ctx.step(charge)


@workflow
async def fails(ctx: Context) -> None:
    await ctx.step("pay", broken)


@workflow
async def joins(ctx: Context) -> None:
    await ctx.join(a=listening, b=sleeping, c=passing)


@workflow
async def races(ctx: Context) -> None:
    await ctx.race(a=listening, b=sleeping)


@workflow
async def parent(ctx: Context) -> None:
    await ctx.call(sleeps.with_(id="s"))


async def listening(c: Context) -> None:
    await c.listen("go")


async def sleeping(c: Context) -> None:
    await c.sleep("2h")


async def passing(c: Context) -> None:
    c.set("passed", True)


def reason(world: World, run: Run[Any], at: int | None = None) -> ExecutionReason:
    found = world.call(read_record(world.access, run.key, at, b""))
    assert found.why == found.reason.text
    return found.reason


def test_an_approval_says_who_may_decide_how_many_have_and_until_when(world: World) -> None:
    run = world.start(asks)
    found = reason(world, run)
    assert (found.code, found.step, found.people, found.at_s, found.is_deadline) == (
        "approval",
        "approve:Pay 500?",
        ["ada", "carl", "eve", "joe", "kim"],
        world.start_s + 3 * 3600,
        True,
    )
    assert found.text.startswith("waits for approval by ada, carl, eve or 2 more (0 of 2 votes): Pay 500?, due 20") and found.text.endswith(" UTC")
    assert found.key == run.children()[0].key
    run.approve(by="ada")
    assert "(1 of 2 votes)" in reason(world, run).text


def test_a_sleep_and_a_message_say_until_when(world: World) -> None:
    asleep = reason(world, world.start(sleeps))
    assert (asleep.code, asleep.at_s, asleep.is_deadline) == ("sleep", world.start_s + 3600, False)
    assert asleep.text.startswith("sleeps until 20")
    listening_run = world.start(listens)
    waits = reason(world, listening_run)
    assert (waits.code, waits.target, waits.at_s, waits.is_deadline) == ("message", "paid", world.start_s + 600, True)
    (awaited,) = world.call(read_record(world.access, listening_run.key, None, b"")).awaits
    assert (awaited.names, awaited.step, awaited.until_at_s) == (["paid"], "listen:paid", waits.at_s)
    assert waits.text.startswith("waits for the message paid (listen:paid), until 20")


def test_a_retry_says_which_attempt_comes_when_and_after_which_error(world: World) -> None:
    run = world.start(tries)
    world.skip("1m")
    found = reason(world, run)
    assert (found.code, found.attempt, found.step) == ("retry", 3, "charge") and found.at_s is not None and found.at_s > world.start_s + 60
    assert found.error is not None and (found.error.type, found.error.message) == ("ConnectionError", "the bank does not answer")
    assert found.text.startswith("tries charge again (attempt 3) at 20") and found.text.endswith("after ConnectionError: the bank does not answer")


def test_a_failure_says_at_which_step_and_what_to_do(world: World) -> None:
    run = world.start(fails)
    with pytest.raises((ExecutionFailed, StepFailed)):
        run.result()
    found = reason(world, run)
    assert (found.code, found.text, found.step) == ("failed", "failed at pay: ValueError: no such card", "pay") and found.remedy.startswith("Retry it")


def test_branches_are_counted(world: World) -> None:
    found = reason(world, world.start(joins))
    assert (found.branches, found.open_branches, found.others) == (3, 2, 1)
    assert found.text == "waits for 2 of 3 branches: waits for the message go (join/a/listen:go), and 1 more"
    raced = reason(world, world.start(races))
    assert raced.text.startswith("waits for the first of 2 branches: waits for the message go (")


def test_a_child_is_named(world: World) -> None:
    found = reason(world, world.start(parent))
    assert found.code == "child" and found.key == sleeps.key("s") and "its child sleeps/s" in found.text


def test_a_past_has_the_reason_of_its_time(world: World) -> None:
    run = world.start(sleeps)
    run.result()
    assert reason(world, run).code == "completed" and reason(world, run, 1).code == "sleep"


def test_a_past_says_of_an_approval_who_could_decide_and_how_many_had(world: World) -> None:
    run = world.start(asks)
    world.skip("1m")
    run.approve(by="ada")
    world.skip("1m")
    run.send("note", "all is well")
    noted = len(run._log())
    world.skip("1m")
    run.approve(by="carl")
    run.result()
    asked, voted = reason(world, run, 2), reason(world, run, noted)
    assert asked.code == voted.code == "approval" and asked.key == voted.key == run.children()[0].key
    assert asked.people == ["ada", "carl", "eve", "joe", "kim"] and "(0 of 2 votes): Pay 500?, due 20" in asked.text and "(1 of 2 votes)" in voted.text


def test_a_pause_says_its_reason(world: World) -> None:
    run = world.start(sleeps)
    run.pause("the bank is closed")
    found = reason(world, run)
    assert (found.code, found.remedy) == ("paused", "Resume it") and "the bank is closed" in found.text


mail = Queue("mail", concurrency=1)


@step(queue="mail")
async def slow() -> None:
    await asyncio.sleep(3600)


@workflow
async def mails(ctx: Context) -> None:
    await ctx.step(slow)


@virtually
async def test_what_the_present_lacks_is_said_with_its_remedy(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(mails)
    found = (await handle.record()).reason
    assert (found.code, found.text) == ("engine", "no engine is running; it has not started") and "perdure worker" in found.remedy
    status = await handle.status()
    assert (status.why, status.remedy) == (found.text, found.remedy)
    await c.engine(mails)
    await asyncio.sleep(1)
    found = (await handle.record()).reason
    assert (found.code, found.queue) == ("worker", "mail") and found.text.endswith("no worker serves queue mail") and "queue mail" in found.remedy


@virtually
async def test_a_full_queue_says_so(c: Cluster, client: AsyncClient) -> None:
    await client.limit("mail", concurrency=1)
    await c.engine(mails)
    await c.worker(slow, queues=["mail"])
    handles = [await client.start(mails.with_(id=str(number))) for number in range(2)]
    await asyncio.sleep(5)
    found = [(await handle.record()).reason for handle in handles]
    assert [(one.code, one.in_flight, one.limit) for one in found] == [("queue_full", 1, 1)] * 2
    assert found[1].text == "waits for slow in queue mail; queue mail is full: 1 of 1 in flight"


@virtually
async def test_a_name_that_only_the_catalog_has_is_said_to_be_started_by_reference(c: Cluster, client: AsyncClient) -> None:
    await c.engine(mails)
    await client.catalog.create("{perdure: 1, name: invoice, steps: [{id: note, set: {n: 1}}]}")
    for name in ("invoice", "invoice@^1"):
        found = (await (await client.start(client.workflow(name).with_(id=name))).record()).reason
        assert found.text == f"no running engine knows {name}; it has not started; the catalog has invoice, which is started by reference"
        assert f"POST /api/workflow-versions/{name}/executions" in found.remedy and f"client.definition('{name}')" in found.remedy
    other = (await (await client.start("invoice@^7")).record()).reason
    assert "catalog" not in other.text and "perdure worker" in other.remedy
