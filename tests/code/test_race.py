"""Claims about races: the first that returns wins at once, losers end in mid-step, and what they held goes back."""

import asyncio
from typing import Any

import pytest

from perdure import Context, Fatal, RaceFailed, Retry, Won, step, workflow
from perdure.core import events as e
from perdure.core import messages
from perdure.core.limits import GRACE_S
from perdure.core.paths import Key, path_text
from tests.code.engines import MemoryEngine, every_cut, resident, settle, virtually, world

ended: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ended() -> None:
    ended.clear()


@step
async def never() -> str:
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        ended.append("never")
        raise
    return "not reached"


@step
async def quick(word: str) -> str:
    return word


@step
async def slow(word: str, s: float) -> str:
    await asyncio.sleep(s)
    ended.append(word)
    return word


@step(retry=Retry(max=1))
async def bad() -> str:
    raise ValueError("bad")


async def listening(c: Context) -> Any:
    return await c.listen("m")


@virtually
async def test_a_race_is_won_by_a_timer_while_the_other_branch_is_in_mid_step() -> None:
    @workflow
    async def racing(ctx: Context) -> float:
        begun = ctx.now()
        won = await ctx.race(work=lambda c: c.step(never), late=lambda c: c.sleep(5))
        assert won == Won("late")
        return (ctx.now() - begun).total_seconds()

    ended.clear()
    async with world(racing) as w:
        assert await w.run(racing) == 5
        await settle()
        assert ended == ["never"], "the step's task was cancelled"


@pytest.mark.slow
@virtually
async def test_a_loser_is_cancelled_in_mid_step_before_the_workflow_goes_on() -> None:
    @workflow
    async def racing(ctx: Context) -> str:
        won = await ctx.race(fast=lambda c: c.step(slow, "fast", 0.5), stuck=lambda c: c.step(never))
        await ctx.sleep("1h")
        return won.name

    ended.clear()
    async with world(racing) as w:
        key = await w.start(racing)
        await settle(1)
        assert ended == ["fast", "never"]
        assert not (await w.fold(key)).opened.performing()
        assert await w.result(key) == "fast"


@virtually
async def test_a_step_of_a_loser_that_answers_late_changes_nothing() -> None:
    @step
    async def stubborn() -> str:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        return "too late"

    @workflow
    async def racing(ctx: Context) -> str:
        won = await ctx.race(late=lambda c: c.step(stubborn), timer=lambda c: c.sleep(1))
        await ctx.sleep(10)
        return won.name

    async with world(racing) as w:
        key = await w.start(racing)
        assert await w.result(key) == "timer"
        assert not any(isinstance(event, e.SettledEvent) and "stubborn" in path_text(event.path) for event in await w.events(key))


@virtually
async def test_the_first_branch_that_returns_wins_even_when_another_failed_before() -> None:
    @workflow
    async def racing(ctx: Context) -> str:
        return (await ctx.race(broken=lambda c: c.step(bad), good=lambda c: c.step(slow, "good", 3.0))).value

    async with world(racing) as w:
        assert await w.run(racing) == "good"


@virtually
async def test_a_race_that_all_branches_lose_raises_the_error_of_each() -> None:
    @workflow
    async def racing(ctx: Context) -> list[str]:
        async def raises(c: Context) -> None:
            raise KeyError("own")

        try:
            await ctx.race(step=lambda c: c.step(bad), own=raises)
        except RaceFailed as failed:
            return sorted(f"{name}: {type(error).__name__}" for name, error in failed.errors.items())
        return []

    async with world(racing) as w:
        assert await w.run(racing) == ["own: KeyError", "step: StepFailed"]


@virtually
async def test_the_winner_is_what_a_replay_returns() -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        first = await ctx.race(a=lambda c: c.step(slow, "a", 2.0), b=lambda c: c.step(slow, "b", 1.0), c=lambda c: c.step(never))
        second = await ctx.race(a=lambda c: c.step(slow, "a", 1.0), b=lambda c: c.step(slow, "b", 2.0))
        await ctx.sleep(5)
        return [first.name, first.value, second.name, second.value]

    assert await every_cut(racing) == ["b", "b", "a", "a"]


