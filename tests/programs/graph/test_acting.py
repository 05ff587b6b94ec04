"""Every field that is accepted acts, and one that can't act where it stands is refused there."""

from functools import cache
from typing import Any

import pytest

from perdure.core.values import encode
from perdure.programs.format import compile
from perdure.programs.format.canonical import canonical
from perdure.programs.format.check import checked
from tests.programs.graph.acting import Case, Inner, cases, document, inner_cases, log_of, refused

SAMPLED = 61
"""One in so many is run in the ordinary suite."""


@cache
def without(key: bytes, approves: bool) -> str:
    """The log of a definition without the field, which many have in common."""
    return log_of(KNOWN[key], approves)


KNOWN: dict[bytes, Any] = {}


def acts(case: Case) -> bool:
    """Whether a run with the field is another one than a run without it."""
    key = encode(case.without, "a definition")
    KNOWN[key] = case.without
    approves = case.field != "on_rejected"
    return log_of(case.document, approves) != without(key, approves)


EVERY = list(cases())


@pytest.mark.parametrize("case", EVERY[::SAMPLED], ids=str)
def test_a_field_acts_or_is_refused(case: Case) -> None:
    assert refused(case) or acts(case), f"{case.field} does nothing beside {case.verb}"


@pytest.mark.prove
def test_each_field_beside_each_verb_at_each_place_acts_or_is_refused() -> None:
    idle = [str(case) for case in EVERY if not refused(case) and not acts(case)]
    assert idle == []


def test_a_field_that_does_nothing_is_found() -> None:
    step = {"id": "probe", "tool": "SAY"}
    noted = {**step, "note": "for people"}
    case = Case("tool", "note", "refs", "top", document(noted, "refs", "top"), document(step, "refs", "top"))
    assert not refused(case) and not acts(case)


@pytest.mark.parametrize("case", list(inner_cases()), ids=str)
def test_a_field_of_a_mapping_changes_what_is_compiled_or_is_refused(case: Inner) -> None:
    assert [finding.message for finding in checked(case.without) if finding.severity == "error"] == []
    if not [finding for finding in checked(case.document) if finding.severity == "error"]:
        made, other = (compile.compiled(canonical(one)) for one in (case.document, case.without))
        assert (made.nodes, made.edges) != (other.nodes, other.edges)
