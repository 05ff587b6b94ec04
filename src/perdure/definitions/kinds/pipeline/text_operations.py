"""The operations on text: regular expressions, CSV and JSON in a field, and dates. Null and missing values stay null without an error."""

import math
import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from perdure.definitions.expr.plain_values import short_value_text, shortened, value_kind
from perdure.definitions.kinds import text_formats
from perdure.definitions.kinds.pipeline import pipeline_rows
from perdure.definitions.kinds.pipeline.operation_arguments import OPEN, ArgumentReader
from perdure.definitions.kinds.pipeline.pipeline_limits import LimitMeter, OperationError, RowError
from perdure.definitions.kinds.pipeline.pipeline_rows import Row
from perdure.definitions.kinds.pipeline.table_operations import Rows, TableOperation, Tables, map_rows

ON_ERROR = ("fail", "null", "skip")
MICROSECONDS_S = 1_000_000
_WHOLE, _DECIMAL = re.compile(r"[+-]?[0-9]{1,18}"), re.compile(r"[+-]?(?:[0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,2})?")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TO = ("iso", "date", "epoch", "epoch_ms")
WORDS = ("iso8601", "rfc2822", "epoch", "epoch_ms")
"""Formats that have a name; all others are those of `strptime`, such as ``%d.%m.%Y %H:%M``."""


def regex_extract(read: ArgumentReader) -> TableOperation:
    """``regex_extract``: what a pattern (RE2) first finds in a field. Each named group becomes a field of its name; without one, the first group, or all that
    was found, becomes `as`. With ``all: true`` everything found becomes a list under `as`. Where nothing is found the fields are null (``on_no_match``).
    """
    read.known(("field", "pattern", "as", "all", "on_no_match", "on_error"))
    path, pattern = read.path("field"), read.pattern("pattern")
    every, called = read.flag("all"), read.text("as", default="")
    on_error, on_no_match = read.choice("on_error", ON_ERROR, "fail"), read.choice("on_no_match", ON_ERROR, "null")
    groups = {} if pattern is OPEN else dict(pattern.groupindex)
    if pattern is not OPEN and called == "" and (every is True or not groups):
        read.wrong("", "'as' is missing: what is found becomes a field of that name (or name the groups: (?P<year>\\d+))")
    if groups and called not in ("", OPEN) and every is False:
        read.wrong("as", "the pattern names its groups, and each becomes a field of its name; leave 'as' out, or say all: true")
    nothing: Row = {called: [] if every is True else None} if called else dict.fromkeys(groups)
    get = pipeline_rows.path_getter(path)

    def one(found: Any) -> Any:
        return {name: found.group(name) for name in groups} if groups else found.group(1 if pattern.groups else 0)

    def change(row: Row) -> Row:
        value = get(row)
        if value is None:
            return nothing
        if type(value) is not str:
            raise RowError(f"{short_value_text(value)} is {value_kind(value)}, and a pattern is looked for in text")
        if every:
            return {called: [one(found) for found in pattern.finditer(value)]}
        found = pattern.search(value)
        if found is None:
            if on_no_match == "null":
                return nothing
            raise NoMatch(f"nothing in {short_value_text(value)} matches {shortened(pattern.pattern)!r}")
        return one(found) if groups else {called: one(found)}

    def work(rows: Rows, tables: Tables, pace: LimitMeter) -> Rows:
        made = list[Row]()
        for number, row in enumerate(pace.each(rows)):
            made += _or_else(number, row, pace, (on_error, on_no_match), change, nothing)
        return made

    return work


class NoMatch(RowError):
    """A pattern is nowhere in a text."""


def _or_else(number: int, row: Row, pace: LimitMeter, hows: tuple[str, str], change: Any, nothing: Row) -> Rows:
    try:
        return ({**row, **change(row)},)
    except RowError as wrong:
        how = hows[isinstance(wrong, NoMatch)]
        if how == "fail":
            raise OperationError(
                f"row {number}: {wrong}; correct it, or write {'on_no_match' if isinstance(wrong, NoMatch) else 'on_error'}: null or skip"
            ) from None
        return ({**row, **nothing},) if how == "null" else ()


