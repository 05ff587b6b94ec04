"""Which dialect a document is in is seen from its shape alone."""

from typing import Any

import pytest

from perdure.programs.format.dialects import detected, read


@pytest.mark.parametrize(
    ("document", "dialect"),
    [
        ({"perdure": 1, "name": "x", "steps": [{"id": "a", "tool": "T"}]}, None),
        ({"perdure": 1, "nodes": [], "stepsConfig": []}, None),
        ({"title": "x", "steps": []}, "000"),
        ({"steps": [{"name": "a", "action": {"toolName": "T"}}]}, "000"),
        ({"input_schema": {}, "steps": []}, "000"),
        ({"steps": [{"type": "bash", "command": "true"}]}, "001"),
        ({"steps": [], "constraints": {}}, "001"),
        ({"slug": "x", "data": "{}"}, "001"),
        ({"workflowConfig": {}, "stepsConfig": []}, "003"),
        ({"steps": [{"stepSlug": "a", "stepType": "start", "type": "x"}]}, "003"),
        ({"nodes": [], "edges": []}, "004"),
        ({"nodes": {"a": {}}}, "004"),
        ({"steps": [{"id": "a", "tool": "T"}]}, None),
        ({"steps": "x"}, None),
        ({}, None),
        ([], None),
        ("title", None),
        (None, None),
    ],
)
def test_a_document_is_known_by_its_shape(document: Any, dialect: str | None) -> None:
    assert detected(document) == dialect
    found = read(document)
    assert (found.dialect if found else None) == dialect


def test_a_document_that_nests_too_deep_is_refused_as_a_whole() -> None:
    inner: Any = {"type": "bash", "command": "true"}
    for _ in range(60):
        inner = {"type": "parallel", "steps": [inner]}
    found = read({"steps": [inner]})
    assert found
    assert [one.code for one in found.findings] == ["too_deep"]


def test_a_workflow_without_a_name_is_called_what_the_reader_says() -> None:
    found = read({"nodes": [{"id": "a"}]}, name="mine")
    assert found
    assert found.document["name"] == "mine"
    found = read({"nodes": [{"id": "a"}], "metadata": {"name": "a/b@c: d"}}, name="mine")
    assert found
    assert found.document["name"] == "a b c d"