@resident
async def test_of_branches_that_are_ready_together_the_first_in_the_log_wins() -> None:
    @workflow
    async def racing(ctx: Context) -> str:
        async def at_once(c: Context) -> str:
            return "at once"

        return (await ctx.race(sleeper=lambda c: c.sleep(0), returner=at_once, other=at_once)).name

    async with world(racing) as w:
        found = {await w.run(racing, id=str(number)) for number in range(5)}
        assert found == {"returner"}


# what losers hold


@virtually
async def test_a_message_that_a_loser_received_and_did_not_use_goes_back_to_its_place() -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        async def greedy(c: Context) -> None:
            await c.listen("m")
            await asyncio.Event().wait()

        await ctx.race(greedy=greedy, timer=lambda c: c.sleep(5))
        return [await ctx.listen("m") for _ in range(3)]

    async with world(racing) as w:
        key = await w.start(racing)
        for number in range(3):
            await w.send(key, "m", number)
        assert await w.result(key) == [0, 1, 2]


@virtually
async def test_a_message_that_a_loser_has_used_stays_used() -> None:
    @workflow
    async def racing(ctx: Context) -> Any:
        async def user(c: Context) -> None:
            await c.step(slow, await c.listen("m"), 0.0)
            await c.sleep("1d")

        await ctx.race(user=user, timer=lambda c: c.sleep(5))
        return await ctx.listen("m", timeout=1, default="nothing")

    async with world(racing) as w:
        key = await w.start(racing)
        await w.send(key, "m", "used")
        assert await w.result(key) == "nothing"


@virtually
async def test_a_message_that_a_nested_branch_of_a_loser_returned_goes_back() -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        async def nested(c: Context) -> None:
            await c.join(got=listening, also=listening, waits=lambda d: d.sleep("1d"))

        await ctx.race(nested=nested, timer=lambda c: c.sleep(5))
        return [await ctx.listen("m", timeout=1, default="lost") for _ in range(3)]

    async with world(racing) as w:
        key = await w.start(racing)
        for number in range(3):
            await w.send(key, "m", number)
        assert await w.result(key) == [0, 1, 2]


@virtually
async def test_a_message_that_a_nested_race_of_a_loser_won_goes_back() -> None:
    @workflow
    async def racing(ctx: Context) -> Any:
        async def nested(c: Context) -> None:
            await c.race(got=listening, waits=lambda d: d.sleep("1d"))
            await asyncio.Event().wait()

        await ctx.race(nested=nested, timer=lambda c: c.sleep(5))
        return await ctx.listen("m", timeout=1, default="lost")

    async with world(racing) as w:
        key = await w.start(racing)
        await w.send(key, "m", "back")
        assert await w.result(key) == "back"


@virtually
async def test_a_message_that_a_nested_join_returned_and_the_loser_used_stays_used() -> None:
    @workflow
    async def racing(ctx: Context) -> Any:
        async def nested(c: Context) -> None:
            got, _ = await c.join(listening, lambda d: d.sleep(1))
            await c.step(quick, got)
            await c.sleep("1d")

        await ctx.race(nested=nested, timer=lambda c: c.sleep(5))
        return await ctx.listen("m", timeout=1, default="nothing")

    async with world(racing) as w:
        key = await w.start(racing)
        await w.send(key, "m", "used")
        assert await w.result(key) == "nothing"


@virtually
async def test_a_message_in_a_loop_turn_of_a_loser_goes_back() -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        async def looping(c: Context) -> None:
            async for turn in c.loop("l", state=0):
                got = await turn.listen("m")
                if got < 2:
                    await turn.step(quick, "used")
                else:
                    await asyncio.Event().wait()

        await ctx.race(looping=looping, timer=lambda c: c.sleep(5))
        return [await ctx.listen("m", timeout=1, default="lost") for _ in range(2)]

    async with world(racing) as w:
        key = await w.start(racing)
        for number in range(4):
            await w.send(key, "m", number)
        assert await w.result(key) == [2, 3]


