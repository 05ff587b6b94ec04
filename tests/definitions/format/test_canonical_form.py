"""The canonical form and the hash: what means the same has one, whatever it was written like; and the hashes of format version 1 never change."""

import json
import math
import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.definitions.format.canonical_form import _canonical_json, canonical_document, canonical_json, definition_bytes, definition_hash
from perdure.definitions.format.document_parser import parse_document
from perdure.dialects.definition_reader import read_definition
from tests.definitions.format.examples import EXAMPLES, SIGNUP

# Never to be changed: definitions are stored and pinned by these.
GOLDEN = {
    "signup": "sha256:5722a5aa2b7b4cd40db755c842d512edf65b119e70170a11156b2630683e6fd8",
    "release": "sha256:a6c2a734d7f4cb36a1e0c0657d9cd68b32f4a3df779207814859a50f4ba706bc",
    "triage": "sha256:cec381d66b4db8177db2b532da05327076ab20963c00405a8a4ce5af546943c6",
    "payment": "sha256:1bb7f307d3246549d3c75e1718adfa8cf30bcdbc07162e226b3936fa02d18714",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_hashes_of_format_version_1_never_change(name: str) -> None:
    assert read_definition(EXAMPLES[name]).hash == GOLDEN[name]


def one(step: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A definition of one step beside two that it may name."""
    return {"perdure": 1, "name": "one", "steps": [{"id": "a", "tool": "A"}, {"id": "b", "tool": "B"}, {"id": "c", **step}], **fields}


def spelled(step: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The canonical form of that step."""
    found: dict[str, Any] = canonical_document(one(step, **fields))["steps"][2]
    return found


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ({"task": "resize"}, {"task": {"type": "resize"}}),
        ({"task": {"type": "resize", "queue": "resize"}}, {"task": {"type": "resize"}}),
        ({"task": {"type": "resize", "queue": "big", "heartbeat": "1m"}}, {"task": {"type": "resize", "queue": "big", "heartbeat": 60}}),
        ({"listen": "go"}, {"listen": {"names": ["go"]}}),
        ({"listen": ["go", "stop"]}, {"listen": {"names": ["go", "stop"]}}),
        ({"listen": {"names": "go", "limit": 1, "timeout": "1h"}}, {"listen": {"names": ["go"], "timeout": 3600}}),
        ({"sleep": "3d"}, {"sleep": 259200}),
        ({"sleep": "500ms"}, {"sleep": 0.5}),
        ({"sleep": "@input.pause"}, {"sleep": "@input.pause"}),
        ({"sleep": {"until": "@input.at"}}, {"sleep": {"until": "@input.at"}}),
        ({"parallel": [{"id": "x", "tool": "X"}]}, {"parallel": {"steps": [{"id": "x", "tool": "X"}]}}),
        ({"parallel": {"steps": [{"id": "x", "tool": "X"}], "concurrency": 0, "on_error": "fail"}}, {"parallel": {"steps": [{"id": "x", "tool": "X"}]}}),
        ({"fail": "no"}, {"fail": {"message": "no"}}),
        ({"tool": "T", "undo": "U"}, {"tool": "T", "undo": {"tool": "U"}}),
        ({"tool": "T", "undo": False, "needs": "a"}, {"needs": ["a"], "tool": "T"}),
        ({"tool": "T", "needs": [], "env": {}, "join": "all", "on_error": "fail"}, {"tool": "T"}),
        ({"call": "w@^2", "wait": True}, {"call": "w@^2"}),
        ({"call": "w@^2", "wait": False, "undo": True}, {"call": "w@^2", "wait": False, "undo": True}),
        ({"tool": "T", "when": "@a.ok"}, {"when": {"ref": "@a.ok"}, "tool": "T"}),
        (
            {"tool": "T", "when": {"any": ["@a.ok", {"not": "@b.ok"}]}},
            {"when": {"any": [{"ref": "@a.ok"}, {"not": {"ref": "@b.ok"}}]}, "tool": "T"},
        ),
        (
            {"tool": "T", "each": {"in": [1.0, 1.5], "as": "item", "index": "index", "concurrency": 0, "on_error": None}},
            {"each": {"in": [1.0, 1.5], "on_error": "null"}, "tool": "T"},
        ),
        (
            {"tool": "T", "repeat": {"until": "@self.ok", "max": 3, "endless": False, "delay": "2s", "on_max": "fail"}},
            {"tool": "T", "repeat": {"until": {"ref": "@self.ok"}, "max": 3, "delay": 2}},
        ),
        (
            {"tool": "T", "retry": {"wait": "1m", "max_wait": "2h 30m"}, "timeout": "10m"},
            {"tool": "T", "retry": {"wait": 60, "max_wait": 9000}, "timeout": 600},
        ),
        ({"if": "@a.ok", "then": [{"id": "t", "tool": "T"}], "else": []}, {"if": {"ref": "@a.ok"}, "then": [{"id": "t", "tool": "T"}]}),
        ({"approve": {"title": "ok?", "quorum": 1, "on_timeout": "fail", "timeout": "1d"}}, {"approve": {"title": "ok?", "timeout": 86400}}),
    ],
)
def test_sugar_is_spelled_out_and_defaults_are_removed(written: dict[str, Any], means: dict[str, Any]) -> None:
    assert list(spelled(written).items()) == [("id", "c"), *means.items()]


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("b", ["b"]),
        (["a", "b"], ["a", "b"]),
        ({"success": "a", "error": ["b"]}, {"success": {"to": ["a"]}, "error": {"to": ["b"]}}),
        ({"success": {"to": "a", "max": 3}}, {"success": {"to": ["a"], "max": 3}}),
        ([{"when": "@self.ok", "to": "a"}, {"to": ["b"]}], [{"when": {"ref": "@self.ok"}, "to": ["a"]}, {"to": ["b"]}]),
        ({"choose": ["a", "b"], "default": "a"}, {"choose": ["a", "b"], "default": ["a"]}),
    ],
)
def test_where_to_go_on_is_spelled_out(written: Any, means: Any) -> None:
    assert spelled({"tool": "T", "next": written}, order="ports")["next"] == means


