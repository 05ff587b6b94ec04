"""Text to plain data: YAML 1.2 and JSON, with positions; whatever is more than data, or more than bounded, is refused with what to do."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.definitions.format.document_parser import DEPTH_MAX, parse_document

JSON_TEXT = '{"a": 1,\n "b": {"c": [1,\n   {"d/e": "x"}]}}'
YAML_TEXT = "a: 1\nb:\n  c:\n    - 1\n    - {d/e: x}\n"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("0x1f", 31),
        ("0o17", 15),
        ("007", 7),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        ('"true"', "true"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("|-\n  one\n  two", "one\ntwo"),
        (">-\n  one\n  two", "one two"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, means: Any) -> None:
    found = parse_document(f"key: {text}\n")
    assert (found.findings, found.document) == ((), {"key": means})
    assert type(found.document["key"]) is type(means)


def test_names_are_always_text() -> None:
    assert parse_document("{on: 1, true: 2, 3: 4}").document == {"on": 1, "true": 2, "3": 4}


@pytest.mark.parametrize(("text", "language"), [(JSON_TEXT, "json"), (YAML_TEXT, "yaml")])
def test_everything_has_its_place_in_the_text(text: str, language: str) -> None:
    found = parse_document(text)
    assert found.language == language
    assert found.document == {"a": 1, "b": {"c": [1, {"d/e": "x"}]}}
    lines = text.splitlines()
    for pointer, begins in (("/a", "a"), ("/b", "b"), ("/b/c", "c"), ("/b/c/0", "1"), ("/b/c/1", "{"), ("/b/c/1/d~1e", "d/e")):
        line, column = found.positions[pointer]
        assert lines[line - 1][column - 1 :].lstrip('"').startswith(begins), pointer


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "perdure: 1\nname: a\nsteps:\n  - id: b\n    tool: X\n    with: {y: @input.y, z: 1}\n",
            "not_yaml",
            'line 6, column 15: quote it: "@input.y" (YAML reserves a leading @)',
        ),
        ("a: `x`", "not_yaml", 'line 1, column 4: quote it: "`x`" (YAML reserves a leading `)'),
        ("a: 1\nb: 2\na: 3", "duplicate_key", "line 3, column 1: 'a' occurs twice in one mapping (first on line 1); keep one of them"),
        ('{"a": 1,\n "b": {"x": 1, "x": 2}}', "duplicate_key", "line 2, column 16: 'x' occurs twice in one mapping (first on line 2); keep one of them"),
        ('{"a": 1,\n "\\u0061": 2}', "duplicate_key", "line 2, column 2: 'a' occurs twice in one mapping (first on line 1); keep one of them"),
        ('{"a": 1,\n "b" 2}', "not_json", "line 2, column 6: this is not JSON: Expecting ':' delimiter"),
        ("a: !!python/object/apply:os.system [x]", "tag", "line 1, column 4: the tag !!python/object/apply:os.system is not supported"),
        ("a: !include x.yaml", "tag", "line 1, column 4: the tag !include is not supported"),
        ("<<: {a: 1}", "merge_key", "line 1, column 1: '<<' belongs to YAML 1.1"),
        ("a: &a [*a]", "bad_alias", "line 1, column 8: '*a' is inside of the value that it names"),
        ("a: *b", "bad_alias", "line 1, column 4: there is no '&b' before '*b'"),
        ("a: 1\n---\nb: 1", "several_documents", "line 2, column 1: the definition is one YAML document"),
        ("a:\n\tb: 1", "not_yaml", "line 2, column 1: YAML does not allow a tab here; indent with spaces"),
        ("a: b: c", "not_yaml", "line 1, column 5: an unquoted text contains ': '"),
        ('a: "b', "not_yaml", "line 1, column 6: found unexpected end of stream; close what was opened before"),
        ("? [a]\n: b", "bad_name", "line 1, column 3: a field's name is text"),
        ("a: .inf", "not_plain", "line 1, column 4: .inf is not a number of at most 64 bits"),
        ('{"a": [1e999]}', "not_plain", "a[0]: a number is finite"),
        ('{"a": NaN}', "not_plain", "a: a number is finite"),
        ("a: 99999999999999999999", "not_plain", "a: a whole number takes 64 bits at most"),
        ('{"a": "\\ud800"}', "not_plain", "a: a text contains half a character"),
        ("a: \x07", "not_yaml", "this is not YAML"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_to_do(text: str, code: str, message: str) -> None:
    found = parse_document(text)
    assert found.document is None
    assert found.findings[0].code == code, found.findings
    assert message in found.findings[0].message
    if message.startswith("line "):
        assert message.startswith(f"line {found.findings[0].line}, column {found.findings[0].column}: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (lambda: "[" * 200 + "]" * 200, "too_deep"),
        (lambda: "[" * 100_000, "too_deep"),
        (lambda: "{a: " * 200, "too_deep"),
        (lambda: "".join(" " * depth + "-\n" for depth in range(DEPTH_MAX + 5)) + " " * 200 + "x", "too_deep"),
        (lambda: "x" * (4 * 1024 * 1024 + 1), "too_large"),
        (lambda: "[" + "1," * 250_001 + "1]", "too_large"),
        (lambda: "a:\n" + "- 1\n" * 50_000, "too_large"),
        (lambda: f'{{"a": {"9" * 5000}}}', "not_plain"),
        (lambda: f"a: {'9' * 5000}", "not_plain"),
    ],
)
def test_what_is_too_much_is_refused(text: Callable[[], str], code: str) -> None:
    assert [finding.code for finding in parse_document(text()).findings] == [code]


@pytest.mark.parametrize("text", ['{"perdure": 1 "name": "x"}', '{"perdure": 1, "steps": [1, 2', '{"perdure": 1, "name"'])
def test_json_that_is_broken_is_told_of_as_json(text: str) -> None:
    found = parse_document(text)
    assert (found.language, [finding.code for finding in found.findings]) == ("json", ["not_json"])


def test_every_name_that_stands_twice_is_told_of() -> None:
    assert len(parse_document("a: 1\na: 2\nb: {c: 1, c: 2}").findings) == 2


@pytest.mark.slow
def test_an_alias_is_a_copy_and_counts_in_full() -> None:
    assert parse_document("a: &x {b: [1, 2]}\nc: *x\n").document == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}
    bomb = "l0: &l0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 30))
    assert parse_document(bomb).findings[0].code == "too_large"


@pytest.mark.slow
def test_data_is_taken_if_it_is_plain() -> None:
    assert parse_document({"a": [1, None, "x"]}).document == {"a": [1, None, "x"]}
    endless: list[Any] = []
    endless.append(endless)
    wide: list[Any] = []
    for _ in range(40):
        wide = [wide, wide]
    for strange in (object(), {1: 2}, {"a": {1, 2}}, (1, 2), float("nan"), endless, wide, 2**64, {"\ud800": 1}):
        assert parse_document(strange).findings, strange


def test_bytes_are_utf_8_with_or_without_its_mark() -> None:
    assert parse_document("\ufeffa: ü".encode()).document == {"a": "ü"}
    assert parse_document(b"a: \xff").findings[0].code == "not_text"


@given(st.text(st.characters(codec="utf-8"), max_size=200) | st.text("abc:-[]{}&*!|>'\"%@`#?,\n\t 0~<", max_size=60) | st.binary(max_size=60))
@settings(deadline=None)
def test_any_text_gives_data_or_findings(text: str | bytes) -> None:
    found = parse_document(text)
    assert found.document is None or not found.findings
    assert all(finding.message for finding in found.findings)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


def counted(value: Any) -> int:
    """How many values there are in it, itself included."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(counted, inner))


@given(PLAIN, st.sampled_from([None, 1, 3]))
@settings(deadline=None)
def test_json_comes_back_as_it_was_with_a_place_for_everything(value: Any, indent: int | None) -> None:
    found = parse_document(json.dumps({"a": value}, indent=indent, ensure_ascii=indent == 1))
    assert found.document == {"a": value}
    assert len(found.positions) == 1 + counted(value)
