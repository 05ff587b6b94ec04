"""Seed 001, what it says of definitions at work."""

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Definition, ExecutionCancelled, ExecutionFailed, Vote
from perdure.core.errors import BadDefinition
from perdure.testing import Run, World
from tests.definitions.graph.semantics.table import Voted, befall
from tests.seeds.cases import given, made
from tests.seeds.definitions import definition
from tests.seeds.example import Example

TYPES: dict[str, dict[str, Any]] = {
    "agent": {"goal": "look"},
    "agent_message": {"content": "done"},
    "tool": {"tool": "ECHO"},
    "bash": {"command": "true"},
    "conditional": {"condition": True, "then": [{"type": "tool", "tool": "ECHO"}]},
    "loop": {"count": 2, "steps": [{"type": "tool", "tool": "ECHO"}]},
    "parallel": {"steps": [{"type": "tool", "tool": "ECHO"}]},
    "subworkflow": {"slug": "child"},
    "approval": {"prompt": "Go on?"},
}


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    """A step that calls a tool."""
    return {"id": name, "type": "tool", "tool": "ECHO", "arguments": arguments}


def workflow(*steps: dict[str, Any], does: dict[str, Callable[..., Any]] | None = None, **fields: Any) -> Definition:
    """A workflow of these steps."""
    return made(definition(Example("", {"name": "some", "steps": list(steps), **fields}, False, "")), does or {})


GATED = (tool("before", x=1), {"id": "gate", "type": "approval", "prompt": "Go on?"}, tool("after", x=2))


def calls(run: Run[Any]) -> list[str]:
    """What was called, in that order."""
    return [one.path for one in run.steps() if one.kind == "call"]


def test_an_execution_says_what_it_runs_and_how_it_stands(world: World) -> None:
    wanted = workflow(*GATED, variables={"stage": "beta"})
    run = world.start(wanted, stage="dev")
    assert (run.status, run.why) == ("waiting_approval", "waits for gate (approval)")
    assert wanted.read.hash.startswith(f"sha256:{run.events()[0].data['definition']}")
    befall(world, run, Voted("gate"))
    assert run.status == "completed"
    assert [(one.path, one.state, one.attempts) for one in run.steps()] == [("before", "completed", 1), ("gate", "completed", 1), ("after", "completed", 1)]


@pytest.mark.parametrize("approve", [True, False])
def test_an_approval_halts_it_and_either_decision_leads_on_as_the_seed_says(world: World, approve: bool) -> None:
    run = world.start(workflow(*GATED))
    world.skip("100d")
    assert (run.status, calls(run)) == ("waiting_approval", ["before"])
    befall(world, run, Voted("gate", approve))
    if approve:
        assert run.result() == {"x": 2}
    else:
        with pytest.raises(ExecutionCancelled, match="gate was rejected by ada"):
            run.result()
    assert calls(run) == (["before", "after"] if approve else ["before"])


def test_a_decision_for_another_approval_changes_nothing(world: World) -> None:
    first, second = world.start(workflow(*GATED)), world.start(workflow(*GATED))
    (asked,) = second.children()
    asked.send("vote", Vote("ada", True))
    assert (first.status, second.status) == ("waiting_approval", "completed")
    first.send("vote", Vote("ada", True))
    assert first.status == "waiting_approval"


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=60)
def test_what_was_done_before_an_approval_is_not_done_again_wherever_it_is_killed(world: World) -> None:
    second = {"id": "again", "type": "approval", "prompt": "Really?"}
    run = world.start(workflow(*GATED, second, tool("end", x=3)))
    befall(world, run, Voted("gate"))
    befall(world, run, Voted("again"))
    assert run.result() == {"x": 3}
    assert calls(run) == ["before", "after", "end"]


def test_an_approval_is_called_the_same_after_any_crash(world: World) -> None:
    run = world.start(workflow(*GATED))
    before = [one.key for one in run.children()]
    for _ in range(3):
        world.crash()
    assert [one.key for one in run.children()] == before
    assert len({one.key for one in world.runs}) == 2
    befall(world, run, Voted("gate"))
    assert run.result() == {"x": 2}


def test_an_agent_s_message_is_its_content_its_message_or_its_goal(world: World) -> None:
    said: list[Any] = []
    does = {"agent_message": lambda config, input: said.append(config), "agent": lambda config, input: said.append(config)}
    steps = [{"type": "agent_message", "content": "a"}, {"type": "agent", "message": "b"}, {"type": "agent", "goal": "c"}]
    assert world.start(workflow(*steps, does=does)).status == "completed"
    assert [one.get("content") or one.get("prompt") for one in said] == ["a", "b", "c"]


def test_a_command_is_run_as_it_stands_and_has_its_values_from_its_environment(world: World) -> None:
    command = {"type": "bash", "command": "git log @{upstream} --author=a@@b {{stage}}", "env": {"STAGE": "{{stage}}"}}
    shell = {"bash": lambda config, input, env: [config, env]}
    run = world.start(workflow(command, does=shell, variables={"stage": "beta"}))
    assert run.result() == ["git log @{upstream} --author=a@@b {{stage}}", {"STAGE": "beta"}]


@pytest.mark.parametrize(("policy", "most"), [({}, 50), ({"maxSteps": 60}, 60)])
def test_it_begins_fifty_steps_at_most_unless_its_policy_says_otherwise(world: World, policy: dict[str, int], most: int) -> None:
    steps = [tool(f"s{number}") for number in range(most + 1)]
    assert world.start(workflow(*steps[:most], runtime={"policy": policy}, slug="enough")).status == "completed"
    run = world.start(workflow(*steps, runtime={"policy": policy}))
    with pytest.raises(ExecutionFailed, match=f"more than {most} steps were started"):
        run.result()
    assert len(calls(run)) == most


def test_what_happens_is_told_in_events(world: World) -> None:
    does = {"BAD": lambda **_: 1 / 0}
    bad = {"id": "bad", "type": "tool", "tool": "BAD"}
    runs = [world.start(workflow(*GATED)), world.start(workflow(*GATED)), world.start(workflow(bad, slug="other", does=does))]
    befall(world, runs[0], Voted("gate"))
    befall(world, runs[1], Voted("gate", False))
    with pytest.raises(ExecutionFailed):
        runs[2].result()
    begin = ["execution.created", "execution.started"]
    before = ["step.started before", "step.completed before", "approval.required gate", "execution.waiting"]
    after = ["approval.approved gate", "step.started after", "step.completed after", "execution.completed"]
    told = [[f"{event.type} {event.subject}".strip() for event in run.events()] for run in runs]
    assert told[0] == [*begin, *before, *after]
    assert told[1] == [*begin, *before, "approval.rejected gate", "execution.cancelled"]
    assert told[2][-2:] == ["step.failed bad", "execution.failed"]


@pytest.mark.parametrize("kind", [*TYPES, "shell", "for_each", "", 5])
def test_every_type_of_the_seed_is_known_and_no_other(world: World, kind: Any) -> None:
    document = {"name": "x", "steps": [{"type": kind, **TYPES.get(kind, {})}]}
    if kind not in TYPES:
        with pytest.raises(BadDefinition, match="type"):
            Definition.of(document)
        return
    child = made({"perdure": 1, "name": "child", "steps": [{"id": "it", "return": 1}]})
    run = world.start(made(definition(Example("", document, False, "")), {"ECHO": given}, (child,)))
    if kind == "approval":
        befall(world, run, Voted("step[0]"))
    assert run.status == "completed"
