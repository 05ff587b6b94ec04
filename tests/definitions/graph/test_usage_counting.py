"""Counting: a step of a kind that counts notes what it uses beside its opening, and the use beside its result; and replays do neither anew."""

from typing import Any

import pytest

from perdure import Definition
from perdure.code import builtin_workflows
from perdure.code.builtin_workflows import USES, CompositeDefinition
from perdure.core.attributes import indexed_attribute_values
from perdure.core.operations import COMPOSITE_WORKFLOW
from perdure.core.paths import Key
from perdure.definitions.graph.step_kind import CompositeUse, Kind
from perdure.stores.protocol import Head
from perdure.testing import World

SHAPE = CompositeDefinition("thing_1", "Does a thing", [{"top_k": {"k": 1}}], ("rows",))


def counting(count: CompositeUse | None, fails: int = 0) -> Definition:
    tries = [0]

    async def run(config: Any, input: Any = None) -> str:
        tries[0] += 1
        if tries[0] <= fails:
            raise ValueError("not yet")
        return "done"

    step = {"id": "a", "task": {"type": "thing", "config": {}}, "retry": {"max": 5, "wait": "1s"}}
    document = {"perdure": 1, "name": "it", "steps": [step]}
    return Definition.of(document, kinds={"thing": Kind("thing", run, counts=lambda written, config: count)})


def head(world: World) -> Head:
    return next(one for one in world.machine.heads() if one.key == Key("default", COMPOSITE_WORKFLOW, "thing_1"))


def uses(world: World) -> Any:
    world.skip("2s")
    return indexed_attribute_values(head(world).attributes).get(USES)


@pytest.mark.perdure(always_suspend=True)
def test_uses_are_counted_once_by_the_composite_of_their_name_however_often_a_step_was_tried(world: World) -> None:
    run = world.start(counting(CompositeUse("thing_1", SHAPE, "a thing"), fails=2))
    assert run.result("10s") == "done"
    assert [step.path for step in run.steps()] == ["a", "a/~composite", "a/~used"]
    assert uses(world) == 1
    world.run(counting(CompositeUse("thing_1")))
    assert uses(world) == 2


def test_what_counts_nothing_notes_nothing(world: World) -> None:
    run = world.start(counting(None))
    assert run.result() == "done" and [step.path for step in run.steps()] == ["a"]


def test_uses_are_counted_up_to_a_number_and_there_it_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin_workflows, "USES_MAX", 3)
    world.run(counting(CompositeUse("thing_1", SHAPE, "a thing")))
    assert head(world).status == "waiting"
    for _ in range(4):
        world.run(counting(CompositeUse("thing_1")))
    assert uses(world) == 3 and head(world).status == "completed"
