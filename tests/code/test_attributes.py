"""Claims about attributes in workflows: a change counts from its commit on, replay repeats it, and what can't be kept changes nothing."""

from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.core import attributes as a
from perdure.core import events as e
from perdure.core import messages as m
from perdure.core.errors import BadName, BadValue
from perdure.core.operations import KeepOperation, SpawnOperation
from perdure.workflow_function import workflow
from tests.code.decision_driver import Hand

DUE = datetime(2026, 1, 31, 12, tzinfo=UTC)


def once(value: Any = None) -> Any:
    return value


def now(hand: Hand) -> dict[str, Any]:
    """The attributes by the fold."""
    return a.attribute_values(hand.execution.attributes)


def started(hand: Hand, **attributes: Any) -> Hand:
    """Started with attributes."""
    hand.tell(m.StartMessage(input=hand.workflow.codec.encode_args((), {}, "the input"), seed=7, attributes=a.checked_attributes(attributes)))
    return hand


async def changes(ctx: Any) -> list[Any]:
    seen = [ctx.execution.attributes]
    ctx.set_attributes({"stage": "paid", "cents": 5, "due": DUE})
    seen.append(sorted(ctx.execution.attributes))
    await ctx.step(once)
    ctx.set_attributes({"stage": "shipped", "due": None})
    ctx.set_attributes({"stage": "closed", "score": 0.5})
    await ctx.step(once)
    ctx.set_attributes({})
    return [*seen, ctx.execution.attributes]


def test_changes_add_up_and_are_in_the_log_with_what_follows() -> None:
    hand = started(Hand(changes), stage="new", vip=True)
    assert now(hand) == {"stage": "paid", "vip": True, "cents": 5, "due": DUE}
    assert [type(event) for event in hand.log] == [e.StartedEvent, e.OpenedEvent, e.OpenedEvent]
    hand.restart().perform()
    assert now(hand) == {"stage": "closed", "vip": True, "cents": 5, "score": 0.5}
    hand.restart().run()
    last = {"cents": 5, "score": 0.5, "stage": "closed", "vip": True}
    assert hand.result == [{"stage": "new", "vip": True}, ["cents", "due", "stage", "vip"], last]
    assert now(hand.restart()) == last


def test_what_is_changed_in_a_dict_that_a_workflow_was_given_is_changed_nowhere() -> None:
    async def meddles(ctx: Any) -> Any:
        ctx.execution.attributes["a"] = 2
        return ctx.execution.attributes

    assert started(Hand(meddles), a=1).run().result == {"a": 1}


async def side_by_side(ctx: Any) -> Any:
    async def branch(c: Any) -> None:
        await c.step(once)
        c.set_attributes({"done": int(c.execution.attributes.get("done", 0)) + 1})

    await ctx.join(*[branch] * 5)
    return ctx.execution.attributes


def test_branches_change_the_attributes_of_one_execution() -> None:
    hand = Hand(side_by_side).start()
    while hand.execution.ended is None:
        assert hand.perform()
        hand.restart()
    assert hand.result == {"done": 5}


async def listening(ctx: Any) -> Any:
    for _ in range(3):
        await ctx.listen("go")
        ctx.set_attributes({"count": int(ctx.execution.attributes.get("count", 0)) + 1})
    await ctx.listen("end")
    return ctx.execution.attributes


def test_what_came_while_it_was_paused_is_taken_one_by_one_and_replay_sees_each_change_of_the_one_before() -> None:
    async def gathering(ctx: Any) -> Any:
        async def counting(c: Any) -> Any:
            await c.step(once)
            before = c.execution.attributes
            c.set_attributes({f"a{len(before)}": True})
            return sorted(before)

        seen = await ctx.join(*[counting] * 3)
        await ctx.listen("end")
        return seen

    hand = Hand(gathering).start()
    hand.tell(m.PauseMessage())
    while hand.perform():
        pass
    assert now(hand) == {}
    hand.tell(m.ResumeMessage())
    assert now(hand) == {"a0": True, "a1": True, "a2": True}
    assert now(hand.restart()) == {"a0": True, "a1": True, "a2": True}
    hand.signal("end")
    assert hand.result == [[], ["a0"], ["a0", "a1"]]


def test_a_change_follows_the_message_that_brought_it_about() -> None:
    hand = Hand(listening).start()
    for count in (1, 2, 3):
        hand.signal("go")
        assert now(hand) == {"count": count}
        hand.restart()


BAD: list[tuple[Any, type[Exception]]] = [
    ({"a b": 1}, BadName),
    ({"": None}, BadName),
    ({"good": 1, "due": datetime(2026, 1, 1)}, BadValue),  # noqa: DTZ001  # which is the point
    ({"good": 1, "x": [1]}, BadValue),
    ({"good": 1, "x": "x" * 1025}, BadValue),
    ({f"x{number}": 1 for number in range(32)}, BadValue),
    (["a"], BadValue),
    (None, BadValue),
]


