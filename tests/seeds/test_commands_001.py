"""Seed 001, what it says of commands, with real ones: bash -lc, its time, its environment, its output, wherever it stands."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.definitions.graph.requirements import requirements_of
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.testing import Run, World
from tests.definitions.graph.semantics.table import Skip, Voted, befall
from tests.seeds.cases import given
from tests.seeds.definitions import definition
from tests.seeds.example import Example
from tests.seeds.examples_of_001 import EXAMPLES


def real(document: dict[str, Any], work: Path, does: Mapping[str, Callable[..., Any]] | None = None) -> Definition:
    """A definition of the seed whose commands are run; its tools say what they are given, and so do its agents."""
    read = definition(Example("", document, False, ""))
    needs = [one for one in requirements_of(Definition.of(read).ir) if one.name != "bash"]
    played = {what: {one.name: (does or {}).get(one.name, given) for one in needs if one.what == what} for what in ("tool", "kind")}
    return Definition.of(read, tools=played["tool"], kinds=played["kind"], deployment=Deployment(allowed=Allowed(bash=True), work=work))


def of(name: str) -> dict[str, Any]:
    """An example of the seed."""
    return next(one.document for one in EXAMPLES if one.name == name)


def started(world: World, work: Path, *steps: dict[str, Any], **fields: Any) -> Run[Any]:
    """An execution of these steps."""
    return world.start(real({"name": "some", "steps": list(steps), **fields}, work))


def test_the_example_of_its_types_runs_its_commands(world: World, tmp_path: Path) -> None:
    talk = {"agent": lambda config, input=None: config["prompt"], "agent_message": lambda config, input=None: "sent"}
    run = world.start(real(of("001_step_types"), tmp_path, talk))
    for event in (Skip("1h"), Voted("step[5]")):
        befall(world, run, event)
    said = run.result()["said"]
    assert (said["stdout"], said["exit_code"]) == ("hello\n", 0)
    pwd, echoed, asked = (run.step(f"step[{number}]").result for number in (1, 2, 3))
    assert Path(pwd["stdout"].strip()).is_relative_to(tmp_path)
    assert (echoed, asked) == ({"text": "hello\n"}, "Look at hello\n")


def test_a_row_of_its_table_runs_the_command_that_it_holds(world: World, tmp_path: Path) -> None:
    assert world.run(real(of("001_row"), tmp_path))["exit_code"] == 0


def test_a_command_knows_that_it_is_of_a_workflow_and_of_which_execution(world: World, tmp_path: Path) -> None:
    run = started(world, tmp_path, {"type": "bash", "command": 'echo "$IS_WORKFLOW_SESSION $WORKFLOW_ID $WORKFLOW_EXECUTION_ID"'}, slug="nightly")
    assert run.result()["stdout"] == "true nightly 1\n"


def test_a_command_has_its_variables_by_its_environment_and_an_at_is_an_at(world: World, tmp_path: Path) -> None:
    command = {"type": "bash", "command": 'echo "$STAGE {{stage}} @{upstream} a@@b"', "env": {"STAGE": "{{stage}}"}}
    assert started(world, tmp_path, command, variables={"stage": "beta; exit 1"}).result()["stdout"] == "beta; exit 1 {{stage}} @{upstream} a@@b\n"


def test_a_condition_reads_how_a_command_ended(world: World, tmp_path: Path) -> None:
    test = {"id": "test", "type": "bash", "command": "exit 3", "check": False, "outputVariable": "tested"}
    gate = {
        "type": "conditional",
        "condition": {"variable": "tested.exit_code", "equals": 0},
        "then": [{"type": "bash", "command": "echo good"}],
        "else": [{"type": "tool", "tool": "bash", "arguments": {"command": "echo bad"}, "outputVariable": "found"}],
    }
    assert started(world, tmp_path, test, gate).result()["found"]["stdout"] == "bad\n"


def test_commands_at_once_run_at_once(world: World, tmp_path: Path) -> None:
    def meets(mine: str, other: str) -> dict[str, Any]:
        return {"type": "bash", "command": f"touch {mine}; for i in $(seq 500); do test -e {other} && exit; sleep 0.01; done; exit 1", "outputVariable": mine}

    it = real({"name": "some", "steps": [{"type": "parallel", "steps": [meets("a", "b"), meets("b", "a")]}]}, tmp_path)
    result = it.with_(db="memory:").run()
    assert [result[name]["exit_code"] for name in "ab"] == [0, 0]


def test_output_is_cut_at_64k_characters(world: World, tmp_path: Path) -> None:
    found = started(world, tmp_path, {"type": "bash", "command": "printf 'é%.0s' $(seq 70000); seq 100000 >&2"}).result()
    for name, characters in (("stdout", 70_000), ("stderr", 588_895)):
        assert f"[... {characters - 65_536:,} characters left out ...]" in found[name] and len(found[name]) < 65_600
    assert found["truncated"]


def test_a_command_has_the_time_that_it_says_and_never_more_than_ten_minutes(tmp_path: Path) -> None:
    it = real({"name": "some", "steps": [{"type": "bash", "command": "sleep 60", "timeoutMs": 100, "retry": 1}]}, tmp_path)
    with pytest.raises(ExecutionFailed, match=r"(?i)timeout"):
        it.with_(db="memory:").run()
    steps = [{"type": "bash", "command": "true"}, {"type": "bash", "command": "true", "timeout": 3600}]
    assert [node.timeout_s for node in real({"name": "some", "steps": steps}, tmp_path).ir.nodes] == [120.0, 600.0]
