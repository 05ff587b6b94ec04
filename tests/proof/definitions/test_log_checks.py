"""What is held against worlds of definitions can fail: evaluating in a replay, what hangs on times, and what is undone in a wrong order after a cancel."""

from random import Random

from msgspec.structs import replace

from perdure.core import events as e
from perdure.definition_workflow import Definition
from perdure.definitions.expr import condition, template
from perdure.testing.world import World
from tests.proof.definitions.comparison import differs, differs_from_part
from tests.proof.definitions.facts import Decision, Facts, Json, OutsideEvents, Ran, Undone
from tests.proof.definitions.log_checks import evaluating, replayed
from tests.proof.definitions.plans import steady
from tests.proof.definitions.prediction import predict
from tests.proof.definitions.runner import WorldRunner


class ConstantScope:
    """In which everything is 7."""

    def root(self, name: str) -> Json:
        return 7

    step = envelope = root


def test_evaluations_are_seen_and_what_is_constant_is_not_counted() -> None:
    with evaluating() as evaluated:
        assert template.compile_template("@input").evaluate(ConstantScope()) == 7
        assert template.compile_template([1, "2"]).evaluate(ConstantScope()) == [1, "2"]
        assert condition.compile_condition({"ref": "@input", "eq": 7}).evaluate(ConstantScope())
    assert evaluated == ["Template of input", "Condition of input"]
    template.compile_template("@input").evaluate(ConstantScope())
    assert len(evaluated) == 2


def test_a_log_of_another_definition_does_not_replay() -> None:
    definition = Definition.of({"perdure": 1, "name": "small", "steps": [{"id": "waits", "sleep": 1.0}]})
    with World() as world:
        run = world.start(definition)
        assert run.result() is None
        events, payload = run._log(), world.machine.payload
        assert replayed(definition.graph, run.key, events, payload) == []
        others = [replace(event, path=(("other", 1),)) if isinstance(event, e.OpenedEvent | e.SettledEvent) else event for event in events]
        assert "other" in " ".join(replayed(definition.graph, run.key, others, payload))


def race(first_s: float, second_s: float) -> dict[str, Json]:
    """A race between two that take so long."""
    branches = [{"id": id, "tool": "ECHO", "with": {"value": id, "takes_s": takes_s}} for id, takes_s in (("one", first_s), ("two", second_s))]
    return {"perdure": 1, "name": "small", "steps": [{"id": "race", "race": branches}]}


def test_what_hangs_on_who_is_first_is_not_steady() -> None:
    script = OutsideEvents()
    for definition, late_s, expected in ((race(1, 5), 0.1, True), (race(1, 5), 50.0, False)):
        assert steady(definition, script, predict(definition, script), Random(1), late_s) == expected


def test_what_takes_longer_comes_to_the_same() -> None:
    slow = race(1, 5)
    slow["steps"][0]["race"][0]["with"]["late"] = [0.5, 2.0]
    assert differs(predict(slow, OutsideEvents()), WorldRunner().run(slow, OutsideEvents())) == []


def test_after_a_cancel_all_that_was_done_is_undone_the_last_first() -> None:
    undo = {"undo": {"tool": "UNDO"}}
    definition = {"perdure": 1, "name": "small", "steps": [{"id": id, "tool": "ECHO", "with": {"takes_s": 1}, **undo} for id in ("a", "b")]}
    prediction = predict(definition, OutsideEvents())
    done = [Ran("a", (), None, "", 1), Ran("b", (), None, "", 1)]
    backwards = [Undone("b", ()), Undone("a", ())]
    assert differs_from_part(definition, prediction, Facts("cancelled", ran=done, undone=backwards)) == []
    assert "not the last first" in differs_from_part(definition, prediction, Facts("cancelled", ran=done, undone=backwards[::-1]))[0]
    assert "undone was" in differs_from_part(definition, prediction, Facts("cancelled", ran=done, undone=backwards[:1]))[0]
    assert "not predicted" in differs_from_part(definition, prediction, Facts("cancelled", ran=[Ran("a", (), 7, "", 1)]))[0]
    assert "it was cancelled, and is completed" in differs_from_part(definition, prediction, Facts("completed"))[0]


def test_the_time_of_a_decision_that_a_step_reads_is_no_difference_and_who_decided_is() -> None:
    steps = [{"id": "ask", "approve": {"title": "ask?"}}, {"id": "reads", "tool": "ECHO", "with": {"value": ["@ask"]}}]
    definition = {"perdure": 1, "name": "small", "steps": steps}
    scripts = [OutsideEvents(decisions={"ask?": Decision(1.0, approved=True, by=by)}) for by in ("ada", "bob")]
    facts = WorldRunner().run(definition, scripts[0])
    assert [one.result[0]["at_s"] > 0 for one in facts.ran if one.step == "reads"] == [True]
    same, other = (predict(definition, script) for script in scripts)
    cancelled = replace(facts, status="cancelled")
    assert differs(same, facts) == differs_from_part(definition, same, cancelled) == []
    for difference in (differs(other, facts), differs_from_part(definition, other, cancelled)):
        assert any("reads" in line and "not predicted" in line for line in difference)
