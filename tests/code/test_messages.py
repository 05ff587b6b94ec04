"""Claims about messages: first in, first out, at any time, consumed in one commit with what follows, and never lost or taken twice."""

import asyncio
from typing import Any

import pytest

from perdure import Context, Key, Message, Signal, Timeout, step, workflow
from perdure.core import events as e
from perdure.core import limits, log_format, messages
from perdure.core.paths import path_text
from tests.code.decision_driver import Hand
from tests.code.engines import MemoryEngine, cut, every_cut, resident, settle, virtually, world


@step
async def use(what: Any) -> Any:
    return what


@workflow
async def three(ctx: Context) -> list[Any]:
    return [await ctx.listen("m") for _ in range(3)]


@virtually
async def test_messages_are_first_in_first_out() -> None:
    async with world(three) as w:
        key = await w.start(three)
        for number in range(3):
            await w.send(key, "m", number)
        assert await w.result(key) == [0, 1, 2]


@virtually
async def test_messages_may_arrive_before_the_execution_exists_before_the_wait_and_during_it() -> None:
    @workflow
    async def late(ctx: Context) -> list[Any]:
        first = await ctx.listen("m")
        await ctx.sleep(10)
        return [first, await ctx.listen("m"), await ctx.listen("m")]

    async with world(late) as w:
        key = w.key(late)
        await w.send(key, "m", "before it exists")
        await settle()
        await w.start(late)
        await settle(5)
        await w.send(key, "m", "before the wait")
        await settle(10)
        await w.send(key, "m", "during the wait")
        assert await w.result(key) == ["before it exists", "before the wait", "during the wait"]


@virtually
async def test_a_message_that_arrives_while_a_step_runs_waits_in_the_mailbox() -> None:
    @step
    async def slow() -> None:
        await asyncio.sleep(10)

    @workflow
    async def busy(ctx: Context) -> Any:
        await ctx.step(slow)
        return await ctx.listen("m", timeout=0)

    async with world(busy) as w:
        key = await w.start(busy)
        await settle(1)
        await w.send(key, "m", "meanwhile")
        await settle(1)
        assert len((await w.fold(key)).mailbox) == 1
        assert await w.result(key) == "meanwhile"


@virtually
async def test_a_message_that_is_there_wins_over_a_timeout_also_over_one_of_nothing() -> None:
    @workflow
    async def waiting(ctx: Context) -> list[Any]:
        await ctx.sleep(5)
        return [await ctx.listen("m", timeout=0, default="late"), await ctx.listen("m", timeout=0, default="late")]

    async with world(waiting) as w:
        key = await w.start(waiting)
        await w.send(key, "m", "there")
        assert await w.result(key) == ["there", "late"]


@virtually
async def test_at_the_very_moment_of_a_timeout_the_message_that_was_claimed_with_the_timer_wins() -> None:
    @workflow
    async def waiting(ctx: Context) -> Any:
        return await ctx.listen("m", timeout=10, default="late")

    async with world(waiting) as w:
        key = await w.start(waiting)
        await settle(1)
        await w.end()
        await w.send(key, "m", "in time")
        await asyncio.sleep(20)
        w.engine = w._new_engine()
        await w.begin()
        assert await w.result(key) == "in time"


def test_a_message_and_a_timeout_of_one_moment_are_decided_in_the_order_in_which_they_come() -> None:
    async def waiting(ctx: Context) -> Any:
        return await ctx.listen("m", timeout=10, default="late")

    first = Hand(waiting).start()
    first.now_s = 10.0
    first.signal("m", "in time")
    first.tick()
    assert first.result == "in time"
    second = Hand(waiting).start()
    second.tick()
    second.signal("m", "too late")
    assert second.result == "late"


