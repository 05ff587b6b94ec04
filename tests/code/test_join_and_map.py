"""Claims about joins and maps: all branches end, none holds up another, and a thousand cost ten times what a hundred cost."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

from perdure import Context, JoinFailed, Record, Retry, StepFailed, SyncContext, WrongVerb, step, workflow
from perdure.core import log_format, messages
from perdure.core.operations import CallOperation, SpawnOperation, Success
from perdure.core.paths import Path, path_text
from tests.code.decision_driver import Hand
from tests.code.engines import every_cut, resident, settle, virtually, world


@step
async def plain(n: int) -> int:
    return n


@step
async def takes(s: float) -> float:
    await asyncio.sleep(s)
    return s


@step(retry=Retry(max=1))
async def bad(why: str) -> None:
    raise ValueError(why)


@virtually
async def test_by_position_the_results_are_a_tuple_and_by_name_a_record() -> None:
    @workflow
    async def joining(ctx: Context) -> list[Any]:
        a, b = await ctx.join(lambda c: c.step(plain, 1), lambda c: c.step(plain, 2))
        record = await ctx.join(x=lambda c: c.step(plain, 3), y=lambda c: c.step(plain, 4))
        assert isinstance(record, Record)
        return [a, b, record.x, record["y"], list(record)]

    async with world(joining) as w:
        assert await w.run(joining) == [1, 2, 3, 4, ["x", "y"]]


@step
async def one() -> int:
    return 1


first: Any = one  # so that it may stand beside a function


@workflow
async def twice(ctx: Context, n: int = 1) -> int:
    return 2 * await ctx.step(plain, n)


@workflow
def twice_sync(ctx: SyncContext, n: int) -> int:
    return 2 * ctx.step(plain, n)


@virtually
async def test_a_step_or_a_workflow_given_to_map_join_or_race_is_run_as_a_step_or_a_child() -> None:
    @workflow
    async def branching(ctx: Context) -> list[Any]:
        mapped = [await ctx.map(plain, [1, 2, 3], limit=2), await ctx.map(twice, [1, 2]), await ctx.map(twice_sync, [3])]
        joined = [list(await ctx.join(one, twice, one)), dict(await ctx.join(a=one, b=twice))]
        won = await ctx.race(first=first, late=lambda c: c.sleep(100))
        renamed = await ctx.map(plain.with_(name="other"), [7])
        return [*mapped, *joined, [won.name, won.value], renamed]

    async with world(branching, twice, twice_sync) as w:
        key = await w.start(branching)
        wanted = [[1, 2, 3], [2, 4], [6], [1, 2, 1], {"a": 1, "b": 2}, ["first", 1], [7]]
        assert await w.result(key) == wanted
        folded = await w.fold(key)
        assert {path_text(path) for path, known in folded.settled.items() if isinstance(known.op, CallOperation) and "map:plain/" in path_text(path)} == {
            "map:plain/plain/plain",
            "map:plain/plain#2/plain",
            "map:plain/plain#3/plain",
        }
        assert sum(isinstance(known.op, SpawnOperation) for known in folded.settled.values()) == 5
        await w.replayed(key)


@virtually
async def test_a_sync_workflow_maps_joins_and_races_steps_and_workflows_alike() -> None:
    @workflow
    def branching(ctx: SyncContext) -> list[Any]:
        won = ctx.race(first=first, late=lambda c: c.sleep(100))
        return [ctx.map(plain, [1, 2]), ctx.map(twice, [1, 2]), list(ctx.join(one, twice)), won.name]

    async with world(branching, twice) as w:
        assert await w.run(branching) == [[1, 2], [2, 4], [1, 2], "first"]


@virtually
async def test_a_step_that_fails_in_a_map_fails_it_as_any_branch_does() -> None:
    @workflow
    async def mapping(ctx: Context) -> list[str]:
        with pytest.raises(JoinFailed) as caught:
            await ctx.map(bad, ["x", "y"])
        return sorted(type(error).__name__ for error in caught.value.errors.values())

    async with world(mapping) as w:
        assert await w.run(mapping) == ["StepFailed", "StepFailed"]


@virtually
async def test_a_join_waits_for_all_branches_also_when_one_fails_and_keeps_the_outputs() -> None:
    @workflow
    async def joining(ctx: Context) -> list[Any]:
        begun = ctx.now()
        try:
            await ctx.join(broken=lambda c: c.step(bad, "x"), slow=lambda c: c.step(takes, 5.0), also=lambda c: c.step(bad, "y"))
        except JoinFailed as failed:
            return [(ctx.now() - begun).total_seconds(), sorted(failed.errors), dict(failed.outputs)]
        return []

    async with world(joining) as w:
        assert await w.run(joining) == [5.0, ["also", "broken"], {"slow": 5.0}]


@virtually
async def test_except_star_takes_the_errors_of_a_join_apart() -> None:
    @workflow
    async def joining(ctx: Context) -> list[str]:
        async def raises(c: Context) -> None:
            raise KeyError("own")

        found = []
        try:
            await ctx.join(a=lambda c: c.step(bad, "x"), b=raises)
        except* StepFailed as group:
            found.append(f"{len(group.exceptions)} step")
        except* KeyError as group:
            found.append(f"{len(group.exceptions)} key")
        return found

    async with world(joining) as w:
        assert await w.run(joining) == ["1 step", "1 key"]


@virtually
async def test_a_branch_sleeps_retries_and_listens_without_holding_up_its_siblings() -> None:
    @step(retry=Retry(max=3, wait=10, jitter=0))
    async def unstable() -> str:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) < 2:
            raise ValueError
        return "at last"

    @workflow
    async def joining(ctx: Context) -> dict[str, Any]:
        begun = ctx.now()

        def timed(branch: Callable[[Context], Any]) -> Callable[[Context], Any]:
            async def run(c: Context) -> float:
                await branch(c)
                return (c.now() - begun).total_seconds()

            return run

        return await ctx.join(
            sleeps=timed(lambda c: c.sleep(1)),
            retries=timed(lambda c: c.step(unstable)),
            listens=timed(lambda c: c.listen("m")),
            works=timed(lambda c: c.step(takes, 100.0)),
        )

    tries: list[float] = []
    async with world(joining) as w:
        key = await w.start(joining)
        await settle(20)
        await w.send(key, "m")
        found = await w.result(key)
        assert found == {"sleeps": 1, "retries": 10, "listens": pytest.approx(20), "works": 100}


@virtually
async def test_branches_by_other_names_are_reported_before_anything_new_runs() -> None:
    def branches(names: str) -> Any:
        @workflow(name="joining")
        async def joining(ctx: Context) -> None:
            sleeping: dict[str, Any] = {name: lambda c: c.sleep(10) for name in names}
            await ctx.join(**sleeping)

        return joining

    async with world(branches("ab")) as w:
        key = await w.start(branches("ab"))
        await settle()
        before = await w.rows(key)
    async with world(branches("ax"), store=w.store) as again:
        await again.tell(key, messages.TickMessage())
        await settle(11)
        folded = await again.fold(key)
        assert folded.parked is not None and folded.parked.reason == "diverged"
        assert "join" in folded.parked.detail[0]
        assert (await again.rows(key))[: len(before)] == before


@virtually
async def test_a_map_runs_at_most_its_limit_at_a_time_and_keeps_the_order() -> None:
    running, most = 0, 0

    @step
    async def counted(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(10 - n)
        running -= 1
        return n

    @workflow
    async def mapping(ctx: Context) -> list[int]:
        return await ctx.map(lambda c, n: c.step(counted, n), range(7), limit=3)

    async with world(mapping) as w:
        assert await w.run(mapping) == list(range(7))
        assert most == 3


@virtually
async def test_a_map_over_nothing_returns_nothing_and_a_map_that_fails_names_the_items() -> None:
    @workflow
    async def mapping(ctx: Context) -> Any:
        assert await ctx.map(lambda c, n: c.step(plain, n), []) == []

        async def odd(c: Context, n: int) -> int:
            if n % 2:
                raise ValueError(n)
            return n

        try:
            await ctx.map(odd, range(4), limit=1)
        except JoinFailed as failed:
            return [sorted(failed.errors), dict(failed.outputs)]

    async with world(mapping) as w:
        assert await w.run(mapping) == [["1", "3"], {"0": 0, "2": 2}]


@virtually
async def test_a_race_of_nothing_or_a_join_of_no_functions_says_what_to_pass() -> None:
    @workflow
    async def joining(ctx: Context) -> list[str]:
        found = []
        wrong: Any = ctx
        calls: list[Callable[[], Any]] = [
            lambda: wrong.race(),
            lambda: wrong.join(ctx.sleep(1)),
            lambda: wrong.join(3),
            lambda: wrong.map(plain, [1], limit=0),
        ]
        for call in calls:
            try:
                await call()
            except (WrongVerb, ValueError) as error:
                found.append(str(error))
        return found

    async with world(joining) as w:
        nothing, coroutine, number, limit = await w.run(joining)
        assert "Give at least one" in nothing
        assert "Pass a step, a workflow or a function of a context" in coroutine and "a function of a context" in number
        assert "a whole number from 1" in limit


@pytest.mark.slow
@virtually
async def test_nested_joins_maps_and_races_come_back_from_every_cut() -> None:
    @workflow
    async def nested(ctx: Context) -> Any:
        async def inner(c: Context, n: int) -> Any:
            won = await c.race(a=lambda d: d.step(takes, 1e6 * (n % 2)), b=lambda d: d.sleep(10 if n % 2 else 1e8))
            return [won.name, await c.step(plain, n)]

        async def outer(c: Context) -> Any:
            return await c.map(inner, [1, 2, 3], limit=2)

        both = await ctx.join(left=outer, right=lambda c: c.listen("m"))
        await ctx.sleep(1)
        return dict(both)

    async def say(w: Any, key: Any) -> None:
        await w.send(key, "m", "heard", once="only")

    assert await every_cut(nested, say=say) == {"left": [["b", 1], ["a", 2], ["b", 3]], "right": "heard"}


# cost


def calls_during(work: Callable[[], object]) -> int:
    """How many functions, in Python and in C, are called in `work`."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    outer = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(outer)
    return count


