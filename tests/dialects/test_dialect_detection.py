"""Which dialect a document is in is seen from its shape alone."""

from typing import Any

import pytest

from perdure.dialects import detected_dialect, read_foreign


@pytest.mark.parametrize(
    ("document", "dialect"),
    [
        ({"perdure": 1, "name": "x", "steps": [{"id": "a", "tool": "T"}]}, None),
        ({"perdure": 1, "nodes": [], "stepsConfig": []}, None),
        ({"title": "x", "steps": []}, "ref_dag"),
        ({"steps": [{"name": "a", "action": {"toolName": "T"}}]}, "ref_dag"),
        ({"input_schema": {}, "steps": []}, "ref_dag"),
        ({"steps": [{"type": "bash", "command": "true"}]}, "nested_steps"),
        ({"steps": [], "constraints": {}}, "nested_steps"),
        ({"slug": "x", "data": "{}"}, "nested_steps"),
        ({"workflowConfig": {}, "stepsConfig": []}, "port_graph"),
        ({"steps": [{"stepSlug": "a", "stepType": "start", "type": "x"}]}, "port_graph"),
        ({"nodes": [], "edges": []}, "token_graph"),
        ({"nodes": {"a": {}}}, "token_graph"),
        ({"steps": [{"id": "a", "tool": "T"}]}, None),
        ({"steps": "x"}, None),
        ({}, None),
        ([], None),
        ("title", None),
        (None, None),
    ],
)
def test_a_document_is_known_by_its_shape(document: Any, dialect: str | None) -> None:
    assert detected_dialect(document) == dialect
    found = read_foreign(document)
    assert (found.dialect if found else None) == dialect


def test_a_document_that_nests_too_deep_is_refused_as_a_whole() -> None:
    inner: Any = {"type": "bash", "command": "true"}
    for _ in range(60):
        inner = {"type": "parallel", "steps": [inner]}
    found = read_foreign({"steps": [inner]})
    assert found
    assert [one.code for one in found.findings] == ["too_deep"]


def test_a_workflow_without_a_name_is_called_what_the_reader_says() -> None:
    found = read_foreign({"nodes": [{"id": "a"}]}, name="mine")
    assert found
    assert found.document["name"] == "mine"
    found = read_foreign({"nodes": [{"id": "a"}], "metadata": {"name": "a/b@c: d"}}, name="mine")
    assert found
    assert found.document["name"] == "a b c d"
