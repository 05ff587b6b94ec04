"""Claims about loops: an endless one keeps a bounded log and a bounded memory, and goes on correctly from what is kept."""

import asyncio
import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from perdure import Context, Key, step, workflow
from perdure.code.code_program import CodeProgram
from perdure.core import events as e
from perdure.core import log_format, messages
from perdure.core.execution import Execution
from perdure.core.paths import path_text
from tests.code.decision_driver import Hand
from tests.code.engines import MemoryEngine, every_cut, evicted, resident, settle, virtually, world
from tests.sampling import some


@step
async def work(n: int) -> int:
    return n + 1


@step
async def fetch(word: str) -> str:
    await asyncio.sleep(1)
    return word


@virtually
async def test_state_that_is_assigned_is_what_the_next_turn_begins_with() -> None:
    @workflow
    async def looping(ctx: Context) -> list[int]:
        seen = []
        async for turn in ctx.loop("l", state=10):
            seen.append(turn.state)
            turn.state = await turn.step(work, turn.state)
            if turn.number == 3:
                break
        return [*seen, turn.state]

    async with world(looping) as w:
        assert await w.run(looping) == [10, 11, 12, 13, 14]


@pytest.mark.prove
@virtually
async def test_joins_races_and_inner_loops_in_a_turn_resume_after_a_suspension_from_every_cut() -> None:
    @workflow
    async def composed(ctx: Context) -> list[Any]:
        async for turn in ctx.loop("outer", state=list[Any](), keep=1):
            both = await turn.join(lambda c: c.step(work, 1), lambda c: c.step(work, 2))
            won = await turn.race(fast=lambda c: c.step(fetch, "x"), never=lambda c: c.sleep("900d"))
            total = 0
            async for inner in turn.loop("inner", state=0, keep=1):
                total = await inner.step(work, inner.state)
                inner.state = total
                if inner.number == 4:
                    break
            await turn.sleep(10)
            heard = await turn.listen("m")
            turn.state = [*turn.state, [*both, won.name, total, heard]]
            if turn.number == 2:
                break
        return turn.state

    async def say(w: MemoryEngine, key: Key) -> None:
        for number in range(3):
            await w.send(key, "m", number, once=f"key {number}")

    assert await every_cut(composed, say=say) == [[2, 3, "fast", 5, number] for number in range(3)]


@virtually
async def test_a_loop_resumes_at_the_last_committed_turn_and_runs_none_of_the_earlier_steps_again() -> None:
    ran: list[int] = []

    @step
    async def counted(n: int) -> None:
        ran.append(n)

    @workflow
    async def looping(ctx: Context) -> int:
        async for turn in ctx.loop("l", state=0, keep=2):
            await turn.step(counted, turn.number)
            turn.state += 1
            await turn.sleep(10)
            if turn.number == 6:
                break
        return turn.state

    async with world(looping) as w:
        key = await w.start(looping)
        await settle(35)
        await w.crash()
        assert await w.result(key) == 7
        assert ran == list(range(7))


@pytest.mark.slow
@virtually
async def test_commit_every_remembers_the_state_of_every_nth_turn_only() -> None:
    @workflow
    async def looping(ctx: Context) -> int:
        async for turn in ctx.loop("l", state=0, commit_every=3):
            turn.state += 1
            await turn.sleep(1)
            if turn.number == 7:
                break
        return turn.state

    async with world(looping) as w:
        assert await w.run(looping) == 8
        turns = [path for path in await w.opened(w.key(looping)) if path.count("/") == 1]
        assert turns == ["l/~0", "l/~3", "l/~6"]
    assert await every_cut(looping) == 8


@virtually
async def test_history_is_trimmed_to_the_turns_kept_as_in_the_example_of_the_seed() -> None:
    @workflow
    async def looping(ctx: Context) -> None:
        async for turn in ctx.loop("process-items", state=0, keep=10, trim_every=10):
            await turn.step(work, 1)
            if turn.number == 20:
                break

    async with world(looping) as w:
        await w.run(looping)
        kept = {path[1] for path in (await w.fold(w.key(looping))).settled}
        assert kept == set(range(10, 21))


@virtually
async def test_verbs_of_the_surrounding_context_in_a_turn_say_to_use_the_turns_own() -> None:
    @workflow
    async def wrong(ctx: Context) -> str:
        async for _ in ctx.loop("l", state=0):
            try:
                await ctx.sleep(1)
            except Exception as error:
                return str(error)
        return ""

    async with world(wrong) as w:
        assert "Use the context of the iteration" in await w.run(wrong)


