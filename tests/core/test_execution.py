"""Claims about the fold: what each event changes, what the execution says of itself, and that no event costs more for a long history."""

import sys
from collections.abc import Callable, Iterator
from random import Random
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import events as e
from perdure.core import limits
from perdure.core.deduplication import SenderWatermark
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution, execution_facts, iteration_holds_open
from perdure.core.messages import Parent
from perdure.core.operations import CallOperation, Failure, KeepOperation, Operation, ReceiveOperation, SendOperation, SleepOperation, SpawnOperation, Success
from perdure.core.paths import Path
from perdure.core.replay import fold_events
from tests.core.scripted_execution import KEY, NOW_S, OTHER, path

NO = ErrorInfo("ValueError", "no")
PAY, A, B, LOOP = path("pay"), path("a"), path("b"), path("l")
START = e.StartedEvent(1, NOW_S)
OPEN = e.OpenedEvent(PAY, CallOperation("pay", timeout_s=5.0), "me")
PARKED = e.ParkedEvent("diverged", NOW_S)


def after(*events: e.Event) -> Execution:
    return fold_events(KEY, events)


def opened(shown: str, op: Operation, number: int = 0) -> e.OpenedEvent:
    return e.OpenedEvent(path(shown), op, number=number)


STATUS: list[tuple[str, list[e.Event]]] = [
    ("pending", []),
    ("pending", [e.MessageArrivedEvent(1, "x", NOW_S)]),
    ("running", [START]),
    ("running", [START, OPEN]),
    ("running", [START, OPEN, opened("a", SleepOperation(1.0))]),
    ("waiting", [START, opened("a", SleepOperation(1.0))]),
    ("waiting", [START, opened("a", ReceiveOperation(("x",)))]),
    ("waiting", [START, opened("a", SpawnOperation("ship", "1"))]),
    ("waiting", [START, opened("pay", CallOperation("pay", queue="gpu"))]),
    ("waiting", [START, OPEN, e.RetryingEvent(PAY, 1, "failed", NO, NOW_S + 1, NOW_S)]),
    ("waiting", [START, OPEN, e.InterruptedEvent(PAY, 1, NOW_S + 1, NOW_S)]),
    ("running", [START, OPEN, e.RetryingEvent(PAY, 1, "failed", NO, NOW_S + 1, NOW_S), e.AttemptStartedEvent(PAY, 2, NOW_S, "me")]),
    ("running", [START, OPEN, e.SettledEvent(PAY, Success(), NOW_S)]),
    ("running", [START, OPEN, e.DroppedEvent(PAY)]),
    ("needs_attention", [START, OPEN, PARKED]),
    ("needs_attention", [START, OPEN, e.ParkedEvent("interrupted", NOW_S, (), PAY)]),
    ("running", [START, OPEN, PARKED, e.ResumedEvent(NOW_S)]),
    ("waiting", [START, OPEN, e.ParkedEvent("interrupted", NOW_S, (), PAY), e.ResumedEvent(NOW_S)]),
    ("running", [START, OPEN, e.CancellingEvent(NOW_S)]),
    ("completed", [START, e.EndedEvent("completed", Success(), NOW_S)]),
    ("failed", [START, OPEN, e.EndedEvent("failed", Failure("failed", 1, NO), NOW_S)]),
    ("cancelled", [START, PARKED, e.EndedEvent("cancelled", Failure("cancelled", 1, NO), NOW_S)]),
    ("cancelled", [e.EndedEvent("cancelled", Failure("cancelled", 1, NO), NOW_S)]),
    ("running", [START, OPEN, e.EndedEvent("failed", Failure("failed", 1, NO), NOW_S), e.ReopenedEvent(NOW_S)]),
]


@pytest.mark.parametrize(("status", "events"), STATUS, ids=lambda part: part if isinstance(part, str) else "-".join(type(event).__name__ for event in part))
def test_the_status_follows_from_the_events(status: str, events: list[e.Event]) -> None:
    assert after(*events).status == status


def test_a_start_pins_version_and_parent() -> None:
    parent = Parent(OTHER, PAY)
    execution = after(e.StartedEvent(2, NOW_S, b"\x01", 3, parent, NOW_S + 9))
    assert execution.started == e.StartedEvent(2, NOW_S, b"\x01", 3, parent, NOW_S + 9)
    assert (execution.watchers, execution.version, execution.now_s, execution.wake_at()) == ([parent], 1, NOW_S, NOW_S + 9)
    assert after(START, e.WatchedEvent(parent, NOW_S)).watchers == [parent]


