"""Claims about bodies of JSON: what two readers could read in two ways, or could become large, is refused and changes nothing."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.api.json_bodies import THREAD_BYTES_MIN, json_value
from perdure.api.problems import Refusal

REFUSED: dict[str, bytes] = {
    "a name twice": b'{"a":1,"a":2}',
    "a name twice, with an escape": b'{"\\u0061":1,"a":2}',
    "a name twice, within": b'{"b":[{"a":1,"c":":","a":2}]}',
    "an empty name twice": b'{"":1,"":1}',
    "nothing": b" ",
    "cut off": b'{"a":1',
    "cut off in text": b'{"a":"b',
    "cut off in an escape": b'{"a":"\\ud83d',
    "something behind": b'{"a":1} {}',
    "deep objects": b'{"a":' * 100_000,
    "deep arrays": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "NaN": b'{"a":NaN}',
    "too large a float": b'{"a":1e999}',
    "an integer of many digits": b'{"a":' + b"9" * 6_000 + b"}",
    "half a surrogate": b'{"a":"\\ud800"}',
    "Latin-1": '{"a":"ü"}'.encode("latin-1"),
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "a mark of the order of bytes": b"\xef\xbb\xbf{}",
    "NUL": b'{"a":1}\0',
    "a control character in text": b'{"a":"\x01"}',
    "a comment": b'{"a":1/**/}',
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_json_or_could_be_read_in_two_ways_is_refused(raw: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        json_value(raw)
    assert refused.value.status == 400 and len(str(refused.value)) < 300


def test_large_bodies_are_read_in_time() -> None:
    many = {f"name{number}": ":" for number in range(20_000)}
    assert len(json.dumps(many)) > THREAD_BYTES_MIN and json_value(json.dumps(many).encode()) == many


text = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.integers(-(2**63), 2**64 - 1) | text, lambda one: st.lists(one, max_size=3) | st.dictionaries(text, one, max_size=3), max_leaves=5
)
unhurried = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


@unhurried
@given(st.dictionaries(text, plain, max_size=4))
def test_an_object_is_read_as_it_was_written(value: dict[str, Any]) -> None:
    assert json_value(json.dumps(value).encode()) == json_value(json.dumps(value, ensure_ascii=False).encode()) == value


@unhurried
@given(st.dictionaries(text, plain, min_size=1, max_size=4), st.data())
def test_a_name_that_is_given_twice_is_found_wherever_it_is(value: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(value)))
    pairs = ",".join(f"{json.dumps(one)}:{json.dumps(its)}" for one, its in [*value.items(), (name, None)])
    for raw in (f"{{{pairs}}}", f'{{"outer":[{{{pairs}}}]}}'):
        with pytest.raises(Refusal, match="twice"):
            json_value(raw.encode())
