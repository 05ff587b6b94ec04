"""Claims about what tasks look like in JSON."""

from datetime import UTC, datetime
from math import inf, nan
from typing import Any

import msgspec
import pytest

from perdure.code.exception_data import ExceptionData
from perdure.core import values
from perdure.core.errors import Unencodable
from perdure.tasks.worker_protocol import FailBody, json_value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"\x00\xff", "AP8="),
        (datetime(2026, 11, 22, 10, 0, tzinfo=UTC), "2026-11-22T10:00:00Z"),
        ({1: "a", 2.5: "b"}, {"1": "a", "2.5": "b"}),
        ({"a": [1.5, None, {"b": b"x"}]}, {"a": [1.5, None, {"b": "eA=="}]}),
        (2**64 - 1, 2**64 - 1),
        ("\U0001f408", "\U0001f408"),
    ],
)
def test_what_json_has_no_form_for_is_text(value: Any, said: Any) -> None:
    kept = msgspec.msgpack.decode(values.encode(value, "a value"))
    assert json_value(kept) == said and msgspec.json.decode(msgspec.json.encode(json_value(kept))) == said


@pytest.mark.parametrize("value", [nan, inf, [1.0, {"x": -inf}], msgspec.msgpack.Ext(7, b"x"), [msgspec.msgpack.Ext(7, b"x")]])
def test_what_no_json_can_say_is_refused_and_not_made_null(value: Any) -> None:
    with pytest.raises(Unencodable, match=r"JSON can.t express"):
        json_value(value)


def test_the_data_of_a_failure_are_the_arguments_of_its_error() -> None:
    assert FailBody("m").error.data is None
    for data, args in (([1, "x"], [1, "x"]), ({"a": 1}, [{"a": 1}]), (None, [None])):
        assert values.decode(FailBody("m", data=data).error.data or b"", ExceptionData, "data") == ExceptionData(args, {})