@virtually
async def test_after_a_break_the_surrounding_context_is_good_again() -> None:
    @workflow
    async def right(ctx: Context) -> int:
        async for turn in ctx.loop("l", state=0):
            await turn.step(work, 1)
            break
        return await ctx.step(work, 41)

    async with world(right) as w:
        assert await w.run(right) == 42


# bounds


@workflow
async def steps_and_sleeps(ctx: Context) -> None:
    async for turn in ctx.loop("l", state=0, keep=3):
        turn.state = await turn.step(work, turn.state)
        await turn.sleep(1)


@workflow
async def inner_loops(ctx: Context) -> None:
    async for turn in ctx.loop("outer", state=0, keep=3):
        async for inner in turn.loop("inner", state=0, keep=2):
            inner.state = await inner.step(work, inner.state)
            if inner.number == 4:
                break
        await turn.sleep(1)
        turn.state += 1


@workflow
async def branches_too(ctx: Context) -> None:
    async for turn in ctx.loop("l", state=0, keep=3):
        await turn.join(lambda c: c.step(work, 1), lambda c: c.sleep(0.5))
        await turn.race(a=lambda c: c.step(work, 1), b=lambda c: c.sleep(900))
        await asyncio.gather(turn.step(work, 1), turn.sleep(0.5))
        turn.set("turn", turn.number)
        turn.emit(turn.number)
        turn.state += 1


@workflow
async def consuming(ctx: Context) -> None:
    async for turn in ctx.loop("l", state=0, keep=3):
        got = await turn.listen("m")
        turn.state = await turn.step(work, got)


@workflow
async def completing(ctx: Context) -> None:
    async for turn in ctx.loop("l", state=0, keep=3):
        message = await turn.listen("m", completable=True)
        turn.state = await turn.step(work, message.body)
        message.complete(turn.state)


@workflow
async def in_a_branch(ctx: Context) -> None:
    async def looping(c: Context) -> None:
        async for turn in c.loop("l", state=0, keep=3):
            turn.state = await turn.step(work, turn.state)
            await turn.sleep(1)

    await ctx.join(a=looping, b=looping)


@workflow
async def losing_messages(ctx: Context) -> None:
    """In every turn a loser gives a message back, which the next turn consumes."""
    async for turn in ctx.loop("l", state=0, keep=3):

        async def greedy(c: Context) -> None:
            await c.listen("m")
            await asyncio.Event().wait()

        await turn.race(greedy=greedy, timer=lambda c: c.sleep(0.5))
        turn.state = await turn.listen("m")


ENDLESS = [steps_and_sleeps, inner_loops, branches_too, consuming, completing, in_a_branch, losing_messages]
LISTENING = {one.code.name for one in (consuming, completing, losing_messages)}


def turns_of(execution: Execution) -> int:
    """How many turns the loop has begun: the number of the latest one that is kept."""
    return max((path[-1] for path in execution.settled if isinstance(path[-1], int) and len(path) <= 4), default=0)


async def turned(w: MemoryEngine, key: Key, turns: int, sent: int) -> int:
    """Go on until the loop has begun turn number `turns`, with a message for each if it listens; return how many were sent."""
    while key.workflow in LISTENING and sent < turns + 1:
        await w.send(key, "m", sent)
        sent += 1
    while turns_of(await w.fold(key)) < turns:
        await settle(5)
    return sent


def size(execution: Execution, instance: CodeProgram) -> dict[str, int]:
    """How many things each collection of an execution and its program holds."""
    sizes = {name: len(getattr(execution, name)) for name in execution.__slots__ if hasattr(getattr(execution, name), "__len__")}
    sizes |= {f"program {name}": len(getattr(instance, name)) for name in instance.__slots__ if hasattr(getattr(instance, name, None), "__len__")}
    sizes["tasks"] = len(instance.loop.pending)
    for name in ("keys", "watchers", "_commands", "program _values"):
        sizes.pop(name, None)
    return sizes


def held_by(instance: CodeProgram) -> int:
    """How many objects the coroutines' own contexts hold: names counted, tasks known, receives marked."""
    receipts = instance.receipts
    count = len(receipts._branches) + len(receipts._ended) + len(receipts._held) + sum(map(len, receipts._unused.values()))
    return count + sum(len(scope._counts) for scope in [*instance.branches.values(), _root_scope(instance)])


