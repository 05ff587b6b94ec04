"""Every field that a dialect accepts changes the definition where it stands, or is reported there.

Which fields there are is found by reading: whatever a reader asks a mapping for is a field of all mappings of that role. So one that a dialect gains is held
to this by itself.
"""

import copy
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from perdure.dialects import detected_dialect, read_foreign
from perdure.dialects.foreign_document import ForeignDefinition, ForeignFields
from perdure.dialects.fragments import complete_fragment
from tests.seeds.examples import BLOBS, EXAMPLES

Document = Any

INSIDE = [{"type": "bash", "command": "x", "id": "inside"}]
SAMPLES: dict[str, Any] = {
    "then": INSIDE,
    "else": INSIDE,
    "steps": INSIDE,
    "check": False,
    "wait": False,
    "enabled": False,
    "edges": [{"from": "none", "to": "other"}],
}
"""What is written in a field so that it does something; in any other field, the first of `ANY` that suits it."""

ANY: tuple[Any, ...] = ("other", 7, True, ["other"], {"other": 1}, {})

KEPT_FOR_OTHERS = {
    "ref_dag": {
        "id",
        "created_at",
        "updated_at",
        "created_by",
        "updated_by",
        "virtual_mcp_id",
        "$schema",
        "title",
        "type",
        "description",
        "additionalProperties",
    },
    "nested_steps": {"id", "userId", "workflowId", "enabled", "createdAt", "updatedAt", "lastRunAt", "workflowHash", "hash"},
    "port_graph": set[str](),
    "token_graph": {"id", "node_id", "created_at", "updated_at", "metadata", "position", "description", "is_terminal"},
}
"""By dialect, the fields of the database that documents are kept in, those that editors and people keep there, and those that follow from others."""

ELSEWHERE = {("token_graph", "wait_for_all")}
"""Fields that act only where several nodes lead to one, which other examples have."""


class Looked(NamedTuple):
    """A document as it was read, and what its mappings were asked for, by their pointers."""

    document: Document
    found: ForeignDefinition
    asked: list[tuple[str, frozenset[str]]]


class DialectFieldCase(NamedTuple):
    """A field that is written into a mapping of a document."""

    looked: Looked
    pointer: str
    field: str

    def __str__(self) -> str:
        return f"{self.looked.found.dialect}{self.pointer}/{self.field}"


def looked(document: Document) -> Looked:
    """Read a document, and note what is asked."""
    mappings: list[ForeignFields] = []
    begin = ForeignFields.__init__

    def noted(self: ForeignFields, value: Any, pointer: str, notes: Any) -> None:
        begin(self, value, pointer, notes)
        mappings.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ForeignFields, "__init__", noted)
        found = read_foreign(copy.deepcopy(document), BLOBS)
    assert found is not None
    return Looked(document, found, [(one.pointer, frozenset(one._asked)) for one in mappings])