def test_a_message_lies_in_the_mailbox_until_it_is_received() -> None:
    events: list[e.Event] = [
        START,
        e.MessageArrivedEvent(4, "x", NOW_S, b"\x01", "k"),
        e.MessageArrivedEvent(6, "x", NOW_S, sender=OTHER, sent=1),
        opened("a", ReceiveOperation(("x",))),
    ]
    execution = after(*events)
    assert list(execution.mailbox.messages) == [4, 6] and execution.mailbox.receivers("x") == (A,)
    execution.apply(e.ReceivedEvent(A, (4,), NOW_S + 1))
    assert [letter.body for letter in execution.settled[A].messages] == [b"\x01"] and execution.settled[A].outcome is None
    assert list(execution.mailbox.messages) == [6] and execution.mailbox.receivers("x") == () and not execution.open


def test_what_was_received_goes_back_to_its_place_but_for_what_was_completed() -> None:
    arrivals = [e.MessageArrivedEvent(number, "x", NOW_S) for number in (1, 2, 3)]
    reply = e.OpenedEvent((*A, ("reply:1", 1)), KeepOperation(role="reply", label="1"))
    execution = after(START, *arrivals, opened("a", ReceiveOperation(("x",), 2, completable=True)), e.ReceivedEvent(A, (1, 2), NOW_S), reply)
    assert execution.settled[A].completed == (1,)
    execution.apply(e.DroppedEvent(A))
    assert sorted(execution.mailbox.messages) == [2, 3] and execution.mailbox.matching(ReceiveOperation(("x",), 9)) == (2, 3) and A not in execution.settled


def test_what_was_completed_before_a_reopening_stays_completed() -> None:
    reply = e.OpenedEvent((*A, ("reply:1", 1)), KeepOperation(role="reply", label="1"))
    ask = opened("a", ReceiveOperation(("x",), 2, completable=True))
    life: list[e.Event] = [
        e.MessageArrivedEvent(1, "x", NOW_S),
        e.MessageArrivedEvent(2, "x", NOW_S),
        START,
        ask,
        e.ReceivedEvent(A, (1, 2), NOW_S),
        reply,
        e.EndedEvent("failed", Failure("failed", 1, NO), NOW_S),
    ]
    execution = after(*life, e.ReopenedEvent(NOW_S), ask, e.RecalledEvent(A, NOW_S), reply, e.DroppedEvent(A))
    assert list(execution.mailbox.messages) == [2]


def test_a_refused_message_is_remembered_and_not_kept() -> None:
    execution = after(START, e.MessageRefusedEvent(1, "x", NOW_S, "k"), e.MessageRefusedEvent(2, "x", NOW_S, "", OTHER, 1))
    assert not execution.mailbox.messages and execution.seen.knows(None, 0, "k", NOW_S) and execution.seen.knows(OTHER, 1, "", NOW_S)


def test_a_try_that_failed_counts_and_one_that_was_interrupted_does_not() -> None:
    execution = after(
        START, OPEN, e.InterruptedEvent(PAY, 1, NOW_S + 1, NOW_S), e.AttemptStartedEvent(PAY, 2, NOW_S + 1), e.InterruptedEvent(PAY, 2, NOW_S + 2, NOW_S + 1)
    )
    pending = execution.open[PAY]
    assert (pending.failures, pending.interruptions, pending.attempt, pending.state, pending.due_at_s, pending.by) == (0, 2, 2, "interrupted", NOW_S + 2, None)
    execution.apply(e.AttemptStartedEvent(PAY, 3, NOW_S + 2, "you"))
    assert (pending.attempt, pending.state, pending.due_at_s, pending.by) == (3, "performing", NOW_S + 7, "you")
    execution.apply(e.RetryingEvent(PAY, 3, "failed", NO, NOW_S + 9, NOW_S + 3))
    assert (pending.failures, pending.interruptions, pending.state, pending.due_at_s) == (1, 0, "retrying", NOW_S + 9)
    execution.apply(e.SettledEvent(PAY, Success(b"\x01"), NOW_S + 9))
    settled = execution.settled[PAY]
    assert (settled.outcome, settled.opened_at_s, settled.at_s, settled.attempt, settled.events) == (Success(b"\x01"), NOW_S, NOW_S + 9, 3, 7)