def test_steps_without_an_id_are_numbered_by_their_verb_past_what_is_taken() -> None:
    steps = [{"tool": "A"}, {"id": "tool_2", "tool": "B"}, {"do": [{"tool": "C"}, {"sleep": 1}]}]
    found = canonical_document({"perdure": 1, "name": "x", "steps": steps})["steps"]
    assert [step["id"] for step in found] == ["tool_1", "tool_2", "do_1"]
    assert [step["id"] for step in found[2]["do"]] == ["tool_3", "sleep_1"]


@pytest.mark.slow
def test_the_canonical_form_of_the_canonical_form_is_itself() -> None:
    for text in EXAMPLES.values():
        found = read_definition(text)
        again = read_definition(found.canonical)
        assert (again.canonical, again.hash) == (found.canonical, found.hash)


def shuffled(value: Any, random_: random.Random) -> Any:
    """The same data with its fields in another order."""
    match value:
        case dict():
            return {name: shuffled(value[name], random_) for name in random_.sample(list(value), len(value))}
        case list():
            return [shuffled(item, random_) for item in value]
    return value


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_hash_is_that_of_the_meaning(name: str) -> None:
    document, expected = parse_document(EXAMPLES[name]).document, read_definition(EXAMPLES[name]).hash
    assert read_definition(json.dumps(document)).hash == expected
    assert read_definition(shuffled(document, random.Random(7))).hash == expected
    assert read_definition(document | {"version": document.get("version", "1.0.0"), "tags": [], "ui": {"x": 1}, "on_failure": {"undo": True}}).hash == expected
    assert read_definition(document | {"description": "another"}).hash != expected


def test_what_only_editors_show_does_not_count_and_everything_else_does() -> None:
    document = parse_document(SIGNUP).document
    plain = read_definition(document).hash
    document["steps"][0]["ui"] = {"x": 10}
    assert read_definition(document).hash == plain
    document["steps"][2]["with"]["ui"] = {"x": 10}
    assert read_definition(document).hash != plain


def test_what_is_given_stays_as_it_is() -> None:
    document = parse_document(EXAMPLES["release"]).document
    before = json.dumps(document)
    canonical_document(document)
    assert json.dumps(document) == before


@pytest.mark.parametrize(
    ("bits", "text"),
    [  # appendix B of RFC 8785
        ("0000000000000000", "0.0"),
        ("8000000000000000", "0.0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992.0"),
        ("c340000000000000", "-9007199254740992.0"),
        ("4430000000000000", "295147905179352830000.0"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000.0"),
        ("444b1ae4d6e2ef4f", "999999999999999900000.0"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_floats_are_written_as_rfc_8785_has_them_but_for_those_of_a_whole_value(bits: str, text: str) -> None:
    assert canonical_json(struct.unpack(">d", bytes.fromhex(bits))[0]) == text


def test_text_and_names_are_written_as_rfc_8785_has_them() -> None:
    value = {"€": "Euro", "\r": "CR", "\ufb33": "Hebrew", "1": "One", "\U0001f600": "Smile", "\x80": "Control", "ö": "Latin"}
    names = [json.loads(f'"{name}"') for name in ("\\r", "1", "\\u0080", "\\u00f6", "\\u20ac", "\\ud83d\\ude00", "\\ufb33")]
    assert list(json.loads(canonical_json(value))) == names
    assert canonical_json("\u20ac$\u000f\nA'\"B\\\u2028/") == '"€$\\u000f\\nA\'\\"B\\\\\u2028/"'


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_back_as_the_same(value: float) -> None:
    assert math.isclose(float(canonical_json(value)), value, rel_tol=0, abs_tol=0)


def test_a_float_is_a_float_when_its_definition_is_read_again() -> None:
    given = {
        "perdure": 1,
        "name": "it",
        "input": {"f": {"type": "number", "default": 2.0}},
        "vars": {"f": 1.0, "n": 1},
        "steps": [{"id": "a", "set": {"x": [3.0]}}],
    }
    found = json.loads(definition_bytes(canonical_document(given)))
    values = [found["vars"]["f"], found["vars"]["n"], found["input"]["f"]["default"], found["steps"][0]["set"]["x"][0]]
    assert list(map(type, values)) == [float, int, float, float]


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 3) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_the_library_writes_simple_data_as_the_rules_have_it(value: Any) -> None:
    assert canonical_json(value) == _canonical_json(value)


def test_whole_numbers_are_exact() -> None:
    assert canonical_json(2**64 - 1) == "18446744073709551615"
    assert definition_hash({"steps": [], "x": 2**53}) != definition_hash({"steps": [], "x": 2**53 + 1})