@virtually
async def test_messages_that_gathered_tasks_of_a_loser_received_all_go_back() -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        async def gathering(c: Context) -> None:
            await asyncio.gather(c.listen("m"), c.listen("m"), c.sleep("1d"))

        await ctx.race(gathering=gathering, timer=lambda c: c.sleep(5))
        return [await ctx.listen("m", timeout=1, default="lost") for _ in range(3)]

    async with world(racing) as w:
        key = await w.start(racing)
        for number in range(3):
            await w.send(key, "m", number)
        assert await w.result(key) == [0, 1, 2]


@virtually
async def test_a_message_that_a_task_of_a_loser_used_stays_used_while_its_sibling_waits() -> None:
    @workflow
    async def racing(ctx: Context) -> Any:
        async def gathering(c: Context) -> None:
            async def use() -> None:
                await c.step(quick, await c.listen("m"))
                await c.sleep("1d")

            await asyncio.gather(use(), c.sleep("1d"))

        await ctx.race(gathering=gathering, timer=lambda c: c.sleep(5))
        return await ctx.listen("m", timeout=1, default="nothing")

    async with world(racing) as w:
        key = await w.start(racing)
        await w.send(key, "m", "used")
        assert await w.result(key) == "nothing"


@virtually
async def test_gathered_messages_that_the_loser_then_used_stay_used() -> None:
    @workflow
    async def racing(ctx: Context) -> Any:
        async def gathering(c: Context) -> None:
            a, b = await asyncio.gather(c.listen("m"), c.listen("m"))
            await c.step(quick, a + b)
            await c.sleep("1d")

        await ctx.race(gathering=gathering, timer=lambda c: c.sleep(5))
        return await ctx.listen("m", timeout=1, default="nothing")

    async with world(racing) as w:
        key = await w.start(racing)
        await w.send(key, "m", "a")
        await w.send(key, "m", "b")
        assert await w.result(key) == "nothing"


@virtually
async def test_a_completable_message_goes_back_if_its_branch_loses_before_completing_it() -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        async def holds(c: Context) -> None:
            await c.listen("m", completable=True)
            await c.step(quick, "working on it")
            await c.sleep("1d")

        async def completes(c: Context) -> None:
            (await c.listen("n", completable=True)).complete("done")
            await c.sleep("1d")

        await ctx.race(holds=holds, completes=completes, timer=lambda c: c.sleep(5))
        return [await ctx.listen("m", timeout=1, default="lost"), await ctx.listen("n", timeout=1, default="done")]

    async with world(racing) as w:
        key = await w.start(racing)
        await w.send(key, "m", "back")
        await w.send(key, "n", "completed")
        assert await w.result(key) == ["back", "done"]


@step
async def child_step(word: str) -> str:
    return word


@workflow
async def child(ctx: Context, word: str) -> str:
    return await ctx.step(child_step, word)


async def sleeps(c: Context) -> None:
    await c.sleep(1)


async def listens_again(c: Context) -> None:
    await c.listen("other", timeout=1, default=None)


async def records(c: Context) -> None:
    await c.keep("k", lambda: 1)
    c.set("s", 1)
    c.set_attributes({"a": 1})
    c.emit(1)
    await c.version("v", 2)


async def does_nothing_in_branches(c: Context) -> None:
    await c.join(sleeps, records)
    await c.race(a=sleeps, b=listens_again)


async def has_a_step_in_flight(c: Context) -> None:
    await c.step(never)


async def fails(c: Context) -> None:
    raise ValueError("bad")


async def settles_a_step(c: Context) -> None:
    await c.step(quick, "x")


async def settles_a_failing_step(c: Context) -> None:
    await c.attempt(bad)


async def settles_a_child(c: Context) -> None:
    await c.call(child, "x")