@virtually
async def test_a_timeout_without_a_default_is_a_timeout_error_and_remembered() -> None:
    @workflow
    async def waiting(ctx: Context) -> list[Any]:
        found: list[Any] = []
        try:
            await ctx.listen("m", timeout=10)
        except TimeoutError as error:
            found += [isinstance(error, Timeout), str(error)]
        return [*found, await ctx.listen("m")]

    async def say(w: MemoryEngine, key: Key) -> None:
        await settle(20)
        await w.send(key, "m", "late", once="k")

    assert await every_cut(waiting, say=say) == [True, "listen:m: timed out after 10 s", "late"]


@virtually
async def test_consuming_a_message_and_what_follows_are_one_commit() -> None:
    @workflow
    async def using(ctx: Context) -> None:
        await ctx.step(use, await ctx.listen("m"))

    async with world(using) as w:
        key = await w.start(using)
        await settle()
        await w.send(key, "m", 1)
        await w.result(key)
        (row,) = [row for row in map(log_format.decode_row, await w.rows(key)) if any(isinstance(event, e.ReceivedEvent) for event in row)]
        assert [type(event) for event in row] == [e.MessageArrivedEvent, e.ReceivedEvent, e.OpenedEvent]
        assert await w.store.messages(key) == []


@resident
async def test_after_a_crash_before_the_commit_the_message_is_delivered_again() -> None:
    @workflow
    async def using(ctx: Context) -> Any:
        return await ctx.step(use, await ctx.listen("m"))

    async with world(using) as w:
        key = await w.start(using)
        await w.end()
        await w.send(key, "m", "once")
        w.engine = w._new_engine()
        await w.begin()
        await w.crash()
        assert await w.result(key) == "once"
        assert sum(isinstance(event, e.MessageArrivedEvent) for event in await w.events(key)) == 1


@virtually
async def test_listening_to_several_names_is_first_in_first_out_across_them() -> None:
    @workflow
    async def several(ctx: Context) -> list[Any]:
        await ctx.sleep(5)
        return [await ctx.listen("a", "b", "c") for _ in range(4)]

    async with world(several) as w:
        key = await w.start(several)
        for name, body in (("b", 1), ("x", 9), ("a", 2), ("c", 3), ("b", 4)):
            await w.send(key, name, body)
        assert await w.result(key) == [1, 2, 3, 4]


@virtually
async def test_the_listener_that_came_first_gets_the_first_message() -> None:
    @workflow
    async def listeners(ctx: Context) -> dict[str, Any]:
        async def later(c: Context) -> Any:
            await c.sleep(1)
            return await c.listen("m")

        return await ctx.join(second=later, first=lambda c: c.listen("m", "n"), third=lambda c: c.listen("other"))

    async with world(listeners) as w:
        key = await w.start(listeners)
        await settle(2)
        for name in ("m", "m", "other"):
            await w.send(key, name, name + str(len(await w.events(key))))
            await settle()
        found = await w.result(key)
        assert found["first"] < found["second"]


@virtually
async def test_listen_many_without_a_timeout_takes_what_is_there_but_at_least_one() -> None:
    @workflow
    async def many(ctx: Context) -> list[Any]:
        first = await ctx.listen_many("m", limit=2)
        await ctx.sleep(10)
        return [first, await ctx.listen_many("m", limit=2), await ctx.listen_many("m", limit=2)]

    async with world(many) as w:
        key = await w.start(many)
        await settle(1)
        for number in range(4):
            await w.send(key, "m", number)
            await settle()
        assert await w.result(key) == [[0], [1, 2], [3]]


@virtually
async def test_listen_many_with_a_timeout_takes_what_comes_until_the_limit_or_the_time_possibly_nothing() -> None:
    @workflow
    async def many(ctx: Context) -> list[Any]:
        begun = ctx.now()
        full = await ctx.listen_many("m", limit=2, timeout=100)
        after = (ctx.now() - begun).total_seconds()
        part = await ctx.listen_many("m", limit=5, timeout=10)
        return [full, after < 50, part, await ctx.listen_many("m", limit=5, timeout=10)]

    async with world(many) as w:
        key = await w.start(many)
        for number in range(3):
            await settle(1)
            await w.send(key, "m", number)
        assert await w.result(key) == [[0, 1], True, [2], []]


