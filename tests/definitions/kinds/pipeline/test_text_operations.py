"""Texts: what patterns find, and dates as times that compare."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.definitions.kinds.pipeline.sample_tables import piped, refused


@pytest.mark.slow
@settings(deadline=None)
@given(st.text(alphabet="ab12 é", max_size=12))
def test_a_pattern_finds_what_it_should(text: str) -> None:
    (row,) = piped([{"t": text}], {"regex_extract": {"field": "t", "pattern": r"(?P<word>[a-z]+)(?P<digits>[0-9]+)?"}})
    found = re.search(r"(?P<word>[a-z]+)(?P<digits>[0-9]+)?", text)
    assert (row["word"], row["digits"]) == ((found["word"], found["digits"]) if found else (None, None))
    (row,) = piped([{"t": text}], {"regex_extract": {"field": "t", "pattern": "[0-9]", "as": "all", "all": True}})
    assert row["all"] == re.findall("[0-9]", text)


def test_one_group_or_all_that_is_found_becomes_the_field() -> None:
    rows = [{"t": "order 17 of 20"}, {"t": None}, {}]
    assert [row["n"] for row in piped(rows, {"regex_extract": {"field": "t", "pattern": "order (.)", "as": "n"}})] == ["1", None, None]
    assert piped(rows[:1], {"regex_extract": {"field": "t", "pattern": "o[a-z]+", "as": "t"}}) == [{"t": "order"}]
    listed = {"regex_extract": {"field": "t", "pattern": "(?P<word>[a-z]+) (?P<n>[0-9]+)", "as": "found", "all": True}}
    assert piped(rows[:1], listed)[0]["found"] == [{"word": "order", "n": "17"}, {"word": "of", "n": "20"}]


@pytest.mark.parametrize(("how", "left"), [("null", [{"t": "a1", "n": "1"}, {"t": "b", "n": None}, {"t": 7, "n": None}]), ("skip", [{"t": "a1", "n": "1"}])])
def test_what_is_no_text_or_does_not_match_fails_is_null_or_skipped(how: str, left: Any) -> None:
    rows = [{"t": "a1"}, {"t": "b"}, {"t": 7}]
    asked: dict[str, Any] = {"field": "t", "pattern": "[0-9]", "as": "n"}
    assert refused(rows, {"regex_extract": asked}).startswith("pipeline[0] (regex_extract): row 2: 7 is a number, and a pattern is looked for in text")
    assert "row 1: nothing in the text 'b' matches '[0-9]'" in refused(rows, {"regex_extract": {**asked, "on_no_match": "fail"}})
    assert piped(rows, {"regex_extract": {**asked, "on_error": how, "on_no_match": how}}) == left


def dates(value: Any, **asked: Any) -> Any:
    return piped([{"d": value}], {"parse_date": {"field": "d", **asked}})[0]["d"]


@pytest.mark.slow
@settings(deadline=None)
@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), st.integers(-14 * 60, 14 * 60))  # noqa: DTZ001  # the zone is drawn beside it
def test_a_time_in_iso_8601_comes_back_as_the_same_moment(at: datetime, offset: int) -> None:
    aware = at.replace(tzinfo=UTC) + timedelta(minutes=offset)
    assert datetime.fromisoformat(dates(aware.isoformat())) == aware
    milliseconds = dates(aware.isoformat(), to="epoch_ms")
    assert type(milliseconds) is int and milliseconds == (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert dates(milliseconds, formats=["epoch_ms"], to="epoch_ms") == milliseconds


@pytest.mark.parametrize(
    ("value", "asked", "found"),
    [
        ("2026-11-22", {}, "2026-11-22T00:00:00Z"),
        ("2026-07-01T09:30", {"timezone": "Europe/London"}, "2026-07-01T08:30:00Z"),
        ("2026-07-01T09:30+02:00", {"to_timezone": "Asia/Tokyo"}, "2026-07-01T16:30:00+09:00"),
        ("22.11.2026 23:30", {"format": "%d.%m.%Y %H:%M", "timezone": "America/New_York", "to": "date"}, "2026-11-23"),
        ("Sun, 22 Nov 2026 10:00:00 +0100", {"formats": ["iso8601", "rfc2822"]}, "2026-11-22T09:00:00Z"),
        ("1700000000", {"format": "epoch"}, "2023-11-14T22:13:20Z"),
        (1_700_000_000.25, {"format": "epoch", "to": "epoch"}, 1_700_000_000.25),
        ("2026-11-22T00:00:00Z", {"to": "epoch"}, 1_795_305_600),
        ("2026-10-25T01:30", {"timezone": "Europe/London"}, "2026-10-25T00:30:00Z"),
        (None, {}, None),
    ],
)
def test_dates_are_read_in_their_formats_and_zones(value: Any, asked: dict[str, Any], found: Any) -> None:
    got = dates(value, **asked)
    assert got == found and type(got) is type(found)


@pytest.mark.parametrize(
    ("value", "asked", "why"),
    [
        ("soon", {}, "the text 'soon' is not a date in the format 'iso8601'"),
        (True, {"format": "epoch"}, "true is not a date"),
        ("", {}, "is not a date"),
        ("2026-03-29T01:30", {"timezone": "Europe/London"}, "did not exist in Europe/London"),
        ("31.02.2026", {"format": "%d.%m.%Y"}, "is not a date"),
        ("0001-01-01", {"to_timezone": "America/New_York"}, "outside of the years 1 to 9999"),
        (10**18, {"format": "epoch"}, "is not a date"),
    ],
)
def test_what_is_no_date_says_so_with_its_row_and_may_be_null_or_skipped(value: Any, asked: dict[str, Any], why: str) -> None:
    rows = [{"d": "2026-01-01"} if not asked.get("format") else {"d": None}, {"d": value}]
    told = refused(rows, {"parse_date": {"field": "d", **asked}})
    assert told.startswith("pipeline[0] (parse_date): row 1: ") and why in told
    assert piped(rows, {"parse_date": {"field": "d", "as": "x", **asked, "on_error": "null"}})[1] == {"d": value, "x": None}
    assert len(piped(rows, {"parse_date": {"field": "d", **asked, "on_error": "skip"}})) == 1


def test_formats_and_zones_that_there_are_not_are_refused() -> None:
    assert "'%Q' is no format of strptime" in refused([], {"parse_date": {"field": "d", "format": "%Q"}})
    assert "'iso' is no format" in refused([], {"parse_date": {"field": "d", "format": "iso"}})
    assert "'Europe/Londn' is not a time zone" in refused([], {"parse_date": {"field": "d", "timezone": "Europe/Londn"}})


def test_csv_becomes_rows_in_the_place_of_the_row_in_which_it_stood() -> None:
    rows = [{"t": "item;cents\ntea;300\nsalt;\n"}, {"t": None}, {"t": "item;cents\nrice;1.5\n"}]
    csv = {"parse_csv": {"field": "t", "delimiter": ";", "numbers": ["cents"]}}
    assert piped(rows, csv) == [{"item": "tea", "cents": 300}, {"item": "salt", "cents": None}, {"item": "rice", "cents": 1.5}]
    assert piped([{"t": "tea,300\n"}], {"parse_csv": {"field": "t", "names": ["item", "cents"]}}, {"table_select": "item"}) == [{"item": "tea"}]
    assert piped([{"t": "a\nb\n"}], {"parse_csv": "t"}) == [{"a": "b"}]


@pytest.mark.parametrize(
    ("text", "asked", "why"),
    [
        (7, {}, "row 1: 7 is a number, and CSV is text"),
        ("a\nb,c\n", {}, "row 1: line 2 has 2 fields"),
        ("a\n1e999\n", {"numbers": ["a"]}, "row 1: '1e999' in the field 'a' is not a number"),
        ("a\nnan\n", {"numbers": "a"}, "row 1: 'nan' in the field 'a' is not a number"),
        ("a\n" + "9" * 300 + "e99\n", {"numbers": "a"}, "is not a number such as 12.5"),
    ],
)
def test_what_is_no_csv_says_so_with_its_row_and_may_be_skipped(text: Any, asked: dict[str, Any], why: str) -> None:
    rows = [{"t": "a\n1\n"}, {"t": text}]
    assert why in refused(rows, {"parse_csv": {"field": "t", **asked}})
    assert len(piped(rows, {"parse_csv": {"field": "t", "on_error": "skip", **asked}})) == 1


@pytest.mark.parametrize("asked", [{"delimiter": ";;"}, {"delimiter": "\n"}, {"names": ["a", "a"]}, {"numbers": [5]}, {"header": True}])
def test_arguments_of_csv_that_mean_nothing_are_refused(asked: dict[str, Any]) -> None:
    assert "parse_csv" in refused([{"t": "a"}], {"parse_csv": {"field": "t", **asked}})
