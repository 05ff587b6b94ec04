"""Turns of loops: what lies in them, what keeps them from being forgotten, and what forgetting them gives up."""

from perdure.core import events as e
from perdure.core import log_format
from perdure.core.compaction import compact_log
from perdure.core.errors import ErrorInfo
from perdure.core.execution import iteration_holds_open
from perdure.core.loop_iterations import LoopIterations
from perdure.core.operations import Failure, KeepOperation, ReceiveOperation
from perdure.core.paths import Key, Path
from perdure.core.replay import fold_events

KEY = Key("t", "order", "1")
LOOP: Path = (("l", 1),)
TURN0, TURN1, TURN2 = ((*LOOP, number) for number in range(3))
TAKE: Path = (*TURN0, ("take", 1))


def turn(path: Path) -> e.OpenedEvent:
    return e.OpenedEvent(path, KeepOperation(b"\x00", "turn"))


def test_a_turn_knows_what_lies_in_it_and_in_the_loops_inside_of_it() -> None:
    turns = LoopIterations()
    inner: Path = (*TURN0, ("inner", 1), 0)
    for path in ((("before", 1),), TURN0, TAKE, inner, (*inner, ("step", 1)), TURN1):
        turns.add(path)
    assert len(turns) == 3 and inner in turns
    assert turns.any(TURN0, lambda path: path == (*inner, ("step", 1)))
    assert not turns.any(TURN1, lambda path: path == TAKE)
    assert list(turns.forget(TURN0)) == [TURN0, TAKE, inner, inner, (*inner, ("step", 1))]
    assert turns.inside() == {TURN1: [TURN1]}


def test_a_message_that_is_yet_to_be_completed_keeps_its_turn() -> None:
    receive = ReceiveOperation(("m",), completable=True)
    events: list[e.Event] = [
        e.StartedEvent(1, 0.0),
        turn(TURN0),
        e.OpenedEvent(TAKE, receive),
        e.MessageArrivedEvent(1, "m", 1.0),
        e.ReceivedEvent(TAKE, (1,), 1.0),
        turn(TURN1),
    ]
    assert iteration_holds_open(fold_events(KEY, events), TURN0)
    reply = e.OpenedEvent((*TAKE, ("reply:1", 1)), KeepOperation(b"\xc0", "reply", "1"))
    assert not iteration_holds_open(fold_events(KEY, [*events, reply]), TURN0)


def test_a_log_is_not_compacted_where_a_message_would_come_again() -> None:
    early: Path = (("early", 1),)
    events: list[e.Event] = [
        *(e.StartedEvent(1, 0.0), e.OpenedEvent(early, ReceiveOperation(("m",))), e.MessageArrivedEvent(1, "m", 1.0), e.ReceivedEvent(early, (1,), 1.0)),
        *(e.DroppedEvent(early), turn(TURN0), e.OpenedEvent(TAKE, ReceiveOperation(("m",))), e.ReceivedEvent(TAKE, (1,), 2.0)),
        *(turn(TURN1), e.TrimmedEvent(LOOP, 1)),
    ]
    assert compact_log(KEY, [log_format.encode_row(events)], archive=False) is None
    alone = [event for event in events if getattr(event, "path", None) != early]
    assert compact_log(KEY, [log_format.encode_row(alone)], archive=False) is not None


def test_an_execution_that_is_retried_after_its_deadline_has_none_any_more() -> None:
    late = Failure("deadline_exceeded", 1, ErrorInfo("deadline_exceeded", "late"))
    events: list[e.Event] = [e.StartedEvent(1, 0.0, deadline_at_s=10.0), e.EndedEvent("failed", late, 10.0), e.ReopenedEvent(20.0)]
    assert fold_events(KEY, events[:1]).wake_at() == 10.0
    assert fold_events(KEY, events).wake_at() is None
    early = [events[0], e.EndedEvent("failed", late, 5.0), e.ReopenedEvent(6.0)]
    assert fold_events(KEY, early).wake_at() == 10.0, "a deadline that is still to come holds"
