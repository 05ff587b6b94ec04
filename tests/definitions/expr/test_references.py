"""References: what they read, what they find, and what is said of those that are none."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadExpression
from perdure.definitions.expr.plain_values import MissingValueError
from perdure.definitions.expr.references import ROOTS, SEGMENTS_MAX, TEXT_CHARACTERS_MAX, Reference, parse_reference, reference_getter
from tests.definitions.expr.scope import StubScope, outcome

SCOPE = StubScope(
    {"input": {"id": 7, "a b": {"c": [10, 20]}, "0": "nought", "ключ": 1}, "item": None},
    fetch={"items": [{"id": 3}, [1, 2]], "n": None},
    skipped=None,
    a__b={"x": 1},
    customer={"name": "Ada"},
)


@pytest.mark.parametrize(
    ("written", "root", "step", "path"),
    [
        ("@fetch", "step", "fetch", ()),
        ("@fetch.items[0].id", "step", "fetch", ("items", 0, "id")),
        ("@fetch.items.0.id", "step", "fetch", ("items", 0, "id")),
        ("@fetch.items[0][1]", "step", "fetch", ("items", 0, 1)),
        ("@fetch.items[-1]", "step", "fetch", ("items", -1)),
        ("@a-b.x-y", "step", "a-b", ("x-y",)),
        ('@input["a b"].c', "input", "", ("a b", "c")),
        ("@input['a b']", "input", "", ("a b",)),
        (r'@input["a\"]b"]', "input", "", ('a"]b',)),
        ("@inputData.x", "step", "inputData", ("x",)),
        ("@steps.x.output.meta.y", "steps", "x", ("meta", "y")),
        ('@steps["a b"].output', "steps", "a b", ()),
        ("@input.007", "input", "", ("007",)),
        ("@input.ключ", "input", "", ("ключ",)),
        ("@secrets.TOKEN", "secrets", "", ("TOKEN",)),
    ],
)
def test_a_reference_reads_a_root_or_a_step_by_a_path(written: str, root: str, step: str, path: tuple[str | int, ...]) -> None:
    assert parse_reference(written) == Reference(root, step, path, False, written[1:])
    if root != "secrets":
        assert parse_reference(f"{written}?").optional


@pytest.mark.parametrize("root", sorted(ROOTS - {"steps", "secrets"}))
def test_each_root_is_one_as_a_whole_word_only(root: str) -> None:
    assert parse_reference(f"@{root}").root == root
    assert parse_reference(f"@{root}2").step == f"{root}2"


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("@fetch.items[0].id", 3),
        ("@fetch.items[-1].1", 2),
        ('@input["a b"].c[1]', 20),
        ("@input.0", "nought"),
        ("@input[0]", "nought"),
        ("@fetch.n", None),
        ("@fetch.gone?", None),
        ("@nobody.x?", None),
        ("@error.message?", None),
        ("@fetch.items[9]?", None),
        ("@skipped", None),
        ("@skipped.a.b", None),
        ("@steps.skipped.output.data.x", None),
        ("@steps.fetch.output.meta.finish", "stop"),
        ("@steps.fetch.output.port", "success"),
        ("@secrets.TOKEN", {"@secret": "TOKEN"}),
    ],
)
def test_it_finds_what_stands_there(written: str, found: Any) -> None:
    assert reference_getter(parse_reference(written))(SCOPE) == found


def test_the_name_that_an_each_gives_its_items_is_found_where_no_step_has_it() -> None:
    assert reference_getter(parse_reference("@row.email"))(StubScope({"row": {"email": "a@b.c"}})) == "a@b.c"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("@fetch.gone", "@fetch.gone: there is no 'gone' among items, n"),
        ("@fetch.items[2]", "there is no 2 of the path in a list of 2"),
        ("@fetch.items.id", "'id' of the path in a list of 2"),
        ("@fetch.n.x", "'x' of the path in null"),
        ("@input.id.x", "'x' of the path in a number"),
        ("@nobody.x", "@nobody has no result here"),
        ("@steps.nobody.output", "the step 'nobody' has no result here"),
        ("@error.message", "there is no @error here"),
        ("@item.x", "there is no 'x' in null"),
    ],
)
def test_what_is_missing_is_said(written: str, said: str) -> None:
    with pytest.raises(MissingValueError, match=re.escape(said)):
        reference_getter(parse_reference(written))(SCOPE)


@pytest.mark.parametrize(
    ("written", "at", "said"),
    [
        ("@", 2, "a name must follow the @"),
        ("@1", 2, "a name must follow the @"),
        ("@ x", 2, "a name must follow the @"),
        ("@fetch.", 7, "after the dot"),
        ("@fetch..a", 7, "after the dot"),
        ("@fetch[", 7, 'rite [0], or ["a key"]'),
        ("@fetch[a]", 7, 'rite [0], or ["a key"]'),
        ('@fetch["a]', 7, 'rite [0], or ["a key"]'),
        ("@fetch?.a", 8, "single ? at the very end"),
        ("@fetch??", 8, "single ? at the very end"),
        ("@here we go", 6, "nside text write @{here}; for a literal @ write @@"),
        ("@steps.x", 0, "names no step"),
        ("@steps", 0, "names no step"),
        ("@secrets", 0, "does not name a secret"),
        ("@secrets.A.b", 0, "does not name a secret"),
        ("@secrets.A?", 0, "does not name a secret"),
        ("@a" + ".b" * (SEGMENTS_MAX + 1), 132, "levels deep"),
    ],
)
def test_what_is_none_is_refused_with_its_place_and_what_to_write(written: str, at: int, said: str) -> None:
    with pytest.raises(BadExpression, match=re.escape(said)) as caught:
        parse_reference(written, "/with/x")
    assert caught.value.where == "/with/x"
    assert caught.value.at == at


@pytest.mark.slow
@settings(deadline=None)
@given(st.text() | st.text(alphabet="@ab_-.0[]\"'?\\ "))
def test_every_text_is_a_reference_or_none(text: str) -> None:
    ref = outcome(lambda: parse_reference(f"@{text}"))
    assert ref == "refused" or parse_reference(f"@{ref.written}{'?' * ref.optional}") == ref


def test_long_texts_take_no_longer_than_they_are_long() -> None:
    for text in ("[" * TEXT_CHARACTERS_MAX, '["' + "\\" * TEXT_CHARACTERS_MAX, "a" + "-" * TEXT_CHARACTERS_MAX + "!", '["a' * 20_000):
        with pytest.raises(BadExpression):
            parse_reference(f"@a{text}")