def test_values_state_and_stream_are_kept_at_once() -> None:
    execution = after(
        START,
        opened("k", KeepOperation(b"\x01")),
        opened("s", KeepOperation(b"\x02", "state", "progress")),
        opened("e", KeepOperation(b"\x03", "stream")),
        opened("t", KeepOperation(b"\x04", "state", "progress")),
    )
    assert execution.state == {"progress": b"\x04"} and execution.emitted == 1 and not execution.open
    assert [known.outcome for known in execution.settled.values()] == [Success(b"\x01"), Success(b"\x02"), Success(b"\x03"), Success(b"\x04")]


def test_what_is_sent_is_numbered_by_receiver_and_settles_at_once() -> None:
    execution = after(
        START,
        opened("a", SendOperation(OTHER, "x"), 1),
        opened("b", SendOperation(OTHER, "x"), 2),
        opened("c", SendOperation(KEY, "x"), 1),
        opened("d", SpawnOperation("ship", "1", awaited=False), 1),
    )
    assert execution.sent == {OTHER: 2, KEY: 1} and not execution.open and all(known.outcome == Success() for known in execution.settled.values())


def test_a_reopened_execution_remembers_what_had_succeeded_and_nothing_else() -> None:
    failed: list[e.Event] = [
        START,
        OPEN,
        e.SettledEvent(PAY, Success(b"\x01"), NOW_S),
        opened("a", CallOperation("a")),
        e.SettledEvent(A, Failure("fatal", 1, NO), NOW_S),
        opened("b", SleepOperation(9.0)),
    ]
    execution = after(*failed, e.EndedEvent("failed", Failure("failed", 1, NO), NOW_S), e.ReopenedEvent(NOW_S + 1))
    assert (
        list(execution.recalled_results.known) == [PAY] and not execution.settled and not execution.open and execution.ended is None and execution.reopened == 1
    )
    execution.apply(OPEN)
    execution.apply(e.RecalledEvent(PAY, NOW_S + 2))
    assert execution.settled[PAY].outcome == Success(b"\x01") and not execution.recalled_results and execution.status == "running"


def test_what_comes_while_parked_waits_in_the_backlog() -> None:
    settled = e.SettledEvent(PAY, Success(), NOW_S)
    execution = after(START, OPEN, opened("a", SleepOperation(1.0)), PARKED, e.MessageArrivedEvent(1, "x", NOW_S), settled)
    assert execution.backlog == [settled] and execution.wake_at() is None
    execution.apply(e.ResumedEvent(NOW_S))
    assert execution.wake_at() == NOW_S + 1
    execution.apply(e.SettledEvent(A, Success(), NOW_S))
    assert execution.backlog == []


def test_an_execution_that_was_resumed_in_vain_still_has_its_backlog() -> None:
    settled = e.SettledEvent(PAY, Success(), NOW_S)
    assert after(START, OPEN, PARKED, settled, e.ResumedEvent(NOW_S), PARKED).backlog == [settled]
    assert (
        after(START, OPEN, opened("a", SleepOperation(1.0)), PARKED, settled, e.ResumedEvent(NOW_S), e.SettledEvent(A, Success(), NOW_S), PARKED).backlog == []
    )


def test_nothing_is_open_and_nothing_wakes_after_the_end() -> None:
    execution = after(
        e.StartedEvent(1, NOW_S, deadline_at_s=NOW_S + 9),
        OPEN,
        opened("a", ReceiveOperation(("x",), timeout_s=1.0)),
        e.EndedEvent("completed", Success(), NOW_S),
    )
    assert not execution.open and execution.wake_at() is None and execution.mailbox.receivers("x") == () and execution.opened.performed == 0