@pytest.mark.parametrize(("asked", "error"), BAD)
def test_what_can_t_be_kept_changes_nothing_and_a_workflow_may_go_on(asked: Any, error: type[Exception]) -> None:
    async def careless(ctx: Any) -> Any:
        with pytest.raises(error):
            ctx.set_attributes(asked)
        await ctx.step(once)
        ctx.set_attributes({"b": 2})
        return ctx.execution.attributes

    hand = started(Hand(careless), a=1)
    assert now(hand) == {"a": 1}
    assert hand.restart().run().result == {"a": 1, "b": 2}
    hand.restart()


def test_a_workflow_that_does_not_catch_it_fails_and_says_what_was_expected() -> None:
    async def careless(ctx: Any) -> Any:
        ctx.set_attributes({"due": "x" * 2000})

    ended = Hand(careless).start().execution.ended
    assert ended is not None and ended.status == "failed"
    assert "text of at most 1,024 bytes" in str(ended.outcome)


async def turning(ctx: Any) -> Any:
    async for turn in ctx.loop("l", state=0, keep=1):
        await turn.step(once)
        turn.set_attributes({"turn": turn.number, f"at{turn.number % 2}": True, f"at{(turn.number + 1) % 2}": None})
        if turn.number == 40:
            break
    return ctx.execution.attributes


@pytest.mark.slow
def test_a_loop_changes_them_in_each_turn() -> None:
    hand = Hand(turning).start()
    for number in range(20):
        hand.perform()
        assert now(hand.restart()) == {"turn": number, f"at{number % 2}": True}
    assert hand.run().result == {"turn": 40, "at0": True}


@workflow
async def child(ctx: Any) -> None: ...


async def calling(ctx: Any) -> None:
    await ctx.call(child.with_(attributes={"cents": 5, "due": DUE}))


def test_a_child_is_started_with_those_that_it_is_called_with_and_none_of_its_parent() -> None:
    hand = started(Hand(calling), stage="new")
    (pending,) = hand.execution.open.values()
    assert isinstance(pending.op, SpawnOperation) and a.attribute_values(pending.op.attributes) == {"cents": 5, "due": DUE}
    hand.restart()
    with pytest.raises(BadValue, match="attribute cents"):
        child.with_(attributes={"cents": b""})  # type: ignore[dict-item]  # which is the point


def test_another_value_at_the_same_place_is_no_divergence_and_a_gate_may_stand_where_a_change_was() -> None:
    async def before(ctx: Any) -> None:
        ctx.set_attributes({"a": 1})
        await ctx.listen("go")

    async def other(ctx: Any) -> Any:
        ctx.set_attributes({"a": 2})
        await ctx.listen("go")
        return ctx.execution.attributes

    async def without(ctx: Any) -> None:
        await ctx.removed("set_attributes", "set_attributes")
        await ctx.listen("go")

    async def never(ctx: Any) -> None:
        await ctx.listen("go")

    hand = Hand(before).start()
    hand.restart(other).signal("go")
    assert hand.result == {"a": 1}
    hand = Hand(before).start()
    hand.restart(without)
    assert hand.rebuilt(never)[2] is not None


def test_what_was_changed_before_a_failure_stays_and_a_retry_changes_it_in_the_same_way_again() -> None:
    fails = [True]

    def breaks() -> None:
        if fails[0]:
            raise ValueError("no")

    async def full(ctx: Any) -> Any:
        ctx.set_attributes({f"first{number}": 1 for number in range(32)})
        await ctx.step(once)
        ctx.set_attributes({f"first{number}": None for number in range(32)})
        ctx.set_attributes({f"second{number}": 1 for number in range(32)})
        await ctx.step(breaks)
        return sorted(ctx.execution.attributes)

    hand = Hand(full).start().run()
    assert hand.execution.status == "failed" and sorted(now(hand)) == sorted(f"second{number}" for number in range(32))
    fails[0] = False
    hand.tell(m.RetryMessage())
    hand.restart().run()
    assert hand.result == sorted(f"second{number}" for number in range(32)) == sorted(now(hand.restart()))


def test_a_change_is_one_event_and_none_of_it_is_shown_as_a_step() -> None:
    hand = Hand(changes).start()
    (kept,) = (event for event in hand.log if isinstance(event, e.OpenedEvent) and isinstance(event.op, KeepOperation))
    assert kept.op.role == "attributes" and len(hand.execution.open) == 1  # type: ignore[union-attr]  # it is a keep