async def starts_a_child(c: Context) -> None:
    await c.start(child, "x")


async def sends(c: Context) -> None:
    await c.send(c.execution.key, "other", 1)


async def turns(c: Context) -> None:
    async for turn in c.loop("l", state=0):
        if turn.number:
            break


async def settles_a_step_in_a_branch(c: Context) -> None:
    await c.join(settles_a_step, sleeps)


BACK = (sleeps, listens_again, records, does_nothing_in_branches, has_a_step_in_flight, fails)
USED = (settles_a_step, settles_a_failing_step, settles_a_child, starts_a_child, sends, turns, settles_a_step_in_a_branch)


@pytest.mark.parametrize(("after", "left"), [*((after, [0, 1, 2]) for after in BACK), *((after, [1, 2]) for after in USED)])
@pytest.mark.parametrize("how", ["race", "nested", "cancelled task"])
@virtually
async def test_a_losers_message_goes_back_in_order_unless_it_did_something_with_it(after: Any, left: list[int], how: str) -> None:
    if how == "cancelled task" and after is fails:
        pytest.skip("a task that fails is not cancelled")

    async def loser(c: Context) -> None:
        await c.listen("m")
        await after(c)
        await c.sleep("1d")

    @workflow
    async def racing(ctx: Context) -> list[Any]:
        match how:
            case "race":
                await ctx.race(loser=loser, timer=lambda c: c.sleep(60))
            case "nested":
                await ctx.race(loser=lambda c: c.join(inner=loser, waits=lambda d: d.sleep("1d")), timer=lambda c: c.sleep(60))
            case _:
                task = asyncio.create_task(loser(ctx))
                await ctx.sleep(60)
                task.cancel()
                await ctx.sleep(0)
        return await ctx.listen_many("m", limit=9, timeout=1)

    async with world(racing, child) as w:
        key = await w.start(racing)
        for number in range(3):
            await w.send(key, "m", number)
        assert await w.result(key) == left
        await w.replayed(key)


@virtually
async def test_of_turns_that_lose_what_was_received_before_the_last_commit_is_used() -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        async def serves(c: Context) -> None:
            async for turn in c.loop("l", state=0, commit_every=3):
                await turn.listen("m")

        await ctx.race(serves=serves, timer=lambda c: c.sleep(60))
        return await ctx.listen_many("m", limit=9, timeout=1)

    async with world(racing) as w:
        key = await w.start(racing)
        for number in range(8):
            await w.send(key, "m", number)
        assert await w.result(key) == [6, 7]


@pytest.mark.slow
@virtually
async def test_a_server_that_loses_gives_back_the_job_in_hand_and_none_that_it_has_done() -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        async def serves(c: Context) -> None:
            async for turn in c.loop("l", state=0, keep=2):
                await turn.step(slow, str(await turn.listen("job")), 4.0)

        await ctx.race(serves=serves, timer=lambda c: c.sleep(81))
        return await ctx.listen_many("job", limit=99, timeout=1)

    async with world(racing) as w:
        key = await w.start(racing)
        for number in range(25):
            await w.send(key, "job", number)
        assert await w.result(key) == [20, 21, 22, 23, 24]


@pytest.mark.parametrize(("uses", "left"), [(True, []), (False, [0, 1])])
@virtually
async def test_messages_of_branches_that_all_failed_are_the_callers(uses: bool, left: list[int]) -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        async def failing(c: Context) -> None:
            await c.listen("m")
            raise ValueError

        async def catches(c: Context) -> None:
            with pytest.raises(RaceFailed):
                await c.race(a=failing, b=failing)
            if uses:
                await c.step(quick, "used")
            await c.sleep("1d")

        await ctx.race(catches=catches, timer=lambda c: c.sleep(5))
        return await ctx.listen_many("m", limit=9, timeout=1)

    async with world(racing) as w:
        key = await w.start(racing)
        for number in range(2):
            await w.send(key, "m", number)
        assert await w.result(key) == left


