"""Random definitions on a real engine come to what the sequential reading predicts: plainly, leaving memory at each wait, and in any order of what is ready."""

from random import Random

import pytest

from tests.proof.definitions import Decision, OutsideEvents, differs, predict, random_case
from tests.proof.definitions.runner import DoesNotEnd, WorldRunner


def is_as_predicted(seed: int, size: int, runner: WorldRunner) -> None:
    """Draw a definition, run it, and compare."""
    case = random_case(Random(seed), size)
    differences = differs(case.prediction, runner.run(case.definition, case.script))
    assert differences == [], f"seed {seed}, size {size}:\n" + "\n".join(differences)


@pytest.mark.parametrize("seed", range(60))
def test_a_definition_comes_to_what_is_predicted(seed: int) -> None:
    is_as_predicted(seed, 4 + seed % 14, WorldRunner())


@pytest.mark.parametrize("seed", range(60, 75))
def test_a_definition_that_leaves_memory_at_each_wait_comes_to_the_same(seed: int) -> None:
    is_as_predicted(seed, 4 + seed % 10, WorldRunner(always_suspend=True))


@pytest.mark.parametrize("seed", range(75, 85))
def test_a_definition_comes_to_the_same_in_any_order(seed: int) -> None:
    is_as_predicted(seed, 10, WorldRunner(seed=seed))


def test_tries_turns_items_and_what_is_undone_are_told() -> None:
    step = {"id": "one", "tool": "ADD", "with": {"value": ["@item"], "fails": 1, "takes_s": 2}, "retry": {"max": 2, "wait": 0}}
    body = {"id": "turn", "do": [{**step, "each": {"in": [4, 5], "concurrency": 1}}], "repeat": {"until": {"ref": "@index", "gte": 1}, "max": 3}}
    done = {"id": "done", "tool": "ECHO", "with": {"value": 1, "takes_s": 1}, "undo": {"tool": "UNDO"}}
    ask = {"id": "ask", "approve": {"title": "Go?"}, "needs": ["turn", "done"]}
    definition = {"perdure": 1, "name": "small", "steps": [done, body, ask]}
    script = OutsideEvents(decisions={"Go?": Decision(3.0, False)})
    facts = WorldRunner().run(definition, script)
    assert differs(predict(definition, script), facts) == []
    assert (facts.status, [one.step for one in facts.undone]) == ("cancelled", ["done"])
    places = sorted("/".join(one.place) for one in facts.ran if one.step == "one")
    assert places == ["turn~0/one[0]", "turn~0/one[1]", "turn~1/one[0]", "turn~1/one[1]"]
    assert {one.tries for one in facts.ran if one.step == "one"} == {2}


def test_the_steps_that_stand_in_have_all_the_time_they_need() -> None:
    other = {"id": "other", "tool": "ECHO", "with": {"value": "@error.kind", "takes_s": 50}}
    late = {"id": "late", "do": [{"id": "sleep", "sleep": 9}], "timeout": 5, "on_error": [other]}
    definition = {"perdure": 1, "name": "small", "steps": [late]}
    facts = WorldRunner().run(definition, OutsideEvents())
    assert (facts.status, facts.result) == ("completed", "timeout")
    assert differs(predict(definition, OutsideEvents()), facts) == []


def test_a_branch_that_goes_on_after_failing_does_not_win() -> None:
    bad = {"id": "bad", "tool": "ECHO", "with": {"fails": 99, "takes_s": 1}, "retry": {"max": 1}, "on_error": "go_on"}
    good = {"id": "good", "tool": "ECHO", "with": {"value": 7, "takes_s": 5}}
    definition = {"perdure": 1, "name": "small", "steps": [{"id": "race", "race": [bad, good]}]}
    facts = WorldRunner().run(definition, OutsideEvents())
    assert facts.result == {"winner": "good", "value": 7}
    assert differs(predict(definition, OutsideEvents()), facts) == []


def test_what_waits_for_ever_is_told() -> None:
    with pytest.raises(DoesNotEnd, match="small"):
        WorldRunner().run({"perdure": 1, "name": "small", "steps": [{"id": "hears", "listen": {"names": ["nothing"]}}]}, OutsideEvents())


@pytest.mark.prove
@pytest.mark.parametrize("block", range(20))
def test_hundreds_of_definitions_come_to_what_is_predicted(block: int) -> None:
    for seed in range(1000 + 60 * block, 1000 + 60 * (block + 1)):
        is_as_predicted(seed, 3 + seed % 40, WorldRunner(always_suspend=seed % 4 == 0, seed=seed if seed % 4 == 1 else None))