@resident
async def test_a_key_from_outside_is_taken_once_and_remembered_for_a_day() -> None:
    @workflow
    async def keyed(ctx: Context) -> list[Any]:
        async for turn in ctx.loop("l", state=list[Any]()):
            if (got := await turn.listen("m")) == "end":
                break
            turn.state = [*turn.state, got]
        return turn.state

    async with world(keyed) as w:
        key = await w.start(keyed)
        for body in (1, 2):
            await w.send(key, "m", body, once="same")
            await settle()
        await settle(25 * 3600)
        await w.send(key, "m", 3, once="another")
        await settle()
        await w.send(key, "m", 4, once="same")
        await w.send(key, "m", "end")
        assert await w.result(key) == [1, 3, 4]
        assert len((await w.fold(key)).seen.keys) == 2, "what is a day old is forgotten"


@virtually
async def test_messages_between_executions_arrive_once_and_in_order() -> None:
    @workflow
    async def sender(ctx: Context, to: str) -> None:
        for number in range(3):
            await ctx.send(Key("default", "three", to), "m", number)
            await ctx.sleep(0)

    async with world(three, sender) as w:
        key = await w.start(three)
        await w.run(sender, "e", id="s")
        assert await w.result(key) == [0, 1, 2]


@virtually
async def test_a_message_to_oneself_arrives() -> None:
    @workflow
    async def selfish(ctx: Context) -> Any:
        await ctx.send(ctx.execution.key, "m", "to me")
        return await ctx.listen("m")

    async with world(selfish) as w:
        assert await w.run(selfish) == "to me"


@pytest.mark.slow
def test_a_full_mailbox_refuses_with_an_event_and_takes_again_when_there_is_room() -> None:
    async def full(ctx: Context) -> Any:
        await ctx.listen("go")
        return len(await ctx.listen_many("m", limit=20_000))

    hand = Hand(full).start()
    for number in range(limits.MAILBOX_MESSAGES_MAX + 5):
        hand.tell(messages.SignalMessage("m", key=str(number)), number + 1)
    refused = [event for event in hand.log if isinstance(event, e.MessageRefusedEvent)]
    assert [event.key for event in refused] == [str(limits.MAILBOX_MESSAGES_MAX + more) for more in range(5)]
    assert len(hand.execution.mailbox) == limits.MAILBOX_MESSAGES_MAX
    restarted = hand.restart()
    assert len(restarted.execution.mailbox) == limits.MAILBOX_MESSAGES_MAX


@virtually
async def test_a_signal_types_its_body_at_both_ends() -> None:
    numbers = Signal("numbers", dict[int, set[str]])

    @workflow
    async def typed(ctx: Context) -> Any:
        return sorted((await ctx.listen(numbers))[1])

    @workflow
    async def sending(ctx: Context) -> None:
        await ctx.send(Key("default", "typed", "e"), numbers, {1: {"b", "a"}})

    async with world(typed, sending) as w:
        key = await w.start(typed)
        await w.run(sending)
        assert await w.result(key) == ["a", "b"]


@virtually
async def test_a_body_that_does_not_fit_the_hint_is_an_error_that_says_so_and_can_be_caught() -> None:
    @workflow
    async def typed(ctx: Context) -> str:
        try:
            await ctx.listen(Signal("m", int))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "fits"

    async with world(typed) as w:
        key = await w.start(typed)
        await w.send(key, "m", "no number")
        found = await w.result(key)
        assert found.startswith("Undecodable: the value of listen:m")
        await w.replayed(key)


# completable messages