@virtually
async def test_a_message_that_went_back_is_neither_lost_nor_taken_twice_from_every_cut() -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        async def loser(c: Context) -> None:
            first = await c.listen("m")
            await c.step(quick, str(first))
            await c.listen("m")
            await c.listen("never")

        await ctx.race(loser=loser, wins=lambda c: c.listen("go"))
        return await ctx.listen_many("m", limit=9, timeout=1)

    async def say(w: MemoryEngine, key: Key) -> None:
        for number in range(3):
            await w.send(key, "m", number, once=f"k{number}")
        await settle(1)
        await w.send(key, "go", once="go")

    assert await every_cut(racing, say=say) == [1, 2]


@virtually
async def test_a_message_that_goes_back_is_served_at_once_to_who_waits_for_it() -> None:
    @workflow
    async def racing(ctx: Context) -> list[Any]:
        async def greedy(c: Context) -> None:
            await c.listen("m")
            await asyncio.Event().wait()

        async def inner(c: Context) -> None:
            await c.race(greedy=greedy, timer=lambda d: d.sleep(5))
            await c.sleep(100)

        async def waits(c: Context) -> float:
            await c.sleep(1)
            await c.listen("m")
            return c.now().timestamp() - begun

        begun = ctx.now().timestamp()
        return list(await ctx.join(inner, waits))

    async with world(racing) as w:
        key = await w.start(racing)
        await w.send(key, "m")
        assert await w.result(key) == [None, 5]


@virtually
async def test_a_race_lost_by_its_whole_branch_ends_every_step_below() -> None:
    @workflow
    async def racing(ctx: Context) -> None:
        async def deep(c: Context) -> None:
            async def deeper(d: Context) -> None:
                await d.map(lambda m, _: m.step(never), range(3))

            await c.join(deeper, lambda d: d.step(never))

        await ctx.race(deep=deep, timer=lambda c: c.sleep(1))
        await ctx.sleep(5)

    ended.clear()
    async with world(racing) as w:
        key = await w.start(racing)
        await settle(3)
        assert ended == ["never"] * 4
        assert {path_text(path) for path in (await w.fold(key)).open} == {"sleep:5s"}
        await w.result(key)


@virtually
async def test_a_loser_that_takes_its_time_to_clean_up_holds_up_only_the_end() -> None:
    @workflow
    async def racing(ctx: Context) -> float:
        async def refuses(c: Context) -> None:
            try:
                await c.sleep("1d")
            except asyncio.CancelledError:
                await c.sleep(500)

        begun = ctx.now()
        await ctx.race(refuses=refuses, timer=lambda c: c.sleep(5))
        await ctx.step(quick, "at once")
        return (ctx.now() - begun).total_seconds()

    async with world(racing) as w:
        key = await w.start(racing)
        assert await w.result(key) < 7
        folded = await w.fold(key)
        assert folded.ended is not None and folded.started is not None
        assert folded.ended.at_s - folded.started.at_s >= 505


@virtually
async def test_cancelling_a_race_cancels_all_its_branches() -> None:
    @workflow
    async def racing(ctx: Context) -> None:
        await ctx.race(a=lambda c: c.step(never), b=lambda c: c.step(never))

    ended.clear()
    async with world(racing) as w:
        key = await w.start(racing)
        await settle()
        await w.tell(key, messages.CancelMessage("enough"))
        await settle()
        assert ended == [] and (await w.fold(key)).status == "ending"
        await settle(GRACE_S)
        assert ended == ["never"] * 2
        assert (await w.fold(key)).status == "cancelled"


@virtually
async def test_a_fatal_error_in_a_branch_is_an_error_like_any_other() -> None:
    @step
    async def fatal() -> None:
        raise Fatal("no use")

    @workflow
    async def racing(ctx: Context) -> str:
        return (await ctx.race(fatal=lambda c: c.step(fatal), timer=lambda c: c.sleep(1))).name

    async with world(racing) as w:
        assert await w.run(racing) == "timer"
