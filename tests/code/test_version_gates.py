"""Claims about gates: code changes under executions in flight, and each goes on the way it went."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Context, Diverged, Fatal, step
from perdure.core import events as e
from perdure.core import messages
from perdure.core.errors import BadName, BadValue
from perdure.core.operations import KeepOperation, ReceiveOperation
from perdure.core.paths import path_text
from tests.code.decision_driver import Hand


@step
def first() -> str:
    return "first"


ran: list[str] = []


@step
def old() -> str:
    ran.append("old")
    return "old"


@step
def new() -> str:
    return "new"


@step
def newest() -> str:
    return "newest"


@step
def last() -> str:
    return "last"


async def v1(ctx: Context) -> list[str]:
    return [await ctx.step(first), await ctx.step(old), await ctx.step(last)]


async def v2(ctx: Context) -> list[str]:
    found = [await ctx.step(first)]
    found.append(await ctx.step(new if await ctx.version("way", 2) >= 2 else old))
    return [*found, await ctx.step(last)]


async def v3(ctx: Context) -> list[str]:
    found = [await ctx.step(first)]
    way = await ctx.version("way", 3)
    found.append(await ctx.step({1: old, 2: new, 3: newest}[way]))
    return [*found, await ctx.step(last)]


def after(code: Callable[..., Any], steps: int) -> Hand:
    """An execution on this code, that many steps into its life."""
    hand = Hand(code).start()
    for _ in range(steps):
        assert hand.perform()
    return hand


WAYS = {
    (v1, 0): "newest",
    (v1, 1): "old",
    (v1, 2): "old",
    (v2, 0): "newest",
    (v2, 1): "new",
    (v2, 2): "new",
}


@pytest.mark.parametrize(("code", "steps"), WAYS, ids=lambda part: getattr(part, "__name__", str(part)))
def test_through_three_deploys_an_execution_goes_the_way_that_it_began(code: Callable[..., Any], steps: int) -> None:
    hand = after(code, steps)
    for later in (v2, v3):
        if later is not code:
            hand.restart(later)
    assert hand.run().result == ["first", WAYS[code, steps], "last"]
    hand.restart(v3)


def test_a_gate_costs_one_kept_value_and_none_where_an_execution_passed_before_it() -> None:
    fresh, in_flight = after(v2, 3), after(v1, 2).restart(v2).run()
    gates = [
        [path_text(event.path) for event in hand.log if isinstance(event, e.OpenedEvent) and isinstance(event.op, KeepOperation)] for hand in (fresh, in_flight)
    ]
    assert gates == [["version:way"], []]


def test_code_that_is_older_than_an_execution_stops_before_it_does_anything() -> None:
    hand = after(v3, 1)
    _, _, diverged = hand.rebuilt(v2)
    assert isinstance(diverged, Diverged) and "version 3" in str(diverged) and "newer code" in str(diverged)
    _, _, diverged = hand.rebuilt(v1)
    assert isinstance(diverged, Diverged)
    assert hand.restart(v3).run().result == ["first", "newest", "last"]


async def turns_v1(ctx: Context) -> list[str]:
    async for turn in ctx.loop("turns", state=list[str](), keep=2):
        turn.state = [*turn.state, await turn.step(old)]
        if turn.number == 4:
            return turn.state
    return []


async def turns_v2(ctx: Context) -> list[str]:
    async for turn in ctx.loop("turns", state=list[str](), keep=2):
        way = await turn.version("way", 2)
        turn.state = [*turn.state, await turn.step(new if way >= 2 else old)]
        if turn.number == 4:
            return turn.state
    return []


def test_each_turn_of_a_loop_decides_for_itself() -> None:
    hand = after(turns_v1, 2).restart(turns_v2)  # in the third turn the old step is open
    assert hand.run().result == ["old", "old", "old", "new", "new"]


def test_each_place_decides_for_itself_and_branches_do() -> None:
    async def before(ctx: Context) -> Any:
        async def quick(c: Context) -> str:
            return await c.step(old)

        async def slow(c: Context) -> str:
            await c.sleep(10)
            return await c.step(old)

        return list(await ctx.join(quick, slow))

    async def later(ctx: Context) -> Any:
        async def quick(c: Context) -> str:
            return await c.step(new if await c.version("way", 2) >= 2 else old)

        async def slow(c: Context) -> str:
            await c.sleep(10)
            return await c.step(new if await c.version("way", 2) >= 2 else old)

        return list(await ctx.join(quick, slow))

    hand = after(before, 1).restart(later)
    assert hand.run().result == ["old", "new"]


def test_a_reopened_execution_goes_the_old_way_as_long_as_it_is_where_it_has_been() -> None:
    async def fails(ctx: Context) -> list[str]:
        return [await ctx.step(first), await ctx.step(old), await ctx.step(broken), await ctx.step(last)]

    async def mended(ctx: Context) -> list[str]:
        found = [await ctx.step(first)]
        found.append(await ctx.step(new if await ctx.version("one", 2) >= 2 else old))
        found.append(await ctx.step(new if await ctx.version("two", 2) >= 2 else broken))
        return [*found, await ctx.step(last)]

    @step
    def broken() -> str:
        raise Fatal("broken")

    hand = Hand(fails).start().run()
    assert hand.execution.status == "failed"
    hand.restart(mended)
    hand.tell(messages.RetryMessage("mended"))
    assert hand.run().result == ["first", "old", "new", "last"]
    assert hand.performed == ["first", "old", "broken", "new", "last"], "what had succeeded is not done again"
    hand.restart()


async def whole(ctx: Context) -> list[Any]:
    found: list[Any] = [await ctx.step(first)]
    await ctx.sleep("1h")
    await ctx.step(old)
    ctx.set("progress", 1)
    ctx.emit("half")
    await ctx.keep("number", lambda: 7)
    await ctx.send(ctx.execution.key, "note", "me")
    await ctx.listen("note")
    return [*found, await ctx.step(last)]


async def without(ctx: Context) -> list[Any]:
    found: list[Any] = [await ctx.step(first)]
    await ctx.removed("sleep:1h", "sleep")
    await ctx.removed("old", "step")
    await ctx.removed("set:progress", "set")
    await ctx.removed("emit", "emit")
    await ctx.removed("number", "keep")
    await ctx.removed("send:note", "send")
    await ctx.removed("listen:note", "listen")
    return [*found, await ctx.step(last)]


def moved(hand: Hand, events: float = float("inf")) -> Hand:
    """Go on until the log has so many events, or nothing is left to do."""
    while hand.execution.ended is None and len(hand.log) < events and (hand.perform() or hand.tick()):
        if any(isinstance(pending.op, ReceiveOperation) for pending in hand.execution.open.values()):
            hand.signal("note")
    return hand


def test_what_was_removed_is_taken_from_the_log_of_an_execution_wherever_it_stands() -> None:
    undisturbed = moved(Hand(whole).start())
    given = [number for number, event in enumerate(undisturbed.log) if type(event) not in e.COMMAND_EVENTS]
    for end in [*given[1:], len(undisturbed.log)]:
        hand = moved(Hand(whole).start(), end)
        hand.restart(without)
        assert moved(hand).result == ["first", "last"], f"restarted behind {len(hand.log)} events"
        hand.restart(without)
    fresh = Hand(without).start().run()
    assert fresh.result == ["first", "last"] and fresh.performed == ["first", "last"]


def test_a_removed_step_that_is_open_is_not_run_again() -> None:
    hand = after(whole, 1)
    hand.tick()
    assert [path_text(path) for path in hand.execution.open] == ["old"]
    hand.restart(without)
    ran.clear()
    assert hand.perform() and hand.run().result == ["first", "last"]
    assert "old" not in ran


def test_what_is_not_removed_still_differs() -> None:
    async def too_little(ctx: Context) -> list[Any]:
        found: list[Any] = [await ctx.step(first)]
        await ctx.removed("sleep:1h", "step")  # it was a sleep
        return [*found, await ctx.step(last)]

    hand = after(whole, 1)
    _, _, diverged = hand.rebuilt(too_little)
    assert isinstance(diverged, Diverged) and "sleep:1h" in str(diverged)


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda ctx: ctx.removed("x", "join"), BadValue),
        (lambda ctx: ctx.removed("", "step"), BadName),
        (lambda ctx: ctx.version("", 2), BadName),
        (lambda ctx: ctx.version("x", 0), BadValue),
        (lambda ctx: ctx.version("x", 1.5), BadValue),
        (lambda ctx: ctx.version("x", True), BadValue),
    ],
)
def test_a_gate_that_means_nothing_is_an_error_of_the_code(use: Callable[[Any], Any], error: type[Exception]) -> None:
    async def wrong(ctx: Context) -> str:
        with pytest.raises(error):
            await use(ctx)
        return "refused"

    assert Hand(wrong).start().run().result == "refused"


def test_a_gate_in_a_helper_task_is_the_task_s_own() -> None:
    async def code(ctx: Context) -> list[int]:
        async def ask() -> int:
            return await ctx.version("way", 3)

        return [*await asyncio.gather(ask(), ask()), await ctx.version("way", 3), await ctx.version("way", 3)]

    hand = Hand(code).start().run()
    assert hand.result == [3, 3, 3, 3]
    hand.restart()