def test_a_snapshot_says_what_the_events_before_it_do_not() -> None:
    snapshot = e.SnapshotEvent(90, NOW_S + 5, 1, (("progress", b"\x07"),), ((OTHER, 4, (6,)),), (("k", NOW_S),), ((OTHER, 2),), 3, "archive")
    execution = after(START, snapshot)
    assert (execution.version, execution.now_s, execution.state, execution.emitted, execution.sent) == (90, NOW_S + 5, {"progress": b"\x07"}, 3, {OTHER: 2})
    assert [execution.seen.knows(OTHER, number, "", NOW_S) for number in (4, 5, 6, 7)] == [True, False, True, False]
    assert execution.seen.knows(None, 0, "k", NOW_S) and execution.archive == "archive" and (execution.logged_events, execution.dead_events) == (2, 0)
    execution.apply(e.DroppedEvent(PAY)) if PAY in execution.open else execution.apply(e.CancellingEvent(NOW_S + 6))
    assert execution.version == 91


# time


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=25), st.integers(0, 2**20))
def test_timers_fire_in_the_order_of_their_times_and_among_equals_of_their_opening(plan: list[tuple[int, int]], seed: int) -> None:
    execution, rng = after(START), Random(seed)
    for number, (wait_s, drops) in enumerate(plan):
        execution.apply(e.OpenedEvent((("t", number),), SleepOperation(float(wait_s))))
        if not drops and execution.open:
            execution.apply(e.DroppedEvent(rng.choice(list(execution.open))))
    expected = sorted(execution.open.values(), key=lambda one: (one.due_at_s or 0.0, one.number))
    notified = []
    while (pending := execution.opened.due_first()) is not None:
        assert execution.wake_at() == pending.due_at_s
        notified.append(pending)
        execution.apply(e.SettledEvent(pending.path, Success(), NOW_S))
    assert notified == expected


def test_a_retry_of_what_is_still_running_sets_no_timer_and_a_later_retry_does() -> None:
    execution = after(START, OPEN, e.RetryingEvent(PAY, 1, "timeout", NO, NOW_S + 1, NOW_S), opened("a", SleepOperation(3.0)))
    assert execution.opened.due_first() is execution.open[PAY]
    assert execution.opened.due_first({PAY}) is execution.open[A] and execution.wake_at({PAY}) == NOW_S + 3
    assert execution.opened.due_first() is execution.open[PAY]
    execution.apply(e.AttemptStartedEvent(PAY, 2, NOW_S - 4, "me"))
    assert execution.opened.due_first({PAY}) is execution.open[PAY]  # its timeout does ring


def test_a_sleep_until_a_time_and_a_receive_with_a_timeout_are_due_then() -> None:
    execution = after(
        START, opened("a", SleepOperation(until_s=7.0)), opened("b", ReceiveOperation(("x",), timeout_s=2.0)), opened("c", ReceiveOperation(("x",)))
    )
    assert [pending.due_at_s for pending in execution.open.values()] == [7.0, NOW_S + 2, None]


@pytest.mark.slow
def test_timers_of_what_is_long_over_take_no_memory() -> None:
    execution = after(START)
    for number in range(10_000):
        execution.apply(e.OpenedEvent((("t", number),), CallOperation("t", timeout_s=1e9), "me"))
        execution.apply(e.SettledEvent((("t", number),), Success(), NOW_S))
    assert len(execution.opened.timers) < 100


# messages that are known


@given(st.permutations(range(1, 12)), st.integers(0, 11))
def test_a_watermark_knows_exactly_what_has_come_whatever_the_gaps(numbers: list[int], count: int) -> None:
    watermark = SenderWatermark()
    for number in numbers[:count]:
        watermark.add(number)
        watermark.add(number)
    assert [number for number in range(1, 14) if watermark.knows(number)] == sorted(numbers[:count])
    assert all(number > watermark.all_to + 1 for number in watermark.beyond)


def test_keys_from_outside_are_forgotten_after_a_day() -> None:
    day_s = limits.CLIENT_KEY_RETENTION_S
    execution = after(START, *(e.MessageArrivedEvent(number, "x", NOW_S + number, key=f"k{number}") for number in range(10)))
    for number in range(10, 30):
        assert execution.seen.knows(None, 0, "k9", NOW_S)
        execution.apply(e.MessageArrivedEvent(number, "x", NOW_S + day_s + number / 10, key=f"k{number}"))
        if number < 20:
            assert execution.seen.knows(None, 0, "k3", NOW_S)
    execution.apply(e.MessageArrivedEvent(99, "x", NOW_S + day_s + 100, key="last"))
    for number in range(100, 120):
        execution.apply(e.MessageArrivedEvent(number, "x", NOW_S + 2 * day_s + 200, key=f"k{number}"))
    assert not any(execution.seen.knows(None, 0, f"k{number}", NOW_S) for number in range(30)) and len(execution.seen.keys) == 20


