"""Patches in every form: of nodes and edges, of the canonical form, by id, alone or in the mapping that names the workflow."""

from typing import Any

import pytest

from perdure.core.errors import BadDefinition
from perdure.dialects.definition_reader import read_definition
from perdure.dialects.patched_definition import apply_patch, next_minor, patch_description

Document = dict[str, Any]

NODES: Document = {
    "nodes": [
        {"id": "process_data", "type": "task", "config": {"action": "process"}, "ui": {"x": 1}},
        {"id": "check", "type": "task", "config": {"action": "check", "of": "$nodes.process_data.rows"}, "retry": {"max_attempts": 2}},
        {"id": "report", "type": "task", "config": {"action": "report"}},
    ],
    "edges": [{"from": "process_data", "to": "check"}, {"from": "check", "to": "report", "condition": {"type": "cel", "expression": "output.bad * 2 > 4"}}],
    "metadata": {"name": "nightly", "version": "1.0.0", "allow": {"self_edit": True}},
}
MAIL = {"id": "send_email", "type": "task", "config": {"action": "email", "to": "ops@example.com", "about": "$nodes.process_data.rows"}}
MAILED: list[Document] = [
    {"op": "add", "path": "/nodes/-", "value": MAIL},
    {"op": "add", "path": "/edges/-", "value": {"from": "process_data", "to": "send_email"}},
]
STEPS: Document = {
    "perdure": 1,
    "name": "nightly",
    "version": "1.4.2",
    "order": "ports",
    "steps": [
        {"id": "process_data", "tool": "process", "next": {"success": "check", "error": "tell"}},
        {"id": "check", "tool": "check", "next": "report"},
        {"id": "report", "sleep": "1h", "ui": {"x": 1}},
        {"id": "tell", "tool": "tell"},
    ],
}


def steps(document: Document) -> dict[str, Document]:
    """The steps by their ids."""
    return {step["id"]: step for step in document["steps"]}


def patched(document: Document, patch: Any) -> Document:
    """What a patch makes of a document; what it was made of stays as it is."""
    before = read_definition(document)
    after = apply_patch(before.canonical, patch)
    assert before.canonical == read_definition(document).canonical
    return after


@pytest.mark.parametrize("patch", [MAILED, {"operations": MAILED}, {"workflow_tag": "main", "patch_spec": {"operations": MAILED, "description": "Tell them"}}])
def test_nodes_and_edges_are_added_to_a_document_of_nodes_in_every_form_of_a_patch(patch: Any) -> None:
    after = patched(NODES, patch)
    assert steps(after)["send_email"] == {"id": "send_email", "tool": "email", "with": {"to": "ops@example.com", "about": "@process_data.rows"}}
    assert steps(after)["process_data"]["next"] == ["check", "send_email"]
    assert (after["version"], after["allow"], after["dialect"]) == ("1.1.0", {"self_edit": True}, "token_graph")
    assert {id: steps(after)[id] for id in ("check", "report")} == {id: steps(read_definition(NODES).canonical)[id] for id in ("check", "report")}


def test_nodes_and_edges_of_a_document_are_changed_moved_and_removed() -> None:
    after = patched(
        NODES,
        [
            {"op": "test", "path": "/nodes/1/id", "value": "check"},
            {"op": "replace", "path": "/nodes/1/config/of", "value": "$nodes.process_data.columns"},
            {"op": "replace", "path": "/edges/1/condition/expression", "value": "output.bad > 7"},
            {"op": "remove", "path": "/edges/0"},
            {"op": "add", "path": "/edges/-", "value": {"from": "process_data", "to": "report"}},
            {"op": "remove", "path": "/nodes/1/retry"},
        ],
    )
    assert steps(after)["check"] == {
        "id": "check",
        "tool": "check",
        "with": {"of": "@process_data.columns"},
        "next": [{"when": {"ref": "@self.bad", "gt": 7}, "to": ["report"]}],
    }
    assert steps(after)["process_data"]["next"] == ["report"]
    gone = patched(NODES, [{"op": "remove", "path": "/nodes/2"}, {"op": "remove", "path": "/edges/1"}])
    assert list(steps(gone)) == ["process_data", "check"] and "next" not in steps(gone)["check"]


