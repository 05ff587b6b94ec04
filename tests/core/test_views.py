"""Claims about views: what people read follows from the log, and from nothing else."""

import pytest

from perdure.core import events as e
from perdure.core import messages as m
from perdure.core.errors import ErrorInfo
from perdure.core.operations import CallOperation, Failure, ReceiveOperation, RetryPolicy, SleepOperation, SpawnOperation, Success
from perdure.core.program import DropCommand
from perdure.core.views import PublicEvent, execution_summary, public_history, status_reason, step_views
from tests.core.scripted_execution import DONE, FAILED, KEY, NOW_S, Script, ScriptedExecution, opens, path

NO = ErrorInfo("ValueError", "no")
STORY: Script = {
    "start": [opens("pay", CallOperation("pay", retry=RetryPolicy(jitter=0.0)))],
    "pay": [opens("x", ReceiveOperation(("approved",), timeout_s=60.0)), opens("loser")],
    "x": [DropCommand(path("loser")), opens("ship", CallOperation("ship", retry=RetryPolicy(max=1)))],
    "ship": [FAILED],
}


def told() -> tuple[ScriptedExecution, list[list[e.Event]]]:
    """A story with a bit of everything, and the events of each of its commits."""
    story = ScriptedExecution(STORY)
    rows = [story.begin()]
    rows.append(story.settle("pay", Failure("failed", 1, NO)))
    rows.append(story.tick(1.0))
    rows.append(story.say(m.LostMessage(path("pay"), 2)))
    rows.append(story.settle("pay", attempt=3))
    rows.append(story.say(m.LostMessage(path("loser"), 1)) + story.say(m.LostMessage(path("loser"), 2)))
    rows.append(story.signal("approved"))
    rows.append(story.say(m.DivergeMessage(("it differs",))))
    rows.append(story.say(m.RetryMessage("fixed")))
    rows.append(story.settle("ship", Failure("failed", 1, NO)))
    rows.append(story.say(m.RetryMessage("again")))
    rows.append(story.say(m.TerminateMessage("enough")))
    return story, rows


def test_a_story_has_exactly_this_history() -> None:
    _, rows = told()
    assert [f"{event.type} {event.subject}".strip() for event in public_history(KEY, rows)] == [
        "execution.created",
        "execution.started",
        "step.started pay",
        "step.retrying pay",
        "execution.waiting",
        "step.started pay",
        "step.retrying pay",
        "step.started pay",
        "step.completed pay",
        "step.started loser",
        "step.retrying loser",
        "step.started loser",
        "step.retrying loser",
        "execution.waiting",
        "message.received",
        "step.cancelled loser",
        "step.started ship",
        "execution.waiting",
        "execution.resumed",
        "step.failed ship",
        "execution.failed",
        "execution.reopened",
        "step.recalled pay",
        "step.started loser",
        "step.cancelled loser",
        "step.started ship",
        "step.abandoned ship",
        "execution.cancelled",
    ]


def test_an_event_has_its_number_in_the_log_its_time_and_what_matters_of_it() -> None:
    _, rows = told()
    public = list(public_history(KEY, rows))
    assert public[0] == PublicEvent(1, "execution.created", KEY, NOW_S, "", {"version": 3})
    assert public[2] == PublicEvent(2, "step.started", KEY, NOW_S, "pay", {"target": "pay", "attempt": 1})
    assert public[3] == PublicEvent(3, "step.retrying", KEY, NOW_S, "pay", {"attempt": 1, "error": "ValueError: no", "due_at_s": NOW_S + 1})
    assert public[4] == PublicEvent(3, "execution.waiting", KEY, NOW_S, "", {"why": "will try again pay (call pay)"})
    assert public[5].data == {"target": "pay", "attempt": 2} and public[6].data["error"] == "interrupted"
    assert next(event for event in public if event.type == "message.received").data == {"number": 8, "name": "approved"}
    assert next(event for event in public if event.type == "execution.resumed").data == {"reason": "fixed"}
    assert [event.id for event in public] == sorted(event.id for event in public)


