"""The difference of two definitions, by the ids of their steps."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.definitions.format.canonical_form import definition_hash
from perdure.definitions.format.definition_diff import definition_changes, render_changes
from perdure.definitions.format.definition_edits import apply_operations
from perdure.dialects.definition_reader import read_definition
from tests.definitions.format.examples import EXAMPLES

BASE: dict[str, Any] = {
    "perdure": 1,
    "name": "base",
    "order": "listed",
    "steps": [
        {"id": "first", "tool": "A", "with": {"x": 1, "y": [1, 2]}},
        {"id": "second", "tool": "B", "with": "@first.out"},
        {"id": "gate", "if": {"ref": "@second.ok"}, "then": [{"id": "inner", "tool": "C", "timeout": 10}], "else": [{"id": "other", "tool": "D"}]},
        {"id": "final", "tool": "E", "with": "@{inner.x} @inner"},
    ],
}


def change(*operations: dict[str, Any]) -> list[str]:
    """What is told of the base and what operations make of it, line by line."""
    base = read_definition(BASE).canonical
    return render_changes(definition_changes(base, apply_operations(base, list(operations)))).splitlines()


@pytest.mark.parametrize(
    ("operation", "lines"),
    [
        ({"op": "set", "id": "first", "path": "/with/x", "value": 2}, ["~ first: with.x: 1 -> 2"]),
        ({"op": "set", "id": "first", "path": "/with/y/1", "value": 3}, ["~ first: with.y.1: 2 -> 3"]),
        ({"op": "set", "id": "first", "path": "/with/y", "value": [1]}, ["~ first: with.y: [1, 2] -> [1]"]),
        ({"op": "set", "id": "first", "path": "/retry/max", "value": 5}, ['~ first: retry: added {"max": 5}']),
        ({"op": "set", "id": "inner", "path": "/timeout"}, ["~ inner: timeout: removed 10"]),
        ({"op": "set", "path": "/limits/deadline", "value": "1h"}, ['~ limits: added {"deadline": 3600}']),
        ({"op": "set", "path": "/version", "value": "1.1.0"}, ['~ version: added "1.1.0"']),
        ({"op": "add_step", "step": {"id": "new", "tool": "N"}, "after": "first"}, ["+ new (tool N) at /steps/1"]),
        ({"op": "remove_step", "id": "other"}, ["- other (tool D)"]),
        ({"op": "rename", "id": "inner", "to": "core"}, ["= inner is now called core"]),
        ({"op": "move", "id": "other", "into": "gate", "in": "then"}, ["> other moved from gate.else, first to gate.then after inner"]),
        ({"op": "set", "id": "first", "path": "/ui", "value": {"x": 1}}, []),
    ],
)
def test_a_change_is_told_in_one_line(operation: dict[str, Any], lines: list[str]) -> None:
    assert change(operation) == lines


def test_a_new_order_is_told_by_as_few_moves_as_explain_it() -> None:
    before, after = ({"perdure": 1, "name": "x", "order": "listed", "steps": [{"id": id, "tool": "T"} for id in ids]} for ids in ("abcdef", "bcdaef"))
    assert render_changes(definition_changes(before, after)) == "> a moved from steps, first to steps after d"


def test_a_renamed_step_that_changed_a_little_is_the_same_step() -> None:
    told = change({"op": "rename", "id": "first", "to": "begin"}, {"op": "set", "id": "begin", "path": "/with/x", "value": 9})
    assert told == ["= first is now called begin", "~ begin: with.x: 1 -> 9"]


def test_a_step_of_another_kind_is_another_step() -> None:
    told = change({"op": "remove_step", "id": "other"}, {"op": "add_step", "step": {"id": "nap", "sleep": 5}, "into": "gate", "in": "else"})
    assert told == ["- other (tool D)", "+ nap (sleep) at /steps/2/else/0"]


def test_the_difference_is_data() -> None:
    base = read_definition(BASE).canonical
    (told,) = definition_changes(base, apply_operations(base, [{"op": "set", "id": "first", "path": "/with/x", "value": None}]))
    assert msgspec.to_builtins(told) == {"kind": "changed", "id": "first", "pointer": "/steps/0/with/x", "field": "/with/x", "before": 1, "after": None}


@pytest.mark.parametrize("name", EXAMPLES)
def test_there_is_no_difference_to_itself(name: str) -> None:
    found = read_definition(EXAMPLES[name]).canonical
    assert definition_changes(found, copy.deepcopy(found)) == []


def test_many_steps_are_compared_quickly() -> None:
    before = {"perdure": 1, "name": "x", "steps": [{"id": f"a{n}", "tool": "T", "with": n} for n in range(1000)]}
    after = {"perdure": 1, "name": "x", "steps": [{"id": f"b{n}", "tool": "T", "with": n} for n in range(1000)]}
    assert {one.kind for one in definition_changes(before, after)} == {"added", "removed"}


STEPS = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from("abcdef"), "tool": st.sampled_from("TU")}, optional={"with": st.integers(0, 2), "timeout": st.integers(1, 2)}),
    max_size=5,
    unique_by=lambda step: step["id"],
)
TREES = st.builds(
    lambda steps, inner: [*steps, {"id": "block", "do": [{**step, "id": f"in_{step['id']}"} for step in inner]}] if inner else steps, STEPS, STEPS
)


@pytest.mark.slow
@given(TREES, TREES)
@settings(deadline=None)
def test_nothing_is_told_exactly_if_the_hashes_are_equal(one: list[Any], other: list[Any]) -> None:
    before, after = ({"perdure": 1, "name": "x", "steps": steps} for steps in (one, other))
    assert (definition_changes(before, after) == []) == (definition_hash(before) == definition_hash(after))
