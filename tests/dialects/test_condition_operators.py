"""Operators of conditions in dialects: the native ones mean what they mean in native conditions, and an unknown one is never left out."""

from typing import Any

import pytest

from perdure.definitions.expr.condition import AGGREGATES, CONDITION_KEYS, OF_NOTHING, QUANTIFIERS
from perdure.definitions.format.validator import definition_findings
from perdure.dialects import read_foreign

MANY = {*AGGREGATES, *QUANTIFIERS}
RIGHT: dict[str, Any] = {"in": [1, 2], "matches": {"type": "integer"}, "matches_re": "^a", "contains": "x", "starts_with": "a", "ends_with": "z"}
RIGHT |= dict.fromkeys(OF_NOTHING, True) | {name: {"gt": 1} for name in MANY}
TOOL = {"type": "tool", "tool": "T"}


def ref_dag(operator: str, value: Any) -> dict[str, Any]:
    when = {"ref": "@first.x", operator: value}
    return {"title": "x", "steps": [{"name": "first", "action": {"toolName": "T"}}, {"name": "b", "action": {"toolName": "T"}, "when": when}]}


def nested(operator: str, value: Any) -> dict[str, Any]:
    condition = {"variable": "first.x", operator: value}
    return {"name": "x", "steps": [{"id": "first", **TOOL}, {"type": "conditional", "condition": condition, "then": [TOOL]}]}


def token_graph(operator: str, value: Any) -> dict[str, Any]:
    condition = {"type": "jsonpath", "query": "$.x", "operator": operator, "value": value}
    nodes = [{"id": one, "type": "task", "config": {"action": "T"}} for one in ("first", "b")]
    return {"nodes": nodes, "edges": [{"from": "first", "to": "b", "condition": condition}]}


MADE = {"ref_dag": (ref_dag, "/steps/1/when/"), "nested_steps": (nested, "/steps/1/condition/"), "token_graph": (token_graph, "/edges/0/condition/operator")}


def row_of(found: Any, dialect: str) -> Any:
    step = found.document["steps"][0 if dialect == "token_graph" else 1]
    return step["next"][0]["when"] if dialect == "token_graph" else step["if" if dialect == "nested_steps" else "when"]


@pytest.mark.parametrize("operator", sorted(CONDITION_KEYS))
@pytest.mark.parametrize("dialect", MADE)
def test_every_native_operator_is_one_of_every_dialect(dialect: str, operator: str) -> None:
    value = RIGHT.get(operator, 1)
    found = read_foreign(MADE[dialect][0](operator, value))
    assert found is not None and found.findings == ()
    row = row_of(found, dialect)
    assert row == {"ref": row["ref"], operator: value}
    assert definition_findings(found.document) == []


@pytest.mark.parametrize("operator", ["gtee", "equall", "exist", "containz", "__proto__", "$gt", "%"])
@pytest.mark.parametrize("dialect", MADE)
def test_an_unknown_operator_is_an_error_at_its_place(dialect: str, operator: str) -> None:
    make, pointer = MADE[dialect]
    found = read_foreign(make(operator, 1))
    assert found is not None
    (finding,) = found.findings
    assert (finding.severity, finding.code, finding.pointer) == ("error", "unknown_operator", pointer if dialect == "token_graph" else pointer + operator)
    assert "did you mean" in finding.message or "there are" in finding.message
    if operator in ("gtee", "exist"):
        assert finding.suggestion in ("gte", "exists")


@pytest.mark.parametrize(("written", "native"), [("equals", "eq"), ("greater_than_or_equal", "gte"), ("startsWith", "starts_with"), ("isEmpty", "empty")])
def test_nested_steps_have_their_own_names_for_operators_too(written: str, native: str) -> None:
    found = read_foreign(nested(written, True))
    assert found is not None and not found.findings and row_of(found, "nested_steps")[native] is True


@pytest.mark.parametrize(
    "condition",
    [
        {"and": [{"variable": "first"}], "or": [{"variable": "first"}]},
        {"not": {"variable": "first"}, "equals": 1},
        {"all": [{"variable": "first", "equal": 1}]},
    ],
)
def test_a_group_holds_conditions_and_stands_alone(condition: dict[str, Any]) -> None:
    found = read_foreign({"name": "x", "steps": [{"id": "first", **TOOL}, {"type": "conditional", "condition": condition, "then": [TOOL]}]})
    assert found is not None and [(finding.severity, finding.code) for finding in found.findings] == [("error", "unknown_operator")]


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "jsonpath", "query": "$.x", "operater": ">", "value": 1},
        {"type": "jsonpath", "query": "$.x", "value": 1},
        {"type": "composite", "operatr": "OR", "conditions": ["true"]},
        {"type": "cross_node_comparison", "left": {"path": "x", "nod": "a"}, "operator": "==", "right": {"value": 1}},
    ],
)
def test_a_misspelt_field_of_a_token_graph_s_condition_is_an_error(condition: dict[str, Any]) -> None:
    document = token_graph("==", 1)
    document["edges"][0]["condition"] = condition
    found = read_foreign(document)
    assert found is not None and any(finding.severity == "error" for finding in found.findings)
