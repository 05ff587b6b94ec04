"""Claims about steps that are completed from outside: once, by whoever has the token, also after crashes, and not when nobody waits for it any more."""

import asyncio
from base64 import urlsafe_b64encode
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from perdure import AlreadyCompleted, CompletionRefused, Context, Fatal, HasEnded, Retry, StepFailed, step, workflow
from perdure.core import values
from perdure.core.completions import Completion, ExternalAttempt, read_token
from perdure.core.errors import BadValue, ExecutionFailed
from perdure.core.events import MessageArrivedEvent
from perdure.service import step_completions
from perdure.service.store_access import StoreAccess
from perdure.sync_client import AsyncClient
from perdure.testing.faults import Faults, FaultyStore
from tests.crash_budgets import Budget, crash_budgets
from tests.proof.crash_search import Play, ScriptStage, crash_at_every_write
from tests.proof.disks import Disk, MemoryDisk, SqliteDisk
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

tokens: list[str] = []
broken: list[BaseException] = []


class Car(msgspec.Struct):
    plate: str
    seats: int = 4


@pytest.fixture(autouse=True)
def _fresh() -> None:
    tokens.clear()
    broken.clear()


@step(timeout="1m", retry=Retry(max=3, wait="10s", factor=1, jitter=0))
async def order_car(token: str, street: str) -> str:
    tokens.append(token)
    if broken:
        raise broken.pop(0)
    return f"ordered to {street}"


@workflow
async def ride(ctx: Context, street: str = "Main St") -> Car:
    car = await ctx.external(Car, order_car, street)
    ctx.set("car", car.plate)
    return car


@step(queue="cars", heartbeat="30s", timeout="10m", retry=Retry(max=1))
async def build(token: str, kind: str) -> None:
    tokens.append(token)


@workflow
async def built(ctx: Context) -> Any:
    return await ctx.external(dict[str, int], build, kind="big")


@workflow
async def raced(ctx: Context) -> Any:
    won = await ctx.race(car=lambda c: c.external(Car, order_car, "A"), taxi=lambda c: c.sleep("5s"))
    await ctx.sleep("1h")
    return won.name


WORKFLOWS = (ride, built, raced)


async def token(count: int = 1) -> str:
    """The token of that request, once it was made."""
    while len(tokens) < count:
        await asyncio.sleep(0.01)
    await settle()
    return tokens[count - 1]


async def healthy(client: AsyncClient) -> bool:
    return await client.upkeep.verify() == []