def parse_csv(read: ArgumentReader) -> TableOperation:
    """``parse_csv``: a field that has CSV as the rows that it has, in the place of its own row. `delimiter` parts the fields (a comma); their names stand in
    the first line, or in `names`. All is text, and ``numbers`` are the fields that become numbers; what is empty there becomes null.
    """
    read.known(("field", "delimiter", "names", "numbers", "on_error"))
    path, on_error = read.path("field"), read.choice("on_error", ("fail", "skip"), "fail")
    delimiter = read.take("delimiter", "one character, such as ;", _is_delimiter, ",")
    names, numbers = (_names(read, one) for one in ("names", "numbers"))
    get = pipeline_rows.path_getter(path)

    def change(number: int, row: Row) -> Rows:
        value = get(row)
        if value is None:
            return ()
        if type(value) is not str:
            raise RowError(f"{short_value_text(value)} is {value_kind(value)}, and CSV is text")
        try:
            found = text_formats.csv_rows(value, delimiter, names)
        except text_formats.ContentError as error:
            raise RowError(str(error)) from None
        for one in found:
            one.update({name: _number(one.get(name), name) for name in numbers})
        return found

    def work(rows: Rows, tables: Tables, pace: LimitMeter) -> Rows:
        made = list[Row]()
        for number, row in enumerate(pace.each(rows)):
            try:
                made += change(number, row)
            except RowError as wrong:
                if on_error == "fail":
                    raise OperationError(f"row {number}: {wrong}; correct it, or write on_error: skip") from None
        return made

    return work


