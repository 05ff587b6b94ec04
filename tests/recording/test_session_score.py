"""The score of found references follows its rules."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.recording.generated_sessions import (
    DEVELOPMENT_SEEDS,
    Constant,
    Found,
    GeneratedSession,
    Invented,
    RecordedCall,
    Reference,
    Target,
    Truth,
    generated,
    score,
    total,
)
from tests.recording.session_score import Score
from tests.recording.session_truth import INPUT

USER = RecordedCall(
    "get_user_1", "get_user", {"email": "ada@acme.com"}, {"id": 42, "address": {"city": "Porto", "zip": "4000"}, "tags": ["a", "b"]}, failed=False
)


def session(arguments: dict[str, Any], *truth: Truth, known: bool = True) -> GeneratedSession:
    """A session of two calls, of which the second one is judged."""
    return GeneratedSession({"email": "ada@acme.com"} if known else {}, (USER, RecordedCall("use_1", "use", arguments, {}, failed=False)), truth)


def reference(*targets: Target, kind: str = "number", required: bool = True) -> Reference:
    return Reference(kind, frozenset(targets), required=required)


ID = Target("get_user_1", ("id",))
ADDRESS = Target("get_user_1", ("address",))
WHOLE = Reference(
    "structure",
    frozenset([ADDRESS]),
    parts=((("city",), frozenset([Target("get_user_1", ("address", "city"))])), (("zip",), frozenset([Target("get_user_1", ("address", "zip"))]))),
)
PASSED_ON = session({"to": {"city": "Porto", "zip": "4000"}}, Truth("use_1", ("to",), None, WHOLE))
IN_TEXT = session({"text": 'User "42" is gone'}, Truth("use_1", ("text",), None, Invented()), Truth("use_1", ("text",), (6, 8), reference(ID, kind="embedded")))
BY_ID = session({"id": 42, "limit": 50}, Truth("use_1", ("id",), None, reference(ID)), Truth("use_1", ("limit",), None, Constant()))


def test_an_acceptable_target_is_right() -> None:
    assert score(BY_ID, [Found("use_1", ("id",), None, "get_user_1", ("id",))]) == Score({"number": 1}, {}, {})


def test_what_is_not_found_is_missed() -> None:
    assert score(BY_ID, []) == Score({}, {}, {"number": 1})


def test_another_target_is_wrong_and_missed() -> None:
    assert score(BY_ID, [Found("use_1", ("id",), None, "get_user_1", ("tags", 0))]) == Score({}, {"number (target)": 1}, {"number": 1})


def test_a_reference_for_a_constant_is_wrong() -> None:
    found = [Found("use_1", ("id",), None, "get_user_1", ("id",)), Found("use_1", ("limit",), None, "get_user_1", ("id",))]
    assert score(BY_ID, found) == Score({"number": 1}, {"constant": 1}, {})


def test_the_same_found_twice_counts_once() -> None:
    assert score(BY_ID, [Found("use_1", ("id",), None, "get_user_1", ("id",))] * 2).tp == 1


@pytest.mark.parametrize("span", [(6, 8), (5, 9)])
def test_quotes_at_the_ends_of_a_span_do_not_matter(span: tuple[int, int]) -> None:
    assert score(IN_TEXT, [Found("use_1", ("text",), span, "get_user_1", ("id",))]) == Score({"embedded": 1}, {}, {})


def test_another_span_is_wrong() -> None:
    assert score(IN_TEXT, [Found("use_1", ("text",), (0, 8), "get_user_1", ("id",))]) == Score({}, {"embedded (place)": 1}, {"embedded": 1})
    assert score(IN_TEXT, [Found("use_1", ("text",), (13, 17), "get_user_1", ("id",))]) == Score({}, {"invented": 1}, {"embedded": 1})
    assert score(IN_TEXT, [Found("use_1", ("text",), None, "get_user_1", ("id",))]) == Score({}, {"embedded (place)": 1}, {"embedded": 1})


def test_a_span_of_the_whole_text_is_the_whole_argument() -> None:
    one = session({"email": "ada@acme.com"}, Truth("use_1", ("email",), None, reference(Target(INPUT, ("email",)), kind="text")))
    assert score(one, [Found("use_1", ("email",), (0, 12), INPUT, ("email",))]) == Score({"text": 1}, {}, {})


def test_a_structure_is_found_as_a_whole_or_by_all_its_leaves() -> None:
    leaves = [Found("use_1", ("to", key), None, "get_user_1", ("address", key)) for key in ("city", "zip")]
    assert score(PASSED_ON, [Found("use_1", ("to",), None, "get_user_1", ("address",))]) == Score({"structure": 1}, {}, {})
    assert score(PASSED_ON, leaves) == Score({"structure": 1}, {}, {})
    assert score(PASSED_ON, leaves[:1]) == Score({}, {}, {"structure": 1})
    assert score(PASSED_ON, [Found("use_1", ("to",), None, "get_user_1", ())]) == Score({}, {"structure (target)": 1}, {"structure": 1})


def test_picked_values_are_found_by_a_reference_to_the_list_that_has_them() -> None:
    picked = [Truth("use_1", ("tags", index), None, reference(Target("get_user_1", ("tags", index)), kind="picked")) for index in (0, 1)]
    assert score(session({"tags": ["a", "b"]}, *picked), [Found("use_1", ("tags",), None, "get_user_1", ("tags",))]) == Score({"picked": 2}, {}, {})


def test_what_is_not_required_is_not_counted_but_can_be_wrong() -> None:
    one = session({"id": 42}, Truth("use_1", ("id",), None, reference(ID, required=False)))
    assert score(one, []) == score(one, [Found("use_1", ("id",), None, "get_user_1", ("id",))]) == Score({}, {}, {})
    assert score(one, [Found("use_1", ("id",), None, INPUT, ("email",))]).fp == 1


def test_a_parameter_of_an_unknown_input_may_have_any_name() -> None:
    one = session({"email": "x@y.example"}, Truth("use_1", ("email",), None, reference(Target(INPUT, None), kind="parameter")), known=False)
    assert score(one, [Found("use_1", ("email",), None, INPUT, ("address",))]) == Score({"parameter": 1}, {}, {})
    assert score(one, [Found("use_1", ("email",), None, "get_user_1", ("id",))]).fp == 1


def test_a_call_that_is_not_in_the_session_is_an_error() -> None:
    with pytest.raises(ValueError, match="other_1 is no call of the session"):
        score(BY_ID, [Found("other_1", ("id",), None, "get_user_1", ("id",))])


def test_shares_are_of_what_was_found_and_of_what_is_true() -> None:
    measured = Score({"text": 3}, {"constant": 1}, {"text": 2, "number": 1})
    assert (measured.precision, measured.recall) == (0.75, 0.5)
    assert (Score({}, {}, {}).precision, Score({}, {}, {}).recall) == (1.0, 1.0)


def test_the_sum_of_scores_has_all_their_counts() -> None:
    assert total([Score({"text": 1}, {}, {"text": 1}), Score({"text": 2}, {"constant": 1}, {})]) == Score({"text": 3}, {"constant": 1}, {"text": 1})


@pytest.mark.slow
@pytest.mark.parametrize("choice", [min, max])
def test_the_truth_itself_has_the_best_score(choice: Any) -> None:
    """Whichever of the acceptable targets is chosen, and with what is optional or without it."""
    sessions = generated(DEVELOPMENT_SEEDS)
    for required_only in (True, False):
        measured = total(score(one, truths(one, choice, required_only=required_only)) for one in sessions)
        assert (measured.fp, measured.fn) == (0, 0) and measured.tp > 5000


def truths(one: GeneratedSession, choice: Any, *, required_only: bool) -> Iterator[Found]:
    """All that is true, as if it was found."""
    for truth in one.truth:
        if isinstance(truth.origin, Reference) and (truth.origin.required or not required_only):
            target = choice(truth.origin.acceptable, key=repr)
            yield Found(truth.call, truth.path, truth.span, target.step, target.path if target.path is not None else ("any",))
