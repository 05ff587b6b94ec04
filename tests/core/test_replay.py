"""Claims about rebuilding: the same events lead to the same state, nothing is decided, and the first difference is found in its place."""

from collections.abc import Callable

import pytest

from perdure.core import events as e
from perdure.core import messages as m
from perdure.core.errors import ErrorInfo
from perdure.core.execution import execution_facts
from perdure.core.operations import CallOperation, Failure, KeepOperation, ReceiveOperation, RetryPolicy, SleepOperation, Success
from perdure.core.program import DropCommand, OpenCommand
from tests.core.scripted_execution import DONE, FAILED, NOW_S, Script, ScriptedExecution, name_of, opens, path, value

SCRIPT: Script = {
    "start": [opens("a"), opens("x", ReceiveOperation(("x",)))],
    "a": [opens("k", KeepOperation(b"\x01")), opens("b", SleepOperation(5.0))],
    "x": [DropCommand(path("b")), opens("c", CallOperation("c", retry=RetryPolicy(max=1)))],
    "c": [FAILED],
}
NO = Failure("failed", 1, ErrorInfo("ValueError", "no"))


def story() -> ScriptedExecution:
    it = ScriptedExecution(SCRIPT)
    it.begin()
    it.settle("a")
    it.signal("x", 1)
    return it


def test_a_restored_program_is_fed_what_the_resident_one_was() -> None:
    it = story()
    assert it.rebuilt().program.fed == it.program.fed


def test_an_execution_can_be_rebuilt_at_each_event_that_ends_a_decision() -> None:
    it = ScriptedExecution(SCRIPT)
    acts: list[Callable[[], object]] = [
        it.begin,
        lambda: it.settle("a"),
        lambda: it.signal("x", 1),
        lambda: it.settle("c", NO),
        lambda: it.say(m.RetryMessage()),
    ]
    for act in acts:
        act()
        again = it.rebuilt()
        assert execution_facts(again.execution) == execution_facts(it.execution) and again.status == it.status


DIFFERENT: list[tuple[Script, str]] = [
    ({**SCRIPT, "start": [opens("other"), opens("x", ReceiveOperation(("x",)))]}, "asked for Open"),
    ({**SCRIPT, "start": [opens("a", CallOperation("other")), opens("x", ReceiveOperation(("x",)))]}, "asked for Open"),
    ({**SCRIPT, "start": [opens("a", SleepOperation(1.0)), opens("x", ReceiveOperation(("x",)))]}, "asked for Open"),
    ({**SCRIPT, "start": [opens("x", ReceiveOperation(("x",))), opens("a")]}, "asked for Open"),
    ({**SCRIPT, "start": [opens("a"), opens("x", ReceiveOperation(("x",))), opens("more")]}, "remembered None, asked for Open"),
    ({**SCRIPT, "start": [opens("a")]}, "x is remembered here, and the code no longer asks for it"),
    ({**SCRIPT, "x": [opens("c")]}, "remembered Dropped"),
    ({**SCRIPT, "x": [DropCommand(path("b"))]}, "c is remembered here"),
    ({**SCRIPT, "a": [DONE]}, "asked for Finish"),
    ({**SCRIPT, "a": []}, "k is remembered here"),
]


@pytest.mark.parametrize(("script", "said"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_the_first_difference_is_found_and_the_execution_is_folded_to_its_end(script: Script, said: str) -> None:
    it = story()
    again, diverged = it.restored(script)
    assert diverged is not None and said in diverged.diff[0]
    assert execution_facts(again.execution) == execution_facts(it.execution)


def test_what_differs_only_in_arguments_does_not_diverge() -> None:
    it = story()
    assert (
        it.restored({**SCRIPT, "start": [opens("a", CallOperation("a", b"\x09", timeout_s=3.0)), opens("x", ReceiveOperation(("x",), timeout_s=1.0))]})[1]
        is None
    )


def test_what_is_not_reached_yet_may_change() -> None:
    it = story()
    assert it.restored({**SCRIPT, "c": [opens("new")]})[1] is None


def test_a_program_that_has_ended_is_not_run_again_and_may_be_any_code() -> None:
    it = story()
    it.settle("c", NO)
    again, diverged = it.restored({"start": [opens("anything")]})
    assert diverged is None and again.program.fed == [] and again.status == "failed"


def test_a_reopened_program_is_replayed_from_its_reopening_only() -> None:
    it = story()
    it.settle("c", NO)
    it.say(m.RetryMessage())
    assert [type(event) for event in it.rebuilt().program.fed] == [e.ReopenedEvent, e.RecalledEvent, e.RecalledEvent]
    assert it.restored({"start": [opens("other")]})[1] is not None


def test_nothing_is_fed_while_parked_and_all_of_it_when_resumed() -> None:
    it = ScriptedExecution({"start": [opens("a"), opens("b")], "a": [opens("c")]})
    it.begin()
    it.say(m.DivergeMessage(("x",)))
    it.settle("b")
    it.settle("a")
    assert [type(event) for event in it.rebuilt().program.fed] == [e.StartedEvent]
    it.say(m.RetryMessage())
    assert it.rebuilt().program.fed == it.program.fed
    assert [type(event) for event in it.program.fed] == [e.StartedEvent, e.SettledEvent, e.SettledEvent, e.ResumedEvent]


def test_the_payloads_that_a_replay_needs_are_asked_for_in_their_place() -> None:
    large, other, third = value(70_000), value(80_000), value(90_000)
    it = ScriptedExecution({"start": [opens("a"), opens("k", KeepOperation(large))], "a": [opens("k2", KeepOperation(third))]})
    it.say(m.StartMessage(input=other))
    it.settle("a", Success(large))
    again = it.rebuilt()
    assert again.loaded == [name_of(other), name_of(large), name_of(large), name_of(third)]
    assert again.program.values.keys() == {name_of(one) for one in (large, other, third)}


def test_a_compacted_loop_goes_on_where_its_first_kept_turn_began() -> None:
    turns: Script = {
        "start": [opens("a")],
        "a": [],
        "l turns to 3": [opens("l/~3/s")],
        "l/~3/s": [OpenCommand((("l", 1), 4), KeepOperation(b"\x04", "turn")), opens("l/~4/s")],
    }
    it = ScriptedExecution(turns)
    it.events = [
        e.StartedEvent(1, NOW_S),
        e.OpenedEvent(path("a"), CallOperation("a"), "me"),
        e.IterationResumedEvent(path("l"), 3, b"\x03", NOW_S),
        e.OpenedEvent(path("l/~3/s"), CallOperation("l"), "me"),
    ]
    again, diverged = it.restored({**turns, "l turns to 3": [OpenCommand(path("l/~3/s"), CallOperation("l"))]})
    assert diverged is None and again.execution.resumes == {path("l"): 3} and again.execution.trimmed == {path("l"): 3}


def test_what_resumes_is_that_of_the_last_life_only() -> None:
    ended = e.EndedEvent("failed", NO, NOW_S)
    it = ScriptedExecution({"start": [], "l turns to 5": []})
    it.events = [
        e.StartedEvent(1, NOW_S),
        e.IterationResumedEvent(path("m"), 3, b"\x03", NOW_S),
        ended,
        e.ReopenedEvent(NOW_S),
        e.IterationResumedEvent(path("l"), 5, b"\x05", NOW_S),
    ]
    again, diverged = it.restored()
    assert diverged is None and again.execution.resumes == {path("l"): 5}


def test_no_log_is_an_execution_that_has_not_begun() -> None:
    again, diverged = ScriptedExecution({}).restored()
    assert diverged is None and again.status == "pending"