def _is_delimiter(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 1 and value not in '"\r\n'


def _names(read: ArgumentReader, at: str) -> tuple[str, ...]:
    """The names of fields, each once."""
    given = [one for one in read.items(at, []) if not read.open(one)]
    if not all(isinstance(one, str) and one for one in given) or len(set(given)) < len(given):
        read.wrong(at, f"{at} are names of fields, each once")
        return ()
    return tuple(given)


def _number(value: Any, name: str) -> int | float | None:
    text = (value or "").strip()
    if not text:
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    raise RowError(f"{shortened(text)!r} in the field {shortened(name)!r} is not a number such as 12.5")


class DateFormat(NamedTuple):
    """The reading and writing of dates: the formats in the order in which they are tried, the default time zone, the output format and its zone."""

    formats: tuple[str, ...]
    zone: tzinfo
    to: str
    to_zone: tzinfo


def parse_date(read: ArgumentReader) -> TableOperation:
    """``parse_date``: a field as a time. `formats` are tried in order: iso8601 (the default), rfc2822, epoch and epoch_ms (numbers), or those of strptime. One
    without a zone is in `timezone` (UTC), of a time that is there twice the first is meant, and one that is not there (clocks go forward) is an error. It
    becomes `to`: iso (``2026-11-22T09:30:00Z``, in `to_timezone`), date, epoch (seconds; an integer unless it has a fraction) or epoch_ms (an integer, rounded
    down).
    """
    read.known(("field", "as", "format", "formats", "timezone", "to", "to_timezone", "on_error"))
    path, called, on_error = read.path("field"), read.text("as", default=""), read.choice("on_error", ON_ERROR, "fail")
    if "format" in read.given and "formats" in read.given:
        read.wrong("format", "it has 'format' and 'formats'; name one of them")
    given = read.items("format" if "format" in read.given else "formats", ["iso8601"])
    formats = tuple(_format(read, one) for one in given)
    how = DateFormat(formats, _zone(read, "timezone"), read.choice("to", TO, "iso"), _zone(read, "to_timezone"))
    name, get = called or pipeline_rows.path_name(path), pipeline_rows.path_getter(path)

    def change(row: Row) -> Row:
        value = get(row)
        return {name: None if value is None else formatted_time(parse_moment(value, how), how)}

    def work(rows: Rows, tables: Tables, pace: LimitMeter) -> Rows:
        return map_rows(rows, pace, on_error, change, {name: None})

    return work


def _format(read: ArgumentReader, one: Any) -> str:
    if read.open(one):
        return "iso8601"
    if not isinstance(one, str) or (one not in WORDS and "%" not in one):
        read.wrong("formats", f"{short_value_text(one)} is no format; there are {', '.join(WORDS)}, and those of strptime such as '%d.%m.%Y'")
        return "iso8601"
    if "%" in one:
        try:
            _ = datetime.strptime(datetime(2000, 2, 3).strftime(one), one)  # noqa: DTZ001, DTZ007  # only the format is tried
        except ValueError as error:
            read.wrong("formats", f"{shortened(one)!r} is no format of strptime: {error}")
    return one


def _zone(read: ArgumentReader, name: str) -> tzinfo:
    called = read.text(name, "a time zone such as Europe/London", "UTC")
    if called in ("UTC", OPEN):
        return UTC
    try:
        return ZoneInfo(called)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        read.wrong(name, f"{shortened(called)!r} is not a time zone; they are called like Europe/London")
        return UTC


def parse_moment(value: Any, how: DateFormat) -> datetime:
    """The time that a value says, with its zone.

    Raises:
        RowWrong: it says none in any of the formats.
    """
    for one in how.formats:
        try:
            found = _read(value, one)
        except (ValueError, OverflowError, TypeError, IndexError):
            continue
        if found is not None:
            return found if found.tzinfo is not None else _placed(found, how.zone)
    raise RowError(f"{short_value_text(value)} is not a date in the format {' or '.join(repr(one) for one in how.formats)}")


def _read(value: Any, one: str) -> datetime | None:
    """The time that a value denotes in one format; None if it denotes none."""
    match one, value:
        case "epoch" | "epoch_ms", bool():
            return None
        case "epoch" | "epoch_ms", int():
            return EPOCH + timedelta(microseconds=value * (MICROSECONDS_S if one == "epoch" else 1000))
        case "epoch" | "epoch_ms", float():
            return EPOCH + timedelta(**{"seconds" if one == "epoch" else "milliseconds": value})
        case "epoch" | "epoch_ms", str() if (digits := value.strip()).removeprefix("-").isdecimal() and len(digits) < 20:
            return _read(int(digits), one)
        case "iso8601", str():
            return datetime.fromisoformat(value.strip())
        case "rfc2822", str():
            return parsedate_to_datetime(value.strip())
        case _, str() if "%" in one:
            return datetime.strptime(value.strip(), one)  # noqa: DTZ007  # the zone is put to it where it has none
    return None


def _placed(found: datetime, zone: tzinfo) -> datetime:
    """A time of a clock on the wall in a zone."""
    placed = found.replace(tzinfo=zone)
    if zone is not UTC and placed.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != found:
        raise RowError(f"{found.isoformat()} did not exist in {zone}: the clocks were put forward then")
    return placed


def formatted_time(found: datetime, how: DateFormat) -> Any:
    """A time in the output format.

    Raises:
        RowError: it lies before the year 1 or after the year 9999 in the zone that is asked for.
    """
    if how.to in ("epoch", "epoch_ms"):
        microseconds = (found - EPOCH) // timedelta(microseconds=1)
        if how.to == "epoch_ms":
            return microseconds // 1000
        return microseconds / MICROSECONDS_S if microseconds % MICROSECONDS_S else microseconds // MICROSECONDS_S
    try:
        there = found.astimezone(how.to_zone)
    except OverflowError:
        raise RowError(f"{found.isoformat()} lies outside of the years 1 to 9999 in {how.to_zone}") from None
    day: date = there.date()
    return day.isoformat() if how.to == "date" else there.isoformat().replace("+00:00", "Z")
