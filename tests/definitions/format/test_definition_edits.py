"""Changes of a definition: whole or not at all."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadDefinition
from perdure.definitions.format.definition_edits import apply_json_patch, apply_operations, patch_document, with_renamed_steps
from perdure.dialects.definition_reader import read_definition
from tests.definitions.format.examples import EXAMPLES

VECTORS = Path(__file__).parents[4] / "shared/data/vectors/json-patch"

PORTS: dict[str, Any] = {
    "perdure": 1,
    "name": "ports",
    "order": "ports",
    "steps": [
        {"id": "a", "tool": "A", "next": ["b"]},
        {"id": "b", "approve": {"title": "ok?"}, "next": {"approved": {"to": ["c"]}, "rejected": {"to": ["d"]}}},
        {"id": "c", "tool": "C", "with": "@a.x", "next": [{"when": {"ref": "@self.y"}, "to": ["d"]}]},
        {"id": "d", "tool": "D", "needs": ["c"], "join": "any"},
    ],
}
UNJOINED = {"op": "set", "id": "d", "path": "/join"}
"""What goes with the change that leaves one way to `d`."""
REFS: dict[str, Any] = {
    "perdure": 1,
    "name": "refs",
    "steps": [{"id": "a", "tool": "A"}, {"id": "b", "tool": "B", "with": "@a.x"}, {"id": "c", "if": True, "then": [{"id": "d", "tool": "D", "with": "@b"}]}],
}


def step(definition: dict[str, Any], id: str) -> dict[str, Any]:
    """A step at the top, by its id."""
    return next(one for one in definition["steps"] if one["id"] == id)


def refused(definition: dict[str, Any], *operations: Any) -> str:
    """Why operations are refused, all of them; and that nothing was changed."""
    before = copy.deepcopy(definition)
    with pytest.raises(BadDefinition) as raised:
        apply_operations(definition, list(operations))
    assert definition == before
    return str(raised.value)


def test_a_step_is_added_where_it_is_wanted() -> None:
    new = {"id": "n", "tool": "N"}
    assert [one["id"] for one in apply_operations(REFS, [{"op": "add_step", "step": new}])["steps"]] == ["a", "b", "c", "n"]
    assert [one["id"] for one in apply_operations(REFS, [{"op": "add_step", "step": new, "after": "a"}])["steps"]] == ["a", "n", "b", "c"]
    assert [one["id"] for one in apply_operations(REFS, [{"op": "add_step", "step": new, "before": "a"}])["steps"]] == ["n", "a", "b", "c"]
    assert [one["id"] for one in apply_operations(REFS, [{"op": "add_step", "step": new, "into": "c"}])["steps"][2]["then"]] == ["d", "n"]
    assert apply_operations(REFS, [{"op": "add_step", "step": new, "into": "c", "in": "else"}])["steps"][2]["else"] == [new]
    assert apply_operations(REFS, [{"op": "add_step", "step": {"tool": "N"}}])["steps"][3] == {"id": "tool_1", "tool": "N"}


def test_edges_are_connected_and_disconnected() -> None:
    assert step(apply_operations(PORTS, [{"op": "connect", "from": "a", "to": "c"}]), "a")["next"] == ["b", "c"]
    assert step(apply_operations(PORTS, [{"op": "connect", "from": "a", "to": "d", "port": "error"}]), "a")["next"] == {
        "success": {"to": ["b"]},
        "error": {"to": ["d"]},
    }
    assert step(
        apply_operations(PORTS, [{"op": "connect", "from": "d", "to": "a", "port": "error"}, {"op": "set", "id": "d", "path": "/next/error/max", "value": 3}]),
        "d",
    )["next"] == {"error": {"to": ["a"], "max": 3}}
    assert step(apply_operations(PORTS, [{"op": "disconnect", "from": "b", "to": "d"}, UNJOINED]), "b")["next"] == {"approved": {"to": ["c"]}}
    assert step(apply_operations(PORTS, [{"op": "disconnect", "from": "b", "to": "d", "port": "rejected"}, UNJOINED]), "b")["next"] == {
        "approved": {"to": ["c"]}
    }
    assert step(apply_operations(REFS, [{"op": "connect", "from": "a", "to": "c"}]), "c")["needs"] == ["a"]
    assert "needs" not in step(
        apply_operations(apply_operations(REFS, [{"op": "connect", "from": "a", "to": "c"}]), [{"op": "disconnect", "from": "a", "to": "c"}]), "c"
    )


@pytest.mark.parametrize(
    ("definition", "operation", "why"),
    [
        (PORTS, {"op": "remove_step", "id": "b"}, "steps[0] (a): next names 'b', which is not a step"),
        (REFS, {"op": "remove_step", "id": "a"}, "steps[0] (b): '@a' is not a step or a root"),
        (REFS, {"op": "add_step", "step": {"id": "a", "tool": "A"}}, "steps[3] (a): steps[0] has this id as well"),
        (REFS, {"op": "add_step", "step": {"id": "n", "tol": "A"}}, "steps[3] (n): 'tol' is not a field of a step; did you mean 'tool'?"),
        (REFS, {"op": "add_step", "step": 5}, "[0] (add_step): 'step' is missing, a mapping"),
        (REFS, {"op": "add_step", "step": {"tool": "T"}, "after": "z"}, "[0] (add_step): 'after' names 'z', which is not a step"),
        (REFS, {"op": "add_step", "step": {"tool": "T"}, "into": "a"}, "[0] (add_step): 'in' is the field of the block"),
        (REFS, {"op": "add_step", "step": {"tool": "T"}, "into": "c", "in": "tool"}, "[0] (add_step): 'in' is the field of the block"),
        (PORTS, {"op": "connect", "from": "a", "to": "b"}, "[0] (connect): this edge to or from"),
        (PORTS, {"op": "connect", "from": "c", "to": "a"}, "[0] (connect): 'c' continues by rules; set its /next instead"),
        (PORTS, {"op": "connect", "from": "d", "to": "a"}, "a cycle without a bound"),
        (PORTS, {"op": "connect", "from": "a", "to": "c", "port": "sucess"}, "tool has no port 'sucess'"),
        (REFS, {"op": "connect", "from": "a", "to": "c", "port": "error"}, "[0] (connect): 'port' needs 'order: ports' in the definition; leave 'port' out"),
        (REFS, {"op": "connect", "from": "c", "to": "a"}, "is a cycle without a bound"),
        (PORTS, {"op": "disconnect", "from": "b", "to": "d"}, "1 path leads to 'd'; remove join"),
        (PORTS, {"op": "disconnect", "from": "a", "to": "c"}, "[0] (disconnect): there is no such edge from 'a' to 'c'"),
        (REFS, {"op": "rename", "id": "a", "to": "b"}, "[0] (rename): there is a step 'b' already"),
        (REFS, {"op": "rename", "id": "a", "to": "input"}, "'input' is a root"),
        (REFS, {"op": "rename", "id": "a"}, "[0] (rename): 'to' is missing, the new id"),
        (REFS, {"op": "move", "id": "c", "into": "c"}, "[0] (move): 'c' can't be moved beside or into itself"),
        (REFS, {"op": "move", "id": "c", "after": "d"}, "[0] (move): 'c' can't be moved beside or into itself"),
        (REFS, {"op": "set", "id": "a", "path": "/tool"}, "a step does exactly one thing; found nothing"),
        (REFS, {"op": "set", "id": "a", "path": "/with/x"}, "[0] (set): there is nothing at /with/x"),
        (REFS, {"op": "set", "id": "a", "path": "with"}, "[0] (set): 'path' is missing, a JSON pointer"),
        (REFS, {"op": "set", "path": "/steps/9/tool", "value": "x"}, "[0] (set): there is nothing at /steps/9/tool"),
        (REFS, {"op": "set", "path": "/steps", "value": 5}, "steps: expected a list of at least one step, found 5"),
        (REFS, {"op": "remove", "id": "a"}, "[0] (remove): there is no such operation"),
        (REFS, {}, "[0] (None): there is no such operation"),
        (REFS, 5, "a change is a list of operations"),
        (REFS, {"op": "set", "path": "/x", "value": float("nan")}, "a number is finite"),
    ],
)
def test_what_would_not_be_valid_is_refused_whole(definition: dict[str, Any], operation: Any, why: str) -> None:
    assert why in refused(definition, {"op": "set", "path": "/description", "value": "changed"}, operation).replace("[1] (", "[0] (")


def test_what_dangles_in_between_may_be_mended_in_the_same_change() -> None:
    operations = [
        {"op": "remove_step", "id": "b"},
        {"op": "disconnect", "from": "a", "to": "b"},
        {"op": "connect", "from": "a", "to": "c"},
        UNJOINED,
    ]
    assert [one["id"] for one in apply_operations(PORTS, operations)["steps"]] == ["a", "c", "d"]


def test_an_operation_takes_sugar_that_one_before_it_has_set() -> None:
    found = apply_operations(PORTS, [{"op": "set", "id": "a", "path": "/next", "value": "c"}, {"op": "connect", "from": "a", "to": "b"}])
    assert step(found, "a")["next"] == ["c", "b"]
    assert "steps[0].next" in refused(PORTS, {"op": "set", "id": "a", "path": "/next", "value": {"x": 5}}, {"op": "connect", "from": "a", "to": "b"})


def test_a_renamed_step_is_followed_by_all_that_refers_to_it() -> None:
    text = """
