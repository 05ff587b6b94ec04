"""Claims about compaction: a shorter log of the same meaning, from which the same program goes on to the same end."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

import msgspec
import pytest

from perdure.code.declarations import Retry, Step
from perdure.core import events as e
from perdure.core import log_format
from perdure.core import messages as m
from perdure.core.compaction import DEAD_EVENTS_MIN, CompactedLog, compact_log, is_worth_compaction
from perdure.core.execution import Execution
from perdure.core.execution import execution_facts as all_facts
from perdure.core.operations import CallOperation, Failure, ReceiveOperation, operation_target
from perdure.core.paths import path_text
from perdure.core.replay import fold_events
from perdure.core.values import encode
from tests.code.decision_driver import Hand

BOOKKEEPING = {"archive"}


def once(value: Any = None) -> Any:
    return value


def poison() -> None:
    raise ValueError("no")


def facts(execution: Execution) -> dict[str, Any]:
    """All that an execution knows but what compaction is allowed to change."""
    known = {name: value for name, value in all_facts(execution).items() if name not in BOOKKEEPING}
    known["turns"] = {turn: sorted(map(path_text, paths)) for turn, paths in execution.turns.inside().items()}
    return known


def compaction(hand: Hand) -> CompactedLog | None:
    return compact_log(hand.key, [log_format.encode_row(hand.log)], archive=True)


def restored(hand: Hand, compacted: CompactedLog) -> Hand:
    """The execution come back from its compacted log, knowing the same as before."""
    again = Hand(hand.workflow, hand.steps)
    again.log, again.blobs, again.now_s, again.performed = list(compacted.events), hand.blobs | compacted.blobs, hand.now_s, hand.performed
    again.execution, again.program, diverged = again.rebuilt()
    assert diverged is None, diverged
    assert facts(again.execution) == facts(hand.execution)
    return again


def halfway(workflow: Callable[..., Coroutine[Any, Any, Any]], calls: int, *args: Any) -> Hand:
    """A workflow that has performed so many calls."""
    hand = Hand(workflow).start(*args)
    while len(hand.performed) < calls:
        assert hand.perform() or hand.tick()
    return hand


def turns_told(hand: Hand) -> list[str]:
    return [f"{path_text(event.path)} at {event.turn}" for event in hand.log if isinstance(event, e.IterationResumedEvent)]


async def plain(ctx: Any, turns: int) -> Any:
    before = await ctx.step("before", once, 5)
    ctx.set("progress", 0)
    async for turn in ctx.loop("audit", state=0, keep=2):
        turn.state += await turn.step("look", once, turn.number)
        ctx_value = await turn.keep("kept", partial(once, turn.state))
        turn.set("progress", ctx_value)
        turn.emit(ctx_value)
        if turn.number == turns:
            break
    return [before, turn.state, await ctx.step("after", once, 9)]


@pytest.mark.slow
def test_a_compacted_log_is_short_and_goes_on_to_the_same_end() -> None:
    hand = halfway(plain, 50, 100)
    compacted = compaction(hand)
    assert compacted is not None and len(compacted.events) < 30 < len(hand.log) / 5
    again = restored(hand, compacted)
    assert turns_told(again) == ["audit at 47"] and again.execution.state == hand.execution.state and again.execution.emitted == 49
    before = len(again.log), len(hand.log)
    assert again.run().result == hand.run().result == [5, 5050, 9]
    assert again.log[before[0] :] == hand.log[before[1] :]


def test_the_snapshot_is_last_and_a_resident_execution_that_folds_it_equals_the_restored_one() -> None:
    hand = halfway(plain, 50, 100)
    compacted = compaction(hand)
    assert compacted is not None and compacted.events[-1] is compacted.snapshot
    assert compacted.snapshot.event_count == len(compacted.events) - 1 and compacted.snapshot.version == hand.execution.version
    version = hand.execution.version
    hand.execution.apply(compacted.snapshot)
    whole = fold_events(hand.key, compacted.events)
    assert facts(hand.execution) == facts(whole) and hand.execution.version == version
    assert (hand.execution.logged_events, hand.execution.dead_events) == (whole.logged_events, whole.dead_events) == (len(compacted.events), 0)


def test_a_log_can_be_compacted_again_and_again_and_stays_as_short() -> None:
    hand, lengths = halfway(plain, 20, 200), []
    for calls in range(30, 190, 20):
        compacted = compaction(hand)
        assert compacted is not None
        lengths.append(len(compacted.events))
        hand = restored(hand, compacted)
        assert len(turns_told(hand)) == 1
        while len(hand.performed) < calls:
            assert hand.perform()
    assert len(set(lengths)) == 1, lengths
    assert hand.run().result == [5, 20100, 9]


def test_every_archive_names_the_one_before_it_back_to_the_first_event() -> None:
    hand, found = halfway(plain, 20, 200), []
    original = list(hand.log)
    for calls in (40, 60):
        compacted = compaction(hand)
        assert compacted is not None
        hand = restored(hand, compacted)
        while len(hand.performed) < calls:
            assert hand.perform()
    name = hand.execution.archive
    while name is not None:
        assert sha256(hand.blobs[name]).hexdigest() == name
        events = log_format.decode_rows(msgspec.msgpack.decode(hand.blobs[name], type=list[bytes]))
        found.append(events)
        name = fold_events(hand.key, events).archive
    assert len(found) == 2 and found[-1] == original


def test_without_an_archive_nothing_is_kept_of_what_was_replaced() -> None:
    hand = halfway(plain, 50, 100)
    compacted = compact_log(hand.key, [log_format.encode_row(hand.log)], archive=False)
    assert compacted is not None and compacted.blobs == {} and compacted.snapshot.archive is None


def test_a_log_of_which_little_is_dead_is_not_worth_it() -> None:
    hand = halfway(plain, 5, 100)
    assert not is_worth_compaction(hand.execution)
    while not is_worth_compaction(hand.execution):
        assert hand.perform()
    assert hand.execution.dead_events >= DEAD_EVENTS_MIN
    compacted = compaction(hand)
    assert compacted is not None and not is_worth_compaction(restored(hand, compacted).execution)


async def nested(ctx: Any) -> Any:
    total = 0
    async for day in ctx.loop("day", state=[0, 0], keep=1):
        async for poll in day.loop("poll", state=0, keep=1, trim_every=2):
            poll.state += await poll.step("look", once, 1)
            if poll.number == 7:
                break
        day.state = [day.state[0] + 1, day.state[1] + poll.state]
        if day.number == 6:
            total = day.state
            break
    return total


@pytest.mark.parametrize("calls", range(1, 56, 3))
def test_nested_loops_go_on_wherever_they_are_compacted(calls: int) -> None:
    hand = halfway(nested, calls)
    compacted = compaction(hand)
    if compacted is not None:
        hand = restored(hand, compacted)
    assert hand.run().result == [7, 56]


async def siblings(ctx: Any) -> Any:
    async def audits(branch: Any) -> Any:
        async for turn in branch.loop("audit", state=0, keep=1):
            turn.state += await turn.step("look", once, 1)
            if turn.number == 20:
                return turn.state
        return None

    async def other(branch: Any) -> Any:
        return [await branch.step("one", once, 1), await branch.listen("go"), await branch.step("two", once, 2)]

    return [await ctx.join(a=audits, b=other, c=audits), await ctx.step("after", once, 3)]


@pytest.mark.parametrize("calls", [12, 25, 30])
def test_loops_beside_other_branches_go_on(calls: int) -> None:
    hand = halfway(siblings, calls)
    compacted = compaction(hand)
    assert compacted is not None and len(compacted.events) < 25
    hand = restored(hand, compacted)
    hand.signal("go", "now")
    assert hand.run().result == [{"a": 21, "b": [1, "now", 2], "c": 21}, 3]


async def counts(ctx: Any) -> Any:
    ctx.set_attributes({"turn": -1, "begun": True, "first": 1})
    async for turn in ctx.loop("audit", state=0, keep=2):
        before = turn.execution.attributes
        turn.set_attributes({"turn": before["turn"] + 1, "first": None, f"at{turn.number % 5}": turn.number})
        await turn.step(f"look {before['turn'] % 7}", once, turn.number)
        turn.set_attributes({"sum": before.get("sum", 0) + turn.number, "last": f"turn {turn.number}"})
        if turn.number == 60:
            break
    return ctx.execution.attributes


@pytest.mark.slow
@pytest.mark.parametrize("calls", [*range(8, 20), 40, 55])
def test_attributes_that_forgotten_turns_have_changed_stay_as_they_were_and_the_next_turns_go_on_from_them(calls: int) -> None:
    whole = Hand(counts).start().run()
    hand = halfway(counts, calls)
    compacted = compaction(hand)
    assert compacted is not None
    hand = restored(hand, compacted)
    assert sum(isinstance(event, e.AttributesSetEvent) for event in compacted.events) <= 2
    assert hand.run().result == whole.result and hand.execution.attributes == whole.execution.attributes
    assert whole.result["turn"] == 60 and whole.result["sum"] == sum(range(61)) and "first" not in whole.result


@pytest.mark.slow
def test_attributes_outlive_one_compaction_after_another() -> None:
    hand, lengths = halfway(counts, 10), set()
    for calls in range(15, 55, 5):
        compacted = compaction(hand)
        assert compacted is not None
        lengths.add(len(compacted.events))
        hand = restored(hand, compacted)
        while len(hand.performed) < calls:
            assert hand.perform()
    assert len(lengths) == 1, lengths
    assert hand.run().result == Hand(counts).start().run().result


async def beside(ctx: Any) -> Any:
    async def audits(branch: Any) -> Any:
        async for turn in branch.loop("audit", state=0, keep=1):
            turn.set_attributes({"turn": turn.number})
            await turn.step("look", once, 1)
            if turn.number == 20:
                return turn.number
        return None

    async def other(branch: Any) -> Any:
        await branch.listen("go")
        seen = branch.execution.attributes["turn"]
        branch.set_attributes({"seen": seen})
        return seen

    return await ctx.join(a=audits, b=other)


@pytest.mark.parametrize("calls", range(3, 20, 4))
def test_another_branch_sees_what_forgotten_turns_have_changed_where_it_saw_it(calls: int) -> None:
    hand = halfway(beside, calls)
    hand.signal("go")
    while len(hand.performed) < 20:
        hand.perform()
    compacted = compaction(hand)
    assert compacted is not None
    hand = restored(hand, compacted)
    assert hand.run().result == {"a": 20, "b": calls} and dict(hand.execution.attributes) == {"turn": 20, "seen": calls}


async def reads_message(ctx: Any) -> Any:
    heard = []
    async for turn in ctx.loop("mail", state=[], keep=1):
        turn.state = [*turn.state, await turn.listen("x")]
        if len(turn.state) == 12:
            heard = turn.state
            break
    return heard


def test_messages_that_forgotten_turns_consumed_are_gone_and_others_are_not() -> None:
    hand = Hand(reads_message).start()
    for number in range(9):
        hand.signal("x", number)
    hand.signal("y", "kept")
    compacted = compaction(hand)
    assert compacted is not None
    assert [event.name for event in compacted.events if isinstance(event, e.MessageArrivedEvent)] == ["x", "y"]
    hand = restored(hand, compacted)
    for number in range(9, 12):
        hand.signal("x", number)
    assert hand.result == list(range(12))


async def loses_races(ctx: Any) -> Any:
    heard: list[Any] = []
    async for turn in ctx.loop("race", state=[], keep=1):

        async def listens(branch: Any) -> Any:
            async with asyncio.timeout(None):
                body = await branch.listen("x", completable=True)
                await branch.sleep(1e6)
                return body.body

        won = await turn.race(listener=listens, step=lambda branch: branch.step("look", once, 1))
        if turn.number == 8:
            heard = [won.name, await turn.listen("x"), await turn.listen("x")]
            break
    return heard


def test_a_message_that_a_forgotten_turn_gave_back_is_still_there() -> None:
    hand = Hand(loses_races).start()
    hand.signal("x", 1)
    hand.signal("x", 2)
    while len(hand.performed) < 7:
        assert hand.perform()
    compacted = compaction(hand)
    assert compacted is not None
    assert restored(hand, compacted).run().result == hand.run().result == ["step", 1, 2]


async def loses_and_then_reads(ctx: Any) -> Any:
    async def listens(branch: Any) -> Any:
        await branch.listen("x")
        await branch.sleep(1e6)

    await ctx.race(listener=listens, step=lambda branch: branch.step("look", once, 1))
    heard = []
    async for turn in ctx.loop("mail", state=[], keep=1):
        turn.state = [*turn.state, await turn.listen("x")]
        if len(turn.state) == 8:
            heard = turn.state
            break
    return heard


def test_a_message_that_a_loser_gave_back_and_a_forgotten_turn_consumed_does_not_come_again() -> None:
    hand = Hand(loses_and_then_reads).start()
    hand.signal("x", 0)
    assert hand.perform()
    for number in range(1, 7):
        hand.signal("x", number)
    assert hand.execution.trimmed
    compacted = compaction(hand)
    assert compacted is None or restored(hand, compacted) is not hand  # a compacted log would bring it again, so there is none
    hand.signal("x", 7)
    assert hand.result == list(range(8))


async def fails_once(ctx: Any) -> Any:
    async for turn in ctx.loop("audit", state=0, keep=3):
        turn.state += await turn.step("look" if turn.number != 12 else "poison", once, 1)
        if turn.number == 30:
            break
    return turn.state


@pytest.mark.parametrize("calls", range(13, 31))
def test_a_reopened_loop_goes_on_wherever_it_is_compacted(calls: int) -> None:
    hand = Hand(fails_once, {"poison": poison}).start().run()
    assert hand.execution.status == "failed"
    hand.steps = {}
    hand.tell(m.RetryMessage())
    for _ in range(calls - 12):
        assert hand.perform()
    compacted = compaction(hand)
    if compacted is not None:
        hand = restored(hand, compacted)
    assert hand.run().result == 31


async def two_of_them(ctx: Any) -> Any:
    async def steps(branch: Any) -> Any:
        return [await branch.step("first", once, 1), await branch.step("second", once, 2)]

    async def audits(branch: Any) -> Any:
        async for turn in branch.loop("audit", state=0, keep=1):
            turn.state += await turn.step("look", once, 1)
            if turn.number == 12:
                return turn.state
        return None

    return await ctx.join(a=steps, b=audits)


def test_what_came_while_parked_in_a_forgotten_turn_is_still_fed_after_it() -> None:
    hand = Hand(two_of_them).start()
    look = next(pending.path for pending in hand.execution.opened.performing() if pending.path[-1] == ("look", 1))
    for _ in range(10):
        pending = hand.execution.open[look]
        hand.tell(m.LostMessage(look, pending.attempt, 10 - pending.interruptions))
        if hand.execution.parked is not None:
            break
        hand.tick()
    first = next(pending.path for pending in hand.execution.opened.performing())
    hand.settle(first, 1)
    hand.tell(m.RetryMessage())
    while len(hand.performed) < 8:
        hand.settle(next(path for path in hand.execution.open if path[-1] == ("look", 1)), 1)
        hand.performed.append("look")
    compacted = compaction(hand)
    assert compacted is not None
    assert restored(hand, compacted).run().result == {"a": [1, 2], "b": 13}


async def coupled(ctx: Any) -> Any:
    notification = asyncio.Event()

    async def audits(branch: Any) -> Any:
        async for turn in branch.loop("audit", state=0, keep=1):
            await turn.step("look", once, 1)
            if turn.number == 3:
                notification.set()
            if turn.number == 12:
                return turn.number
        return None

    async def waits(branch: Any) -> Any:
        await notification.wait()
        return await branch.step("rung", once, 2)

    return await ctx.join(a=audits, b=waits)


@pytest.mark.parametrize("calls", range(5, 14))
def test_branches_that_are_coupled_outside_of_the_log_are_not_compacted(calls: int) -> None:
    hand = halfway(coupled, calls)
    compacted = compaction(hand)
    if compacted is not None:
        hand = restored(hand, compacted)
    assert hand.run().result == {"a": 12, "b": 2}


# random programs

Body = tuple[Any, ...]


def drawn(rng: Random, depth: int) -> Body:
    """A program of steps, sleeps, messages, joins, races and loops: nested tuples."""
    leaves: list[Callable[[], Body]] = [
        lambda: ("step",),
        lambda: ("step",),
        lambda: ("bad",),
        lambda: ("sleep",),
        lambda: ("listen", rng.choice("xy")),
        lambda: ("keep", f"k{rng.random()}"),
        lambda: ("set",),
        lambda: ("late",),
    ]
    nests: list[Callable[[], Body]] = [
        lambda: ("join", drawn(rng, depth - 1), drawn(rng, depth - 1)),
        lambda: ("race", drawn(rng, depth - 1)),
        lambda: ("loop", f"l{rng.random()}", rng.randint(2, 6), rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 3), drawn(rng, depth - 1)),
        lambda: ("loop", f"l{rng.random()}", rng.randint(3, 9), 1, 1, 1, drawn(rng, depth - 1)),
    ]
    return ("sequence", *((rng.choice(nests) if depth and rng.random() < 0.5 else rng.choice(leaves))() for _ in range(rng.randint(1, 3))))


LOOK: Step[..., Any, Any] = Step(once, "look")
BAD: Step[..., Any, Any] = Step(poison, "bad", Retry(max=2))


async def interpreted(ctx: Any, body: Body) -> Any:
    match body:
        case "sequence", *parts:
            return [await interpreted(ctx, part) for part in parts]
        case "step", *_:
            return await ctx.step(LOOK, 1)
        case "bad", *_:
            return (await ctx.attempt(BAD)).kind
        case "sleep", *_:
            return await ctx.sleep(5)
        case "listen", name:
            return await ctx.listen(name)
        case "late", *_:
            return await ctx.listen("never", timeout=3, default="late")
        case "keep", name:
            return await ctx.keep(name, lambda: 7)
        case "set", *_:
            ctx.set("progress", body)
            ctx.set_attributes({f"a{len(ctx.execution.attributes) % 3}": ctx.random.random(), "b": None})
            return ctx.uuid().hex
        case "join", one, other:
            return list(await ctx.join(lambda c: interpreted(c, one), lambda c: interpreted(c, other)))
        case "race", one:
            return (await ctx.race(a=lambda c: interpreted(c, one), b=lambda c: c.listen("never"))).value
        case "loop", name, turns, keep, trim_every, commit_every, inner:
            async for turn in ctx.loop(name, state=[], keep=keep, trim_every=trim_every, commit_every=commit_every):
                value = await interpreted(turn, inner)
                turn.state = [turn.number, value]
                if turn.number == turns:
                    return turn.state
    raise AssertionError(body)


def tuples(body: Any) -> Any:
    return tuple(tuples(part) for part in body) if isinstance(body, list) else body


async def random_program(ctx: Any, body: Any) -> Any:
    return await interpreted(ctx, tuples(body))


def move(hand: Hand, rng: Random) -> None:
    """Let one of the things happen that can happen now."""
    waiting = sorted(hand.execution.open.values(), key=lambda one: path_text(one.path))
    calls = [one for one in waiting if isinstance(one.op, CallOperation) and one.state == "performing"]
    names = sorted({name for one in waiting if isinstance(one.op, ReceiveOperation) for name in one.op.names} - {"never"})
    acts: list[Callable[[], object]] = [partial(hand.settle, one.path, ValueError("no") if operation_target(one.op) == "bad" else 1) for one in calls]
    number = hand.execution.version + 1
    acts += [partial(hand.tell, m.SignalMessage(name, encode(number, "body")), number) for name in names]
    if hand.execution.wake_at() is not None:
        acts.append(hand.tick)
    rng.choice(acts)()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_loops_that_are_compacted_whenever_it_is_possible_go_on_to_the_same_end(seed: int) -> None:
    body = drawn(Random(seed), 3)
    plainly, often = Hand(random_program).start(body), Hand(random_program).start(body)
    rngs, compactions, rng = (Random(seed), Random(seed)), 0, Random(-seed)
    for _ in range(150):
        if plainly.execution.ended is not None:
            break
        before = len(plainly.log), len(often.log)
        move(plainly, rngs[0])
        move(often, rngs[1])
        assert plainly.log[before[0] :] == often.log[before[1] :], f"seed {seed}"
        if often.execution.trimmed and rng.random() < 0.3 and (compacted := compaction(often)) is not None:
            often = restored(often, compacted)
            compactions += 1
    assert facts(often.execution) == facts(plainly.execution), f"seed {seed}, {compactions} compactions"
    plainly.close()
    often.close()


def test_an_outcome_that_failed_is_compacted_like_any_other() -> None:
    hand = Hand(random_program).start(("loop", "l", 9, 1, 1, 1, ("bad",)))
    while hand.execution.trimmed.get(next(iter(hand.execution.trimmed), ()), 0) < 4:
        hand.settle(next(iter(hand.execution.opened.performing())).path, ValueError("no")) if hand.execution.opened.performed else hand.tick()
    compacted = compaction(hand)
    assert compacted is not None and any(isinstance(event, e.SettledEvent) and isinstance(event.outcome, Failure) for event in hand.log)
    assert restored(hand, compacted).run().result == hand.run().result == [9, "exhausted"]