def test_a_trimmed_loop_is_seen() -> None:
    rows: list[list[e.Event]] = [[e.StartedEvent(1, NOW_S), e.TrimmedEvent(path("l"), 3)]]
    assert list(public_history(KEY, rows))[-1] == PublicEvent(2, "execution.trimmed", KEY, NOW_S, "l", {"before": 3})


def stepping() -> ScriptedExecution:
    story = ScriptedExecution(
        {
            "start": [opens("a"), opens("b", SleepOperation(5.0)), opens("c", CallOperation("c", retry=RetryPolicy(max=1)))],
            "a": [opens("d", SpawnOperation("ship", "1"))],
        }
    )
    story.begin()
    story.now_s += 1
    story.settle("c", Failure("failed", 1, NO))
    story.settle("a", Success())
    return story


def test_the_steps_are_all_operations_and_how_each_stands() -> None:
    shown = {step.path: step for step in step_views(stepping().execution)}
    assert {(step.path, step.kind, step.target, step.state) for step in shown.values()} == {
        ("a", "call", "a", "completed"),
        ("b", "sleep", "", "waiting"),
        ("c", "call", "c", "failed"),
        ("d", "spawn", "ship", "waiting"),
    }
    assert shown["c"].error == NO and (shown["a"].opened_at_s, shown["a"].settled_at_s, shown["b"].due_at_s) == (NOW_S, NOW_S + 1, NOW_S + 5)


def test_the_steps_are_in_the_order_in_which_they_were_opened() -> None:
    assert [step.path for step in step_views(stepping().execution)] == ["a", "b", "c", "d"]


WHY: list[tuple[Script, list[m.ExecutionMessage], str]] = [
    ({}, [], "it has not started"),
    ({}, [m.StartMessage()], "it is being decided"),
    ({"start": [opens("pay")]}, [m.StartMessage()], "runs pay (call pay)"),
    ({"start": [opens("pay", CallOperation("pay", queue="gpu"))]}, [m.StartMessage()], "waits for pay (call pay on gpu)"),
    ({"start": [opens("a", SleepOperation(5.0)), opens("b"), opens("c")]}, [m.StartMessage()], "waits for a (sleep), and 2 more"),
    ({"start": [opens("a", ReceiveOperation(("x", "y")))]}, [m.StartMessage()], "waits for a (receive x, y)"),
    ({"start": [opens("pay")]}, [m.StartMessage(), m.LostMessage(path("pay"), 1), m.LostMessage(path("pay"), 2)], "was interrupted at pay (call pay)"),
    ({"start": [opens("pay")]}, [m.StartMessage(), m.DivergeMessage(("one", "two"))], "needs attention (diverged): one; two"),
    ({"start": [DONE]}, [m.StartMessage()], "it has completed"),
    ({"start": [FAILED]}, [m.StartMessage()], "Error: no"),
    ({}, [m.StartMessage(), m.TerminateMessage("enough")], "cancelled: enough"),
    ({}, [m.StartMessage(), m.TerminateMessage("")], "cancelled"),
]


@pytest.mark.parametrize(("script", "said", "expected"), WHY, ids=[expected for _, _, expected in WHY])
def test_why_says_in_a_sentence_what_it_waits_for(script: Script, said: list[m.ExecutionMessage], expected: str) -> None:
    story = ScriptedExecution(script)
    for message in said:
        story.say(message)
    assert status_reason(story.execution) == expected


def test_a_summary_is_the_execution_in_a_line() -> None:
    story, _ = told()
    line = execution_summary(story.execution)
    assert (line.key, line.status, line.workflow_version, line.started_at_s, line.ended_at_s) == (KEY, "cancelled", 3, NOW_S, story.now_s)
    assert (line.version, line.open, line.why) == (len(story.events), 0, "cancelled: enough")
    assert execution_summary(ScriptedExecution({}).execution).started_at_s is None
