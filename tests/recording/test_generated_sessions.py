"""The generated sessions are what they say: the same for ever, with a truth that is complete, derivable and never of the future."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.recording.generated_sessions import (
    DEVELOPMENT_SEEDS,
    DEVELOPMENT_SHA256,
    HELD_OUT_SEEDS,
    HELD_OUT_SHA256,
    SCENARIOS,
    Constant,
    Found,
    GeneratedSession,
    Reference,
    Target,
    Truth,
    generate,
    generated,
    literal_copies,
    score,
    serialized,
    sha256,
    total,
    with_references,
)
from tests.recording.session_spelling import MONTHS, relation, same
from tests.recording.session_truth import INPUT, Path, at, leaves

pytestmark = pytest.mark.slow

REQUIRED_KINDS = {
    *("text", "number", "common", "picked", "structure", "embedded", "embedded_spelling"),
    *("number_spelling", "date_spelling", "amount_spelling", "letter_case", "trimmed", "parameter"),
}


DATE = re.compile(rf"\d{{4}}-\d\d-\d\d|\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{4}}|(?:{'|'.join(MONTHS)}) \d{{1,2}}, \d{{4}}")
"""A day as texts have it."""


@pytest.fixture(scope="module", params=["development", "held out"])
def sessions(request: pytest.FixtureRequest) -> list[GeneratedSession]:
    return generated(DEVELOPMENT_SEEDS if request.param == "development" else HELD_OUT_SEEDS)


def test_the_set_for_development_is_frozen() -> None:
    assert sha256(generated(DEVELOPMENT_SEEDS)) == DEVELOPMENT_SHA256


def test_the_set_that_is_held_out_is_frozen() -> None:
    assert sha256(generated(HELD_OUT_SEEDS)) == HELD_OUT_SHA256


def test_the_sets_have_no_session_in_common() -> None:
    assert not {serialized(one) for one in generated(DEVELOPMENT_SEEDS)} & {serialized(one) for one in generated(HELD_OUT_SEEDS)}


def test_a_seed_gives_the_same_session_each_time() -> None:
    assert [generate(seed) for seed in range(100)] == [generate(seed) for seed in range(100)]


def test_every_family_occurs_in_each_set() -> None:
    assert len(SCENARIOS) >= 12
    for seeds in (DEVELOPMENT_SEEDS, HELD_OUT_SEEDS):
        assert len(seeds) == 400 and {seed % len(SCENARIOS) for seed in seeds} == set(range(len(SCENARIOS)))


def test_every_kind_occurs_often_enough_to_be_measured(sessions: list[GeneratedSession], capsys: pytest.CaptureFixture[str]) -> None:
    counts = proportions(sessions)
    with capsys.disabled():
        table = ", ".join(f"{kind} {count} ({count / counts.total():.1%})" for kind, count in counts.most_common())
        print(f"\n{len(sessions)} sessions, {sum(len(one.calls) for one in sessions)} calls: {table}")  # noqa: T201  # the proportions are for people to read
    assert {kind for kind, count in counts.items() if count >= 15} >= {*REQUIRED_KINDS, "constant", "invented", "extracted (optional)"}
    assert set(counts) - {kind for kind in counts if kind.endswith("(optional)")} == {*REQUIRED_KINDS, "constant", "invented"}
    references = sum(counts[kind] for kind in REQUIRED_KINDS)
    assert 0.45 < references / counts.total() < 0.65
    assert 0.2 < counts["constant"] / counts.total() < 0.35
    assert counts["text"] / references < 0.5


def test_inputs_are_known_or_unknown_or_words(sessions: list[GeneratedSession]) -> None:
    inputs = Counter("unknown" if not one.input else "words" if list(one.input) == ["request"] else "known" for one in sessions)
    assert inputs["known"] > 200 and inputs["unknown"] > 30 and inputs["words"] > 30


def test_every_leaf_of_an_argument_has_one_truth(sessions: list[GeneratedSession]) -> None:
    for session in sessions:
        expected = Counter((call.name, path) for call in session.calls if call.arguments for path, _ in leaves(call.arguments))
        stated: Counter[tuple[str, Path]] = Counter()
        for truth, value in with_values(session):
            if truth.span is None:
                stated.update((truth.call, (*truth.path, *path)) for path, _ in leaves(value))
        assert stated == expected, serialized(session)


def test_spans_do_not_overlap(sessions: list[GeneratedSession]) -> None:
    for session in sessions:
        ends: dict[tuple[str, Path], int] = {}
        for truth, value in with_values(session):
            if truth.span is not None:
                start, end = truth.span
                assert ends.get((truth.call, truth.path), 0) <= start < end <= len(at(arguments(session)[truth.call], truth.path))
                assert value == at(arguments(session)[truth.call], truth.path)[start:end]
                ends[truth.call, truth.path] = end


def test_no_target_lies_in_the_future_or_in_a_failed_call(sessions: list[GeneratedSession]) -> None:
    for session in sessions:
        order = {call.name: number for number, call in enumerate(session.calls)}
        assert all((call.result is None) == call.failed for call in session.calls)
        for truth, _ in with_values(session):
            for target in all_targets(truth):
                if target.step == INPUT:
                    assert target.path is not None or not session.input or truth.origin.kind == "extracted"
                    assert target.path is None or session.input
                else:
                    assert order[target.step] < order[truth.call] and not session.calls[order[target.step]].failed, truth


def test_every_value_is_derivable_from_each_of_its_targets(sessions: list[GeneratedSession]) -> None:
    for session in sessions:
        results = {INPUT: session.input, **{call.name: call.result for call in session.calls}}
        for truth, value in with_values(session):
            if not isinstance(truth.origin, Reference):
                continue
            assert truth.origin.acceptable
            for target in truth.origin.acceptable:
                if target.path is not None:
                    assert is_derivable(at(results[target.step], target.path), value, truth), (truth, value)
            for path, targets in truth.origin.parts:
                assert targets
                assert all(is_derivable(at(results[one.step], one.path), at(value, path), truth) for one in targets if one.path is not None), truth


def test_what_is_no_reference_has_no_telling_value_of_an_earlier_result_in_it(sessions: list[GeneratedSession]) -> None:
    """But for constants, wording that is repeated, and days: these are there to mislead."""
    for session in sessions:
        parts = {truth.path for truth, _ in with_values(session) if isinstance(truth.origin, Reference) and truth.origin.parts}
        earlier = [value for _, value in leaves(session.input)]
        for call in session.calls:
            truths = [truth for truth in session.truth if truth.call == call.name]
            for path, value in leaves(call.arguments):
                origins = [truth.origin for truth in truths if truth.path == path and truth.span is None]
                if isinstance(value, str) and origins and not isinstance(origins[0], Reference) and path not in parts:
                    for start, end in [truth.span for truth in truths if truth.path == path and truth.span is not None]:
                        value = value[:start] + "\0" * (end - start) + value[end:]
                    assert not [one for one in earlier if is_telling(one) and one != value and is_word_in(str(one), value)], (call, value)
            earlier += [value for _, value in leaves(call.result)]


def test_some_constants_are_equal_to_earlier_values(sessions: list[GeneratedSession]) -> None:
    misleading = 0
    for session in sessions:
        earlier = [value for _, value in leaves(session.input)]
        for call in session.calls:
            for truth in session.truth:
                if truth.call == call.name and isinstance(truth.origin, Constant) and call.arguments:
                    value = at(call.arguments, truth.path)
                    misleading += any(same(value, one) for one in earlier)
            earlier += [value for _, value in leaves(call.result)]
    assert misleading > 300


def test_equal_values_alone_do_not_tell_what_is_a_reference(sessions: list[GeneratedSession]) -> None:
    measured = total(score(session, equal_values(session)) for session in sessions)
    assert measured.precision < 0.9 and measured.recall < 0.7, (measured.precision, measured.recall, measured)


def test_copies_of_sessions_with_references_are_the_sessions(sessions: list[GeneratedSession]) -> None:
    referenced = [with_references(session) for session in sessions]
    written = sum(len(re.findall(r'"[^"]*@\w+_\d+', serialized(GeneratedSession(one.input, one.calls, ())))) for one in referenced)
    assert written > 1000
    for session, copy in zip(sessions, literal_copies(referenced), strict=True):
        assert copy.calls == session.calls
        truths = {(truth.call, truth.path, truth.span): truth.origin for truth in session.truth}
        for truth in copy.truth:
            if isinstance(truth.origin, Reference):
                original = truths[truth.call, truth.path, truth.span]
                assert isinstance(original, Reference) and original.acceptable & truth.origin.acceptable


def test_a_copy_of_a_reference_to_a_later_step_is_refused() -> None:
    session = with_references(generate(1))
    first, later = session.calls[0], session.calls[-1].name
    with pytest.raises(LookupError, match="not earlier"):
        literal_copies([session._replace(calls=(first._replace(arguments={"id": f"@{later}.id"}), *session.calls[1:]))])


@pytest.mark.parametrize(
    ("source", "value", "kind"),
    [
        ("ord_7", "ord_7", "text"),
        (8812, 8812, "number"),
        (True, True, "common"),
        ("open", "open", "common"),
        ({"a": [1]}, {"a": [1]}, "structure"),
        (42, "42", "number_spelling"),
        ("42", 42, "number_spelling"),
        ("2026-03-05T14:30:00Z", "2026-03-05", "date_spelling"),
        ("2026-03-05T14:30:00Z", "5 March 2026", "date_spelling"),
        ("2026-03-05T23:30:00+02:00", "March 5, 2026", "date_spelling"),
        ("2026-03-05", "2026-03-05T00:00:00Z", "date_spelling"),
        (1772721000, "2026-03-05T14:30:00Z", "date_spelling"),
        ("2026-03-05T16:30:00+02:00", 1772721000000, "date_spelling"),
        (1250, "12.50", "amount_spelling"),
        (12.5, 1250, "amount_spelling"),
        ("12.50", "$12.50", "amount_spelling"),
        (" Lamp\n", "Lamp", "trimmed"),
        ("Ada@Acme.com", "ada@acme.com", "letter_case"),
        ("Ada Lovelace", "Ada", "extracted"),
        ("2026-03-05", "2026-03-05T14:30:00Z", None),
        ("2026-03-05T14:30:00Z", "2026-03-06", None),
        (4242, 42, None),
        (1250, "12.51", None),
        (1, True, None),
        ("", None, None),
    ],
)
def test_a_spelling_is_derived_from_another_one(source: Any, value: Any, kind: str | None) -> None:
    assert relation(source, value) == kind


def proportions(sessions: list[GeneratedSession]) -> Counter[str]:
    """How often each kind of truth occurs."""
    kinds: Counter[str] = Counter()
    for session in sessions:
        for truth in session.truth:
            is_optional = isinstance(truth.origin, Reference) and not truth.origin.required
            kinds[f"{truth.origin.kind} (optional)" if is_optional else truth.origin.kind] += 1
    return kinds


def arguments(session: GeneratedSession) -> dict[str, Any]:
    """The arguments of each call."""
    return {call.name: call.arguments for call in session.calls}


def with_values(session: GeneratedSession) -> Iterator[tuple[Truth, Any]]:
    """Each truth with the part of the arguments that it is about."""
    of = arguments(session)
    for truth in session.truth:
        value = at(of[truth.call], truth.path)
        yield truth, value if truth.span is None else value[slice(*truth.span)]


def all_targets(truth: Truth) -> Iterator[Target]:
    """The acceptable targets of a truth and of its parts."""
    if isinstance(truth.origin, Reference):
        yield from truth.origin.acceptable
        for _, targets in truth.origin.parts:
            yield from targets


def is_derivable(source: Any, value: Any, truth: Truth) -> bool:
    """Whether a value can be made of a source. In a text, a number is text; what is extracted is a part of the source, a day in any spelling."""
    if truth.span is not None and not isinstance(source, str) and str(source) == value:
        return True
    found = relation(source, value)
    if truth.origin.kind != "extracted":
        return found not in (None, "extracted")
    return found is not None or str(value).casefold() in str(source).casefold() or any(relation(day[0], value) for day in DATE.finditer(str(source)))


def is_telling(value: Any) -> bool:
    """Whether a value is hardly in two places by chance; days are."""
    match value:
        case bool() | None:
            return False
        case int() | float():
            return abs(value) >= 10_000
        case str():
            return len(value) >= 6 and any(letter.isdigit() or letter == "@" for letter in value) and not re.fullmatch(r"\d{4}-\d\d-\d\d", value)
        case _:
            return False


def is_word_in(word: str, text: str) -> bool:
    """Whether a text has a word that is not a part of a longer one."""
    return re.search(rf"(?<!\w){re.escape(word.strip())}(?!\w)", text, re.IGNORECASE) is not None


def equal_values(session: GeneratedSession) -> Iterator[Found]:
    """What is found by looking for the last earlier value that is equal."""
    earlier = [(INPUT, path, value) for path, value in leaves(session.input)]
    for call in session.calls:
        for path, value in leaves(call.arguments) if call.arguments else ():
            equal = [(step, place) for step, place, one in earlier if same(one, value)]
            if equal:
                yield Found(call.name, path, None, *equal[-1])
        earlier += [(call.name, path, value) for path, value in leaves(call.result)] if not call.failed else []
