"""Claims about deciding, message by message. After each, the fold of the log is the execution, and a replay reaches the same (see `stories`)."""

import pytest

from perdure.core import events as e
from perdure.core import limits
from perdure.core import messages as m
from perdure.core.decision import DecisionContext
from perdure.core.errors import ErrorInfo
from perdure.core.messages import Parent
from perdure.core.operations import (
    CallOperation,
    Failure,
    KeepOperation,
    OnCancel,
    ReceiveOperation,
    RetryPolicy,
    SendOperation,
    SleepOperation,
    SpawnOperation,
    Success,
)
from perdure.core.program import DropCommand, FinishCommand, OpenCommand, TrimCommand
from perdure.core.values import Blob, encode
from tests.core.scripted_execution import DONE, FAILED, HOST, NOW_S, OTHER, Script, ScriptedExecution, name_of, opens, path, value

ONE_STEP: Script = {"start": [opens("pay")], "pay": [DONE]}
NO = ErrorInfo("ValueError", "no")
ONCE = RetryPolicy(max=1)
STEADY = RetryPolicy(jitter=0.0)
PAY, A, B = path("pay"), path("a"), path("b")


def failing(kind: str = "failed") -> Failure:
    return Failure(kind, 1, NO)


def kinds(events: list[e.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


# starting


def test_a_start_pins_the_version_and_opens_the_first_operation_in_one_decision() -> None:
    story = ScriptedExecution(ONE_STEP)
    assert story.begin(version=2, input=b"\x01", seed=5, deadline_s=60.0) == [
        e.StartedEvent(2, NOW_S, b"\x01", 5, None, NOW_S + 60),
        e.OpenedEvent(PAY, CallOperation("pay"), "me"),
    ]
    assert story.status == "running"


def test_a_start_without_a_version_takes_the_one_of_the_host_and_else_the_first() -> None:
    assert ScriptedExecution({}).begin() == [e.StartedEvent(3, NOW_S)]
    assert ScriptedExecution({}, DecisionContext("me")).begin() == [e.StartedEvent(1, NOW_S)]


def test_a_second_start_changes_nothing() -> None:
    story = ScriptedExecution(ONE_STEP)
    story.begin()
    assert story.begin(version=9, input=b"\x02") == []
    story.settle("pay")
    assert story.begin() == [] and story.status == "completed"


def test_a_start_by_another_parent_is_noted_once_and_answered_at_the_end() -> None:
    first, second = Parent(OTHER, PAY), Parent(OTHER, A)
    story = ScriptedExecution(ONE_STEP)
    story.begin(parent=first)
    assert story.begin(parent=second) == [e.WatchedEvent(second, NOW_S)]
    assert story.begin(parent=second) == [] and story.begin(parent=first) == []
    story.settle("pay")
    assert story.sent == [m.SettleMessage(PAY, 1, Success()), m.SettleMessage(A, 1, Success())]


@pytest.mark.parametrize(("as_creator_left", "is_cancelled"), [("detach", False), ("cancel", True)])
def test_how_a_parent_leaves_that_merely_joined_changes_nothing_of_what_the_creator_wants(as_creator_left: OnCancel, is_cancelled: bool) -> None:
    creator, joined = Parent(OTHER, PAY), Parent(OTHER, A)
    story = ScriptedExecution(ONE_STEP)
    story.begin(parent=creator)
    story.begin(parent=joined)
    assert kinds(story.say(m.UnwatchMessage(creator, as_creator_left))) == ["UnwatchedEvent"]
    story.say(m.UnwatchMessage(joined, "detach" if as_creator_left == "cancel" else "cancel"))
    assert (story.execution.cancelling is not None) == is_cancelled


@pytest.mark.parametrize("begun", [True, False], ids=["after it began", "before it began"])
def test_whoever_starts_what_has_ended_is_answered(begun: bool) -> None:
    story = ScriptedExecution(ONE_STEP)
    if begun:
        story.begin()
    story.say(m.TerminateMessage("enough"))
    assert story.begin(parent=Parent(OTHER, PAY)) == [e.WatchedEvent(Parent(OTHER, PAY), NOW_S)]
    assert story.sent == [m.SettleMessage(PAY, 1, Failure("cancelled", 1, ErrorInfo("cancelled", "enough")))]


def test_a_parent_that_was_retried_is_answered_again() -> None:
    story = ScriptedExecution({"start": [FAILED]})
    story.begin(parent=Parent(OTHER, PAY))
    story.begin(parent=Parent(OTHER, PAY))
    assert [type(message) for message in story.sent] == [m.SettleMessage, m.SettleMessage]


# answers


def test_an_answer_settles_its_operation_and_opens_the_next_in_one_decision() -> None:
    story = ScriptedExecution({"start": [opens("a")], "a": [opens("b")], "b": [FinishCommand("completed", Success(b"\x07"))]})
    story.begin()
    assert story.settle("a", Success(b"\x01")) == [e.SettledEvent(A, Success(b"\x01"), NOW_S), e.OpenedEvent(B, CallOperation("b"), "me")]
    assert story.settle("b") == [e.SettledEvent(B, Success(), NOW_S), e.EndedEvent("completed", Success(b"\x07"), NOW_S)]


def test_late_repeated_and_foreign_answers_change_nothing() -> None:
    story = ScriptedExecution({"start": [opens("pay", CallOperation("pay", retry=STEADY)), opens("a")]})
    story.begin()
    assert story.settle("nowhere") == [] and story.settle("pay", attempt=2) == [] and story.settle("pay", attempt=0) == []
    story.settle("pay", failing())
    assert story.settle("pay") == []  # the first try again, while the second is not due
    story.tick(1.0)
    assert story.settle("pay") == []  # the first try again, while the second runs
    assert kinds(story.settle("pay", attempt=2)) == ["SettledEvent"]
    assert story.settle("pay", attempt=2) == []
    story.say(m.TerminateMessage())
    assert story.settle("a") == []


def test_an_answer_to_a_child_s_promise_settles_it_with_whatever_it_says() -> None:
    story = ScriptedExecution({"start": [opens("a", SpawnOperation("ship", "1")), opens("b", SpawnOperation("ship", "2"))]})
    story.begin()
    assert story.status == "waiting"
    assert story.settle("a", Success(b"\x01")) == [e.SettledEvent(A, Success(b"\x01"), NOW_S)]
    assert story.settle("b", failing()) == [e.SettledEvent(B, failing(), NOW_S)]


# failed tries


def test_a_failed_try_is_repeated_when_its_wait_is_over() -> None:
    story = ScriptedExecution({"start": [opens("pay", CallOperation("pay", retry=STEADY))], "pay": [DONE]})
    story.begin()
    assert story.settle("pay", failing()) == [e.RetryingEvent(PAY, 1, "failed", NO, NOW_S + 1, NOW_S)]
    assert story.status == "waiting" and story.execution.wake_at() == NOW_S + 1
    assert story.tick(0.5) == []
    assert story.tick(0.5) == [e.AttemptStartedEvent(PAY, 2, NOW_S + 1, "me")]
    assert story.status == "running"
    assert story.settle("pay", failing(), 2) == [e.RetryingEvent(PAY, 2, "failed", NO, NOW_S + 3, NOW_S + 1)]


def test_tries_are_counted_and_then_exhausted() -> None:
    story = ScriptedExecution({"start": [opens("pay", CallOperation("pay", retry=STEADY))], "pay": [DONE]})
    story.begin()
    for attempt in (1, 2):
        story.settle("pay", failing(), attempt)
        story.tick(60.0)
    assert story.settle("pay", failing(), 3)[0] == e.SettledEvent(PAY, Failure("exhausted", 3, NO), story.now_s)


def test_a_fatal_failure_is_not_tried_again() -> None:
    story = ScriptedExecution(ONE_STEP)
    story.begin()
    assert story.settle("pay", failing("fatal"))[0] == e.SettledEvent(PAY, Failure("fatal", 1, NO), NOW_S)


def test_a_timeout_is_a_failed_try_and_the_last_one_keeps_its_kind() -> None:
    story = ScriptedExecution({"start": [opens("pay", CallOperation("pay", retry=RetryPolicy(max=2, jitter=0.0), timeout_s=5.0))], "pay": [DONE]})
    story.begin()
    assert story.execution.wake_at() == NOW_S + 5
    why = ErrorInfo("timeout", "no answer within 5 s")
    assert story.tick(5.0) == [e.RetryingEvent(PAY, 1, "timeout", why, NOW_S + 6, NOW_S + 5)]
    assert story.settle("pay") == []  # its answer comes too late
    assert story.tick(1.0) == [e.AttemptStartedEvent(PAY, 2, NOW_S + 6, "me")]
    assert story.execution.wake_at() == NOW_S + 11
    assert story.tick(5.0)[0] == e.SettledEvent(PAY, Failure("timeout", 2, why), NOW_S + 11)


def test_the_wait_between_tries_is_the_same_in_every_process_and_another_for_each_operation() -> None:
    def dues() -> list[float]:
        story = ScriptedExecution({"start": [opens("a"), opens("b")]})
        story.begin()
        return [event.due_at_s for shown in "ab" for event in story.settle(shown, failing()) if isinstance(event, e.RetryingEvent)]

    assert dues() == dues() and dues()[0] != dues()[1] and all(NOW_S + 0.9 <= due_at_s <= NOW_S + 1 for due_at_s in dues())


def test_a_timer_is_set_by_the_latest_time_that_it_can_be_and_due_by_the_earliest() -> None:
    story = ScriptedExecution(
        {
            "start": [
                opens("nap", SleepOperation(10.0)),
                opens("ask", ReceiveOperation(("x",), timeout_s=10.0)),
                opens("pay", CallOperation("pay", timeout_s=10.0)),
            ]
        }
    )
    story.unsure_s = 3.0
    story.begin(deadline_s=10.0)
    assert story.execution.wake_at() == NOW_S + 10
    assert story.tick(12.9) == []
    assert kinds(story.tick(0.1)) == ["SettledEvent", "SettledEvent", "RetryingEvent", "CancellingEvent"]


def test_an_execution_whose_start_has_expired_perhaps_but_not_surely_begins() -> None:
    story = ScriptedExecution({})
    story.unsure_s = 3.0
    assert "StartedEvent" in kinds(story.say(m.StartMessage(expires_at_s=NOW_S + 1), 2.0))


def test_what_waits_for_no_time_does_not_wait_until_the_time_is_known() -> None:
    story = ScriptedExecution(
        {"start": [opens("nap", SleepOperation(0.0)), opens("past", SleepOperation(until_s=NOW_S - 10)), opens("soon", SleepOperation(until_s=NOW_S - 1))]}
    )
    story.unsure_s = 3.0
    assert [event.path for event in story.begin() if isinstance(event, e.SettledEvent)] == [path("nap"), path("past")]
    assert [event.path for event in story.tick(2.0) if isinstance(event, e.SettledEvent)] == [path("soon")]


def test_a_try_that_began_late_is_not_given_up_before_it_had_its_time() -> None:
    young = DecisionContext("me", young=frozenset((PAY,)))
    story = ScriptedExecution(
        {"start": [opens("pay", CallOperation("pay", timeout_s=5.0, retry=ONCE)), opens("a", CallOperation("a", timeout_s=6.0, retry=ONCE))]}, young
    )
    story.begin()
    assert [event.path for event in story.tick(6.0) if isinstance(event, e.SettledEvent)] == [path("a")]
    assert story.execution.wake_at() == NOW_S + 5 and story.execution.wake_at(young=young.young) is None
    story.host = HOST
    assert kinds(story.tick()) == ["SettledEvent"]


def test_no_further_try_begins_while_an_earlier_one_still_runs_in_its_thread() -> None:
    busy = DecisionContext("me", busy=frozenset((PAY,)))
    story = ScriptedExecution({"start": [opens("pay", CallOperation("pay", retry=STEADY, timeout_s=5.0)), opens("a", CallOperation("a", retry=STEADY))]}, busy)
    story.begin()
    story.settle("a", failing())
    assert kinds(story.tick(1.0)) == ["AttemptStartedEvent"]
    assert kinds(story.tick(4.0)) == ["RetryingEvent"]  # a timeout is noted nevertheless
    assert story.tick(60.0) == [] and story.execution.wake_at(busy.busy) is None
    story.host = HOST
    assert kinds(story.tick()) == ["AttemptStartedEvent"]


def test_a_call_on_a_queue_of_others_is_performed_by_nobody_here() -> None:
    story = ScriptedExecution({"start": [opens("pay", CallOperation("pay", queue="gpu", retry=STEADY))]})
    assert story.begin()[1] == e.OpenedEvent(PAY, CallOperation("pay", queue="gpu", retry=STEADY), None)
    assert story.status == "waiting"
    story.settle("pay", failing())
    assert story.tick(1.0) == [e.AttemptStartedEvent(PAY, 2, NOW_S + 1, None)]


# interruptions


def test_after_a_first_interruption_the_next_try_begins_at_once() -> None:
    story = ScriptedExecution(ONE_STEP)
    story.begin()
    assert story.say(m.LostMessage(PAY, 1)) == [e.InterruptedEvent(PAY, 1, NOW_S, NOW_S), e.AttemptStartedEvent(PAY, 2, NOW_S, "me")]
    assert story.say(m.LostMessage(PAY, 1)) == [] and story.settle("pay") == []
    assert kinds(story.settle("pay", attempt=2)) == ["SettledEvent", "EndedEvent"]


def test_further_interruptions_wait_twice_as_long_each_and_do_not_count_as_tries() -> None:
    story = ScriptedExecution({"start": [opens("pay", CallOperation("pay", retry=ONCE))], "pay": [DONE]})
    story.begin()
    story.say(m.LostMessage(PAY, 1))
    waits = []
    for attempt in range(2, 7):
        (event,) = story.say(m.LostMessage(PAY, attempt))
        assert isinstance(event, e.InterruptedEvent)
        waits.append(round(event.due_at_s - story.now_s, 6))
        assert kinds(story.tick(event.due_at_s - story.now_s)) == ["AttemptStartedEvent"]
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2]
    assert story.settle("pay", failing(), 7)[0] == e.SettledEvent(PAY, Failure("exhausted", 1, NO), story.now_s)


def lose(story: ScriptedExecution, times: int) -> e.Event:
    """Interrupt the step again and again; return the last event of the last interruption."""
    event: e.Event = e.DroppedEvent(PAY)
    for _ in range(times):
        pending = story.execution.open[PAY]
        event = story.say(m.LostMessage(PAY, pending.attempt))[-1]
        if isinstance(event, e.InterruptedEvent):
            event = story.tick(event.due_at_s - story.now_s)[-1]
    return event


def test_the_tenth_interruption_in_a_row_parks_the_execution() -> None:
    story = ScriptedExecution(ONE_STEP)
    story.begin()
    lose(story, 9)
    parked = lose(story, 1)
    assert isinstance(parked, e.ParkedEvent) and (parked.reason, parked.path) == ("interrupted", PAY)
    assert "pay was interrupted 10 times in a row" in parked.detail[0]
    assert story.status == "needs_attention" and story.execution.wake_at() is None
    assert story.say(m.LostMessage(PAY, 10)) == []


def test_a_failed_try_ends_the_row_of_interruptions() -> None:
    story = ScriptedExecution({"start": [opens("pay", CallOperation("pay", retry=RetryPolicy(max=9, jitter=0.0)))], "pay": [DONE]})
    story.begin()
    lose(story, 9)
    story.settle("pay", failing(), 10)
    story.tick(60.0)
    lose(story, 9)
    assert story.status == "running"


def test_a_parked_step_runs_again_at_once_when_retried() -> None:
    story = ScriptedExecution(ONE_STEP)
    story.begin()
    lose(story, 10)
    attempt = story.execution.open[PAY].attempt
    assert story.say(m.RetryMessage("fixed"), 3.0) == [e.ResumedEvent(story.now_s, "fixed")]
    assert story.tick(0.0) == [e.AttemptStartedEvent(PAY, attempt + 1, story.now_s, "me")]
    lose(story, 9)
    assert story.status == "running"
    assert kinds(story.settle("pay", attempt=story.execution.open[PAY].attempt)) == ["SettledEvent", "EndedEvent"]


def test_what_is_not_idempotent_is_not_run_again_after_an_interruption() -> None:
    story = ScriptedExecution({"start": [opens("pay", CallOperation("pay", idempotent=False))], "pay": [DONE]})
    story.begin()
    (settled, _) = story.say(m.LostMessage(PAY, 1))
    assert isinstance(settled, e.SettledEvent) and isinstance(settled.outcome, Failure) and settled.outcome.kind == "interrupted"


# messages


LISTEN: Script = {"start": [opens("a", ReceiveOperation(("hello", "bye"))), opens("b", ReceiveOperation(("hello",)))], "b": [DONE]}


def test_messages_go_to_receivers_in_order_first_in_first_out() -> None:
    story = ScriptedExecution(LISTEN)
    story.begin()
    assert kinds(story.signal("hello", 1)) == ["MessageArrivedEvent", "ReceivedEvent"]
    assert kinds(story.signal("other")) == ["MessageArrivedEvent"]
    assert kinds(story.signal("hello", 2)) == ["MessageArrivedEvent", "ReceivedEvent", "EndedEvent"]
    assert [[letter.body for letter in story.execution.settled[one].messages] for one in (A, B)] == [[b"\x01"], [b"\x02"]]


def test_messages_that_came_before_they_were_asked_for_are_there() -> None:
    story = ScriptedExecution({"start": [opens("a")], "a": [opens("b", ReceiveOperation(("hello",), limit=2))]})
    story.signal("hello", 1)
    assert story.status == "pending"
    story.begin()
    story.signal("hello", 2)
    story.signal("hello", 3)
    assert story.settle("a")[-1] == e.ReceivedEvent(B, (1, 3), NOW_S)
    assert [letter.body for letter in story.execution.mailbox.messages.values()] == [b"\x03"]


def test_a_gathering_receive_waits_for_all_or_for_its_time() -> None:
    story = ScriptedExecution(
        {
            "start": [
                opens("a", ReceiveOperation(("x",), 2, True, 5.0)),
                opens("b", ReceiveOperation(("y",), 2, True, 5.0)),
                opens("c", ReceiveOperation(("z",), 2, True, 5.0)),
            ]
        }
    )
    story.begin()
    assert kinds(story.signal("x")) == ["MessageArrivedEvent"] and kinds(story.signal("y")) == ["MessageArrivedEvent"]
    assert kinds(story.signal("x")) == ["MessageArrivedEvent", "ReceivedEvent"]
    assert story.tick(5.0) == [e.ReceivedEvent(B, (3,), NOW_S + 5), e.ReceivedEvent(path("c"), (), NOW_S + 5)]


def test_a_receive_times_out_and_a_message_that_was_there_before_wins() -> None:
    story = ScriptedExecution({"start": [opens("a", ReceiveOperation(("x",), timeout_s=5.0)), opens("b", ReceiveOperation(("x",), timeout_s=5.0))]})
    story.begin()
    assert kinds(story.decide(m.SignalMessage("x"), 5.0).events) == ["MessageArrivedEvent", "ReceivedEvent"]
    assert story.tick() == [e.SettledEvent(B, Failure("timeout", 1, ErrorInfo("timeout", "no message within 5 s")), NOW_S + 5)]
    assert kinds(story.signal("x")) == ["MessageArrivedEvent"]


def test_a_message_is_taken_once_by_its_key_and_by_its_number() -> None:
    story = ScriptedExecution(LISTEN)
    story.begin()
    story.signal("other", key="k")
    assert story.signal("other", key="k") == [] and story.signal("hello", key="k") == []
    assert kinds(story.signal("other", sender=OTHER, sent=2)) == ["MessageArrivedEvent"]
    assert story.signal("other", sender=OTHER, sent=2) == []
    assert kinds(story.signal("other", sender=OTHER, sent=1)) == ["MessageArrivedEvent"]
    assert story.signal("other", sender=OTHER, sent=1) == []
    assert kinds(story.signal("other")) == ["MessageArrivedEvent"] == kinds(story.signal("other"))


def test_a_full_mailbox_refuses_and_remembers_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAILBOX_MESSAGES_MAX", 2)
    story = ScriptedExecution({"start": [opens("a")], "a": [opens("b", ReceiveOperation(("x",)))]})
    story.begin()
    story.signal("x")
    story.signal("x")
    assert story.signal("x", key="k") == [e.MessageRefusedEvent(4, "x", NOW_S, "k")]
    assert story.signal("x", sender=OTHER, sent=1) == [e.MessageRefusedEvent(5, "x", NOW_S, "", OTHER, 1)]
    story.settle("a")
    assert story.signal("x", key="k") == [] and story.signal("x", sender=OTHER, sent=1) == []
    assert kinds(story.signal("x", key="other")) == ["MessageArrivedEvent"]


def test_a_message_for_what_has_ended_is_nothing() -> None:
    story = ScriptedExecution({"start": [DONE]})
    story.begin()
    assert story.signal("hello") == []


def test_what_a_receive_had_brought_goes_back_to_its_place_and_to_who_waits_for_it() -> None:
    story = ScriptedExecution({"start": [opens("a", ReceiveOperation(("x",), 2)), opens("pay")], "pay": [DropCommand(A), opens("b", ReceiveOperation(("x",)))]})
    story.begin()
    story.signal("x", 1)
    story.signal("x", 2)
    assert story.settle("pay") == [
        e.SettledEvent(PAY, Success(), NOW_S),
        e.DroppedEvent(A),
        e.OpenedEvent(B, ReceiveOperation(("x",))),
        e.ReceivedEvent(B, (2,), NOW_S),
    ]


def test_one_receive_of_a_name_given_twice_takes_each_message_once() -> None:
    story = ScriptedExecution({"start": [opens("pay")], "pay": [opens("a", ReceiveOperation(("x", "x"), 5))]})
    story.begin()
    story.signal("x")
    assert story.settle("pay")[-1] == e.ReceivedEvent(A, (2,), NOW_S)


# time


def test_what_is_due_is_done_in_its_order() -> None:
    story = ScriptedExecution(
        {
            "start": [
                opens("late", SleepOperation(9.0)),
                opens("a", SleepOperation(5.0)),
                opens("b", SleepOperation(until_s=NOW_S + 5)),
                opens("c", SleepOperation(3.0)),
            ]
        }
    )
    story.begin()
    assert story.execution.wake_at() == NOW_S + 3
    assert [event.path for event in story.tick(6.0) if isinstance(event, e.SettledEvent)] == [path("c"), A, B]
    assert story.execution.wake_at() == NOW_S + 9


def test_a_sleep_that_is_over_when_it_is_opened_does_not_wait() -> None:
    story = ScriptedExecution({"start": [opens("a", SleepOperation(0.0))], "a": [opens("b", SleepOperation(until_s=1.0))], "b": [DONE]})
    assert kinds(story.begin()) == ["StartedEvent", "OpenedEvent", "SettledEvent", "OpenedEvent", "SettledEvent", "EndedEvent"]


def test_time_never_goes_back() -> None:
    story = ScriptedExecution({"start": [opens("a")], "a": [opens("b", SleepOperation(5.0))]})
    story.begin()
    story.now_s -= 100
    assert story.settle("a") == [e.SettledEvent(A, Success(), NOW_S), e.OpenedEvent(B, SleepOperation(5.0))]
    assert story.execution.wake_at() == NOW_S + 5 and story.tick() == []


def test_an_execution_past_its_deadline_is_told_to_unwind_then_stopped_and_fails() -> None:
    story = ScriptedExecution(
        {"start": [opens("a", SleepOperation(100.0)), opens("b", ReceiveOperation(("go",)))], "cancel": [DropCommand(A)], "stop": [DropCommand(B), FAILED]}
    )
    story.begin(deadline_s=60.0)
    assert story.execution.wake_at() == NOW_S + 60
    assert kinds(story.tick(61.0)) == ["CancellingEvent", "DroppedEvent"]
    assert story.execution.wake_at() == NOW_S + 61 + 30 and story.tick(29.0) == []
    *_, stopped, _, ended = story.tick(1.0)
    assert isinstance(stopped, e.StoppedEvent)
    assert isinstance(ended, e.EndedEvent) and isinstance(ended.outcome, Failure) and (ended.status, ended.outcome.kind) == ("failed", "deadline_exceeded")
    assert story.execution.wake_at() is None and story.tick(100.0) == []


@pytest.mark.parametrize("deadline_s", ["0.01", "0.3", "1.5", "60", "86400.25", "31536000"])
def test_the_message_of_a_deadline_says_it_as_it_was_written(deadline_s: str) -> None:
    story = ScriptedExecution({"start": [opens("a", SleepOperation(1e9))], "cancel": [DropCommand(A), FAILED]})
    story.now_s = 1_795_000_000.1
    story.begin(deadline_s=float(deadline_s))
    assert [event.reason for event in story.tick(float(deadline_s) + 1) if isinstance(event, e.CancellingEvent)] == [
        f"the execution did not end within {deadline_s} s of its start"
    ]


def test_what_is_due_at_the_deadline_is_done_before_it() -> None:
    story = ScriptedExecution({"start": [opens("a", SleepOperation(60.0))], "a": [DONE]})
    story.begin(deadline_s=60.0)
    story.tick(60.0)
    assert story.status == "completed"


# cancel and terminate


CANCELLABLE: Script = {"start": [opens("pay"), opens("a", SleepOperation(9.0))], "cancel": [DropCommand(PAY), DropCommand(A), opens("undo")], "undo": [DONE]}


def test_a_cancelled_execution_unwinds_and_then_is_cancelled_whatever_it_returns() -> None:
    story = ScriptedExecution(CANCELLABLE)
    story.begin()
    assert story.say(m.CancelMessage("enough")) == [
        e.CancellingEvent(NOW_S, "enough"),
        e.DroppedEvent(PAY, NOW_S + 30),
        e.DroppedEvent(A),
        e.OpenedEvent(path("undo"), CallOperation("undo"), "me"),
    ]
    assert story.say(m.CancelMessage("more")) == [] and story.status == "ending"
    assert kinds(story.settle("pay")) == ["SettledEvent"] and story.status == "running"
    assert story.settle("undo")[-1] == e.EndedEvent("cancelled", Failure("cancelled", 1, ErrorInfo("cancelled", "enough")), NOW_S)
    assert story.say(m.CancelMessage()) == []


def test_what_is_cancelled_before_its_start_never_runs() -> None:
    story = ScriptedExecution(ONE_STEP)
    assert kinds(story.say(m.CancelMessage("enough"))) == ["EndedEvent"] and story.status == "cancelled"
    assert story.begin() == [] and story.program.fed == []


def test_what_is_parked_is_cancelled_at_once() -> None:
    story = ScriptedExecution(CANCELLABLE)
    story.begin()
    story.say(m.DivergeMessage(("x",)))
    assert kinds(story.say(m.CancelMessage())) == ["EndedEvent"] and story.status == "cancelled"


def test_what_is_parked_while_it_unwinds_can_still_be_cancelled() -> None:
    story = ScriptedExecution(CANCELLABLE)
    story.begin()
    story.say(m.CancelMessage())
    story.say(m.DivergeMessage(("x",)))
    assert kinds(story.say(m.CancelMessage())) == ["EndedEvent"]


def test_a_terminated_execution_ends_at_once_and_its_program_gets_no_say() -> None:
    befores: list[list[m.ExecutionMessage]] = [[], [m.StartMessage()], [m.StartMessage(), m.CancelMessage()], [m.StartMessage(), m.DivergeMessage(())]]
    for before in befores:
        story = ScriptedExecution(CANCELLABLE)
        for message in before:
            story.say(message)
        assert story.say(m.TerminateMessage("now")) == [e.EndedEvent("cancelled", Failure("cancelled", 1, ErrorInfo("cancelled", "now")), NOW_S)]
        assert story.say(m.TerminateMessage("now")) == [] and not story.execution.open


def test_nothing_is_decided_after_the_end_in_the_same_decision() -> None:
    story = ScriptedExecution({"start": [opens("a", SleepOperation(0.0)), DONE, opens("b")], "a": [opens("b")]})
    assert kinds(story.begin()) == ["StartedEvent", "OpenedEvent", "EndedEvent"]


# parked


def test_what_comes_while_parked_is_fed_when_it_is_resumed() -> None:
    story = ScriptedExecution(
        {"start": [opens("a"), opens("b", ReceiveOperation(("x",))), opens("c", SleepOperation(3.0))], "a": [opens("d")], "c": [opens("e")]}
    )
    story.begin()
    assert kinds(story.say(m.DivergeMessage(("it differs",)))) == ["ParkedEvent"]
    assert story.say(m.DivergeMessage(("again",))) == []
    assert kinds(story.settle("a")) == ["SettledEvent"]
    assert kinds(story.signal("x")) == ["MessageArrivedEvent"]
    assert story.tick(60.0) == []
    assert kinds(story.say(m.RetryMessage())) == ["ResumedEvent", "OpenedEvent", "ReceivedEvent", "SettledEvent", "OpenedEvent"]
    assert kinds(story.program.fed) == ["StartedEvent", "SettledEvent", "ResumedEvent", "ReceivedEvent", "SettledEvent"]


def test_an_execution_resumed_with_code_that_still_differs_loses_nothing() -> None:
    story = ScriptedExecution({"start": [opens("a"), opens("b")], "a": [opens("c")]})
    story.begin()
    broken: Script = {"start": [opens("other")]}
    story.say(m.DivergeMessage(("it differs",)))
    story.settle("a")
    story.program = story.restored(broken)[0].program
    assert kinds(story.say(m.RetryMessage("too soon"))) == ["ResumedEvent", "ParkedEvent"]
    story.settle("b")
    story.program = story.rebuilt().program
    assert kinds(story.say(m.RetryMessage("now"))) == ["ResumedEvent", "OpenedEvent"]
    assert [type(event).__name__ for event in story.program.fed] == ["StartedEvent", "SettledEvent", "SettledEvent", "ResumedEvent"]


# paused


def test_what_is_paused_finishes_what_it_does_begins_nothing_and_goes_on_when_resumed() -> None:
    story = ScriptedExecution({"start": [opens("a"), opens("c", SleepOperation(3.0))], "a": [opens("d")], "c": [opens("e")]})
    story.begin()
    assert story.say(m.PauseMessage("lunch")) == [e.ParkedEvent("paused", NOW_S, ("lunch",))]
    assert story.status == "paused" and story.say(m.PauseMessage()) == []
    assert kinds(story.settle("a")) == ["SettledEvent"] and story.tick(60.0) == [] and story.execution.wake_at() is None
    assert kinds(story.say(m.ResumeMessage("back"))) == ["ResumedEvent", "OpenedEvent", "SettledEvent", "OpenedEvent"]
    assert story.say(m.ResumeMessage()) == [] and story.status == "running"


def test_what_is_paused_before_its_start_begins_when_it_is_resumed() -> None:
    story = ScriptedExecution(ONE_STEP)
    assert kinds(story.say(m.PauseMessage())) == ["ParkedEvent"]
    assert kinds(story.begin()) == ["StartedEvent"] and story.status == "paused"
    assert kinds(story.say(m.ResumeMessage())) == ["ResumedEvent", "OpenedEvent"]
    assert kinds(story.settle("pay")) == ["SettledEvent", "EndedEvent"]


def test_resuming_reopens_nothing_that_has_failed() -> None:
    story = ScriptedExecution({"start": [opens("a")], "a": [FAILED]})
    story.begin()
    story.settle("a")
    assert story.status == "failed" and story.say(m.ResumeMessage()) == []


def test_what_is_paused_unwinds_when_it_is_cancelled() -> None:
    story = ScriptedExecution(CANCELLABLE)
    story.begin()
    story.say(m.PauseMessage())
    assert kinds(story.say(m.CancelMessage("enough"))) == ["ResumedEvent", "CancellingEvent", "DroppedEvent", "DroppedEvent", "OpenedEvent"]
    story.say(m.PauseMessage())
    assert kinds(story.say(m.CancelMessage("more"))) == ["ResumedEvent"]
    assert kinds(story.settle("undo")) == ["SettledEvent", "EndedEvent"] and story.status == "cancelled"


def test_a_paused_step_that_is_lost_too_often_needs_attention() -> None:
    story = ScriptedExecution(ONE_STEP)
    story.begin()
    story.say(m.PauseMessage())
    assert kinds(story.say(m.LostMessage(PAY, 1))) == ["InterruptedEvent"]
    assert story.tick(60.0) == []
    assert [*kinds(story.say(m.ResumeMessage())), *kinds(story.tick(0.0))] == ["ResumedEvent", "AttemptStartedEvent"]
    story.say(m.PauseMessage())
    assert kinds(story.say(m.LostMessage(PAY, 2, limits.INTERRUPTIONS_MAX))) == ["ParkedEvent"]
    assert story.status == "needs_attention"
    assert [*kinds(story.say(m.ResumeMessage())), *kinds(story.tick(0.0))] == ["ResumedEvent", "AttemptStartedEvent"]


# retry of what has failed


FAILS: Script = {
    "start": [opens("a"), opens("k", KeepOperation(b"\x01")), opens("s", SendOperation(OTHER, "hello")), opens("x", ReceiveOperation(("x",)))],
    "x": [opens("b", CallOperation("b", retry=ONCE))],
    "b": [FAILED],
}
GOES_ON: Script = {**FAILS, "b": [opens("s2", SendOperation(OTHER, "again")), DONE]}


def failed() -> ScriptedExecution:
    story = ScriptedExecution(FAILS)
    story.begin()
    story.settle("a", Success(b"\x05"))
    story.signal("x", 9)
    story.settle("b", failing())
    assert story.status == "failed"
    return story


def test_a_failed_execution_goes_on_and_what_had_succeeded_is_recalled() -> None:
    story = failed()
    story.script = story.program.script = GOES_ON
    reopened = story.say(m.RetryMessage("fixed"), 5.0)
    assert kinds(reopened) == ["ReopenedEvent", "OpenedEvent", "OpenedEvent", "OpenedEvent", "OpenedEvent", "RecalledEvent", "RecalledEvent", "OpenedEvent"]
    assert [event.path for event in reopened if isinstance(event, e.RecalledEvent)] == [A, path("x")]
    recalled = story.execution.settled
    assert recalled[A].outcome == Success(b"\x05") and [letter.body for letter in recalled[path("x")].messages] == [b"\x09"]
    assert story.settle("a") == []
    assert kinds(story.settle("b")) == ["SettledEvent", "OpenedEvent", "EndedEvent"] and story.status == "completed"


def test_what_was_sent_before_a_reopening_is_not_sent_again() -> None:
    story = failed()
    story.script = story.program.script = GOES_ON
    before = len(story.messages)
    story.say(m.RetryMessage())
    assert story.messages[before:] == []
    story.settle("b")
    assert [message for message in story.sent if isinstance(message, m.SignalMessage)] == [
        m.SignalMessage("hello", sender=story.execution.key, sent=1),
        m.SignalMessage("again", sender=story.execution.key, sent=2),
    ]


def test_neither_work_nor_children_that_had_succeeded_are_ordered_again() -> None:
    script: Script = {
        "start": [opens("a", CallOperation("a", queue="gpu")), opens("c", SpawnOperation("ship", "1"))],
        "c": [opens("b", CallOperation("b", retry=ONCE))],
        "b": [FAILED],
    }
    story = ScriptedExecution(script)
    story.begin()
    story.settle("a")
    story.settle("c")
    story.settle("b", failing())
    before = len(story.messages)
    story.say(m.RetryMessage())
    assert story.messages[before:] == [] and A in story.execution.settled


def test_only_what_has_failed_or_is_parked_is_retried() -> None:
    stories: list[tuple[Script, list[m.ExecutionMessage]]] = [
        ({}, []),
        (ONE_STEP, [m.StartMessage()]),
        ({"start": [DONE]}, [m.StartMessage()]),
        (ONE_STEP, [m.StartMessage(), m.TerminateMessage()]),
    ]
    for script, messages in stories:
        story = ScriptedExecution(script)
        for message in messages:
            story.say(message)
        assert story.say(m.RetryMessage()) == []


def test_what_has_failed_is_cancelled_when_it_is_discarded_and_whoever_waited_is_not_told_again() -> None:
    story = ScriptedExecution({"start": [opens("a")], "a": [FAILED]})
    story.begin(parent=Parent(OTHER, PAY))
    story.settle("a")
    told = list(story.sent)
    assert story.status == "failed" and len(told) == 1
    assert story.say(m.DiscardMessage("not worth it"), 9.0) == [
        e.EndedEvent("cancelled", Failure("cancelled", 1, ErrorInfo("cancelled", "not worth it")), story.now_s)
    ]
    assert story.status == "cancelled" and story.sent == told
    for late in (m.DiscardMessage(), m.RetryMessage(), m.CancelMessage(), m.TerminateMessage(), m.PresetMessage(PAY, Success())):
        assert not [event for event in story.say(late) if not isinstance(event, e.PresetEvent)]
    assert story.status == "cancelled"


def test_what_was_discarded_answers_those_who_ask_later_that_it_was_cancelled() -> None:
    story = ScriptedExecution({"start": [FAILED]})
    story.begin()
    story.say(m.DiscardMessage("not worth it"))
    story.begin(parent=Parent(OTHER, PAY))
    assert story.sent == [m.SettleMessage(PAY, 1, Failure("cancelled", 1, ErrorInfo("cancelled", "not worth it")))]


def test_what_needs_attention_is_cancelled_at_once_when_it_is_discarded_and_whoever_waits_is_told() -> None:
    story = ScriptedExecution(ONE_STEP)
    story.begin(parent=Parent(OTHER, A))
    story.say(m.DivergeMessage(("it differs",)))
    assert kinds(story.say(m.DiscardMessage("not worth it"))) == ["EndedEvent"]
    assert story.sent == [m.SettleMessage(A, 1, Failure("cancelled", 1, ErrorInfo("cancelled", "not worth it")))]


def test_only_what_has_failed_or_needs_attention_is_discarded() -> None:
    stories: list[tuple[Script, list[m.ExecutionMessage]]] = [
        ({}, []),
        (ONE_STEP, [m.StartMessage()]),
        (ONE_STEP, [m.StartMessage(), m.PauseMessage()]),
        ({"start": [DONE]}, [m.StartMessage()]),
        (ONE_STEP, [m.StartMessage(), m.TerminateMessage()]),
    ]
    for script, messages in stories:
        story = ScriptedExecution(script)
        for message in messages:
            story.say(message)
        assert story.say(m.DiscardMessage("no")) == []


def test_an_execution_can_be_reopened_again_and_again() -> None:
    story = failed()
    for _ in range(3):
        story.say(m.RetryMessage())
        story.settle("b", failing())
        assert story.status == "failed"
    assert story.execution.reopened == 3
    story.script = story.program.script = GOES_ON
    story.say(m.RetryMessage())
    assert kinds(story.settle("b"))[-1] == "EndedEvent" and story.status == "completed"


# large values


LARGE, SMALL = value(70_000), value(10)
NAME = name_of(LARGE)
BLOB = Blob(NAME, len(LARGE))


def test_large_values_go_to_blobs_wherever_they_stand() -> None:
    story = ScriptedExecution(
        {
            "start": [
                opens("a", CallOperation("a", LARGE)),
                opens("k", KeepOperation(LARGE)),
                opens("c", SpawnOperation("ship", "1", input=LARGE)),
                opens("s", SendOperation(OTHER, "hello", LARGE)),
                opens("x", ReceiveOperation(("x",))),
            ],
            "x": [FinishCommand("completed", Success(LARGE))],
        }
    )
    decision = story.decide(m.StartMessage(input=LARGE))
    assert decision.blobs == {NAME: LARGE} and not story.loaded
    ops = [event.op for event in decision.events if isinstance(event, e.OpenedEvent)]
    assert ops[:4] == [CallOperation("a", BLOB), KeepOperation(BLOB), SpawnOperation("ship", "1", input=BLOB), SendOperation(OTHER, "hello", BLOB)]
    assert isinstance(decision.events[0], e.StartedEvent) and decision.events[0].input == BLOB
    assert story.settle("a", Success(LARGE)) == [e.SettledEvent(A, Success(BLOB), NOW_S)]
    arrived, _, ended = story.say(m.SignalMessage("x", LARGE))
    assert isinstance(arrived, e.MessageArrivedEvent) and arrived.body == BLOB
    assert ended == e.EndedEvent("completed", Success(BLOB), NOW_S)


def test_the_program_gets_the_payload_of_a_blob_that_an_answer_names() -> None:
    for message in (m.SettleMessage(A, 1, Success(BLOB)), m.SignalMessage("x", BLOB)):
        story = ScriptedExecution({"start": [opens("a"), opens("x", ReceiveOperation(("x",)))]}, blobs={NAME: LARGE})
        story.begin()
        version = story.execution.version
        story.say(message)
        assert story.loaded == [NAME] and story.program.values == {NAME: LARGE}
        assert story.execution.version == version + (1 if isinstance(message, m.SettleMessage) else 2)  # nothing was folded twice


def test_the_program_gets_the_payload_of_its_input() -> None:
    story = ScriptedExecution({"start": [DONE]}, blobs={NAME: LARGE})
    story.say(m.StartMessage(input=BLOB))
    assert story.loaded == [NAME] and story.program.values == {NAME: LARGE}


def test_a_blob_that_was_made_in_the_same_decision_is_not_asked_for() -> None:
    story = ScriptedExecution({"start": [opens("a")], "a": [DONE]})
    story.say(m.StartMessage(input=LARGE))
    story.settle("a", Success(value(80_000)))
    assert story.loaded == []
    assert story.program.values.keys() == story.blobs.keys()


def test_a_reopened_program_gets_every_payload_that_it_will_recall() -> None:
    other = value(80_000)
    story = ScriptedExecution({"start": [opens("a")], "a": [opens("k", KeepOperation(LARGE)), opens("b", CallOperation("b", retry=ONCE))], "b": [FAILED]})
    story.say(m.StartMessage(input=LARGE))
    story.settle("a", Success(other))
    story.settle("b", failing())
    story.program.values.clear()
    story.say(m.RetryMessage())
    assert story.program.values == {NAME: LARGE, name_of(other): other}


# loops


def test_turns_that_hold_open_operations_are_not_trimmed() -> None:
    turns: Script = {
        "start": [OpenCommand((("l", 1), 0), KeepOperation(b"\x00", "turn")), opens("l/~0/a"), opens("l/~0/open")],
        "l/~0/a": [OpenCommand((("l", 1), 1), KeepOperation(b"\x01", "turn")), opens("l/~1/a"), TrimCommand(path("l"), 1)],
        "l/~1/a": [OpenCommand((("l", 1), 2), KeepOperation(b"\x02", "turn")), opens("l/~2/a"), TrimCommand(path("l"), 1)],
        "l/~0/open": [TrimCommand(path("l"), 2)],
    }
    story = ScriptedExecution(turns)
    story.begin()
    assert "TrimmedEvent" not in kinds(story.settle("l/~0/a")) + kinds(story.settle("l/~1/a"))
    assert story.settle("l/~0/open")[-1] == e.TrimmedEvent(path("l"), 2)
    assert path("l/~0/a") not in story.execution.settled and path("l/~2") in story.execution.settled


def test_a_loop_is_trimmed_only_to_a_turn_whose_state_is_remembered() -> None:
    turns: Script = {
        "start": [OpenCommand((("l", 1), 0), KeepOperation(b"\x00", "turn")), opens("l/~0/a")],
        "l/~0/a": [opens("l/~1/a"), TrimCommand(path("l"), 1)],
        "l/~1/a": [OpenCommand((("l", 1), 2), KeepOperation(b"\x02", "turn")), opens("l/~2/a")],
        "l/~2/a": [opens("l/~3/a"), TrimCommand(path("l"), 3)],
    }
    story = ScriptedExecution(turns)
    story.begin()
    assert "TrimmedEvent" not in kinds(story.settle("l/~0/a"))
    story.settle("l/~1/a")
    assert story.settle("l/~2/a")[-1] == e.TrimmedEvent(path("l"), 2)


def test_a_value_encoded_for_a_test_is_what_it_says() -> None:
    assert value(10) == encode("x" * 10, "value") and len(LARGE) > limits.BLOB_BYTES_MIN > len(SMALL)


def test_a_retry_of_what_is_parked_for_one_reason_does_nothing_to_what_is_parked_for_another_or_has_failed() -> None:
    again = m.RetryMessage("run again", parked="diverged")
    poisoned = ScriptedExecution({"start": [opens("pay")]})
    poisoned.begin()
    poisoned.say(m.LostMessage(PAY, 1, limits.INTERRUPTIONS_MAX))
    assert poisoned.execution.parked is not None and poisoned.execution.parked.reason == "interrupted"
    assert poisoned.say(again) == [] and kinds(poisoned.say(m.RetryMessage())) == ["ResumedEvent"]
    assert poisoned.say(again) == [], "it goes on"
    failed = ScriptedExecution({"start": [FAILED]})
    failed.begin()
    assert failed.status == "failed" and failed.say(again) == [] and kinds(failed.say(m.RetryMessage())) == ["ReopenedEvent", "EndedEvent"]