def joined(count: int) -> Hand:
    async def joining(ctx: Context) -> int:
        branches: dict[str, Any] = {f"b{number}": lambda c: c.step(plain, 1) for number in range(count)}
        return len(await ctx.join(**branches))

    return Hand(joining).start()


def settle_all(hand: Hand, paths: Sequence[Path]) -> None:
    for path in paths:
        hand.settle(path, 1)


def cost_of_a_join(count: int) -> tuple[int, int, int]:
    """Calls to open, settle and rebuild it, events, and bytes."""
    calls = calls_during(lambda: joined(count))
    hand = joined(count)
    paths = list(hand.execution.open)
    calls += calls_during(lambda: settle_all(hand, paths))
    assert hand.result == count
    return calls + calls_during(hand.rebuilt), len(hand.log), len(log_format.encode_row(hand.log))


@pytest.mark.slow
def test_a_join_of_a_thousand_branches_is_linear_in_calls_events_and_bytes() -> None:
    ratios = [large / small for small, large in zip(cost_of_a_join(100), cost_of_a_join(1000), strict=True)]
    assert all(ratio < 11 for ratio in ratios), ratios


def cost_of_the_last_but_one(count: int) -> int:
    hand = joined(count)
    paths = list(hand.execution.open)
    settle_all(hand, paths[:-2])
    return calls_during(lambda: hand.settle(paths[-2], 1))


@pytest.mark.slow
def test_the_last_branch_of_a_thousand_costs_what_the_last_of_a_hundred_costs() -> None:
    assert cost_of_the_last_but_one(1000) <= cost_of_the_last_but_one(100) + 5


@pytest.mark.slow
@resident
async def test_a_thousand_branches_in_an_engine_end_and_each_step_ran_once() -> None:
    ran: list[int] = []

    @step
    async def once(n: int) -> int:
        ran.append(n)
        return n

    @workflow
    async def mapping(ctx: Context) -> int:
        return sum(await ctx.map(lambda c, n: c.step(once, n), range(1000)))

    async with world(mapping) as w:
        assert await w.run(mapping) == sum(range(1000))
        assert sorted(ran) == list(range(1000))
        settled = (await w.fold(w.key(mapping))).settled
        assert all(isinstance(one.outcome, Success) for one in settled.values())
        assert len({path_text(path) for path in settled}) == 1001
