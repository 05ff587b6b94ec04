"""When code no longer matches a log: the first mismatch is found before anything new runs, and explained in words."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Signal, step
from perdure.code.divergence_report import explain_divergence
from perdure.core import events as e
from perdure.core import log_format, messages, values
from perdure.core.compaction import compact_log
from perdure.core.decision import decide
from perdure.core.errors import Diverged, Fatal
from perdure.core.execution import execution_facts
from perdure.core.operations import Success
from perdure.core.paths import path_text
from perdure.core.time_bounds import TimeBounds
from tests.code.decision_driver import HOST, Hand, drive

Code = Callable[..., Coroutine[Any, Any, Any]]


@step
def charge() -> str:
    return "charged"


@step
def charge_card() -> str:
    return "charged"


@step
def ship() -> str:
    return "shipped"


@step
def count() -> int:
    return 1


@step
def audit() -> dict[str, int]:
    return {}


def steps(*wanted: Any) -> Code:
    """A workflow of these steps, one after the other, that then waits for a message."""

    async def workflow(ctx: Context) -> None:
        for one in wanted:
            await ctx.step(one)
        await ctx.listen("end")

    return workflow


def in_branches(verb: str, **branches: Any) -> Code:
    """A workflow that runs a step in each branch of a join or race, and waits for a message."""

    async def workflow(ctx: Context) -> None:
        def branch(fn: Any) -> Any:
            return lambda c: c.step(fn)

        await getattr(ctx, verb)(**{name: branch(fn) for name, fn in branches.items()})
        await ctx.listen("end")

    return workflow


def diverged(code: Code, hand: Hand) -> tuple[str, ...]:
    """The lines about how `code` differs from the log of `hand`; nothing may be performed or changed by asking."""
    before, performed = list(hand.log), list(hand.performed)
    execution, instance, found = hand.rebuilt(code)
    assert found is not None, "the code matches"
    lines = drive(explain_divergence(CodeWorkflow(code, "workflow"), hand.key, hand.log, found), hand.blobs)
    instance.close()
    assert (hand.log, hand.performed) == (before, performed)
    assert execution_facts(execution) == execution_facts(hand.execution)
    return lines


def changed(old: Code, new: Code) -> tuple[str, ...]:
    """The lines about how `new` differs from what `old` has left in its log, once it waits or has performed all it can."""
    return diverged(new, Hand(old).start().run())


# Steps, one after the other.


def test_a_renamed_step_is_reported_as_renamed_at_the_root() -> None:
    assert changed(steps(ship, charge, audit), steps(ship, charge_card, audit)) == ("renamed: charge (call charge) is now charge_card (call charge_card)",)


def test_two_renamed_steps_are_reported_in_their_order() -> None:
    assert changed(steps(charge, ship), steps(charge_card, count)) == (
        "renamed: charge (call charge) is now charge_card (call charge_card)",
        "renamed: ship (call ship) is now count (call count)",
    )


def test_a_step_renamed_while_it_is_under_way_is_reported_as_renamed() -> None:
    assert diverged(steps(charge_card), Hand(steps(charge)).start()) == ("renamed: charge (call charge) is now charge_card (call charge_card)",)


def test_a_removed_step_is_reported_as_removed() -> None:
    assert changed(steps(charge, ship, audit), steps(charge, audit)) == ("removed: ship (call ship) is remembered, where audit (call audit) is asked now",)


def test_a_step_removed_from_the_end_is_reported_as_removed() -> None:
    async def ends(ctx: Context) -> None:
        await ctx.step(charge)

    assert changed(steps(charge), ends) == ("removed: listen:end (receive end) is remembered, where nothing is asked now",)


@pytest.mark.parametrize("new", [charge_card, count, audit], ids=lambda new: str(new.name))
def test_an_inserted_step_is_reported_as_inserted_whatever_it_returns(new: Any) -> None:
    line = f"inserted: {new.name} (call {new.name}) is asked now, where ship (call ship) is remembered"
    assert changed(steps(charge, ship), steps(charge, new, ship)) == (line,)


def test_two_inserted_steps_are_reported_as_inserted() -> None:
    assert changed(steps(charge, ship), steps(count, audit, charge, ship)) == (
        "inserted: count (call count) is asked now, where charge (call charge) is remembered",
        "inserted: audit (call audit) is asked now, where charge (call charge) is remembered",
    )


def test_a_renamed_step_is_told_from_an_inserted_one_by_its_name() -> None:
    assert changed(steps(charge), steps(audit, charge_card)) == (
        "renamed: charge (call charge) is now charge_card (call charge_card)",
        "inserted: audit (call audit) is asked now, where listen:end (receive end) is remembered",
    )


def test_reordered_steps_are_reported_once() -> None:
    line = "reordered: charge (call charge) is remembered where ship (call ship) is asked now"
    assert changed(steps(charge, ship, audit), steps(ship, charge, audit)) == (line,)
    assert changed(steps(charge, ship, audit), steps(ship, audit, charge)) == (line,)


def test_another_function_under_the_same_name_is_reported_as_another_target() -> None:
    async def old(ctx: Context) -> None:
        await ctx.step("pay", charge)
        await ctx.step(ship)

    async def new(ctx: Context) -> None:
        await ctx.step("pay", count)
        await ctx.step(ship)
        await ctx.listen("end")

    assert changed(old_and_wait(old), new) == ("other target: pay (call charge) is now pay (call count)",)


def old_and_wait(code: Code) -> Code:
    """The workflow `code`, which then waits for a message."""

    async def workflow(ctx: Context) -> None:
        await code(ctx)
        await ctx.listen("end")

    return workflow


def test_a_sleep_instead_of_a_step_is_reported_as_another_target_or_as_replaced() -> None:
    async def named(ctx: Context) -> None:
        await ctx.sleep("1h", name="charge")
        await ctx.step(ship)

    async def unnamed(ctx: Context) -> None:
        await ctx.sleep("1h")
        await ctx.step(ship)

    assert changed(steps(charge, ship), old_and_wait(named)) == ("other target: charge (call charge) is now charge (sleep)",)
    assert changed(steps(charge, ship), old_and_wait(unnamed)) == ("replaced: charge (call charge) is now sleep:1h (sleep)",)


def test_another_duration_is_reported_as_renamed() -> None:
    async def sleeps(ctx: Context, wait: str) -> None:
        await ctx.sleep(wait)
        await ctx.step(ship)

    assert changed(old_and_wait(lambda ctx: sleeps(ctx, "1h")), old_and_wait(lambda ctx: sleeps(ctx, "2h"))) == (
        "renamed: sleep:1h (sleep) is now sleep:2h (sleep)",
    )


def test_another_message_name_is_reported_with_both() -> None:
    async def old(ctx: Context) -> None:
        await ctx.listen("approved")
        await ctx.step(ship)

    async def new(ctx: Context) -> None:
        await ctx.listen("accepted")
        await ctx.step(ship)

    line = "renamed: listen:approved (receive approved) is now listen:accepted (receive accepted)"
    waiting = Hand(old_and_wait(old)).start()
    assert diverged(old_and_wait(new), waiting) == (line,)
    waiting.signal("approved", "yes")
    assert diverged(old_and_wait(new), waiting.run()) == (line,)


def test_another_message_under_the_same_name_is_reported_as_another_target() -> None:
    async def listens(ctx: Context, signal: str) -> None:
        await ctx.listen(signal, name="decision")

    assert changed(lambda ctx: listens(ctx, "approved"), lambda ctx: listens(ctx, "accepted")) == (
        "other target: decision (receive approved) is now decision (receive accepted)",
    )


# Kept values, whose functions are the user's.


calls: list[str] = []


def noted(name: str) -> str:
    calls.append(name)
    return name


def keeping(*names: str) -> Code:
    """A workflow that keeps values and then performs a step."""

    async def workflow(ctx: Context) -> None:
        for name in names:
            await ctx.keep(name, partial(noted, name))
        await ctx.step(ship)
        await ctx.listen("end")

    return workflow


def test_a_new_keep_is_reported_and_its_function_is_never_called() -> None:
    hand = Hand(keeping("one", "two")).start().run()
    before = list(calls)
    assert diverged(keeping("one", "new", "two"), hand) == ("inserted: new (keep) is asked now, where two (keep) is remembered",)
    assert diverged(keeping("one", "new"), hand) == ("renamed: two (keep) is now new (keep)",)
    assert diverged(keeping("new", "one", "newer", "two"), hand) == (
        "inserted: new (keep) is asked now, where one (keep) is remembered",
        "inserted: newer (keep) is asked now, where two (keep) is remembered",
    )
    assert calls == before


def test_very_many_new_keeps_end_the_exploration() -> None:
    hand = Hand(keeping("one")).start().run()
    before = list(calls)
    lines = diverged(keeping(*(f"new {number}" for number in range(30))), hand)
    assert lines[0] == "renamed: one (keep) is now new 0 (keep)"
    assert calls == before


# Branches.


def test_a_renamed_step_is_reported_as_renamed_in_a_branch_of_a_join() -> None:
    assert changed(in_branches("join", a=charge, b=ship), in_branches("join", a=charge_card, b=ship)) == (
        "renamed: join/a/charge (call charge) is now join/a/charge_card (call charge_card)",
    )


def test_a_renamed_step_is_reported_as_renamed_in_a_nested_race() -> None:
    def nested(fn: Any) -> Code:
        async def workflow(ctx: Context) -> None:
            async def inner(c: Context) -> None:
                await c.race(fast=lambda b: b.step(fn), slow=lambda b: b.sleep("1h"))
                await c.step(audit)

            await ctx.join(outer=inner, other=lambda c: c.step(ship))
            await ctx.listen("end")

        return workflow

    line = "renamed: join/outer/race/fast/charge (call charge) is now join/outer/race/fast/charge_card (call charge_card)"
    assert changed(nested(charge), nested(charge_card)) == (line,)


def test_a_step_inserted_at_the_end_of_a_branch_is_reported_as_inserted() -> None:
    def branch(*wanted: Any) -> Code:
        async def workflow(ctx: Context) -> None:
            await ctx.join(a=lambda c: each(c, wanted), b=lambda c: c.step(ship))
            await ctx.step(audit)
            await ctx.listen("end")

        return workflow

    async def each(ctx: Context, wanted: tuple[Any, ...]) -> None:
        for one in wanted:
            await ctx.step(one)

    assert changed(branch(charge), branch(charge, count)) == ("inserted: join/a/count (call count) is asked now, where nothing is remembered",)
    assert changed(branch(charge, count), branch(charge)) == ("removed: join/a/count (call count) is remembered, where nothing is asked now",)
    assert changed(branch(charge), branch()) == ("removed: join/a/charge (call charge) is remembered, where nothing is asked now",)


def test_what_the_loser_of_a_race_had_done_is_not_reported_as_removed() -> None:
    async def slow(c: Context) -> None:
        for _ in range(10):
            await c.sleep("1m")

    def racing(fn: Any) -> Code:
        async def workflow(ctx: Context) -> None:
            await ctx.race(fast=lambda c: c.sleep("5m"), slow=slow)
            await ctx.step(fn)
            await ctx.listen("end")

        return workflow

    assert changed(racing(charge), racing(charge_card)) == ("renamed: charge (call charge) is now charge_card (call charge_card)",)


@pytest.mark.parametrize("verb", ["join", "race"])
def test_a_renamed_branch_is_reported_with_the_names_of_all(verb: str) -> None:
    line = f'other branches: {verb} is remembered as {verb} ["a","b"], asked for as {verb} ["a","c"]'
    assert changed(in_branches(verb, a=charge, b=ship), in_branches(verb, a=charge, c=ship)) == (line,)


@pytest.mark.parametrize("verb", ["join", "race"])
def test_a_removed_branch_is_reported_with_the_names_of_all(verb: str) -> None:
    line = f'other branches: {verb} is remembered as {verb} ["a","b"], asked for as {verb} ["a"]'
    assert changed(in_branches(verb, a=charge, b=ship), in_branches(verb, a=charge)) == (line,)


def test_a_duplicated_branch_is_reported_with_the_names_of_all() -> None:
    async def pay(c: Context) -> None:
        await c.step(charge)

    async def once(ctx: Context) -> None:
        await ctx.join(pay)

    async def twice(ctx: Context) -> None:
        await ctx.join(pay, pay)

    assert changed(old_and_wait(once), old_and_wait(twice)) == ('other branches: join is remembered as join ["pay"], asked for as join ["pay","pay#2"]',)


def test_a_changed_branch_is_reported_along_with_a_change_inside_another() -> None:
    assert changed(in_branches("join", a=charge, b=ship), in_branches("join", a=charge_card, c=ship)) == (
        'other branches: join is remembered as join ["a","b"], asked for as join ["a","c"]',
        "renamed: join/a/charge (call charge) is now join/a/charge_card (call charge_card)",
    )


def mapping(items: int, fn: Any = charge, *, name: str = "pay", limit: int | None = None) -> Code:
    """A workflow that performs a step for each of some items."""

    async def workflow(ctx: Context) -> None:
        async def one(c: Context, item: int) -> None:
            await c.step(fn)

        one.__name__ = name
        await ctx.map(one, range(items), limit=limit)
        await ctx.listen("end")

    return workflow


def test_another_number_of_items_is_reported() -> None:
    assert changed(mapping(3), mapping(2)) == ("other branches: map:pay is remembered as map pay over 3, asked for as map pay over 2",)
    assert changed(mapping(3), mapping(4)) == ("other branches: map:pay is remembered as map pay over 3, asked for as map pay over 4",)


def test_another_function_of_a_map_is_reported_as_renamed() -> None:
    (line,) = changed(mapping(3), mapping(3, name="bill"))
    assert line.startswith("renamed: map:pay (keep branches: map pay over 3) is now map:bill (keep branches: map bill over 3)")


def test_a_map_with_a_limit_is_compared_item_by_item() -> None:
    lines = changed(mapping(3, limit=1), mapping(3, charge_card, limit=1))
    assert lines == tuple(f"renamed: map:pay/pay{n}/charge (call charge) is now map:pay/pay{n}/charge_card (call charge_card)" for n in ("", "#2", "#3"))


# Loops.


def looping(name: str = "audit", fn: Any = charge, turns: int = 6, *, keep: int = 10, trim_every: int = 1, commit_every: int = 1) -> Code:
    """A workflow that performs a step in each turn of a loop, and then waits for a message."""

    async def workflow(ctx: Context) -> None:
        async for turn in ctx.loop(name, state=0, keep=keep, trim_every=trim_every, commit_every=commit_every):
            if turn.number == turns:
                break
            await turn.step(fn)
        await ctx.listen("end")

    return workflow


def test_a_renamed_step_is_reported_as_renamed_in_a_turn_of_a_loop() -> None:
    hand = Hand(looping()).start()
    assert diverged(looping(fn=charge_card), hand) == ("renamed: audit/~0/charge (call charge) is now audit/~0/charge_card (call charge_card)",)


def test_what_is_renamed_in_every_turn_is_reported_once() -> None:
    line = "renamed: audit/~0/charge (call charge) is now audit/~0/charge_card (call charge_card) (and in later iterations)"
    assert changed(looping(), looping(fn=charge_card)) == (line,)


def test_what_is_renamed_from_a_later_turn_on_is_reported_there() -> None:
    def later(fn: Any) -> Code:
        async def workflow(ctx: Context) -> None:
            async for turn in ctx.loop("audit", state=0):
                await turn.step(fn if turn.number == 3 else ship)
                if turn.number == 3:
                    break
            await ctx.listen("end")

        return workflow

    assert changed(later(charge), later(charge_card)) == ("renamed: audit/~3/charge (call charge) is now audit/~3/charge_card (call charge_card)",)


def test_another_loop_name_is_reported_as_renamed() -> None:
    assert changed(looping("audit"), looping("check")) == ("renamed: audit (loop) is now check (loop)",)


def test_fewer_turns_are_reported_as_removed() -> None:
    assert changed(looping(turns=6), looping(turns=3)) == (
        "removed: audit/~3/charge (call charge) is remembered, where nothing is asked now",
        "removed: audit/~4 (keep) is remembered, where nothing is asked now (and in later iterations)",
    )


@pytest.mark.slow
def test_an_endless_loop_is_explained_and_left() -> None:
    def endless(name: str) -> Code:
        async def workflow(ctx: Context) -> None:
            async for turn in ctx.loop(name, state=0, keep=2):
                turn.state += 1
                await turn.step(charge)

        return workflow

    hand = Hand(endless("audit")).start()
    for _ in range(300):
        hand.perform()
    assert diverged(endless("check"), hand) == ("renamed: audit (loop) is now check (loop)",)


def test_a_changed_loop_is_explained_from_a_compacted_log() -> None:
    hand = Hand(looping(turns=20, keep=2)).start()
    for _ in range(9):
        hand.perform()
    compacted = compact_log(hand.key, [log_format.encode_row(hand.log)], archive=False)
    assert compacted is not None
    hand.log = list(compacted.events)
    line = "renamed: audit/~7/charge (call charge) is now audit/~7/charge_card (call charge_card) (and in later iterations)"
    assert diverged(looping(fn=charge_card, turns=20, keep=2), hand) == (line,)


def test_trimming_settings_may_change() -> None:
    hand = Hand(looping(turns=9, keep=2)).start()
    for _ in range(5):
        hand.perform()
    hand.restart(looping(turns=9, keep=1, trim_every=3)).run()
    hand.restart(looping(turns=9, keep=10))
    assert hand.performed == ["charge"] * 9


# Lives after the first.


def test_only_the_life_since_the_last_reopening_is_compared() -> None:
    def declined() -> str:
        raise Fatal

    hand = Hand(steps(charge, ship), steps={"ship": declined}).start().run()
    assert hand.execution.status == "failed"
    hand.workflow = CodeWorkflow(steps(charge, count, audit), "workflow")
    hand.execution, hand.program, _ = hand.rebuilt()
    hand.tell(messages.RetryMessage())
    hand.run().restart()
    assert diverged(steps(charge_card, count, audit), hand) == ("renamed: charge (call charge) is now charge_card (call charge_card)",)
    assert diverged(steps(charge, ship, audit), hand) == ("renamed: count (call count) is now ship (call ship)",)


def test_a_change_in_the_cleanup_of_a_cancelled_execution_is_explained() -> None:
    def undoing(fn: Any) -> Code:
        async def workflow(ctx: Context) -> None:
            try:
                await ctx.listen("end")
            finally:
                await ctx.step(fn)

        return workflow

    hand = Hand(undoing(charge)).start()
    hand.tell(messages.CancelMessage())
    assert diverged(undoing(charge_card), hand) == ("renamed: charge (call charge) is now charge_card (call charge_card)",)


# Divergence itself.


def effects_of(hand: Hand, code: Code, *told: messages.ExecutionMessage) -> list[e.Event]:
    """What is decided, message by message, on a rebuilt execution whose code has diverged; nothing may be sent."""
    execution, instance, found = hand.rebuilt(code)
    assert found is not None
    events: list[e.Event] = []
    for message in (messages.DivergeMessage(found.diff), *told):
        decision = drive(decide(execution, message, instance, TimeBounds.exactly(hand.now_s), HOST), hand.blobs)
        assert not decision.messages and not decision.lines
        events += decision.events
    instance.close()
    return events


def test_divergence_is_found_before_anything_new_runs() -> None:
    hand = Hand(steps(charge, ship)).start()
    hand.perform()
    answer = messages.SettleMessage((("ship", 1),), 1, Success(values.encode("shipped", "a result")))
    events = effects_of(hand, steps(charge, count, ship), answer, messages.RetryMessage(), messages.TickMessage())
    assert [type(event) for event in events] == [e.ParkedEvent, e.SettledEvent, e.ResumedEvent, e.ParkedEvent]


def test_what_came_while_it_was_parked_is_kept_through_a_resumption_in_vain() -> None:
    hand = Hand(steps(charge, ship)).start()
    hand.perform()
    answer = messages.SettleMessage((("ship", 1),), 1, Success(values.encode("shipped", "a result")))
    hand.log += effects_of(hand, steps(charge, count, ship), answer, messages.RetryMessage())
    hand.execution, hand.program, found = hand.rebuilt()
    assert found is None
    hand.tell(messages.RetryMessage())
    assert [path_text(path) for path in hand.execution.open] == ["listen:end"]
    hand.restart()


def test_an_execution_that_misses_an_operation_is_not_resumed_on_that_code() -> None:
    def side_by_side(*wanted: Any) -> Code:
        async def workflow(ctx: Context) -> None:
            await asyncio.gather(*(ctx.step(one) for one in wanted))
            await ctx.step(audit)

        return workflow

    hand = Hand(side_by_side(charge, ship)).start()
    answer = messages.SettleMessage((("charge", 1),), 1, Success(values.encode("charged", "a result")))
    events = effects_of(hand, side_by_side(charge), messages.RetryMessage(), answer)
    assert not [event for event in events if isinstance(event, e.OpenedEvent)]


def test_a_divergence_in_code_that_catches_every_exception_is_still_found() -> None:
    ran: list[str] = []

    def stubborn(fn: Any) -> Code:
        async def workflow(ctx: Context) -> None:
            try:
                await ctx.step(charge)
                await ctx.step(fn)
            except BaseException:
                ran.append("caught")
                await ctx.step(count)
            finally:
                ran.append("finally")
                await ctx.step(audit)

        return workflow

    hand = Hand(stubborn(ship)).start()
    hand.perform()
    ran.clear()
    answer = messages.SettleMessage((("ship", 1),), 1, Success(values.encode("shipped", "a result")))
    events = effects_of(hand, stubborn(charge_card), answer, messages.RetryMessage())
    assert not [event for event in events if type(event) in e.COMMAND_EVENTS]
    assert diverged(stubborn(charge_card), hand) == ("renamed: ship (call ship) is now charge_card (call charge_card)",)
    hand.close()


def test_a_value_that_no_longer_fits_its_type_is_a_divergence() -> None:
    def buying(kind: Any) -> Code:
        def price() -> Any:
            return "12"

        price.__annotations__["return"] = kind

        async def workflow(ctx: Context) -> None:
            try:
                await ctx.step(price)
            except Exception:
                await ctx.step(count)
            await ctx.step(ship)
            await ctx.listen("end")

        return workflow

    (line,) = changed(buying(str), buying(int))
    assert line.startswith("remembered a value of another shape, asked for the value of price: ")
    assert "`int`" in line and "`str`" in line


def test_a_value_that_no_longer_fits_ends_the_explanation_of_an_earlier_change() -> None:
    def buying(kind: Any, fn: Any) -> Code:
        async def workflow(ctx: Context) -> None:
            await ctx.step(fn)
            try:
                await ctx.listen(Signal("price", kind))
            except Exception:
                await ctx.step(count)
            await ctx.step(ship)

        return workflow

    hand = Hand(buying(str, charge)).start().run()
    hand.signal("price", "12")
    assert diverged(buying(int, charge_card), hand) == ("renamed: charge (call charge) is now charge_card (call charge_card)",)


# Whatever else code may do: the explanation ends, and falls back on the one mismatch that is known.


def test_code_that_now_fails_is_reported_with_its_error() -> None:
    async def broken(ctx: Context) -> None:
        await ctx.step(charge)
        raise KeyError("nothing")

    assert changed(steps(charge, ship), broken) == ("fails: the workflow now ends with KeyError: 'nothing', where the log has ship (call ship)",)


def after(then: Code) -> Code:
    """A workflow whose first step is not the remembered one, and that then does something weird."""

    async def workflow(ctx: Context) -> None:
        await ctx.step(charge_card)
        await then(ctx)

    return workflow


async def spins(ctx: Context) -> None:
    while True:
        await asyncio.sleep(0)


async def floods(ctx: Context) -> None:
    while True:
        ctx.emit("more")


async def calls_for_ever(ctx: Context) -> None:
    while True:
        await ctx.step(ship)


async def tries_for_ever(ctx: Context) -> None:
    while True:
        try:
            await ctx.step(ship)
            raise ValueError
        except BaseException:
            await ctx.sleep("1s")


async def refuses_to_end(ctx: Context) -> None:
    async def never() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(never())
    await ctx.listen("end")
    await task


async def exits(ctx: Context) -> None:
    async def leave() -> None:
        raise SystemExit

    await asyncio.create_task(leave())


async def recurses(ctx: Context) -> None:
    await recurses(ctx)


@pytest.mark.slow
@pytest.mark.parametrize("weird", [spins, floods, calls_for_ever, tries_for_ever, refuses_to_end, exits, recurses])
def test_weird_code_is_explained_or_not_but_left(weird: Code) -> None:
    lines = changed(steps(charge), after(weird))
    assert lines[0] in (
        "renamed: charge (call charge) is now charge_card (call charge_card)",
        "remembered charge (call charge), asked for charge_card (call charge_card)",
    )


def test_a_log_that_makes_no_sense_is_answered_with_what_is_known() -> None:
    found = Diverged((), ("remembered this, asked for that",))
    assert drive(explain_divergence(CodeWorkflow(steps(charge), "workflow"), Hand(steps()).key, [e.DroppedEvent((("charge", 1),))], found), {}) == found.diff


def test_large_values_are_read_when_they_are_needed() -> None:
    def large(fn: Any) -> Code:
        async def workflow(ctx: Context, text: str) -> None:
            kept = ctx.keep("kept", lambda: text * 2)
            assert len(await kept) == 2 * len(await ctx.step("echo", lambda: text)) == 2 * len(text)
            await ctx.step(fn)
            await ctx.listen("end")

        return workflow

    hand = Hand(large(charge)).start("x" * 100_000).run()
    assert len(hand.blobs) == 3
    assert diverged(large(charge_card), hand) == ("renamed: charge (call charge) is now charge_card (call charge_card)",)


def test_very_many_differences_are_counted_and_not_listed() -> None:
    def numbered(prefix: str) -> Code:
        return steps(*(charge.with_(name=f"{prefix}{number}") for number in range(50)))

    lines = changed(numbered("old"), numbered("new"))
    assert lines[0] == "renamed: old0 (call charge) is now new0 (call charge)"
    assert lines[-1] == "and 30 more" and len(lines) == 21


@pytest.mark.slow
@pytest.mark.parametrize("change", [lambda names: [f"{name}_new" for name in names], reversed, lambda names: names[1:]], ids=["renamed", "reversed", "shorter"])
def test_a_thousand_operations_at_once_are_compared_soon(change: Callable[[list[str]], list[str]]) -> None:
    def side_by_side(names: list[str]) -> Code:
        async def workflow(ctx: Context) -> None:
            await asyncio.gather(*(ctx.step(name, charge) for name in names))

        return workflow

    names = [f"{number}{'x' * 1000}" for number in range(1000)]
    hand = Hand(side_by_side(names)).start()
    started = time.perf_counter()
    assert diverged(side_by_side(list(change(names))), hand)
    assert time.perf_counter() - started < 5
    hand.close()


@pytest.mark.parametrize("seed", range(100))
def test_every_change_of_every_program_is_explained(seed: int) -> None:
    """Random programs, each changed at random: the explanation ends, names something, and changes nothing."""
    chance = random.Random(seed)
    old = tree(chance, depth=3)
    new = mutated(chance, old)
    hand = Hand(running(old)).start()
    for _ in range(chance.randrange(1, 12)):
        if hand.execution.ended is None:
            hand.perform() or hand.tick()
    _, instance, found = hand.rebuilt(running(new))
    instance.close()
    if found is None or hand.execution.ended is not None:
        return
    lines = diverged(running(new), hand)
    assert lines and all(lines), seed
    assert {line.split(":")[0] for line in lines} <= WORDS, lines


# Programs made at random: a tree of steps, sleeps, kept values, loops, joins and races.

WORDS = {"renamed", "replaced", "removed", "inserted", "reordered", "fails", "other branches", "other target"}
Part = tuple[str, str, list[Any]]


def tree(chance: random.Random, depth: int) -> list[Part]:
    """The parts of a program, each with its kind, its name and its own parts."""
    kinds = ["step", "step", "sleep", "keep"] + (["loop", "join", "race"] if depth else [])
    chosen = [chance.choice(kinds) for _ in range(chance.randrange(1, 5))]
    return [
        (kind, f"{kind}{chance.randrange(100)}{number}", [] if kind in ("step", "sleep", "keep") else tree(chance, depth - 1))
        for number, kind in enumerate(chosen)
    ]


def mutated(chance: random.Random, parts: list[Part]) -> list[Part]:
    """The program with one part renamed, removed, doubled, moved or made into something else, at any depth."""
    place = chance.randrange(len(parts))
    kind, name, inner = parts[place]
    if inner and chance.random() < 0.6:
        return [*parts[:place], (kind, name, mutated(chance, inner)), *parts[place + 1 :]]
    change = chance.choice(["rename", "remove", "insert", "swap", "turn"])
    match change:
        case "rename":
            return [*parts[:place], (kind, name + "_new", inner), *parts[place + 1 :]]
        case "remove":
            return [*parts[:place], *parts[place + 1 :]]
        case "insert":
            return [*parts[:place], ("step", "inserted", []), *parts[place:]]
        case "swap":
            return [*parts[:place], *reversed(parts[place : place + 2]), *parts[place + 2 :]]
    return [*parts[:place], ("sleep" if kind == "step" else "step", name, []), *parts[place + 1 :]]


def running(parts: list[Part]) -> Code:
    """The workflow of these parts."""

    async def each(ctx: Any, parts: list[Part]) -> None:
        for kind, name, inner in parts:
            match kind:
                case "step":
                    await ctx.step(name, charge)
                case "sleep":
                    await ctx.sleep(1 + len(name), name=name)
                case "keep":
                    await ctx.keep(name, lambda name=name: name)
                case "loop":
                    async for turn in ctx.loop(name, state=0, keep=1):
                        if turn.number == 3:
                            break
                        await each(turn, inner)
                case _:
                    branches = {part[1]: lambda c, part=part: each(c, [part]) for part in inner}
                    if branches:
                        await getattr(ctx, kind)(name=name, **branches)

    async def workflow(ctx: Context) -> None:
        await each(ctx, parts)
        await ctx.listen("end")

    return workflow