def test_the_steps_of_any_other_definition_are_nodes_too() -> None:
    node = {"id": "log", "tool": "log", "with": "@process_data"}
    edge = {"from": "tell", "to": "log"}
    after = patched(STEPS, [*MAILED, {"op": "add", "path": "/nodes/-", "value": node}, {"op": "add", "path": "/edges/-", "value": edge}])
    assert steps(after)["process_data"]["next"] == {"success": {"to": ["check", "send_email"]}, "error": {"to": ["tell"]}}
    assert (steps(after)["tell"]["next"], steps(after)["log"], steps(after)["report"]["ui"]) == (["log"], node, {"x": 1})
    assert after["version"] == "1.5.0" and "dialect" not in after
    changes = [
        {"op": "replace", "path": "/nodes/2/sleep", "value": "2h"},
        {"op": "remove", "path": "/nodes/1"},
        {"op": "remove", "path": "/edges/2"},
        {"op": "replace", "path": "/edges/0", "value": {"from": "process_data", "to": "report"}},
    ]
    after = patched(STEPS, changes)
    assert list(steps(after)) == ["process_data", "report", "tell"] and steps(after)["report"]["sleep"] == 7200
    assert steps(after)["process_data"]["next"] == {"error": {"to": ["tell"]}, "success": {"to": ["report"]}}
    listed = {**STEPS, "order": "refs", "steps": [{"id": "a", "tool": "a"}, {"id": "b", "tool": "b", "needs": "a"}, {"id": "c", "tool": "c"}]}
    after = patched(listed, [{"op": "remove", "path": "/edges/0"}, {"op": "add", "path": "/edges/-", "value": {"from": "b", "to": "c"}}])
    assert [step.get("needs") for step in after["steps"]] == [None, None, ["b"]]


@pytest.mark.parametrize("document", [NODES, STEPS])
@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ([{"op": "remove", "path": "/nodes/1"}], "check"),
        ([{"op": "add", "path": "/edges/-", "value": {"from": "check", "to": "nowhere"}}], "nowhere"),
        ([{"op": "remove", "path": "/nodes/9"}], "can't be applied"),
        ([{"op": "test", "path": "/nodes/0/id", "value": "another"}], "can't be applied"),
        ([{"op": "add", "path": "/nodes/-", "value": {"type": "task"}}], "id"),
        ([{"op": "add", "path": "/edges/-", "value": 3}], "edge"),
        ([{"op": "replace", "path": "/nodes", "value": 3}], "nodes"),
        ({"workflow_tag": "weekly", "patch_spec": {"operations": MAILED}}, "the patch is for the workflow 'weekly'"),
        ({"operations": MAILED, "why": "x"}, "not 'why'"),
        ({"patch_spec": {"description": "nothing"}}, "a list of operations"),
        ("add", "a list of operations"),
        ([3], "a list of operations"),
        ([{"op": "fly"}], "no such operation"),
    ],
)
def test_a_patch_that_leaves_something_invalid_is_refused_whole(document: Document, patch: Any, why: str) -> None:
    with pytest.raises(BadDefinition) as refused:
        patched(document, patch)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("patch", "version"),
    [
        ([{"op": "set", "id": "check", "path": "/with", "value": 1}], "1.5.0"),
        ([{"op": "add", "path": "/steps/1/with", "value": 1}], "1.5.0"),
        ([{"op": "replace", "path": "/version", "value": "3.0.0"}], "3.0.0"),
        ([{"op": "set", "path": "/version", "value": "3.0.0"}, {"op": "set", "id": "check", "path": "/with", "value": 1}], "3.0.0"),
        ([], "1.4.2"),
        ([{"op": "replace", "path": "/steps/1/tool", "value": "check"}], "1.4.2"),
    ],
)
def test_a_patch_raises_the_minor_version_unless_it_sets_one_or_changes_nothing(patch: Any, version: str) -> None:
    assert patched(STEPS, patch)["version"] == version


def test_versions_and_descriptions() -> None:
    assert [next_minor(version) for version in ("1.0.0", "0.9.7", "2.10.0-beta.1+x")] == ["1.1.0", "0.10.0", "2.11.0"]
    said: list[Any] = [[], {"description": "a"}, {"patch_spec": {"description": "b"}}, {"patch_spec": 3}]
    assert [patch_description(patch) for patch in said] == ["", "a", "b", ""]
    without = {name: value for name, value in STEPS.items() if name != "version"}
    assert patched(without, [{"op": "set", "id": "check", "path": "/with", "value": 1}])["version"] == "1.1.0"
