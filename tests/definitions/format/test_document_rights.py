"""Claims about the rights that a document has and another one had not."""

from typing import Any

import pytest

from perdure.definitions.format.document_rights import widened_rights
from perdure.dialects.definition_reader import read_definition

BASE: dict[str, Any] = {
    "perdure": 1,
    "name": "it",
    "limits": {"max_steps": 10},
    "steps": [
        {"id": "get", "http": {"url": "https://a.example/x", "headers": {"Authorization": "@secrets.TOKEN"}}},
        {"id": "run", "bash": "echo one"},
        {"id": "keep", "set": {"n": 1}},
    ],
}


def with_step(number: int, **fields: Any) -> dict[str, Any]:
    steps = [dict(one) for one in BASE["steps"]]
    steps[number] |= fields
    return {**BASE, "steps": steps}


def with_more(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**BASE, **fields, "steps": [*BASE["steps"], *steps]}


NESTED = {"id": "maybe", "if": "@vars.n", "then": [{"id": "inner", "bash": "rm -rf ."}]}
AGENT = {"id": "think", "agent": {"prompt": "Do", "tools": ["bash"]}}


@pytest.mark.parametrize(
    ("after", "rights"),
    [
        (BASE, ()),
        ({**BASE, "description": "other", "vars": {"n": 2}}, ()),
        (with_step(2, set={"n": 2}), ()),
        (with_step(1, name="Run it"), ()),
        ({**BASE, "steps": BASE["steps"][2:]}, ()),
        ({**BASE, "allow": {"self_edit": True}}, ("allow",)),
        ({**BASE, "triggers": [{"manual": {}}]}, ("triggers",)),
        ({**BASE, "limits": {"max_steps": 11}}, ("limits",)),
        ({name: value for name, value in BASE.items() if name != "limits"}, ("limits",)),
        (with_step(1, bash="echo two"), ("bash",)),
        (with_step(1, env={"A": "1"}), ("bash",)),
        (with_more({"id": "more", "bash": "echo one; curl b.example"}), ("bash",)),
        (with_more({**NESTED}, vars={"n": 1}), ("bash",)),
        (with_more(AGENT), ("bash",)),
        (with_step(0, http={"url": "https://a.example/y", "headers": {"Authorization": "@secrets.TOKEN"}}), ("secrets",)),
        (with_step(0, http={"url": "https://a.example/y"}), ()),
        (with_step(0, http={"url": "https://b.example/x"}), ("http",)),
        (with_step(0, http={"url": "https://b.example/x", "headers": {"Authorization": "@secrets.TOKEN"}}), ("secrets", "http")),
        (with_more({"id": "more", "http": {"url": "@vars.where"}}, vars={"where": "x"}), ("http",)),
        (with_more({"id": "more", "http": {"url": "https://@{vars.where}/x"}}, vars={"where": "x"}), ("http",)),
        ({**BASE, "vars": {"where": "https://b.example"}}, ("http",)),
        (with_more({"id": "more", "tool": "t", "undo": {"tool": "http", "with": {"url": "https://c.example"}}}), ("http",)),
        (with_more({"id": "more", "openapi": {"url": "https://a.example/openapi.json", "operation": "x"}}), ("http",)),
        (with_more({"id": "more", "openapi": {"file": "x.json", "operation": "x", "auth": "it"}}), ("secrets", "http")),
        (with_more({"id": "more", "agent": {"prompt": "Do", "tools": [{"openapi": "https://a.example/x", "operations": ["x"]}]}}), ("http",)),
        (with_more({"id": "more", "agent": {"prompt": "Do", "tools": ["openapi_action"]}}), ("http",)),
        (with_more({"id": "more", "tool": "t", "undo": {"tool": "openapi", "with": {"url": "https://a.example/x", "operation": "x"}}}), ("http",)),
        (with_more({"id": "more", "call": "py:os.system", "with": {"command": "ls"}}), ("imports",)),
        (with_more({"id": "more", "tool": "t", "undo": {"tool": "bash", "with": "echo"}}), ("bash",)),
    ],
)
def test_what_a_document_may_do_more_than_the_one_before_is_named(after: dict[str, Any], rights: tuple[str, ...]) -> None:
    before, now = (read_definition(one).canonical for one in (BASE, after))
    assert widened_rights(before, now) == rights


def test_of_a_new_definition_everything_counts() -> None:
    assert widened_rights({}, read_definition(BASE).canonical) == ("limits", "secrets", "bash", "http")


@pytest.mark.parametrize("field", ["bash", "http", "secrets"])
def test_a_right_that_is_moved_into_a_block_is_the_same_right(field: str) -> None:
    moved = {**BASE, "steps": [{"id": "all", "do": BASE["steps"]}]}
    assert field not in widened_rights(read_definition(BASE).canonical, read_definition(moved).canonical)
