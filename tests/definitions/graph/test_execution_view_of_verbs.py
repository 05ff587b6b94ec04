"""Each verb of a definition at each place is shown alike everywhere, at every event, wherever it is looked at: a view knows no tools, kinds or policies."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import Definition, Vote
from perdure.core.operations import SpawnOperation
from perdure.definitions.format import model
from perdure.definitions.graph import execution_view
from perdure.testing import World
from perdure.testing.replay_check import run_generator
from tests.definitions.graph.field_effects import CHILD, PLACES, VERBS, document, say
from tests.definitions.graph.semantics.table import folded
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed
from tests.proof.definitions.log_checks import problems

KINDS = {kind: lambda config, input, env=None: {"n": 1} for kind in ("ts", "python", "bash", "http", "openapi", "sql", "file", "llm", "pipeline", "of_its_own")}
MORE: dict[str, dict[str, Any]] = {
    "own": {"task": "of_its_own"},
    "transform": {"set": {"x": 1}, "transform": {"ts": "export default () => 1"}},
    "each": {"python": "def main(input):\n    return 1", "each": {"in": [1, 2]}},
    "again": {"http": "https://x.example", "repeat": {"until": False, "max": 2, "on_max": "go_on", "delay": 1}},
    "late": {"listen": {"names": ["never"]}, "timeout": 5, "on_error": "go_on"},
    "mended": {"fail": "no", "on_error": [{"id": "stands_in", "tool": "SAY", "with": {"value": 1}}]},
    "python": {"if": {"python": "def evaluate(output, context):\n    return True"}, "then": [{"id": "then", "tool": "SAY"}]},
}


def cases() -> Iterator[Any]:
    steps = {**{verb.name: VERBS[verb.name] for verb in model.VERBS}, **MORE}
    for number, (name, step) in enumerate(steps.items()):
        for other, place in enumerate(PLACES):
            marks = () if other == number % len(PLACES) else (pytest.mark.prove,)
            yield pytest.param(step, place, id=f"{name}-{place}", marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "place"), list(cases()))
def test_at_every_event_a_verb_is_shown_alike_everywhere(step: dict[str, Any], place: str) -> None:
    with World() as world:
        run = ran(world, document({"id": "probe", **copy.deepcopy(step)}, "refs", place))
        found = problems(run.key, run._log(), world.machine.payload)
        assert found == []
        shown = run_generator(execution_view.view_at_event(run.key, run._log(), len(run._log())), world.machine.payload)
        assert shown is not None and "probe" in {step.path.split("/")[-1] for step in shown.steps}


def ran(world: World, document: dict[str, Any]) -> Any:
    """An execution of a definition, with all that it waits for."""
    world.mock("work", returns={"n": 1})
    called = Definition.of(CHILD, tools={"SAY": say})
    run = world.start(Definition.of(document, tools={"SAY": say}, kinds=KINDS, calls=[called], deployment=deployed(default=ModelScript("answer", "again"))))
    world.skip("10s")
    for pending in list(folded(world, run).open.values()):
        if isinstance(pending.op, SpawnOperation) and pending.op.workflow == "perdure.approval":
            world.run_of(run.key._replace(workflow="perdure.approval", id=pending.op.id)).send("vote", Vote("ada", True))
    if run.status not in ("completed", "failed", "cancelled"):
        run.send("go", 1)
        world.skip("200s")
    return run