def test_a_key_that_comes_again_after_a_day_does_not_keep_older_ones() -> None:
    day_s = limits.CLIENT_KEY_RETENTION_S
    events = [e.MessageArrivedEvent(number, "x", NOW_S + number, key=f"k{number}") for number in range(3)]
    again = [e.MessageArrivedEvent(10 + number, "x", NOW_S + day_s + 50, key=f"k{number}") for number in (0, 1)]
    execution = after(START, *events, *again, *(e.MessageArrivedEvent(20 + number, "x", NOW_S + day_s + 60, key=f"new{number}") for number in range(2)))
    assert list(execution.seen.keys) == ["k0", "k1", "new0", "new1"]


# loops


def turn(loop: Path, number: int) -> e.OpenedEvent:
    return e.OpenedEvent((*loop, number), KeepOperation(b"\x00", "turn"))


def step(shown: str) -> list[e.Event]:
    return [opened(shown, CallOperation("s")), e.SettledEvent(path(shown), Success(), NOW_S)]


def test_a_trimmed_turn_is_forgotten_with_all_that_lay_in_it() -> None:
    inner = path("l/~0/i")
    turns: list[e.Event] = [
        turn(LOOP, 0),
        *step("l/~0/s"),
        turn(inner, 0),
        *step("l/~0/i/~0/s"),
        turn(inner, 1),
        *step("l/~0/i/~1/s"),
        e.TrimmedEvent(inner, 1),
        turn(LOOP, 1),
        *step("l/~1/s"),
    ]
    execution = after(START, *turns)
    assert execution.trimmed == {inner: 1} and path("l/~0/i/~0/s") not in execution.settled and path("l/~0/i/~1/s") in execution.settled
    execution.apply(e.TrimmedEvent(LOOP, 1))
    assert list(execution.settled) == [path("l/~1"), path("l/~1/s")] and execution.trimmed == {LOOP: 1}
    assert set(execution.turns.inside()) == {path("l/~1")}
    assert execution.dead_events == len(turns) - 3 + 1  # all but turn 1; both Trimmed are dead


def test_a_turn_holds_what_is_open_in_it_however_deep() -> None:
    execution = after(START, turn(LOOP, 0), turn(path("l/~0/i"), 0), opened("l/~0/i/~0/b/s", CallOperation("s")))
    assert (
        iteration_holds_open(execution, path("l/~0"))
        and iteration_holds_open(execution, path("l/~0/i/~0"))
        and not iteration_holds_open(execution, path("l/~1"))
    )
    execution.apply(e.SettledEvent(path("l/~0/i/~0/b/s"), Success(), NOW_S))
    assert not iteration_holds_open(execution, path("l/~0"))


# equality


def random_events(rng: Random, count: int) -> Iterator[e.Event]:
    """Events that may follow one another, drawn at random; each is folded before the next is drawn."""
    execution = Execution(KEY)

    def given_now() -> e.Event:
        paths = list(execution.open)
        calls = [one for one in paths if isinstance(execution.open[one].op, CallOperation)]
        some, now_s = (rng.choice(paths) if paths else ()), execution.now_s + rng.random()
        name, sent = rng.choice("xyz"), rng.randint(1, 9)
        new = (("l", 1), rng.randint(0, 5), (f"o{execution.version}", 1)) if rng.random() < 0.5 else ((f"o{execution.version}", 1),)
        ops: list[Operation] = [
            CallOperation("s", timeout_s=3.0),
            SleepOperation(2.0),
            ReceiveOperation((name,), timeout_s=5.0),
            KeepOperation(b"", "state", name),
            SendOperation(OTHER, "x"),
            SpawnOperation("c", "1"),
        ]
        outcomes: list[Success | Failure] = [Success(), Failure("fatal", 1, NO)]
        drawn: list[Callable[[], e.Event]] = [
            lambda: e.MessageArrivedEvent(execution.version, name, now_s, b"\x01", rng.choice(["", "k1", "k2"])),
            lambda: e.MessageArrivedEvent(execution.version, name, now_s, b"\x01", "", OTHER, sent),
            lambda: e.OpenedEvent(
                new,
                rng.choice(ops),
                rng.choice([None, "me"]),
            ),
            lambda: e.TrimmedEvent(
                LOOP, max(execution.trimmed.get(LOOP, 0), min([turn for one in paths for turn in one[1:2] if isinstance(turn, int)], default=3))
            ),
        ]
        if paths:
            drawn += [lambda: e.DroppedEvent(some), lambda: e.SettledEvent(some, rng.choice(outcomes), now_s)]
        if calls:
            one = rng.choice(calls)
            drawn += [
                lambda: e.RetryingEvent(one, 1, "failed", NO, now_s + 1, now_s),
                lambda: e.InterruptedEvent(one, 1, now_s, now_s),
                lambda: e.AttemptStartedEvent(one, 2, now_s, "me"),
            ]
        if execution.parked is None and rng.random() < 0.1:
            return PARKED
        if execution.parked is not None and rng.random() < 0.3:
            return e.ResumedEvent(now_s)
        if rng.random() < 0.03:
            return e.EndedEvent("failed", Failure("failed", 1, NO), now_s)
        return rng.choice(drawn)()

    for _ in range(count):
        event = e.ReopenedEvent(execution.now_s) if execution.ended is not None else given_now() if execution.started else START
        execution.apply(event)
        yield event


