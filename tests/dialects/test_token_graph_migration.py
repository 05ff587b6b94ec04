"""Handovers: at a node of the type migration the execution goes on in another version, once, whatever is killed when."""

from collections.abc import Callable
from typing import Any

import pytest

from perdure import ExecutionFailed, step
from perdure.core.events import StartedEvent
from perdure.definition_workflow import Definition
from perdure.testing import Run, World
from tests.definitions.graph.semantics.table import events

TRANSFORM = """
export default function ({input, results, from_version, to_version}) {
  return {order: input.order, charge: results.charge?.id ?? null, skipped: results.gift === null, way: `${from_version} to ${to_version}`}
}
"""
OLD: dict[str, Any] = {
    "metadata": {"name": "sale", "version": "1.0.3"},
    "nodes": [
        {
            "id": "charge",
            "type": "task",
            "compensator": {"action": "refund"},
            "branch": {"rules": [{"condition": "output.id == 'no'", "next_nodes": ["gift"]}]},
        },
        {"id": "gift", "type": "task"},
        {"id": "hand", "type": "migration", "config": {"from_version": "1.0", "to_version": "2.0", "transform": TRANSFORM}},
    ],
    "edges": [{"from": "gift", "to": "hand"}],
}
OLD["nodes"][0]["branch"]["default"] = ["hand"]


def newer(version: str, ship: Callable[..., Any] | None = None) -> Definition:
    """The version that the execution goes on in: it ships, and says of which version it is."""
    nodes = [{"id": "ship", "type": "task", "retry": {"max_attempts": 1}}]
    shipped = ship or (lambda **given: {**given, "by": version})
    return Definition.of({"metadata": {"name": "sale", "version": version}, "nodes": nodes}, tools={"ship": step(idempotent=True)(shipped)})


def older(*calls: Definition, ship: Callable[..., Any] | None = None) -> Definition:
    """The version with which it begins. An engine has the tools of all versions."""
    work: dict[str, Callable[..., Any]] = {
        "charge": lambda **_: {"id": "ch_1"},
        "gift": lambda **_: {},
        "refund": lambda id: id,
        "ship": ship or (lambda **given: given),
    }
    tools = {name: step(idempotent=True)(fn) for name, fn in work.items()}
    return Definition.of(OLD, tools=tools, calls=calls)


def children(run: Run[Any]) -> list[tuple[str, str]]:
    """What it has started, and how that stands."""
    return [(one.key.workflow, one.status) for one in run.children()]


@pytest.mark.slow
def test_it_goes_on_with_what_the_transform_makes_of_all_so_far(world: World) -> None:
    run = world.start(older(newer("2.0.1")), {"order": 7})
    assert run.result() == {"order": 7, "charge": "ch_1", "skipped": True, "way": "1.0 to 2.0"}
    assert children(run) == [("sale", "completed")]


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=60)
def test_wherever_its_process_is_killed_it_is_handed_over_once(world: World) -> None:
    run = world.start(older(newer("2.0.1")), {"order": 7})
    assert run.result() == {"order": 7, "charge": "ch_1", "skipped": True, "way": "1.0 to 2.0"}
    assert children(run) == [("sale", "completed")]
    assert [one.key.workflow for one in world.runs] == ["sale", "sale"]


@pytest.mark.slow
def test_the_highest_version_that_fits_is_meant_and_stays_the_one(world: World) -> None:
    world.mock("ship", returns="shipped", takes="1h")
    run = world.start(older(newer("2.0.1"), newer("2.0.9"), newer("2.1.0")), {"order": 7})
    world.skip("1m")
    (child,) = run.children()
    world.restart(older(newer("2.0.1"), newer("2.0.10")))
    assert run.result() == "shipped"
    begun = events(world, child)[0]
    assert isinstance(begun, StartedEvent) and begun.definition is not None
    assert f"sha256:{begun.definition.sha256}" == newer("2.0.9").read.hash
    assert children(run) == [("sale", "completed")]


def test_what_fails_there_undoes_what_was_done_here(world: World) -> None:
    def ship(**_: Any) -> None:
        raise ValueError("nobody goes there")

    run = world.start(older(newer("2.0.1", ship), ship=ship), {"order": 7})
    with pytest.raises(ExecutionFailed, match="nobody goes there"):
        run.result()
    assert run.step("~undo/charge").kwargs == {"id": "ch_1"}


def test_a_cancel_reaches_the_version_that_is_at_work(world: World) -> None:
    world.mock("ship", returns="shipped", takes="1h")
    run = world.start(older(newer("2.0.1")), {"order": 7})
    world.skip("1m")
    (child,) = run.children()
    run.cancel("no more")
    world.settle()
    assert (run.status, child.status) == ("cancelled", "ending")
    world.skip("30s")  # the grace of what it has in flight
    assert (run.status, child.status) == ("cancelled", "cancelled")


def test_without_that_version_it_fails_and_says_which_there_are(world: World) -> None:
    run = world.start(older(newer("3.0.0")), {"order": 7})
    with pytest.raises(ExecutionFailed, match=r"there is no version 2.0 of sale; there are 1.0.3, 3.0.0"):
        run.result()
