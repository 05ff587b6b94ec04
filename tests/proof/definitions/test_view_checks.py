"""At every event of the logs of random definitions, all that people are shown is read from one view and agrees; the checks of that can fail."""

from collections.abc import Sequence
from random import Random

import pytest
from msgspec.structs import replace

from perdure.core import events as e
from perdure.core.operations import KeepOperation
from perdure.core.paths import Key
from perdure.definition_workflow import Definition
from perdure.definitions.graph import execution_view
from perdure.testing.world import World
from tests.proof.definitions import random_case
from tests.proof.definitions.log_checks import problems
from tests.proof.definitions.runner import played


def differences(seed: int, size: int, every: int = 1) -> list[str]:
    """Draw a definition, run it, and look at it at each of its events."""
    case = random_case(Random(seed), size)
    with World(always_suspend=seed % 4 == 1, seed=seed if seed % 4 == 2 else None) as world:
        run = played(world, case.definition, case.script)
        return problems(run.key, run._log(), world.machine.payload, every)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_at_every_event_what_is_shown_agrees(seed: int) -> None:
    assert differences(seed, 4 + seed) == [], f"seed {seed}"


@pytest.mark.prove
@pytest.mark.parametrize("block", range(10))
def test_at_every_event_of_hundreds_of_definitions_what_is_shown_agrees(block: int) -> None:
    for seed in range(2000 + 40 * block, 2000 + 40 * (block + 1)):
        found = differences(seed, 3 + seed % 30, every=1 + seed % 5)
        assert found == [], f"seed {seed}:\n" + "\n".join(found)


def small() -> tuple[Key, Sequence[e.Event], World]:
    text = {"perdure": 1, "name": "small", "steps": [{"id": "one", "do": [{"id": "two", "sleep": 1}]}, {"id": "three", "set": {"x": 1}}]}
    with World() as world:
        run = world.start(Definition.of(text))
        run.result()
        return run.key, run._log(), world


def test_a_log_that_does_not_replay_has_no_view() -> None:
    key, events, world = small()
    others = [replace(event, path=(("other", 1),)) if isinstance(event, e.OpenedEvent) and isinstance(event.op, KeepOperation) else event for event in events]
    (found,) = problems(key, others, world.machine.payload)
    assert "can't be shown" in found and "other" in found and "perdure export" in found


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("states", {"one": "completed"}, "two is open, and its state is None"),
        ("steps", [], "two is open, and is shown as None"),
        ("tokens", execution_view.TokenCounts(2, 0, 1, {}, [], ["one/two"], {}), "0 approvals are asked for, and 1 counted"),
    ],
)
def test_a_view_that_does_not_agree_is_found(monkeypatch: pytest.MonkeyPatch, field: str, value: object, complaint: str) -> None:
    key, events, world = small()
    before = execution_view._ViewBuilder.made
    monkeypatch.setattr(execution_view._ViewBuilder, "made", lambda made: replace(before(made), **{field: value}))
    assert complaint in "\n".join(problems(key, events[: log_of_the_start(events)], world.machine.payload))


def log_of_the_start(events: Sequence[e.Event]) -> int:
    """How many events there are before the first that settles something."""
    return next(number for number, event in enumerate(events) if isinstance(event, e.SettledEvent))
