"""Tests of the agent. Its model is the script, whatever MODEL is, so they need no network and no key."""

from collections.abc import Iterator

import pytest
from perdure.testing import World
from pydantic_ai.models.function import FunctionModel

from assistant import agent, assist, script


@pytest.fixture(autouse=True)
def scripted() -> Iterator[None]:
    """The script in place of the model."""
    with agent.override(model=FunctionModel(script)):
        yield


def test_a_wish_is_looked_up_and_ordered(world: World) -> None:
    run = world.start(assist, "Two pots of tea, please")
    assert run.result() == "Done: 2 x tea ordered, at 300 cents each."
    called = [step.path.rpartition(":")[2] for step in run.steps() if "call_tool" in step.path]
    assert called == ["price", "order"]


@pytest.mark.perdure(crash_at="every")
def test_the_answer_is_the_same_wherever_its_process_is_killed(world: World) -> None:
    assert world.run(assist, "Two pots of tea, please") == "Done: 2 x tea ordered, at 300 cents each."