@virtually
async def test_whoever_has_the_token_completes_the_step_once(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(ride.with_(id="e"))
    given = await token()
    assert (
        await handle.status()
    ).why == "waits for the message completion of external:order_car/request (external:order_car/completion), until 2001-09-09 01:47:40 UTC"
    await client.complete(given, Car("B-1", 5))
    assert await handle.result() == Car("B-1", 5)
    for again in (client.complete(given, Car("B-1", 5)), client.fail(given, "no car"), client.heartbeat(given)):
        with pytest.raises(AlreadyCompleted, match="external:order_car/request of the execution default/ride/e can't be completed: it was completed before"):
            await again
    assert len(tokens) == 1 and await healthy(client)


@virtually
async def test_a_step_can_be_completed_before_any_engine_runs_and_before_its_request_has_returned(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(*WORKFLOWS)
    broken.append(TimeoutError("the answer to the order was lost"))
    handle = await client.start(ride.with_(id="e"))
    while not tokens:
        await asyncio.sleep(0.01)
    await engine.kill()
    await client.complete(tokens[0], {"plate": "B-2"})
    with pytest.raises(AlreadyCompleted):
        await client.complete(tokens[0], {"plate": "B-3"})
    await settle(20)
    await c.engine(*WORKFLOWS)
    assert await handle.result() == Car("B-2")
    assert len(set(tokens)) == 1 < len(tokens), "the request that was repeated has the same token"


@pytest.mark.slow
@virtually
async def test_of_several_at_the_same_time_one_completes_and_the_others_are_told(c: Cluster, client: AsyncClient) -> None:
    for number in range(12):
        engine = await c.engine(*WORKFLOWS)
        handle = await client.start(ride.with_(id=f"e{number}"))
        given = await token(number + 1)
        if number % 2:
            await engine.stop()
        others = [AsyncClient(FaultyStore(c.store, Random(f"{number} {one}"), Faults(delay=0.5))) for one in range(4)]
        answers = await asyncio.gather(*(other.complete(given, Car(f"{one}")) for one, other in enumerate(others)), return_exceptions=True)
        assert [type(answer) for answer in answers].count(AlreadyCompleted) == 3, answers
        await c.engine(*WORKFLOWS)
        assert (await handle.result()).plate == str(answers.index(None))


@virtually
async def test_a_failure_leads_to_another_attempt_with_another_token_until_they_are_used_up(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(ride.with_(id="e"))
    await client.fail(await token(1), ValueError("no car here"))
    with pytest.raises(AlreadyCompleted):
        await client.complete(tokens[0], Car("late"))
    await client.fail(await token(2), "none there")
    assert len({*tokens}) == 2
    await settle(1)
    await client.fail(await token(3), "nor there")
    with pytest.raises(ExecutionFailed, match=r"step external:order_car failed \(exhausted, 3 attempts\): task_failed: nor there"):
        await handle.result()
    with pytest.raises(AlreadyCompleted):
        await client.complete(tokens[2], Car("late"))
    assert await healthy(client)


@virtually
async def test_a_final_failure_and_a_failed_request_have_no_further_attempt(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(ride.with_(id="final"))
    await client.fail(await token(), "no such street", final=True)
    with pytest.raises(ExecutionFailed, match=r"external:order_car failed \(fatal, 1 attempt\): task_failed: no such street"):
        await handle.result()
    broken.append(Fatal("closed"))
    handle = await client.start(ride.with_(id="request"))
    with pytest.raises(ExecutionFailed, match=r"external:order_car/request failed \(fatal, 1 attempt\): fatal: closed"):
        await handle.result()


@virtually
async def test_a_result_of_another_type_fails_the_attempt(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(ride.with_(id="e"))
    await client.complete(await token(), {"seats": 3})
    await client.complete(await token(2), Car("B-4"))
    assert await handle.result() == Car("B-4")


@virtually
async def test_what_is_not_completed_in_time_is_requested_again_and_its_token_is_void(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(ride.with_(id="e"))
    late = await token()
    await settle(61)
    with pytest.raises(CompletionRefused, match=r"it has timed out, or its branch was cancelled\. Nothing was changed"):
        await client.complete(late, Car("late"))
    await settle(10)
    await client.complete(await token(2), Car("B-5"))
    assert await handle.result() == Car("B-5")
    with pytest.raises(HasEnded):
        await client.complete(late, Car("late"))
    handle = await client.start(ride.with_(id="never"))
    await settle(300)
    with pytest.raises(ExecutionFailed, match=r"external:order_car failed \(timeout, 3 attempts\): timeout: not completed within 60 s"):
        await handle.result()
    assert len(tokens) == 5


@pytest.mark.slow
@virtually
async def test_without_a_heartbeat_in_time_the_attempt_fails_and_heartbeats_are_few(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    await c.worker(build, queues=["cars"])
    handle = await client.start(built.with_(id="e"))
    given = await token()
    for _ in range(200):
        await client.heartbeat(given)
        await settle(1)
    await client.complete(given, {"wheels": 4})
    assert await handle.result() == {"wheels": 4}
    beats = sum(isinstance(event, MessageArrivedEvent) for event in await c.events(handle.key)) - 1
    assert 15 <= beats <= 21, "one in ten seconds"
    handle = await client.start(built.with_(id="silent"))
    given = await token(2)
    await settle(20)
    await client.heartbeat(given)
    await settle(29)
    await client.heartbeat(given)
    await settle(31)
    with pytest.raises(ExecutionFailed, match=r"external:build failed \(timeout, 1 attempt\): timeout: no heartbeat within 30 s"):
        await handle.result()
    with pytest.raises(HasEnded):
        await client.heartbeat(given)


@virtually
async def test_heartbeats_do_not_put_off_the_timeout(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    await c.worker(build, queues=["cars"])
    handle = await client.start(built.with_(id="e"))
    given = await token()
    for _ in range(60):
        await settle(10)
        if (await handle.status()).ended_at_s is None:
            await client.heartbeat(given)
    await settle(5)
    with pytest.raises(ExecutionFailed, match="not completed within 600 s"):
        await handle.result()


@virtually
async def test_cancelled_and_ended_executions_and_lost_branches_refuse_a_completion(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(ride.with_(id="e"))
    given = await token()
    await handle.cancel(wait=True)
    with pytest.raises(HasEnded, match=r"has ended \(cancelled\), so a completion would have no effect"):
        await client.complete(given, Car("late"))
    handle = await client.start(raced.with_(id="r"))
    given = await token(2)
    await settle(6)
    for refused in (client.complete(given, Car("late")), client.heartbeat(given)):
        with pytest.raises(CompletionRefused, match="its branch was cancelled"):
            await refused
    assert await healthy(client)


@virtually
async def test_a_token_that_was_given_to_nobody_is_refused_and_changes_nothing(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle, other = await client.start(ride.with_(id="e")), await client.start(ride.with_(id="f"))
    given = await token(2)
    found = read_token(tokens[0])
    bad: list[Any] = ["", "x", "\udcff", "e30", given[:-2], given + "AAAA", None, 5]
    attempts = [ExternalAttempt(other.key, found.attempt.path, 1), ExternalAttempt(handle.key, found.attempt.path, 2), ExternalAttempt(handle.key, (), 1)]
    bad += [values_token(one, found.secret) for one in (*attempts, ExternalAttempt(handle.key._replace(id="nobody"), found.attempt.path, 1))]
    bad += [found.attempt.token(0), values_token(found.attempt, b"\0" * 16), values_token(found.attempt, b"")]
    before = [await c.messages(one.key) for one in (handle, other)], await c.events(handle.key)
    for one in bad:
        for refused in (client.complete(one, Car("forged")), client.fail(one, "forged"), client.heartbeat(one)):
            with pytest.raises(BadValue, match="a token that a step of this database was given"):
                await refused
    assert ([await c.messages(one.key) for one in (handle, other)], await c.events(handle.key)) == before


def values_token(attempt: ExternalAttempt, secret: bytes) -> str:
    """A token for an attempt with a secret of its own."""
    return urlsafe_b64encode(values.encode((attempt.key, attempt.path, attempt.number, secret), "a token")).rstrip(b"=").decode()


@virtually
async def test_a_retried_execution_requests_again_what_had_failed_and_goes_on_waiting_for_the_rest(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(ride.with_(id="e"))
    for number in (1, 2, 3):
        await client.fail(await token(number), f"no car {number}")
        await settle(11)
    with pytest.raises(ExecutionFailed):
        await handle.result()
    await handle.retry()
    await client.fail(await token(4), "no car 4")
    await settle(11)
    await client.complete(await token(5), Car("B-6"))
    assert await handle.result() == Car("B-6") and len(tokens) == 5
    assert await healthy(client)


@virtually
async def test_large_results_and_evicted_executions(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(ride.with_(id="e"))
    given = await token()
    await handle.evict()
    await client.complete(given, Car("x" * 200_000))
    with pytest.raises(AlreadyCompleted):
        await client.complete(given, Car("y" * 200_000))
    assert (await handle.result()).plate == "x" * 200_000 and await healthy(client)


# Whatever happens.


@step(retry=Retry(max=2, wait="1s"))
async def ask_outside(token: str, what: str) -> None:
    tokens.append(token)


@workflow
async def outside(ctx: Context) -> list[Any]:
    first = await ctx.external(int, ask_outside, "first")
    try:
        await ctx.external(str, ask_outside, "second")
    except StepFailed as failed:
        return [first, failed.kind, failed.attempts, failed.error.message]
    return []


async def _played(stage: ScriptStage) -> None:
    tokens.clear()
    await stage.start(outside)
    access = StoreAccess(stage.world.store)
    for name, completion in (
        ("external:ask_outside/request", Completion(value=values.encode(7, "a result"))),
        ("external:ask_outside#2/request", Completion(error=step_completions.error_of("no"))),
        ("external:ask_outside#2/request#2", Completion(error=step_completions.error_of("never"), final=True)),
    ):
        while (given := next((one for one in tokens if read_token(one).attempt.message_name == f"completion of {name}"), None)) is None:
            await asyncio.sleep(0.5)
        await step_completions.complete_attempt(access, given, completion)


@pytest.mark.slow
@crash_budgets
@pytest.mark.parametrize("always_suspend", [False, True])
def test_killed_at_every_write_each_is_completed_once(always_suspend: bool, budget: Budget) -> None:
    report = crash_at_every_write(Play([outside], _played, always_suspend=always_suspend), MemoryDisk, **budget)
    assert report.problems == () and report.worlds > 10


@pytest.mark.slow
def test_killed_at_a_write_in_a_file_each_is_completed_once(tmp_path: Path) -> None:
    places = iter(range(1000))

    def disk() -> Disk:
        return SqliteDisk(tmp_path / str(next(places)))

    report = crash_at_every_write(Play([outside], _played), disk, once_max=12, again_max=6)
    assert report.problems == () and report.worlds >= 12
