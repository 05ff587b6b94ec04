"""Claims about attributes: what may be kept is kept as it was, and the bytes that stores compare are in the order of the values."""

import math
import struct
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import attributes as a
from perdure.core import limits
from perdure.core.errors import BadName, BadValue, LogDamaged
from perdure.core.values import encode

INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5) | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1]) | st.integers(2**63 - 2000, 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5).map(float) | st.sampled_from([2.0**53, 2.0**62, -(2.0**63), 2.0**63, 5e-324])
TEXT = st.text(max_size=200)
TIMES = st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=14))), min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1))  # noqa: DTZ001  # hypothesis adds the zone
ANY = INTS | FLOATS | TEXT | TIMES | st.booleans()


class Colour(StrEnum):
    RED = "red"


@given(ANY)
def test_a_value_comes_back_from_the_log_and_from_a_store_as_it_was(value: Any) -> None:
    kept = a.checked_attributes({"name": value})
    (said,) = a.decode_attribute_changes(a.encode_attribute_changes(kept))
    assert said == kept[0]
    for told in (a.attribute_values((said,)), a.indexed_attribute_values(a.index_attributes(kept))):
        assert told == {"name": value} and type(told["name"]) is (datetime if isinstance(value, datetime) else type(value))


@given(st.lists(INTS | FLOATS, min_size=2))
def test_numbers_are_in_the_order_of_what_they_are_worth_exactly(numbers: list[Any]) -> None:
    ordered = sorted(numbers, key=lambda number: a.sortable_number(a.checked_attribute_value("a", number)))  # type: ignore[arg-type]  # it is a number
    assert [Fraction(number) for number in ordered] == sorted(map(Fraction, numbers))
    for one, other in pairwise(numbers):
        assert (a.sortable_number(one + 0) == a.sortable_number(other + 0)) == (Fraction(one) == Fraction(other))


@given(st.lists(TEXT, min_size=2) | st.lists(TIMES, min_size=2))
def test_text_is_in_the_order_of_its_code_points_and_times_in_that_of_when_they_are(values: list[Any]) -> None:
    assert sorted(values, key=lambda value: a.sortable_bytes(a.checked_attribute_value("a", value))) == sorted(values)


@given(ANY, ANY)
def test_no_two_values_have_the_same_form(one: Any, other: Any) -> None:
    same = type(one) is type(other) and one == other
    assert (a.sortable_bytes(a.checked_attribute_value("a", one)) == a.sortable_bytes(a.checked_attribute_value("a", other))) == same


def test_a_time_keeps_its_microseconds_to_the_last() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert [a.attribute_values(a.checked_attributes({"t": time}))["t"] for time in (last, datetime(1, 1, 1, tzinfo=UTC))] == [
        last,
        datetime(1, 1, 1, tzinfo=UTC),
    ]


def test_what_is_nearly_text_or_a_number_is_kept_as_that() -> None:
    assert a.checked_attributes({"b": Colour.RED, "a": -0.0}) == (("a", 0.0), ("b", "red"))
    ((_, zero), (_, red)) = a.checked_attributes({"b": Colour.RED, "a": -0.0})
    assert math.copysign(1, zero) == 1 and type(red) is str  # type: ignore[arg-type]  # it is a float


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "None is not a str, int, float, bool or datetime, but NoneType"),
        (b"raw", "is not a str, int, float, bool or datetime, but bytes"),
        ([["a"]], "is not a str, int, float, bool or datetime, but list"),
        (["a", None], "None is not a str, int, float, bool or datetime, but NoneType"),
        ({"a"}, "is not a str, int, float, bool or datetime, but set"),
        (2**63, "is not a whole number of 64 bits; pass larger ones as text"),
        (-(2**63) - 1, "is not a whole number of 64 bits"),
        (math.nan, "nan is not a finite number"),
        (-math.inf, "is not a finite number"),
        (datetime(2026, 1, 1), "is not a time with its zone, such as datetime.now"),  # noqa: DTZ001  # which is the point
        ("é" * 513, "is not text of at most 1,024 bytes in UTF-8: it takes 1,026"),
        ("\ud800", "is not text that has an encoding in UTF-8"),
    ],
)
def test_what_can_not_be_kept_is_refused_and_it_is_said_what_is_kept(value: Any, said: str) -> None:
    with pytest.raises(BadValue, match=r"^attribute due: ") as caught:
        a.checked_attributes({"due": value})
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a=b", "1a", "-a", "a" * 65, "a\n", "a>", 7, None, "🐘"])
def test_a_name_is_a_word(name: Any) -> None:
    with pytest.raises(BadName, match=r"^the attribute "):
        a.checked_attributes({name: 1})


