"""The one way in."""

import json
import subprocess
import sys
from typing import Any

import pytest

from perdure.core.errors import BadDefinition
from perdure.definitions.format import document_parser
from perdure.dialects.definition_reader import read_definition
from tests.definitions.format.examples import SIGNUP


def test_what_was_received_is_kept_beside_what_it_means() -> None:
    found = read_definition(SIGNUP)
    assert found.received == SIGNUP
    assert found.document["name"] == found.canonical["name"] == "signup"
    assert (found.dialect, found.findings) == ("", ())
    assert read_definition(SIGNUP.encode()).hash == read_definition(json.dumps(found.document)).hash == read_definition(found.document).hash == found.hash


def test_a_name_is_given_to_what_has_none() -> None:
    assert read_definition("perdure: 1\nsteps: [{id: a, sleep: 1}]", name="given").canonical["name"] == "given"
    assert read_definition("perdure: 1\nname: own\nsteps: [{id: a, sleep: 1}]", name="given").canonical["name"] == "own"
    with pytest.raises(BadDefinition, match="'name' is missing"):
        read_definition("perdure: 1\nsteps: [{id: a, sleep: 1}]")


def test_warnings_are_told_and_forbid_nothing() -> None:
    found = read_definition("perdure: 1\nname: a\norder: listed\nsteps:\n  - {id: a, return: 1}\n  - {id: b, tool: T}\n")
    assert [finding.severity for finding in found.findings] == ["warning"]
    assert found.findings[0].line == 6


def test_a_document_of_another_shape_is_read_by_its_dialect() -> None:
    found = read_definition({"title": "hello", "steps": [{"name": "first", "action": {"toolName": "T"}, "input": {"x": "@input.x"}}]})
    assert (found.dialect, found.canonical["dialect"], found.canonical["name"]) == ("ref_dag", "ref_dag", "hello")
    assert found.received["title"] == "hello"
    with pytest.raises(BadDefinition) as raised:
        read_definition('{"title": "hello",\n "steps": [\n {"name": "a", "action": {"toolName": "T"},\n "when": {"ref": "@input.a", "gt": 1, "lt": 2}}]}')
    assert raised.value.findings[0].line == 4


@pytest.mark.parametrize("given", ["", "null", "5", "[]", "a", b"\xff", None, 5, object()])
def test_what_is_no_definition_is_refused(given: object) -> None:
    with pytest.raises(BadDefinition):
        read_definition(given)


@pytest.mark.slow
def test_whoever_reads_no_definition_loads_no_library_for_it() -> None:
    libraries = ("ruamel", "jsonpatch", "jsonschema_rs", "cel_expr_python", "re2", "jsonpath")
    names = ("definition_edits", "formatter", "format_schema")
    modules = ", ".join(("perdure", "perdure.dialects.definition_reader", *(f"perdure.definitions.format.{name}" for name in names)))
    source = f"import sys, {modules}\nprint(sorted(set({libraries!r}) & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_definition_has_a_step() -> None:
    with pytest.raises(BadDefinition, match="steps: expected a list of at least one step, found an empty list"):
        read_definition("perdure: 1\nname: it\nsteps: []")


def test_where_things_stand_is_looked_for_only_if_something_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[str]()

    def positions(text: str) -> Any:
        found.append(text)
        return {}, []

    monkeypatch.setattr(document_parser, "json_positions", positions)
    assert read_definition('{"perdure": 1, "name": "it", "steps": [{"id": "a", "sleep": 1}]}').findings == ()
    assert found == []
    with pytest.raises(BadDefinition):
        read_definition('{"perdure": 1, "name": "it", "steps": [{"id": "a", "sleep": "soon"}]}')
    assert len(found) == 1