@workflow
async def answering(ctx: Context) -> list[Any]:
    message = await ctx.listen("m", completable=True)
    assert isinstance(message, Message)
    seen = await ctx.step(use, message.body)
    message.complete({"seen": seen})
    await ctx.sleep("1h")
    return [seen, await ctx.listen("m", timeout=1, default="none")]


@pytest.mark.slow
@virtually
async def test_a_completed_message_stays_completed_from_every_cut() -> None:
    async def say(w: MemoryEngine, key: Key) -> None:
        await w.send(key, "m", "please", once="k")

    assert await every_cut(answering, say=say) == ["please", "none"]


@pytest.mark.slow
@virtually
async def test_a_reply_and_its_record_are_one_commit() -> None:
    async with world(answering) as w:
        key = await w.start(answering)
        await w.send(key, "m", "please")
        await w.result(key)
        (row,) = [
            row
            for row in map(log_format.decode_row, await w.rows(key))
            if any(isinstance(event, e.OpenedEvent) and "reply:" in path_text(event.path) for event in row)
        ]
        assert [path_text(event.path) for event in row if isinstance(event, e.OpenedEvent)] == ["listen:m/reply:1", "sleep:1h"]


@virtually
async def test_a_message_is_completed_once() -> None:
    @workflow
    async def twice(ctx: Context) -> str:
        message = await ctx.listen("m", completable=True)
        message.complete(1)
        try:
            message.complete(2)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "twice"

    async with world(twice) as w:
        key = await w.start(twice)
        await w.send(key, "m")
        assert "Complete each message once" in await w.result(key)


@virtually
async def test_a_message_that_went_back_can_no_longer_be_completed_by_the_loser() -> None:
    @workflow
    async def leaking(ctx: Context) -> list[str]:
        leaked: list[Any] = []

        async def loser(c: Context) -> None:
            leaked.append(await c.listen("m", completable=True))
            await c.sleep("1d")

        await ctx.race(loser=loser, timer=lambda c: c.sleep(1))
        try:
            leaked[0].complete("too late")
        except Exception as error:
            return [str(error), await ctx.listen("m")]
        return ["completed"]

    async with world(leaking) as w:
        key = await w.start(leaking)
        await w.send(key, "m", "back")
        error, body = await w.result(key)
        assert "returned to the mailbox when its branch lost" in error and body == "back"


@virtually
async def test_completable_messages_of_listen_many_go_back_one_by_one() -> None:
    @workflow
    async def partly(ctx: Context) -> Any:
        async def loser(c: Context) -> None:
            batch = await c.listen_many("m", limit=3, timeout=1, completable=True)
            batch[1].complete()
            await c.sleep("1d")

        await ctx.race(loser=loser, timer=lambda c: c.sleep(5))
        return await ctx.listen_many("m", timeout=1)

    async with world(partly) as w:
        key = await w.start(partly)
        for number in range(3):
            await w.send(key, "m", number)
        assert await w.result(key) == [0, 2]


@virtually
async def test_a_wait_survives_a_restart_and_its_deadline_does_not_move() -> None:
    @workflow
    async def waiting(ctx: Context) -> float:
        begun = ctx.now()
        await ctx.listen("m", timeout=100, default=None)
        return (ctx.now() - begun).total_seconds()

    async with world(waiting) as w:
        key = await w.start(waiting)
        await settle(40)
        await w.crash()
        assert await w.result(key) == pytest.approx(100, abs=1)


@resident
async def test_a_store_cut_behind_the_arrival_still_has_the_message() -> None:
    @workflow
    async def sleepy(ctx: Context) -> Any:
        await ctx.sleep(10)
        return await ctx.listen("m", timeout=0)

    async with world(sleepy) as w:
        key = await w.start(sleepy)
        await settle(1)
        await w.send(key, "m", "kept")
        await settle(1)
        rows = await w.rows(key)
    async with world(sleepy, store=await cut(key, rows, {})) as again:
        assert await again.result(key) == "kept"