@pytest.mark.parametrize("name", ["a", "_", "customer.id", "Größe", "a-1", "a" * 64])
def test_a_name_may_have_points_dashes_and_any_letters(name: str) -> None:
    assert a.checked_attributes({name: "x" * 1024}) == ((name, "x" * 1024),)


def test_there_are_32_at_most_after_each_change() -> None:
    many = {f"a{number}": number for number in range(32)}
    full = a.checked_attributes(many)
    with pytest.raises(BadValue, match="how many attributes: 33 is not at most 32"):
        a.checked_attributes({**many, "b": 1})
    with pytest.raises(BadValue, match="how many attributes: 33 is not at most 32; remove some with None"):
        a.checked_attribute_changes(full, {"b": 1})
    assert len(a.merge_attributes(full, a.checked_attribute_changes(full, {"b": 1, "a0": None, "never": None}))) == 32
    with pytest.raises(BadValue, match="is not a mapping of names to values"):
        a.checked_attributes(["a"])  # type: ignore[arg-type]  # which is the point


def test_a_change_is_never_too_large_for_the_log() -> None:
    largest = {f"𐐀{number:𐐀<63}": "é" * 512 for number in range(32)}
    assert len(a.encode_attribute_changes(a.checked_attribute_changes((), largest))) < limits.BLOB_BYTES_MIN
    with pytest.raises(BadValue, match="how many attributes: 33 is not at most 32"):
        a.checked_attribute_changes(a.checked_attributes(largest), dict.fromkeys([*largest, "b"]))


def test_a_change_keeps_what_it_does_not_name() -> None:
    before = a.checked_attributes({"b": 1, "c": 2, "a": 3})
    assert a.attribute_values(a.merge_attributes(before, a.checked_attribute_changes(before, {"c": None, "b": "x", "d": True}))) == {
        "a": 3,
        "b": "x",
        "d": True,
    }


@pytest.mark.parametrize("raw", [b"", b"\xc1", *(encode(one, "no change") for one in ({"a": 1}, [["a", [2**62]]], [["a", b"raw"]])), None])
def test_a_change_that_is_none_is_damage(raw: Any) -> None:
    with pytest.raises(LogDamaged, match="a change of attributes can't be read"):
        a.decode_attribute_changes(raw)


NOT_A_NUMBER = (int.from_bytes(struct.pack(">d", math.inf), "big") ^ 1 << 63).to_bytes(8, "big")


@pytest.mark.parametrize("form", [b"", b"x1", b"n", b"n" + bytes(9), b"t1", b"b", b"s\xff", b"t" + bytes(8), b"n" + NOT_A_NUMBER + b"\0\0i"])
def test_a_form_that_is_none_is_damage(form: bytes) -> None:
    with pytest.raises(LogDamaged, match="is no value of an attribute"):
        a.value_of_sortable(form)


def test_a_name_has_its_values_in_order_and_none_twice() -> None:
    found = a.checked_attributes({"tag": ["b", "a", "b"], "n": (2, 1.0, 1, True), "one": ["x"], "none": []})
    assert found == (("n", True), ("n", 1.0), ("n", 1), ("n", 2), ("one", "x"), ("tag", "a"), ("tag", "b"))
    assert a.attribute_values(found) == {"n": [True, 1.0, 1, 2], "one": "x", "tag": ["a", "b"]}
    assert a.index_attributes(found) == tuple(sorted(a.index_attributes(found)))


def test_a_change_replaces_all_values_of_its_names() -> None:
    before = a.checked_attributes({"tag": ["a", "b"], "stage": "new", "gone": 1})
    changes = a.decode_attribute_changes(a.encode_attribute_changes(a.checked_attribute_changes(before, {"tag": ["c", "b"], "gone": [], "more": 2})))
    assert a.attribute_values(a.merge_attributes(before, changes)) == {"tag": ["b", "c"], "stage": "new", "more": 2}
    assert a.merge_attributes(before, (("tag", None),)) == (("gone", 1), ("stage", "new"))


def test_values_are_limited_over_all_names() -> None:
    many = {f"n{number}": ["a", "b"] for number in range(32)}
    full = a.checked_attributes(many)
    assert len(full) == limits.ATTRIBUTE_VALUES_MAX
    with pytest.raises(BadValue, match="how many values of attributes: 65 is not at most 64"):
        a.checked_attributes({**many, "n0": ["a", "b", "c"]})
    with pytest.raises(BadValue, match="how many values of attributes: 65 is not at most 64"):
        a.checked_attribute_changes(full, {"n0": ["a", "b", "c"]})