@pytest.mark.parametrize("seed", range(40))
def test_event_by_event_and_all_at_once_are_the_same_execution(seed: int) -> None:
    events = list(random_events(Random(seed), 200))
    one, other = Execution(KEY), fold_events(KEY, events)
    for event in events:
        one.apply(event)
        one.opened.due_first(frozenset(list(one.open)[:1]))  # to ask changes nothing
        one.wake_at()
    assert execution_facts(one) == execution_facts(other) and one.wake_at() == other.wake_at() and one.status == other.status
    assert one.opened.performed == len([pending for pending in one.open.values() if pending.state == "performing"])


def test_facts_hold_all_that_an_execution_knows_but_bookkeeping() -> None:
    hidden = {"opened", "logged_events", "dead_events", "resumes"}
    assert set(Execution.__slots__) - set(execution_facts(after())) == hidden


# cost


def lines_run(act: Callable[[], object]) -> int:
    """How many lines of Python `act` runs: a measure of its cost that is the same on every machine."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def history_of_steps(count: int) -> Execution:
    execution = after(START)
    for number in range(count):
        execution.apply(e.OpenedEvent((("s", number),), CallOperation("s", timeout_s=9.0), "me"))
        execution.apply(e.SettledEvent((("s", number),), Success(), NOW_S))
        execution.apply(e.MessageArrivedEvent(number, "x", NOW_S, key=f"k{number}"))
    return execution


def history_of_loops(count: int) -> Execution:
    execution = after(START)
    for number in range(count):
        loop = (("b", number), ("l", 1))
        for one in range(3):
            execution.apply(turn(loop, one))
        execution.apply(e.TrimmedEvent(loop, 2))
    return execution


def next_steps(execution: Execution) -> int:
    last = (("last", 1), ("l", 1))
    events: list[e.Event] = [
        e.OpenedEvent(PAY, CallOperation("s", timeout_s=9.0), "me"),
        e.RetryingEvent(PAY, 1, "failed", NO, NOW_S + 1, NOW_S),
        e.AttemptStartedEvent(PAY, 2, NOW_S, "me"),
        e.SettledEvent(PAY, Success(), NOW_S),
        e.MessageArrivedEvent(10**6, "y", NOW_S, key="new"),
        opened("a", ReceiveOperation(("y",), timeout_s=3.0)),
        e.ReceivedEvent(A, (10**6,), NOW_S),
        *(turn(last, number) for number in range(3)),
        e.TrimmedEvent(last, 2),
        PARKED,
        e.ResumedEvent(NOW_S),
        e.CancellingEvent(NOW_S),
    ]

    def go() -> None:
        for event in events:
            execution.apply(event)
            execution.opened.due_first()

    execution.opened.due_first()
    return lines_run(go)


@pytest.mark.slow
@pytest.mark.parametrize("history", [history_of_steps, history_of_loops])
def test_no_event_costs_more_for_a_long_history(history: Callable[[int], Execution]) -> None:
    short, long = next_steps(history(100)), next_steps(history(3000))
    assert long <= short + 20, f"{short} lines after a short history, {long} after a long one"
