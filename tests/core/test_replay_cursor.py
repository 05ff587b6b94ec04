"""Claims about the cursor of a replay: when it may settle an operation ahead, and that folding at once is folding event by event."""

import gc

import pytest

from perdure.core import events as e
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution, execution_facts
from perdure.core.operations import CallOperation, Failure, KeepOperation, SleepOperation, Success
from perdure.core.paths import Key, Path
from perdure.core.replay import fold_events
from perdure.core.replay_cursor import ReplayCursor
from perdure.core.values import Blob, encode

KEY = Key("acme", "order", "1")
A: Path = (("a", 1),)
B: Path = (("b", 1),)
IN_TURN: Path = (("loop", 1), 3, ("a", 1))
STARTED = e.StartedEvent(1, 1.0)
OPENED_A, OPENED_B = e.OpenedEvent(A, CallOperation("a"), "me"), e.OpenedEvent(B, CallOperation("b"), "me")
SETTLED_A = e.SettledEvent(A, Success(encode(1, "a value")), 2.0)
LARGE = Blob("0" * 64, 100_000)


def cursor(*events: e.Event, ahead: bool = True) -> tuple[Execution, ReplayCursor]:
    """A cursor on the first of these events."""
    execution = Execution(KEY)
    found = ReplayCursor(execution, events)
    assert found.advance() is events[0]
    found.may_settle_ahead = ahead
    return execution, found


def test_what_settles_next_is_settled_ahead_and_the_cursor_stands_behind_it() -> None:
    execution, found = cursor(STARTED, OPENED_A, SETTLED_A, OPENED_B)
    found.take()
    settlement = found.settle_ahead(A)
    assert settlement is not None and settlement is execution.settled[A] and settlement.outcome == SETTLED_A.outcome
    assert (execution.version, found.position, found.next(), found.is_fresh) == (3, 2, OPENED_B, True)
    assert [found.advance(), found.advance(), found.next(), found.settle_ahead(B)] == [None] * 4
    assert execution_facts(execution) == execution_facts(fold_events(KEY, (STARTED, OPENED_A, SETTLED_A, OPENED_B)))


@pytest.mark.parametrize(
    "following",
    [
        (),
        (e.SettledEvent(B, Success(), 2.0),),
        (e.ProgressedEvent(A, 1, b"\x01", 2.0), SETTLED_A),
        (e.SettledEvent(A, Success(LARGE), 2.0),),
        (SETTLED_A, e.OpenedEvent(B, KeepOperation(LARGE))),
        (OPENED_B, SETTLED_A),
    ],
    ids=["the log ends", "another settles", "something else happens", "its value is a blob", "a kept value behind it is a blob", "a command is left"],
)
def test_nothing_is_settled_ahead_when(following: tuple[e.Event, ...]) -> None:
    execution, found = cursor(STARTED, OPENED_A, *following)
    found.take()
    assert found.settle_ahead(A) is None
    assert (execution.version, found.position) == (1, 0)


def test_nothing_is_settled_ahead_while_events_of_a_pause_are_still_to_be_fed() -> None:
    execution, found = cursor(STARTED, OPENED_A, SETTLED_A, ahead=False)
    found.take()
    assert found.settle_ahead(A) is None and execution.version == 1


def test_commands_that_trim_loops_do_not_keep_a_settlement_from_being_ahead() -> None:
    execution, found = cursor(STARTED, OPENED_A, e.TrimmedEvent((("loop", 1),), 0), SETTLED_A)
    found.take()
    assert found.settle_ahead(A) is not None and execution.version == 4


@pytest.mark.parametrize(
    "outcome",
    [Success(), Failure("exhausted", 3, ErrorInfo("Error", "no")), Failure("cancelled", 0, ErrorInfo("Cancelled", "no"))],
    ids=["success", "failure", "cancelled"],
)
@pytest.mark.parametrize("path", [A, IN_TURN], ids=["at the root", "in an iteration"])
@pytest.mark.parametrize("by", ["me", None], ids=["performed here", "on a queue"])
@pytest.mark.parametrize("op", [CallOperation("a"), CallOperation("a", timeout_s=5.0, heartbeat_s=1.0), SleepOperation(1.0)], ids=["call", "timed", "sleep"])
def test_folding_a_log_at_once_is_folding_it_event_by_event(outcome: Success | Failure, path: Path, by: str | None, op: CallOperation | SleepOperation) -> None:
    events = (STARTED, OPENED_B, e.OpenedEvent(path, op, by), e.SettledEvent(path, outcome, 7.0), e.ParkedEvent("paused", 8.0))
    one_by_one = Execution(KEY)
    for event in events:
        one_by_one.apply(event)
    at_once = fold_events(KEY, events)
    assert execution_facts(at_once) == execution_facts(one_by_one)
    assert (at_once.logged_events, at_once.opened.count, at_once.opened.performed) == (one_by_one.logged_events, one_by_one.opened.count, 1)
    assert (at_once.turns.inside(), at_once.status, at_once.wake_at()) == (one_by_one.turns.inside(), one_by_one.status, one_by_one.wake_at())
    assert [known.number for known in at_once.settled.values()] == [known.number for known in one_by_one.settled.values()]


def test_a_cursor_at_the_end_holds_no_event() -> None:
    _, found = cursor(STARTED, OPENED_A, SETTLED_A)
    assert found.advance() is not None and found.advance() is None
    assert not [one for one in gc.get_referents(found) if isinstance(one, tuple | list) and one]
