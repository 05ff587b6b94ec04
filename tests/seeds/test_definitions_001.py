"""Seed 001, what it says of definitions, as definitions that compile. It shows none itself."""

from typing import Any

import pytest

from perdure.dialects import read_foreign
from tests.seeds.definitions import definition, ir, step
from tests.seeds.examples import Example
from tests.seeds.examples_of_001 import EXAMPLES

MISSING = ("missing_field", "/steps/0/else/0/steps/0/type")
NAMED = {example.name: example for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_example_compiles_in_the_order_of_its_list(example: Example) -> None:
    compiled = ir(example)
    assert compiled.dialect == "nested_steps"
    assert compiled.order == "listed"


def test_steps_without_an_id_are_called_by_their_path() -> None:
    nodes = ir(NAMED["001_conditional"]).nodes
    assert [node.id for node in nodes][:4] == ["gate", "step[0].then[0]", "step[0].then[0]_set", "step[0].else[0]"]


def test_a_command_has_two_minutes_and_never_more_than_ten() -> None:
    made = definition(NAMED["001_step_types"])
    assert step(made, "step[0]") == {"bash": "echo hello", "timeout": 120}
    assert step(made, "step[1]") == {"bash": "pwd", "timeout": 120}
    found = read_foreign({"name": "x", "steps": [{"type": "bash", "command": "true", "timeout": 3600}]})
    assert found
    assert found.document["steps"][0]["timeout"] == 600
    assert [one.code for one in found.findings] == ["too_long"]


def test_what_a_step_stores_is_its_result_and_the_output_of_the_workflow() -> None:
    made = definition(NAMED["001_step_types"])
    assert step(made, "step[2]")["with"] == {"text": '@steps["step[0]"].output.data.stdout'}
    assert step(made, "step[3]")["agent"] == {"prompt": 'Look at @{steps["step[0]"].output.data.stdout}'}
    assert made["output"] == {"said": '@steps["step[0]"].output.data'}


def test_what_several_steps_store_is_a_variable_that_is_set() -> None:
    made = definition(NAMED["001_conditional"])
    assert made["vars"] == {"chosen": None}
    assert made["output"] == {"chosen": "@vars.chosen"}
    assert step(made, "gate")["then"][1] == {"id": "step[0].then[0]_set", "set": {"chosen": '@steps["step[0].then[0]"].output.data'}}


def test_loops_go_over_items_a_count_of_turns_or_as_long_as_a_condition_holds() -> None:
    made = definition(NAMED["001_loops"])
    assert step(made, "step[0]")["each"] == {"in": "@input.files", "concurrency": 1, "as": "file"}
    assert step(made, "step[0]")["do"][0]["with"] == {"file": "@file", "n": "@index"}
    assert step(made, "step[1]")["repeat"] == {"until": {"ref": "@index", "gte": 2}, "max": 3}
    assert step(made, "step[2]")["repeat"] == {"until": {"expr": "index + 1 >= input.times"}, "max": 50}
    condition = {"ref": "@vars.counted.turn?", "lt": 1}
    assert (step(made, "step[3]")["when"], step(made, "step[3]")["repeat"]) == (condition, {"while": condition, "max": 4})


def test_a_subworkflow_is_called_in_its_version_and_limits_are_read() -> None:
    made = definition(NAMED["001_subworkflow"])
    assert step(made, "step[0]") == {"call": "child@^1", "with": {"x": 1}}
    assert (made["name"], made["limits"], made["allow"]) == ("parent", {"max_steps": 10}, {"self_edit": True})
    assert definition(NAMED["001_parallel"])["limits"] == {"max_steps": 50}


def test_triggers_and_the_row_of_the_table_are_read() -> None:
    assert definition(NAMED["001_triggers"])["triggers"] == [
        {"name": "hook", "webhook": {"path": "release", "method": "POST", "map": {"branch": "$.ref"}}},
        {"name": "night", "schedule": {"cron": "0 3 * * *"}},
        {"name": "hand", "manual": {}},
    ]
    made = definition(NAMED["001_row"])
    assert (made["name"], made["version"], made["tags"], made["ui"]) == ("nightly", "1.0.3", ["ops"], {"name": "Nightly"})


@pytest.mark.parametrize(
    ("document", "code", "pointer"),
    [
        ({"name": "x", "variables": {}, "steps": []}, "no_steps", "/steps"),
        ({"steps": [{"type": 5}]}, "missing_field", "/steps/0/type"),
        ({"steps": [{"type": "agent_message"}]}, "missing_field", "/steps/0/content"),
        ({"steps": [{"type": "agent_message", "content": "x", "interrupt": "yes"}]}, "wrong_type", "/steps/0/interrupt"),
        ({"steps": [{"type": "agent_message", "content": "x", "await_response": 1}]}, "wrong_type", "/steps/0/await_response"),
        ({"steps": [{"type": "agent_message", "content": "x", "await_timeout_ms": 999}]}, "wrong_type", "/steps/0/await_timeout_ms"),
        ({"steps": [{"type": "conditional", "condition": True, "then": {}}]}, "wrong_type", "/steps/0/then"),
        (
            {"steps": [{"type": "conditional", "condition": True, "else": [{"type": "loop", "count": 1, "steps": [{}]}]}]},
            "missing_field",
            "/steps/0/else/0/steps/0/type",
        ),
        ({"steps": [{"type": "shell", "command": "x"}]}, "unknown_type", "/steps/0/type"),
        ({"steps": [{"type": "subworkflow", "workflowId": "py:os.system"}]}, "bad_workflow", "/steps/0/workflowId"),
    ],
)
def test_what_the_validator_of_the_seed_refuses_is_an_error(document: dict[str, Any], code: str, pointer: str) -> None:
    found = read_foreign(document)
    assert found
    assert (code, "error", pointer) in [(one.code, one.severity, one.pointer) for one in found.findings]