perdure: 1
name: x
order: ports
steps:
  - {id: old, tool: T, next: {success: user, error: [other]}}
  - id: user
    tool: T
    when: {all: [{ref: "@old.ok"}, {ref: "$.old.data", eq: "@old"}, {expr: "old.x > 1 && steps['old'].y == 'old' && steps.old.z && other.old == 1"}]}
    with: {a: "@old.b", b: "x @{old.c} @{older} @old", c: "@@old", d: ["@steps.old.output.meta", '@steps["old"].output.port', "@older.old"], old: "@input.old"}
    repeat: {until: {ref: "$.old"}, max: 3, on_max: old}
    needs: [old]
    next: [{when: {expr: "self.old"}, to: [other], max: 2, on_max: old}]
  - {id: other, tool: T, next: {error: {to: old, max: 5}}}
  - {id: older, agent: x, next: {choose: [old, other], default: old}}
"""
    from perdure.definitions.format.canonical_form import canonical_document
    from perdure.definitions.format.document_parser import parse_document

    document = canonical_document(parse_document(text).document)
    before = copy.deepcopy(document)
    found = {one["id"]: one for one in with_renamed_steps(document, {"old": "new-one"})["steps"]}
    assert document == before
    assert list(found) == ["new-one", "user", "other", "older"]
    user = found["user"]
    assert user["when"]["all"] == [
        {"ref": "@new-one.ok"},
        {"ref": '$["new-one"].data', "eq": "@new-one"},
        {"expr": 'steps["new-one"].x > 1 && steps["new-one"].y == \'old\' && steps["new-one"].z && other.old == 1'},
    ]
    assert user["with"] == {
        "a": "@new-one.b",
        "b": "x @{new-one.c} @{older} @old",
        "c": "@@old",
        "d": ["@steps.new-one.output.meta", '@steps["new-one"].output.port', "@older.old"],
        "old": "@input.old",
    }
    assert user["repeat"] == {"until": {"ref": "$.old"}, "max": 3, "on_max": "new-one"}
    assert user["needs"] == ["new-one"]
    assert user["next"] == [{"when": {"expr": "self.old"}, "to": ["other"], "max": 2, "on_max": ["new-one"]}]
    assert found["other"]["next"] == {"error": {"to": ["new-one"], "max": 5}}
    assert found["older"]["next"] == {"choose": ["new-one", "other"], "default": ["new-one"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_renaming_there_and_back_changes_nothing(name: str) -> None:
    found = read_definition(EXAMPLES[name]).canonical
    for one in found["steps"]:
        there = apply_operations(found, [{"op": "rename", "id": one["id"], "to": "quite_another"}])
        assert apply_operations(there, [{"op": "rename", "id": "quite_another", "to": one["id"]}]) == found


def test_a_patch_changes_the_canonical_form() -> None:
    found = apply_json_patch(
        PORTS, [{"op": "replace", "path": "/steps/0/tool", "value": "B"}, {"op": "add", "path": "/steps/-", "value": {"id": "e", "sleep": "1m"}}]
    )
    assert (found["steps"][0]["tool"], found["steps"][4]) == ("B", {"id": "e", "sleep": 60})


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ([{"op": "remove", "path": "/steps/1"}], "steps[0] (a): next names 'b', which is not a step"),
        ([{"op": "remove", "path": "/steps/9"}], "[0] (remove): the operation can't be applied"),
        ([{"op": "test", "path": "/name", "value": "other"}], "[0] (test): the operation can't be applied"),
        ([{"op": "frobnicate", "path": "/name"}], "[0] (frobnicate): the operation can't be applied"),
        ([{"op": "replace", "path": "", "value": [1]}], "a definition is a mapping"),
        ({"op": "remove"}, "a change is a list of operations"),
        ([{"op": "test", "path": "/name", "value": "ports"}] * 1001, "a change has 1000 operations at most, this one 1001"),
        (
            [{"op": "add", "path": "/x", "value": [1] * 20}, *([{"op": "copy", "from": "/x", "path": "/x/-"}] * 16)],
            "(copy): the document would hold more than 250,000 values",
        ),
    ],
)
def test_a_patch_that_leaves_something_invalid_is_refused(patch: Any, why: str) -> None:
    before = copy.deepcopy(PORTS)
    with pytest.raises(BadDefinition) as raised:
        apply_json_patch(PORTS, patch)
    assert why in str(raised.value)
    assert before == PORTS


NEXTS = st.sampled_from(["b", ["b", 5], {"x": {"max": 3}}, {"success": "b"}, [{"to": 5}, 5], [5, {}], {"choose": "b"}, {"choose": ["b"], "default": 5}, {}, 5])
POINTERS = st.sampled_from(
    [
        "",
        "/",
        "/next",
        "/needs",
        "/steps",
        "/steps/0",
        "/steps/-",
        "/steps/0/next",
        "/steps/1/next/approved",
        "/steps/99",
        "/name",
        "/a~1b",
        "steps",
        "/steps/0/tool/x",
    ]
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "set", "connect", "disconnect", "add_step", "remove_step", "rename", "x"])},
    optional={
        "path": POINTERS | st.none(),
        "from": POINTERS | st.sampled_from("abcd"),
        "value": NEXTS | st.none() | st.integers() | POINTERS | st.lists(st.integers()) | st.dictionaries(st.sampled_from("ab"), st.integers()),
        "id": st.sampled_from("abcdz"),
        "to": st.sampled_from("abcdz"),
        "after": st.sampled_from("abcdz"),
        "into": st.sampled_from("abcdz"),
        "in": st.sampled_from(["do", "then", "on_error", "x"]),
        "port": st.sampled_from(["success", "error", "approved", "x"]),
        "step": st.just({"id": "n", "tool": "N"}) | st.none(),
    },
)


@pytest.mark.slow
@given(st.lists(OPERATIONS, max_size=4), st.sampled_from([PORTS, REFS]))
@settings(deadline=None)
def test_whatever_is_asked_for_gives_a_valid_definition_or_is_refused(operations: list[Any], definition: dict[str, Any]) -> None:
    before = copy.deepcopy(definition)
    for change in (apply_operations, apply_json_patch):
        try:
            found = change(definition, operations)
        except BadDefinition:
            continue
        finally:
            assert definition == before
        assert read_definition(found).canonical == found


def cases() -> list[Any]:
    files = sorted(VECTORS.glob("*.json"))
    return [case for file in files for case in json.loads(file.read_text()) if "doc" in case and not case.get("disabled")]


@pytest.mark.real
@pytest.mark.skipif(not VECTORS.exists(), reason="the vectors are not at hand")
def test_patches_do_what_the_vectors_of_rfc_6902_say() -> None:
    assert len(cases()) > 90
    for case in cases():
        before = copy.deepcopy(case["doc"])
        if "error" in case:
            with pytest.raises(BadDefinition):
                patch_document(case["doc"], case["patch"])
        else:
            assert patch_document(case["doc"], case["patch"]) == case.get("expected", case["doc"]), case
        assert case["doc"] == before
