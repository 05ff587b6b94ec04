"""Claims about values: what becomes of those of a database, and what is bound for those of an execution."""

import ipaddress
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import values
from perdure.definitions.kinds.sql.sql_values import NoValue, bind_by_type, bind_by_value, value_of_column

ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (None, None),
        (True, True),
        (2**63 - 1, 2**63 - 1),
        (2**70, str(2**70)),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("12.30"), "12.30"),
        (Decimal("1E+3"), "1000"),
        (Decimal("NaN"), "NaN"),
        (NOON, "2027-01-01T12:00:00Z"),
        (NOON.astimezone(timezone(timedelta(hours=2))), "2027-01-01T14:00:00+02:00"),
        (NOON.replace(tzinfo=None), "2027-01-01T12:00:00"),
        (date(2027, 1, 1), "2027-01-01"),
        (time(12, 30), "12:30:00"),
        (timedelta(days=1, seconds=1), 86_401),
        (timedelta(milliseconds=1500), 1.5),
        (ID, str(ID)),
        (b"\x00\xff", {"base64": "AP8="}),
        (memoryview(b"a"), {"base64": "YQ=="}),
        ([1, [None, Decimal("1.0")]], [1, [None, "1.0"]]),
        ({"a": Decimal("1.0")}, {"a": "1.0"}),
        (ipaddress.ip_address("::1"), "::1"),
    ],
)
def test_every_value_of_a_database_has_one_form(found: Any, value: Any) -> None:
    assert value_of_column(found) == value
    assert values.decode(values.encode(value, "it"), Any, "it") == value


def test_a_type_without_a_form_says_what_to_do() -> None:
    with pytest.raises(NoValue, match="type object has no form in an execution; cast it"):
        value_of_column(object())


@pytest.mark.parametrize(
    ("value", "type_name", "bound"),
    [
        (None, "int4", None),
        (1, "int4", 1),
        (1.0, "int8", 1),
        ("1.50", "numeric", Decimal("1.50")),
        (0.1, "numeric", Decimal("0.1")),
        (3, "float8", 3.0),
        ("NaN", "float8", float("nan")),
        (True, "bool", True),
        ("x", "text", "x"),
        (str(ID), "uuid", ID),
        ("2027-01-01", "date", date(2027, 1, 1)),
        ("2027-01-01T12:00:00Z", "timestamptz", NOON),
        (NOON.timestamp(), "timestamptz", NOON),
        ("2027-01-01T12:00:00", "timestamp", NOON.replace(tzinfo=None)),
        ("1h 30m", "interval", timedelta(minutes=90)),
        (90, "interval", timedelta(seconds=90)),
        ({"base64": "AP8="}, "bytea", b"\x00\xff"),
        ({"a": [1, None]}, "jsonb", '{"a":[1,null]}'),
        ("text", "json", '"text"'),
        ([1, 2, None], "int4[]", [1, 2, None]),
        ([["1"], ["2"]], "numeric[]", [[Decimal(1)], [Decimal(2)]]),
        ([{"a": 1}], "jsonb[]", ['{"a":1}']),
        ("happy", "mood", "happy"),
    ],
)
def test_a_value_is_bound_by_the_type_of_its_placeholder(value: Any, type_name: str, bound: Any) -> None:
    found = bind_by_type(value, type_name)
    assert (found == bound and type(found) is type(bound)) or (found != found and bound != bound)


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        ("1", "int4"),
        (1.5, "int4"),
        (True, "int4"),
        (float("inf"), "int8"),
        (1, "text"),
        ("\ud800", "text"),
        (1, "bool"),
        ("x", "numeric"),
        ("not-a-uuid", "uuid"),
        ("yesterday", "date"),
        ("2027-01-01T12:00:00", "timestamptz"),
        ("2027-01-01T12:00:00Z", "timestamp"),
        (10**30, "timestamptz"),
        ("soon", "interval"),
        ("text", "bytea"),
        ({"base64": "%"}, "bytea"),
        ("x", "int4[]"),
        (["x"], "int4[]"),
        ({"a": 1}, "mood"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_without_being_shown(value: Any, type_name: str) -> None:
    with pytest.raises(NoValue) as refused:
        bind_by_type(value, type_name)
    assert str(value) not in str(refused.value) or len(str(value)) < 3


def test_where_types_are_not_known_lists_and_mappings_are_json_and_bytes_are_bytes() -> None:
    assert bind_by_value([1, "a"]) == '[1,"a"]' and bind_by_value({"a": 1}) == '{"a":1}' and bind_by_value({"base64": "AA=="}) == b"\0"
    for value in (2**63, "\ud800", {"base64": "%"}):
        with pytest.raises(NoValue):
            bind_by_value(value)


@given(
    st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_data_of_json_is_the_same_both_ways(value: Any) -> None:
    assert value_of_column(value) == value
