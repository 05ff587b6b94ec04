"""A store that fails has no part in what a step may do once: an attempt that surely did not begin is made again, and one that runs goes on."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from perdure import Context, step, workflow
from perdure.core import events as e
from perdure.core.paths import Key
from perdure.runtime.unbegun_attempts import KEYS_MAX, LoggedAttempt, UnbegunAttempts
from perdure.stores.protocol import ChangeAnswer, Commit, Post
from perdure.testing.faults import NO_FAULTS, Faults, FaultyStore
from perdure.testing.virtual_time import run
from tests.runtime.cluster import DOWN_AFTER, DOWN_BEFORE, Cluster, cluster
from tests.runtime.test_engine import key

begun: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_begun() -> None:
    begun.clear()


@step(idempotent=False)
async def pay(name: str, takes_s: float = 0.0) -> str:
    begun.append(name)
    await asyncio.sleep(takes_s)
    return name


@workflow
async def two(ctx: Context, takes_s: float = 0.0) -> list[str]:
    return [await ctx.step(pay, "first", takes_s), await ctx.step(pay, "second", takes_s)]


COMMITS_DOWN = Faults(fail_after=1.0, failing=frozenset(("commit",)))


async def interruptions(c: Cluster) -> list[bool]:
    """For each attempt that was interrupted, whether it was given back."""
    return [event.given_back for event in await c.events(key(two)) if isinstance(event, e.InterruptedEvent)]


@pytest.mark.parametrize("faults", [COMMITS_DOWN, DOWN_AFTER, DOWN_BEFORE], ids=["commits", "all unanswered", "all unheard"])
@pytest.mark.parametrize("down_s", [0.3, 3.0, 12.0, 40.0])
def test_an_attempt_whose_beginning_was_in_doubt_is_made_once(faults: Faults, down_s: float) -> None:
    """With ``idempotent=False``: the engine lives, and knows that it has not begun what the commit says, also when its lease has expired meanwhile."""

    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(two)
            engine.store.faults = faults
            starting = asyncio.create_task(c.start(engine, two))
            await asyncio.sleep(down_s)
            engine.store.faults = NO_FAULTS
            await starting
            assert await c.result(engine, two) == ["first", "second"]
            assert begun == ["first", "second"]
            assert await interruptions(c) in ([], [True])

    run(world)


def test_an_attempt_whose_beginning_was_answered_after_the_lease_is_made_once() -> None:
    """The process was stopped meanwhile, and nobody has taken over: there is no other engine."""

    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(two)
            answers, gate, frozen = engine.store.inner, engine.store.gate, list[bool]()

            class Freezing(FaultyStore):
                async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
                    found = await answers.commit(changes)
                    if not frozen:
                        frozen.append(True)
                        gate.freeze(40.0)
                    await gate.passed()
                    return found

            engine.engine.store = Freezing(answers, Random(0), gate=gate)
            assert await c.start(engine, two)
            assert await c.result(engine, two) == ["first", "second"]
            assert begun == ["first", "second"]

    run(world)


def test_an_attempt_whose_beginning_was_in_doubt_is_made_once_by_another_engine_too() -> None:
    """A claim is in doubt as well, so the engine lets go of everything; first it makes the commit that says what it has not begun."""

    async def world() -> None:
        async with cluster() as c:
            engine, _ = await c.engine(two), await c.engine(two)
            engine.store.faults = DOWN_AFTER
            starting = asyncio.create_task(c.start(engine, two))
            await asyncio.sleep(2.0)
            engine.store.faults = NO_FAULTS
            await starting
            assert await c.result(engine, two) == ["first", "second"]
            assert begun == ["first", "second"]

    run(world)


def test_a_claim_that_was_surely_not_made_ends_nothing_that_runs() -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(two)
            holder = engine.engine.holder
            assert await c.start(engine, two, 20.0)
            await asyncio.sleep(5)
            await c.outage(DOWN_BEFORE, 8.0)
            assert await c.result(engine, two) == ["first", "second"]
            assert begun == ["first", "second"]
            assert engine.engine.holder == holder

    run(world)


def test_a_worker_goes_on_with_its_tasks_when_a_claim_was_surely_not_made() -> None:
    @workflow
    async def on_queue(ctx: Context) -> str:
        return await ctx.step(pay.with_(queue="gpu"), "x", 20.0)

    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(on_queue)
            await c.worker(pay)
            assert await c.start(engine, on_queue)
            await asyncio.sleep(5)
            await c.outage(DOWN_BEFORE, 8.0)
            assert await c.result(engine, on_queue) == "x"
            assert begun == ["x"]

    run(world)


def attempts(*names: str) -> list[LoggedAttempt]:
    return [("me", ((name, 1),), 1) for name in names]


def test_of_many_executions_the_attempts_of_the_latest_are_remembered() -> None:
    unbegun = UnbegunAttempts()
    for number in range(KEYS_MAX + 1):
        unbegun.add(Key("t", "w", str(number)), attempts("a"))
    assert not unbegun.includes(Key("t", "w", "0"), ("me", (("a", 1),), 1))
    assert unbegun.includes(Key("t", "w", "1"), ("me", (("a", 1),), 1))
    assert unbegun.includes(Key("t", "w", str(KEYS_MAX)), ("me", (("a", 1),), 1))


def test_an_attempt_is_unbegun_until_its_execution_has_gone_on() -> None:
    unbegun, one = UnbegunAttempts(), Key("t", "w", "1")
    unbegun.add(one, attempts("a"))
    unbegun.add(one, attempts("b"))
    assert unbegun.includes(one, ("me", (("a", 1),), 1)) and unbegun.includes(one, ("me", (("b", 1),), 1))
    assert not unbegun.includes(one, ("me", (("a", 1),), 2))
    assert not unbegun.includes(one, ("other", (("a", 1),), 1))
    unbegun.forget(one)
    assert not unbegun.includes(one, ("me", (("a", 1),), 1))
    unbegun.forget(one)
