"""Loops over batches, run: seed 003's ticks as the steps of the body see them."""

from itertools import count
from typing import Any

from perdure import Definition
from perdure.testing import World

NUMBERS = count(1)


def step(name: str, kind: str = "action", config: Any = None, **following: Any) -> dict[str, Any]:
    return {"stepSlug": name, "name": name, "stepType": kind, "config": config or {}, "nextSteps": following}


def note(what: str, name: str = "NOTE") -> dict[str, Any]:
    """The config of an action that notes what an expression comes to."""
    return {"type": name, "parameters": {"noted": f"{{{{ {what} }}}}"}}


def noted(world: World, *steps: dict[str, Any], **more: Any) -> list[Any]:
    """Run steps; what was noted, in order."""
    found = list[Any]()

    def take(noted: Any = None) -> Any:
        found.append(noted)
        return noted

    def fail(noted: Any = None) -> Any:
        found.append(noted)
        raise ValueError("no")

    definition = Definition.of({"name": f"loops {next(NUMBERS)}", "config": {"variables": more}, "steps": list(steps)}, tools={"NOTE": take, "FAIL": fail})
    world.start(definition).result()
    return found


def test_each_batch_is_seen_once_and_what_follows_sees_how_it_ended(world: World) -> None:
    found = noted(
        world,
        step("all", "loop", {"items": "{{ rows }}", "batchSize": 2}, loop="work", done="end"),
        step("work", "action", note("[loop.batch.items, loop.batch.index, loop.state.currentIndex, loop.item]"), success="all"),
        step("end", "action", note("[loop.state.isComplete, loop.state.batchesProcessed, lastOutput.data.batch, steps.work.output.data[1]]")),
        rows=["a", "b", "c"],
    )
    assert found == [[["a", "b"], 0, 0, None], [["c"], 1, 2, None], [True, 2, None, 1]]


def test_one_by_one_the_item_has_the_name_that_it_is_given(world: World) -> None:
    found = noted(
        world,
        step("all", "loop", {"items": "{{ rows }}", "itemVariable": "row", "indexVariable": "at"}, loop="work"),
        step("work", "action", note("[row, at, loop.item, loop.index, item, index]"), success="all"),
        rows=["a", "b"],
    )
    assert found == [["a", 0, "a", 0, "a", 0], ["b", 1, "b", 1, "b", 1]]


def test_without_items_it_is_done_at_once_and_without_a_body_it_ticks_by_itself(world: World) -> None:
    end = step("end", "action", note("[loop.state.iterations, loop.state.isComplete]"))
    assert noted(world, step("all", "loop", {"items": "{{ none }}"}, loop="end", done="end"), end) == [[0, True]]
    assert noted(world, step("all", "loop", {"items": [1, 2, 3]}, done="end"), end) == [[3, True]]


def test_a_loop_inside_of_another_begins_anew_and_gives_back_the_outer_one(world: World) -> None:
    found = noted(
        world,
        step("outer", "loop", {"items": "{{ rows }}"}, loop="inner"),
        step("inner", "loop", {"items": "{{ loop.item }}"}, loop="work", done="after"),
        step("work", "action", note("loop.item"), success="inner"),
        step("after", "action", note("loop.item"), success="outer"),
        rows=[[1, 2], [3]],
    )
    assert found == [1, 2, [1, 2], 3, [3]]


def test_what_leads_back_from_done_begins_again_with_the_items_of_then(world: World) -> None:
    found = noted(
        world,
        step("all", "loop", {"items": "{{ rows }}"}, loop="work", done="again"),
        step("work", "action", note("loop.item"), success="all"),
        step("again", "condition", {"expression": "rows|length < 2"}, true="more"),
        step("more", "action", {"type": "set_variables", "parameters": {"variables": {"rows": "{{ rows|concat(['b']) }}"}}}, success="all"),
        rows=["a"],
    )
    assert found == ["a", "a", "b"]


def test_a_failure_in_the_body_of_a_loop_that_goes_on_is_passed_by(world: World) -> None:
    found = noted(
        world,
        step("all", "loop", {"items": "{{ rows }}", "continueOnError": True}, loop="check", done="end"),
        step("check", "condition", {"expression": "loop.item == 'bad'"}, true="fails", false="work"),
        step("fails", "action", note("loop.item", "FAIL"), success="work"),
        step("work", "action", note("loop.item"), success="all"),
        step("end", "action", note("'end'")),
        rows=["a", "bad", "c"],
    )
    assert found == ["a", "bad", "c", "end"]
