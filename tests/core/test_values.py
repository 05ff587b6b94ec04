"""Claims about values: they take the same way live and replayed, large ones go to blobs, and errors say what and where."""

import dataclasses
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from typing import Any
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import limits
from perdure.core.errors import LogDamaged, SealedPayload, TooLarge, Undecodable, Unencodable
from perdure.core.paths import Path
from perdure.core.values import ENCODED_NONE, Blob, Value, decode, encode, offload_if_large, verified_payload

PATH: Path = (("pay", 2),)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(st.characters(codec="utf-8")) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Order:
    id: int
    tags: set[str]
    at: datetime


class Struct(msgspec.Struct):
    price: Decimal
    colour: Colour


@attrs.define
class Point:
    x: int


class Model(pydantic.BaseModel):
    names: tuple[str, ...]
    at: datetime


MODELS: list[tuple[Any, Any]] = [
    (Order(1, {"a"}, datetime(2026, 1, 2, tzinfo=UTC)), Order),
    (Struct(Decimal("1.10"), Colour.RED), Struct),
    (Point(3), Point),
    (Model(names=("a", "b"), at=datetime(2026, 1, 2, tzinfo=UTC)), Model),
    ((1, "a"), tuple[int, str]),
    ({1: 2.5}, dict[int, float]),
    (UUID(int=7), UUID),
    ([Model(names=(), at=datetime(2026, 1, 2, tzinfo=UTC))], list[Model]),
]


@pytest.mark.slow
@given(PLAIN)
def test_plain_data_comes_back_as_it_was_and_twice_the_same(value: Any) -> None:
    raw = encode(value, "value")
    back = decode(raw, Any, "value")
    assert repr(back) == repr(value)
    assert encode(back, "value") == raw


@pytest.mark.parametrize(("value", "kind"), MODELS, ids=lambda part: type(part).__name__)
def test_models_come_back_by_their_hint(value: Any, kind: Any) -> None:
    assert decode(encode(value, "value"), kind, "value") == value


def test_a_surprise_shows_in_the_first_run() -> None:
    assert decode(encode((1, {2}), "value"), Any, "value") == [1, [2]]
    assert decode(encode(Colour.RED, "value"), Any, "value") == "red"


@pytest.mark.parametrize("kind", [object, list[object], dict[str, object | None]])
def test_the_hint_object_takes_plain_data(kind: Any) -> None:
    value = {"a": [1, None]} if "dict" in str(kind) else ["a", {"b": 1}]
    assert decode(encode(value, "value"), kind, "value") == value


def test_floats_that_are_no_numbers_are_kept() -> None:
    back = decode(encode([math.nan, math.inf, -math.inf, -0.0], "value"), list[float], "value")
    assert math.isnan(back[0]) and back[1:3] == [math.inf, -math.inf] and math.copysign(1, back[3]) == -1


def test_nothing_is_the_encoding_of_none() -> None:
    assert encode(None, "value") == ENCODED_NONE == b"\xc0"


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
UNENCODABLE: list[tuple[Any, str]] = [
    (object(), "builtins.object has no encoding"),
    (lambda: 1, "has no encoding"),
    (1 << 64, "."),
    (CYCLE, "."),
    ("\ud800", "."),
    ([1, {"a": object()}], "builtins.object has no encoding"),
    (1j, "complex"),
]


@pytest.mark.parametrize(("value", "why"), UNENCODABLE, ids=["object", "function", "integer", "cycle", "surrogate", "inside", "complex"])
def test_what_has_no_encoding_is_refused_with_what_and_where(value: Any, why: str) -> None:
    with pytest.raises(Unencodable, match=r"^the result of step pay#2: a value of type \w+ can't be stored: .*. Pass plain data") as caught:
        encode(value, "the result of step", PATH)
    assert caught.value.where == "the result of step pay#2" and re.search(why, caught.value.why)


def test_without_a_path_the_error_says_only_what() -> None:
    with pytest.raises(Unencodable, match=r"^the input of order: "):
        encode(object(), "the input of order")


class Other:
    pass


@pytest.mark.parametrize("kind", [int, list[str], Model, Struct, Other, Point], ids=str)
def test_what_does_not_fit_its_hint_is_refused_with_what_and_where(kind: Any) -> None:
    with pytest.raises(Undecodable, match=r"^the value of pay#2: the stored value does not fit "):
        decode(encode("text", "value"), kind, "the value of", PATH)


def test_garbage_is_undecodable() -> None:
    for raw in (b"", b"\xc1", b"\x92\x01", ENCODED_NONE + ENCODED_NONE):
        with pytest.raises(Undecodable):
            decode(raw, Any, "value")


def test_a_value_over_the_limit_is_refused_and_one_at_the_limit_is_not() -> None:
    header = len(encode(b"\0" * 100_000, "value")) - 100_000
    assert len(encode(b"\0" * (limits.VALUE_BYTES_MAX - header), "value")) == limits.VALUE_BYTES_MAX
    with pytest.raises(TooLarge, match=r"^the result of step pay#2: the value takes 16,777,217 bytes, the limit is 16,777,216. Keep it in a file"):
        encode(b"\0" * (limits.VALUE_BYTES_MAX - header + 1), "the result of step", PATH)


def test_values_from_64_kib_go_to_blobs_by_their_hash() -> None:
    blobs: dict[str, bytes] = {}
    small, large = b"s" * (64 * 1024 - 1), b"l" * (64 * 1024)
    assert offload_if_large(small, blobs) is small and not blobs
    kept: Value = offload_if_large(large, blobs)
    assert kept == Blob(sha256(large).hexdigest(), 65536) and blobs == {sha256(large).hexdigest(): large}
    assert offload_if_large(kept, blobs) is kept


def test_a_blob_that_is_not_what_its_name_says_is_damaged() -> None:
    payload = b"l" * 65_536
    name = sha256(payload).hexdigest()
    assert verified_payload(name, payload) is payload
    with pytest.raises(LogDamaged, match=f"blob {name} was changed since it was written: its SHA-256 is not its name"):
        verified_payload(name, b"m" + payload[1:])
    with pytest.raises(LogDamaged, match="is missing"):
        verified_payload(name, None)
    with pytest.raises(SealedPayload):
        verified_payload(name, b"\xc1pE\x01k")
