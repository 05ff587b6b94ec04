"""Arguments with accepted references give what the calls were given."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.definitions.expr.references import parse_reference
from perdure.recording.accepted_references import accepted, overlap
from perdure.recording.found_references import found_references
from perdure.recording.literal_calls import LiteralCall, literal_calls
from perdure.recording.recording_view import RecordedCall
from perdure.recording.suggestions import FoundReference
from tests.recording.generated_sessions import DEVELOPMENT_SEEDS, generated
from tests.recording.recorded_examples import call, calls_of, evaluated

USER = call("get_user_1", {"id": 4182, "email": "ada@acme.example", "seen_at": "2026-03-05T10:15:00Z", "total": 59.9})


def test_only_what_is_accepted_is_put_in_place() -> None:
    calls = [USER, call("send_1", to="ada@acme.example", user_id=4182)]
    (first, second) = found_references(calls).references
    assert [one.arguments for one in accepted(calls, [second])] == [{}, {"to": "ada@acme.example", "user_id": "@get_user_1.id"}]
    assert [one.arguments for one in accepted(calls, [first, second])][1] == {"to": "@get_user_1.email", "user_id": "@get_user_1.id"}


def test_a_text_with_references_is_a_template() -> None:
    calls = [USER, call("send_1", text="@ user 4182: ada@acme.example, @{x}")]
    (_, made) = accepted(calls, [one for one in found_references(calls).references if one.is_found])
    assert made.arguments == {"text": "@@ user @{get_user_1.id}: @{get_user_1.email}, @@{x}"}
    assert evaluated(made, calls) == calls[1].arguments


def test_a_value_that_needs_a_conversion_is_an_expression_and_so_is_the_text_around_it() -> None:
    calls = [USER, call("report_1", seen_at="2026-03-05", text='Seen "2026-03-05" by 4182, ada@acme.example')]
    (_, made) = accepted(calls, [one for one in found_references(calls).references if one.is_found])
    assert made.arguments["seen_at"]["expr"].startswith("string(timestamp(get_user_1.seen_at).getFullYear())")
    assert made.arguments["text"]["expr"].startswith('"Seen \\"" + string(string(timestamp(get_user_1.seen_at).getFullYear())')
    assert evaluated(made, calls) == calls[1].arguments


def test_references_that_were_given_stay() -> None:
    calls = [USER, call("send_1", to="ada@acme.example", user_id=4182)._replace(references={("user_id",): "@get_user_1.id"})]
    assert accepted(calls, [])[1].arguments == {"to": "ada@acme.example", "user_id": "@get_user_1.id"}


def test_literals_that_a_definition_would_read_otherwise_keep_their_meaning() -> None:
    given: dict[str, Any] = {
        "a": "@handle",
        "b": "x@@{y}",
        "c": {"expr": "1 + 1"},
        "d": {"expr": "@x"},
        "e": [{"expr": 'say "@@" \\ \n'}],
        "f": "ada@acme.example",
    }
    calls = [call("use_1", **given)]
    (made,) = accepted(calls, [])
    assert evaluated(made, calls) == given


def test_a_text_that_would_be_an_expression_has_references_too() -> None:
    calls = [call("get_user_1", {"email": "ada@acme.example", "ratio": 7310000.25}), call("use_1", filter={"expr": "to ada@acme.example"})]
    (found,) = found_references(calls).references
    (_, made) = accepted(calls, [found])
    assert made.arguments == {"filter": {"expr": '{"expr": "to " + string(get_user_1.email)}'}}
    assert evaluated(made, calls) == calls[1].arguments
    calls[1] = call("use_1", filter={"expr": "by 7310000.25"})
    with pytest.raises(ValueError, match="can't have a reference to such a number"):
        accepted(calls, found_references(calls).references)


def test_references_that_overlap_are_refused() -> None:
    calls = [USER, call("send_1", to="ada@acme.example")]
    (found,) = found_references(calls).references
    with pytest.raises(ValueError, match="send_1 has two references at to"):
        accepted(calls, [found, found])
    part = FoundReference(call="send_1", path=("to",), span=(0, 3), reference="@get_user_1.id", source="get_user_1", place=("id",), confidence=1.0)
    with pytest.raises(ValueError, match="overlaps with another"):
        accepted(calls, [found, part])
    with pytest.raises(ValueError, match="overlap in the text"):
        accepted(calls, [part, part])
    with pytest.raises(ValueError, match="not of this recording"):
        accepted(calls[:1], [found])


def test_recorded_calls_are_read_with_what_was_forwarded() -> None:
    recorded = [
        RecordedCall(number=1, step="get_user_1", tool="crm.get_user", state="completed", value={"id": 4182, "email": "ada@acme.example"}, ended_at_s=2.0),
        RecordedCall(
            number=2,
            step="send_1",
            tool="mail.send",
            state="failed",
            arguments={"to": "@get_user_1.email", "user": 4182, "text": "@@ada"},
            sent={"to": "ada@acme.example", "user": 4182, "text": "@ada"},
            began_at_s=3.0,
        ),
    ]
    calls = literal_calls(recorded)
    found = found_references(calls).references
    assert [(one.key, one.reference) for one in found] == [("send_1/user", "@get_user_1.id")]
    assert accepted(calls, found)[1].arguments == {"to": "@get_user_1.email", "user": "@get_user_1.id", "text": "@@ada"}


# The whole way, on generated sessions and on arbitrary ones.


@pytest.mark.slow
def test_accepted_references_of_generated_sessions_give_the_arguments_back() -> None:
    converted = 0
    for session in generated(DEVELOPMENT_SEEDS[:120]):
        calls, input = calls_of(session), dict(session.input)
        found = found_references(calls, input or None).references
        chosen = [one for one in found if one.is_same]
        converted += sum(bool(one.expression) for one in chosen)
        parameters = {str(one.place[0]): one.value for one in chosen if one.is_proposed}
        made = accepted(calls, chosen)
        assert [evaluated(one, calls, {**parameters, **input}) for one in made] == [one.arguments for one in calls]
    assert converted > 50


_scalars = st.one_of(
    st.sampled_from(["ada@acme.example", "usr_8812", "@", "@@", "@{a}", "2026-03-05", "2026-03-05T10:15:00Z", "4182", "59.9", "Ada Lovelace", "a b"]),
    st.sampled_from([4182, 59.9, 0, 1, True, False, None, 1772705700, 1772705700000, -7]),
    st.text(max_size=8),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
_keys = st.sampled_from(["id", "user", "email", "name", "expr", "to", "text", "items", "a b", "@x", "0", '"'])
_values = st.recursive(_scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3), max_leaves=8)


@st.composite
def _sessions(draw: st.DrawFn) -> tuple[list[LiteralCall], dict[str, Any]]:
    """Calls whose arguments have values of earlier results, alone and inside texts and structures."""
    input = draw(st.dictionaries(_keys, _scalars, max_size=2))
    calls: list[LiteralCall] = []
    for number in range(draw(st.integers(1, 4))):
        known = [value for one in (input, *(call.result for call in calls)) for value in _leaves(one)] or ["none"]
        some = st.one_of(_values, st.sampled_from(known), st.sampled_from(known).map(lambda value: f"see {value}, and @{value}: {value}"))
        arguments = draw(st.dictionaries(_keys, st.one_of(some, st.lists(some, max_size=2)), max_size=3))
        calls.append(LiteralCall(f"get_user_{number + 1}", "get_user", arguments, draw(_values), draw(st.booleans())))
    return calls, input


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping | list):
        return [value, *(leaf for one in (value.values() if isinstance(value, Mapping) else value) for leaf in _leaves(one))]
    return [value]


@given(_sessions())
def test_what_is_accepted_gives_the_arguments_back(session: tuple[list[LiteralCall], dict[str, Any]]) -> None:
    calls, input = session
    chosen: list[FoundReference] = []
    for one in found_references(calls, input).references:
        is_expression = one.span is not None and one.path[-1] == "expr"
        if one.is_same and not one.is_proposed and not is_expression and not any(one.call == other.call and overlap(one, other) for other in chosen):
            chosen.append(one)
    for made, recorded in zip(accepted(calls, chosen), calls, strict=True):
        assert json.dumps(evaluated(made, calls, input)) == json.dumps(recorded.arguments)


@given(_sessions())
def test_references_lead_to_earlier_places_that_exist(session: tuple[list[LiteralCall], dict[str, Any]]) -> None:
    calls, input = session
    order = {"input": -1, **{one.step: number for number, one in enumerate(calls)}}
    for found in found_references(calls, input).references:
        places = [(found.reference, found.source, found.place), *((one.reference, one.source, one.place) for one in found.alternatives)]
        for written, source, place in places:
            assert order[source] < order[found.call]
            reference = parse_reference(written)
            assert ("input" if reference.root == "input" else reference.step, reference.path) == (source, place)


@given(_sessions())
def test_suggestions_are_the_same_each_time(session: tuple[list[LiteralCall], dict[str, Any]]) -> None:
    assert found_references(*session) == found_references(*session)


@pytest.mark.parametrize("text", ["0.0 on 2026-03-05", " and ".join(["2026-03-05"] * 24)])
def test_converted_parts_of_a_text_are_converted_whatever_else_it_has(text: str) -> None:
    calls = [
        LiteralCall("get_order_1", "get_order", {"id": 1}, {"placedAt": "2026-03-05T10:15:00Z", "rebate": 0.0}, False),
        LiteralCall("send_1", "send", {"text": text}, None, False),
    ]
    chosen = [one for one in found_references(calls, {}).references if one.is_same and not one.is_proposed]
    assert any(one.expression for one in chosen)
    (_, made) = accepted(calls, chosen)
    assert "@get_order_1" in json.dumps(made.arguments) or "get_order_1" in made.arguments["text"]["expr"]
    assert evaluated(made, calls, {}) == {"text": text}


def test_a_text_with_more_converted_parts_than_an_expression_may_have_is_refused_with_the_reason() -> None:
    text = " and ".join(["2026-03-05"] * 60)
    calls = [
        LiteralCall("get_order_1", "get_order", {"id": 1}, {"placedAt": "2026-03-05T10:15:00Z"}, False),
        LiteralCall("send_1", "send", {"text": text}, None, False),
    ]
    with pytest.raises(ValueError, match=r"the text at text of send_1 would be an expression of .* choose fewer"):
        accepted(calls, found_references(calls, {}).references)