def _root_scope(instance: CodeProgram) -> Any:
    coroutine: Any = instance._root.get_coro() if instance._root is not None else None
    return coroutine.cr_frame.f_locals["self"]._scope


@pytest.mark.slow
@pytest.mark.parametrize("most", [300, pytest.param(1000, marks=pytest.mark.prove)])
@pytest.mark.parametrize("endless", ENDLESS, ids=lambda one: one.code.name)
@resident
async def test_an_endless_loop_keeps_a_bounded_log_and_a_bounded_memory(endless: Any, most: int) -> None:
    async with world(endless) as w:
        key = await w.start(endless)
        sent, bytes_at, memory_at, held_at = 0, {}, {}, {}
        for turns in (10, 100, most):
            sent = await turned(w, key, turns, sent)
            bytes_at[turns] = sum(map(len, await w.rows(key)))
            entry = w.engine._residents.get(key)
            assert entry is not None
            assert entry.execution is not None and isinstance(entry.program, CodeProgram)
            memory_at[turns] = size(entry.execution, entry.program)
            held_at[turns] = held_by(entry.program)
        assert bytes_at[most] < max(3 * bytes_at[10], 1.8 * bytes_at[100]), bytes_at
        grown = {name: (memory_at[100][name], count) for name, count in memory_at[most].items() if count > memory_at[100][name] + 64}
        assert not grown, grown
        assert held_at[most] <= held_at[10] + 8, held_at


@pytest.mark.slow
@pytest.mark.parametrize("endless", ENDLESS, ids=lambda one: one.code.name)
@resident
async def test_after_compaction_a_restored_execution_continues_correctly(endless: Any) -> None:
    async with world(endless) as w:
        key = await w.start(endless)
        sent = await turned(w, key, 120, 0)
        events = await w.events(key)
        assert any(isinstance(event, e.SnapshotEvent) for event in events), "it was compacted"
        execution, _ = await evicted(w.store, endless, key)
        entry = w.engine._residents.get(key)
        assert entry is not None
        assert entry.execution is not None
        assert {path_text(path) for path in execution.open} == {path_text(path) for path in entry.execution.open}
        assert execution.mailbox.messages == entry.execution.mailbox.messages
        await w.crash()
        sent = await turned(w, key, 200, sent)
        await evicted(w.store, endless, key)
        assert (await w.fold(key)).parked is None


@pytest.mark.slow
@pytest.mark.parametrize("endless", some([steps_and_sleeps, inner_loops, consuming], 1), ids=lambda one: one.code.name)
@virtually
async def test_an_endless_loop_goes_on_also_when_it_is_rebuilt_for_every_commit(endless: Any) -> None:
    async with world(endless) as w:
        key = await w.start(endless)
        await turned(w, key, 80, 0)
        assert (await w.fold(key)).parked is None
        assert sum(map(len, await w.rows(key))) < 60_000


@pytest.mark.slow
@resident
async def test_messages_are_consumed_once_in_their_order_across_compactions() -> None:
    seen: list[int] = []

    @step
    async def note(n: int) -> None:
        seen.append(n)

    @workflow
    async def noting(ctx: Context) -> None:
        async for turn in ctx.loop("l", state=0, keep=3):
            await turn.step(note, await turn.listen("m"))

    async with world(noting) as w:
        key = await w.start(noting)
        for number in range(200):
            await w.send(key, "m", number)
            if number % 50 == 49:
                await settle(10)
                await w.crash()
        await settle(10)
        assert seen == list(range(200))


@pytest.mark.slow
@resident
async def test_a_message_that_a_trimmed_turn_gave_back_is_still_there_after_compaction() -> None:
    @workflow
    async def keeping(ctx: Context) -> Any:
        async for turn in ctx.loop("l", state=0, keep=1):
            if turn.number == 0:

                async def greedy(c: Context) -> None:
                    await c.listen("m")
                    await asyncio.Event().wait()

                await turn.race(greedy=greedy, timer=lambda c: c.sleep(5))
            await turn.step(work, 1)
            if turn.number == 100:
                break
        await ctx.sleep(60)
        return await ctx.listen("m", timeout=0, default="lost")

    async with world(keeping) as w:
        key = await w.start(keeping)
        await w.send(key, "m", "kept")
        await settle(30)
        assert any(isinstance(event, e.SnapshotEvent) for event in await w.events(key))
        await w.crash()
        assert await w.result(key) == "kept"