def held(document: Document, pointer: str) -> Any:
    """What stands at a pointer; None if nothing does."""
    for part in pointer.split("/")[1:]:
        if isinstance(document, list):
            document = document[int(part)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        else:
            return None
    return document


def role(one: Looked, pointer: str) -> tuple[str, ...]:
    """What a mapping is in documents of its dialect."""
    parts = tuple("*" if part.isdecimal() else part for part in pointer.split("/")[1:])
    return (one.found.dialect, *(("nodes", "*", *parts[2:]) if parts[:1] == ("nodes",) else parts))


def kind(document: Document, pointer: str) -> str:
    """The type of the step that a mapping is, or is part of."""
    while pointer:
        holder = held(document, pointer)
        if isinstance(holder, dict):
            if isinstance(found := holder.get("type", holder.get("stepType")), str):
                return found
            if isinstance(holder.get("action"), dict):
                return "+".join(sorted(holder["action"]))
        pointer = pointer.rpartition("/")[0]
    return ""


def cases() -> Iterator[DialectFieldCase]:
    """Each field of each role beside each type of step, in the first example that has it."""
    documents = (complete_fragment(one.document) if one.is_fragment else one.document for one in EXAMPLES)
    every = [looked(document) for document in documents if detected_dialect(document)]
    known: dict[tuple[str, ...], set[str]] = {}
    for one in every:
        for pointer, asked in one.asked:
            known.setdefault(role(one, pointer), set()).update(asked)
    seen = set[tuple[Any, ...]]()
    for one in every:
        for pointer, _ in one.asked:
            holder = held(one.document, pointer)
            if not isinstance(holder, dict) or pointer.endswith("/config_ref"):  # its fields are those of the content
                continue
            for field in sorted(known[role(one, pointer)] - holder.keys()):
                key = (role(one, pointer), kind(one.document, pointer), field)
                is_other = field in KEPT_FOR_OTHERS[one.found.dialect] or (one.found.dialect, field) in ELSEWHERE
                if key not in seen and not is_other:
                    seen.add(key)
                    yield DialectFieldCase(one, pointer, field)


def acts(case: DialectFieldCase) -> bool:
    """Whether the definition is another one with the field, or something more is reported at it."""
    before = case.looked.found
    for value in ([SAMPLES[case.field]] if case.field in SAMPLES else []) + list(ANY):
        document = copy.deepcopy(case.looked.document)
        held(document, case.pointer)[case.field] = value
        found = read_foreign(document, BLOBS)
        assert found is not None
        more = [one for one in found.findings if one not in before.findings]
        if not any(one.code == "wrong_type" for one in more) and (more or found.document != before.document):
            return True
    return False


EVERY = list(cases())
SAMPLED = 7
"""One in so many is tried in the ordinary suite."""


@pytest.mark.slow
def test_a_field_of_a_dialect_changes_the_definition_or_is_reported() -> None:
    assert len(EVERY) > 900
    assert [str(case) for case in EVERY[::SAMPLED] if not acts(case)] == []


@pytest.mark.prove
def test_each_field_of_each_dialect_changes_the_definition_or_is_reported() -> None:
    assert [str(case) for case in EVERY if not acts(case)] == []


LOST: list[tuple[Document, str, str]] = [
    ({"name": "x", "steps": [{"type": "loop", "items": [1], "steps": INSIDE, "then": [{**INSIDE[0], "id": "b"}]}]}, "unknown_field", "/steps/0/then"),
    ({"name": "x", "steps": [{"type": "conditional", "condition": True, "then": INSIDE, "steps": [{**INSIDE[0], "id": "b"}]}]}, "said_twice", "/steps/0/steps"),
    ({"name": "x", "steps": [{"type": "loop", "items": [1], "steps": INSIDE, "onItemError": "skp"}]}, "unknown_value", "/steps/0/onItemError"),
    ({"name": "x", "steps": INSIDE, "triggers": [{"type": "manual", "variableMapping": {"a": "b"}}]}, "unknown_field", "/triggers/0/variableMapping"),
    ({"nodes": [{"id": "a", "rejection_path": ["b"]}, {"id": "b"}]}, "unknown_field", "/nodes/0/rejection_path"),
    ({"nodes": [{"id": "a", "compensator": {"action": "x", "tool": "y"}}]}, "said_twice", "/nodes/0/compensator/tool"),
    ({"nodes": [{"id": "a", "type": "human", "human_config": {"timeout_hours": 1}, "timeout_ms": 5}]}, "said_twice", "/nodes/0/timeout_ms"),
    ({"nodes": [{"id": "a", "type": "human", "human_config": {"timeout_hours": 1}, "config": {"x": 5}}]}, "unknown_field", "/nodes/0/config/x"),
]


@pytest.mark.parametrize(("document", "code", "pointer"), LOST)
def test_what_says_nothing_where_it_stands_is_reported_there(document: Document, code: str, pointer: str) -> None:
    found = read_foreign(document, BLOBS)
    assert found is not None
    assert (code, pointer) in [(one.code, one.pointer) for one in found.findings]


def test_a_field_that_does_nothing_is_found() -> None:
    case = next(one for one in EVERY if one.looked.found.dialect == "token_graph" and re.fullmatch(r"/nodes/[0-9]+", one.pointer))
    assert not acts(case._replace(field="position"))
