"""Seed 000, what it says of definitions: its examples, and each of its claims, as definitions that compile."""

import pytest

from perdure.dialects import read_foreign
from tests.seeds.definitions import definition, ir, step
from tests.seeds.examples import Example
from tests.seeds.examples_of_000 import EXAMPLES

NAMED = {example.name: example for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_example_compiles_in_the_order_of_its_references(example: Example) -> None:
    compiled = ir(example)
    assert compiled.dialect == "ref_dag"
    assert compiled.order == "refs"


def test_the_early_exit_returns_its_input_and_is_ordered_by_what_it_looks_at() -> None:
    made = definition(NAMED["000_early_exit"])
    assert step(made, "exit_if_invalid") == {"when": {"ref": "@validate.notOk", "eq": True}, "return": {"error": "@validate.error"}}
    assert step(made, "create_user") == {
        "when": {"ref": "@validate.ok", "eq": True},
        "tool": "CREATE_USER",
        "with": {"email": "@input.email"},
        "timeout": 30,
    }
    compiled = ir(NAMED["000_early_exit"])
    names = [node.id for node in compiled.nodes]
    assert {(names[edge.source], names[edge.target]) for edge in compiled.edges} == {("validate", "exit_if_invalid"), ("validate", "create_user")}


def test_the_four_conditions_are_rows_with_at_most_one_operator() -> None:
    rows = [step(definition(NAMED[f"000_when_{name}"]), "checked")["when"] for name in ("truthy", "eq", "gt", "neq")]
    assert rows == [
        {"ref": "@validate.eligible"},
        {"ref": "@validate.eligible", "eq": True},
        {"ref": "@fetch.count", "gt": 0},
        {"ref": "@classify.priority", "neq": "low"},
    ]


def test_references_are_whole_words_in_all_their_spellings() -> None:
    made = definition(NAMED["000_references"])
    assert step(made, "inputData")["with"] == {"first": "@get-user.rows[0][1]", "second": "@get-user.rows[1][0]"}
    assert step(made, "greet")["with"] == {
        "text": "@{get-user.id}, mail ops@example.com",
        "key": "@execution.id",
        "all": "@inputData",
        "gone": "@get-user.nobody",
    }
    assert made["input"] == {"user": {"type": "string"}, "limit": {"type": "integer", "default": 5}}


def test_a_failed_item_is_null_unless_the_step_says_that_it_fails() -> None:
    send = step(definition(NAMED["000_for_each"]), "send")
    assert send["each"] == {"in": "@input.contacts", "concurrency": 2, "on_error": "null"}
    assert (send["retry"], send["timeout"]) == ({"max": 1, "wait": 0.01}, 5)
    strict = {"title": "x", "steps": [{"name": "a", "action": {"toolName": "T"}, "forEach": {"ref": "@input.x"}, "config": {"onError": "fail"}}]}
    found = read_foreign(strict)
    assert found
    assert found.document["steps"][0]["each"] == {"in": "@input.x", "concurrency": 1, "on_error": "fail"}


def test_bail_returns_what_its_step_came_to_if_that_ran_and_its_condition_holds() -> None:
    made = definition(NAMED["000_bail"])
    assert step(made, "look_bail") == {"when": {"ref": "@look.done", "eq": True}, "return": "@look"}
    found = read_foreign({"title": "x", "steps": [{"name": "a", "action": {"toolName": "T"}, "when": {"ref": "@input.go"}, "bail": {"ref": "@a.done"}}]})
    assert found
    assert found.document["steps"][1] == {"id": "a_bail", "when": {"all": [{"ref": "@input.go"}, {"ref": "@a.done"}]}, "return": "@a"}


def test_tools_have_30_seconds_and_code_has_10() -> None:
    found = read_foreign({"title": "x", "steps": [{"name": "t", "action": {"toolName": "T", "transformCode": "x"}}, {"name": "c", "action": {"code": "y"}}]})
    assert found
    assert found.document["steps"] == [{"id": "t", "tool": "T", "transform": {"ts": "x"}, "timeout": 30}, {"id": "c", "ts": "y", "timeout": 10}]