@pytest.mark.slow
@resident
async def test_state_queries_stream_counts_and_keys_survive_compaction() -> None:
    @workflow
    async def showing(ctx: Context) -> None:
        async for turn in ctx.loop("l", state=0, keep=1):
            turn.set(f"key {turn.number % 3}", turn.number)
            turn.emit(turn.number)
            await turn.listen("m")

    async with world(showing) as w:
        key = await w.start(showing)
        for number in range(120):
            await w.send(key, "m", number, once=f"key {number}")
        await settle(5)
        folded = await w.fold(key)
        assert any(isinstance(event, e.SnapshotEvent) for event in await w.events(key))
        assert set(folded.state) == {"key 0", "key 1", "key 2"}
        assert folded.emitted == 121
        await w.send(key, "m", "again", once="key 3")
        await settle(5)
        assert (await w.fold(key)).emitted == 121, "the key is remembered"


# cost


def calls_during(fn: Callable[[], object]) -> int:
    """How many functions, in Python and in C, are called in `fn`. A garbage collection would add the calls of the callbacks that libraries have for it."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    outer = sys.getprofile()
    gc.disable()
    sys.setprofile(profile)
    try:
        fn()
    finally:
        sys.setprofile(outer)
        gc.enable()
    return count


def stepped(hand: Hand) -> None:
    (path,) = (pending.path for pending in hand.execution.open.values())
    hand.settle(path, 1)


@pytest.mark.slow
def test_no_decision_of_a_sequence_costs_more_as_its_history_grows() -> None:
    async def sequence(ctx: Context) -> None:
        for _ in range(20_000):
            await ctx.step(work, 1)

    hand, cost = Hand(sequence).start(), {}
    for done in range(1, 10_001):
        if done in (100, 10_000):
            cost[done] = calls_during(lambda: stepped(hand))
        else:
            stepped(hand)
    assert cost[10_000] <= cost[100] + 3, cost


@pytest.mark.slow
def test_no_decision_of_a_loop_costs_more_as_its_turns_grow() -> None:
    async def looping(ctx: Context) -> None:
        async for turn in ctx.loop("l", state=0, keep=3):
            turn.state = await turn.step(work, turn.state)

    hand, cost = Hand(looping).start(), {}
    for done in range(1, 3_001):
        if done in (100, 3_000):
            cost[done] = calls_during(lambda: stepped(hand))
        else:
            stepped(hand)
    assert cost[3_000] <= cost[100] + 3, cost


@pytest.mark.slow
def test_no_decision_of_a_consumer_costs_more_as_its_messages_grow() -> None:
    async def listening(ctx: Context) -> None:
        while True:
            await ctx.listen("m")

    hand, cost = Hand(listening).start(), {}
    for done in range(1, 3_001):
        if done in (100, 3_000):
            cost[done] = calls_during(lambda: hand.signal("m", 1))
        else:
            hand.signal("m", 1)
    assert cost[3_000] <= cost[100] + 3, cost


@pytest.mark.slow
def test_no_decision_costs_more_for_ten_thousand_messages_that_wait() -> None:
    async def listening(ctx: Context) -> None:
        while True:
            await ctx.listen("go")
            await ctx.listen("m")

    cost = {}
    for waiting in (100, 9_000):
        hand = Hand(listening).start()
        for number in range(waiting):
            hand.tell(messages.SignalMessage("m"), number + 1)
        hand.tell(messages.SignalMessage("go"), waiting + 1)
        cost[waiting] = calls_during(lambda: hand.tell(messages.SignalMessage("go"), 10**6))  # noqa: B023  # called at once
    assert cost[9_000] <= cost[100] + 3, cost


@pytest.mark.slow
def test_replaying_a_log_is_linear_in_its_length() -> None:
    async def sequence(ctx: Context) -> None:
        for _ in range(20_000):
            await ctx.step(work, 1)

    hand, cost = Hand(sequence).start(), {}
    for done in range(1, 2_001):
        stepped(hand)
        if done in (200, 2_000):
            cost[done] = calls_during(hand.rebuilt)
    assert cost[2_000] < 11 * cost[200], cost
    assert len(log_format.encode_row(hand.log)) < 2_000 * 120
