"""Changes of a workflow by its agents: of the execution that runs, if its definition allows it and what has begun fits; of the definition, as a proposal."""

from typing import Any

import pytest

from perdure import Definition, Fatal, step
from perdure.definitions.kinds.agents.built_in_tools import apply_definition_patch
from perdure.dialects.definition_reader import read_definition
from perdure.testing import Run, World
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed

MAIL = {"id": "send_email", "type": "task", "config": {"action": "email", "to": "ops@example.com"}}
AS_THE_SEED_HAS_IT = [{"op": "add", "path": "/nodes/-", "value": MAIL}, {"op": "add", "path": "/edges/-", "value": {"from": "done", "to": "send_email"}}]
BY_ID: list[dict[str, Any]] = [
    {"op": "add_step", "step": {"id": "send_email", "tool": "email", "with": {"to": "ops@example.com"}}},
    {"op": "connect", "from": "done", "to": "send_email"},
]
AS_JSON_PATCH = [
    {"op": "add", "path": "/steps/-", "value": {"id": "send_email", "tool": "email", "with": {"to": "ops@example.com"}}},
    {"op": "add", "path": "/steps/1/next", "value": ["send_email"]},
]


def document(self_edit: bool = True) -> dict[str, Any]:
    steps = [{"id": "a", "agent": {"prompt": "Improve", "tools": ["patch_workflow"]}, "next": "done"}, {"id": "done", "tool": "done"}]
    return {"perdure": 1, "name": "it", "order": "ports", "allow": {"self_edit": self_edit}, "steps": steps}


def started(world: World, scope: str, operations: Any, self_edit: bool = True) -> tuple[Run[Any], ModelScript]:
    return asking(world, {"operations": operations, "scope": scope, "description": "Tell them"}, document(self_edit))


def asking(world: World, args: Any, document: dict[str, Any]) -> tuple[Run[Any], ModelScript]:
    script = ModelScript([("patch_workflow", args)], "Improved")
    tools: dict[str, Any] = {"done": step(idempotent=True)(lambda given=None: "done"), "email": step(idempotent=True)(lambda to: f"mail to {to}")}
    return world.start(Definition.of(document, tools=tools, deployment=deployed(default=script))), script


@pytest.mark.parametrize("operations", [AS_THE_SEED_HAS_IT, BY_ID, AS_JSON_PATCH])
def test_the_execution_goes_on_by_what_its_agent_adds(world: World, operations: Any) -> None:
    run, script = started(world, "execution", operations)
    assert run.result() == "mail to ops@example.com"
    assert "added" in script.results[0][0] and not script.results[0][1]
    assert [one.path for one in run.steps() if one.kind == "call"] == ["done", "send_email"]


NODES = {
    "nodes": [
        {"id": "a", "type": "agent", "config": {"prompt": "Improve"}, "agent_config": {"available_tools": ["patch_workflow"]}},
        {"id": "done", "type": "task"},
    ],
    "edges": [{"from": "a", "to": "done"}],
    "allow": {"self_edit": True},
}


def test_nodes_are_patched_by_the_mapping_that_names_the_workflow(world: World) -> None:
    args = {"workflow_tag": "main", "patch_spec": {"operations": AS_THE_SEED_HAS_IT, "description": "Tell them"}}
    run, script = asking(world, args, NODES)
    assert run.result() == "mail to ops@example.com", script.results
    assert [one.path for one in run.steps() if one.kind == "call"] == ["done", "send_email"]
    (event,) = [event for event in run.events() if event.type == "execution.patched"]
    assert "Tell them" in str(event.data)


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_killed_anywhere_it_is_changed_once(world: World) -> None:
    run, _ = started(world, "execution", BY_ID)
    assert run.result() == "mail to ops@example.com"
    assert [event.type for event in run.events()].count("execution.patched") == 1


def test_a_definition_that_does_not_allow_it_is_not_changed_and_the_agent_is_told(world: World) -> None:
    run, script = started(world, "execution", BY_ID, self_edit=False)
    assert run.result() == "done"
    assert script.results[0][1] and "allow: {self_edit: true}" in script.results[0][0]


@pytest.mark.parametrize(
    ("operations", "why"),
    [
        ([{"op": "connect", "from": "done", "to": "nowhere"}], "nowhere"),
        ([{"op": "remove_step", "id": "a"}], "a has begun"),
        ([{"op": "replace", "path": "/nodes/0", "value": MAIL}, {"op": "remove", "path": "/edges/0"}], "a has begun"),
        ([{"op": "fly"}], "no such operation"),
    ],
)
def test_what_is_not_valid_or_does_not_fit_changes_nothing_and_the_agent_is_told(world: World, operations: Any, why: str) -> None:
    run, script = started(world, "execution", operations)
    assert run.result() == "done"
    assert script.results[0][1] and why in script.results[0][0]


def test_a_definition_is_only_proposed(world: World) -> None:
    run, script = started(world, "definition", BY_ID)
    assert run.result() == "done"
    (item,) = world.runs[1].stream()
    proposal, after = item.value["proposal"], apply_definition_patch(read_definition(document()).canonical, BY_ID)
    assert (proposal["base"], proposal["hash"], proposal["definition"]) == (read_definition(document()).hash, read_definition(after).hash, after)
    assert any("send_email" in line for line in proposal["changes"]) and proposal["description"] == "Tell them"
    assert world.runs[1].step("patch_workflow").result == item.value and not script.results[0][1]


def test_an_agent_that_no_definition_started_has_nothing_to_change(world: World) -> None:
    from perdure.agent import Agent

    script = ModelScript([("patch_workflow", {"operations": BY_ID, "scope": "execution"})], "no")
    agent: Agent[str] = Agent("alone", model="m", tools=["patch_workflow"], deployment=deployed(m=script))
    assert world.run(agent, "Improve") == "no"
    assert script.results[0][1] and "was not started by a definition" in script.results[0][0]


def test_an_edge_with_a_condition_is_refused_as_operations_by_id_say_it_better() -> None:
    edge: dict[str, Any] = {"from": "done", "to": "a", "condition": {"type": "cel", "expression": "true"}}
    with pytest.raises(Fatal, match="conditions stand in the rules of next"):
        apply_definition_patch(read_definition(document()).canonical, [{"op": "add", "path": "/edges/-", "value": edge}])
