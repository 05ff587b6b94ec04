"""Every field that is accepted acts, and one that can't act where it stands is refused there."""

from functools import cache
from typing import Any

import pytest

from perdure import BadDefinition, Definition, Transaction, step
from perdure.core.values import encode
from perdure.definitions.format import compiler, model
from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.validator import definition_findings
from perdure.definitions.kinds.config_checks import config_findings
from perdure.definitions.kinds.kind_registry import KindRegistry
from tests.definitions.graph.field_effects import FieldCase, Inner, cases, document, inner_cases, log_of, refused, say, trigger_cases

SAMPLED = 61
"""One in so many is run in the ordinary suite."""


@cache
def without(key: bytes, approves: bool) -> str:
    """The log of a definition without the field, which many have in common."""
    return log_of(KNOWN[key], approves)


KNOWN: dict[bytes, Any] = {}


def acts(case: FieldCase) -> bool:
    """Whether a run with the field is another one than a run without it."""
    key = encode(case.without, "a definition")
    KNOWN[key] = case.without
    approves = case.field != "on_rejected"
    return log_of(case.document, approves) != without(key, approves)


EVERY = list(cases())


@pytest.mark.parametrize("case", EVERY[::SAMPLED], ids=str)
def test_a_field_acts_or_is_refused(case: FieldCase) -> None:
    assert refused(case) or acts(case), f"{case.field} does nothing beside {case.verb}"


@pytest.mark.prove
def test_each_field_beside_each_verb_at_each_place_acts_or_is_refused() -> None:
    idle = [str(case) for case in EVERY if not refused(case) and not acts(case)]
    assert idle == []


def test_a_field_that_does_nothing_is_found() -> None:
    probe = {"id": "probe", "tool": "SAY"}
    noted = {**probe, "note": "for people"}
    case = FieldCase("tool", "note", "refs", "top", document(noted, "refs", "top"), document(probe, "refs", "top"))
    assert not refused(case) and not acts(case)


@pytest.mark.parametrize("case", list(inner_cases()), ids=str)
def test_a_field_of_a_mapping_changes_what_is_compiled_or_is_refused(case: Inner) -> None:
    assert [finding.message for finding in definition_findings(case.without) if finding.severity == "error"] == []
    if not [finding for finding in definition_findings(case.document) if finding.severity == "error"]:
        made, other = (compiler.compile_definition(canonical_document(one)) for one in (case.document, case.without))
        assert (made.nodes, made.edges) != (other.nodes, other.edges)


@pytest.mark.parametrize("case", list(trigger_cases()), ids=str)
def test_a_field_of_a_trigger_is_kept_with_the_definition_or_is_refused(case: Inner) -> None:
    """What a trigger says acts when the definition is published in the catalog; here the definition is another one with it."""
    had, has = (
        [(one.code, one.pointer) for one in (*definition_findings(made), *config_findings(made, KindRegistry())) if one.severity == "error"]
        for made in (case.without, case.document)
    )
    required = [one for one in had if one not in has]  # of a secret, without which its scheme is refused
    assert has == [] and (required or canonical_document(case.document) != canonical_document(case.without))


@pytest.mark.parametrize("kind", model.TRIGGER.one_of)
def test_what_is_no_field_of_a_trigger_is_refused_with_its_place(kind: str) -> None:
    for case in trigger_cases():
        if case.name.startswith(f"{kind}-") and case.name.endswith("with"):
            (trigger,) = case.document["triggers"]
            trigger[kind]["sometimes"] = 1
            trigger["with"] = {"m": 2}
            found = {one.code: one.pointer for one in definition_findings(case.document)}
            assert found == {"unknown_field": f"/triggers/0/{kind}/sometimes", "unknown_input": "/triggers/0/with/m"}


@step(transaction=True)
async def in_a_transaction(tx: Transaction, /, **given: Any) -> None:
    """Writes nothing."""


@pytest.mark.parametrize("field", ["timeout", "grace"])
def test_a_time_beside_a_tool_in_a_transaction_is_refused_with_its_place(field: str) -> None:
    one = {"id": "a", "tool": "in_a_transaction", field: 5}
    two = {"id": "b", "tool": "SAY", "undo": {"tool": "in_a_transaction", "timeout": 5}}
    with pytest.raises(BadDefinition) as refused:
        Definition.of({"perdure": 1, "name": "it", "steps": [{"id": "in", "do": [one]}, two]}, tools={"in_a_transaction": in_a_transaction, "SAY": say})
    assert [(one.code, one.pointer) for one in refused.value.findings] == [("misplaced", f"/steps/0/do/0/{field}"), ("misplaced", "/steps/1/undo/timeout")]
