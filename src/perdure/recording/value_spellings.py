"""Other spellings of numbers and times: what a value may look like elsewhere, and the CEL that converts one spelling to the other, where there is any.

A conversion is CEL with ``$`` in the place of what it reads; empty, if no function of CEL converts. ``string(timestamp(x))`` writes a time in UTC as
``2024-03-05T10:00:00Z``, with three digits of milliseconds if there are any.
"""

import math
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, NamedTuple

_PLAIN_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
_PLAIN_FLOAT = re.compile(r"-?(?:0|[1-9]\d{0,4})\.\d{0,5}[1-9]", re.ASCII)
_PLAIN_DECIMAL = re.compile(r"-?\d{1,12}\.\d{1,6}", re.ASCII)
NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d{1,18})(?:\.\d{1,6})?"
_WRITTEN_NUMBER = re.compile(rf"[#$€£]?\s?({NUMBER})(?:\s?(?:[$€£%]|USD|EUR|GBP))?", re.ASCII)
_EUROPEAN_NUMBER = re.compile(r"(?:[$€£]\s?)?(\d{1,3}(?:[. ]\d{3})*,\d{2})(?:\s?[$€£])?", re.ASCII)


def is_plain_number_text(text: str) -> bool:
    """Returns whether ``string(x)`` of CEL writes a number as this text."""
    return bool(_PLAIN_INTEGER.fullmatch(text) or _PLAIN_FLOAT.fullmatch(text))


def number_of_text(text: str) -> int | float | None:
    """Returns the number that a short text is, such as ``1,234.50`` or ``$19.90``; None if it is none."""
    if len(text) > 30 or not any("0" <= character <= "9" for character in text):
        return None
    if (found := _WRITTEN_NUMBER.fullmatch(text)) is not None:
        written = found[1].replace(",", "")
    elif (found := _EUROPEAN_NUMBER.fullmatch(text)) is not None:
        written = re.sub(r"[. ]", "", found[1]).replace(",", ".")
    else:
        return None
    return float(written) if "." in written else int(written)


def number_texts(number: float) -> Iterator[str]:
    """Yields texts that are written for a number."""
    if isinstance(number, int) and number.bit_length() > 63:
        return
    whole = int(number) if float(number).is_integer() and abs(number) < 1e15 else None
    if whole is not None:
        yield from (str(whole), f"#{whole}")
        if -10 < whole < 100:
            return
        yield from (f"{whole:,}", f"{whole}.0", *(f"{whole:0{width}d}" for width in (4, 5, 6, 8) if 10**width > whole))
    else:
        yield repr(number)
    if abs(number) < 1e7 and round(number, 2) == number:
        for written in (f"{number:.2f}", f"{number:,.2f}"):
            yield from (written, f"${written}", f"€{written}", f"£{written}", f"{written} USD", f"{written} EUR")
        european = f"{number:,.2f}".translate(str.maketrans(",.", ".,"))
        yield from (european, f"{european} €", european.replace(".", ""))
        if whole is not None:
            yield from (f"${whole}", f"${whole:,}")


def amount_texts(amount: float) -> Iterator[str]:
    """Yields texts that are written for an amount of money which is an argument in another unit."""
    yield from (f"{amount:.2f}", str(int(amount)) if float(amount).is_integer() else repr(amount), f"${amount:.2f}", f"€{amount:.2f}")


def amounts_of(number: float) -> Iterator[int | float]:
    """Yields an amount of cents for an amount of money, and the other way round, where it may be one."""
    if isinstance(number, int):
        if 100 <= number < 10**9:
            yield number // 100 if number % 100 == 0 else number / 100
        if 10 <= number < 10**7:
            yield number * 100
    elif 0 < number < 1e7 and abs(number * 100 - round(number * 100)) < 1e-6:
        yield round(number * 100)


def number_conversion(target: Any, source: Any) -> str:
    """Returns the CEL that makes the number or text `target` of the number or text `source`."""
    match target, source:
        case str(), int() | float() if is_plain_number_text(target) and _same_text(target, source):
            return "string($)"
        case int(), float() if source == target and abs(target) < 2**53:
            return "int($)"
        case float(), int() if source == target and abs(source) < 2**53:
            return "double($)"
        case int(), str() if _PLAIN_INTEGER.fullmatch(source) and int(source) == target:
            return "int($)"
        case float(), str() if _PLAIN_DECIMAL.fullmatch(source) and float(source) == target:
            return "double($)"
        case float(), str() if _PLAIN_INTEGER.fullmatch(source) and int(source) / 100 == target:
            return "double($) / 100.0"
        case float(), int() if source / 100 == target:
            return "double($) / 100.0"
        case int(), float() if target == math.floor(source * 100 + 0.5):
            return "int($ * 100.0 + 0.5)"
        case int(), str() if _PLAIN_DECIMAL.fullmatch(source) and target == math.floor(float(source) * 100 + 0.5):
            return "int(double($) * 100.0 + 0.5)"
    return ""


def _same_text(text: str, number: float) -> bool:
    return text == (str(int(number)) if float(number).is_integer() else repr(number))


class WrittenTime(NamedTuple):
    """A date, or a time, as it is written: `day` is the one that is written, `at_ms` is UTC, in milliseconds since 1970, None of a date."""

    form: str
    day: date
    at_ms: int | None


_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
_MONTH = {name[:length]: number for number, name in enumerate(_MONTHS, 1) for length in (3, len(name))} | {"sept": 9}
_ISO_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_ISO_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?\s?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_DAY_FIRST = re.compile(r"(?:\w{3,9},? )?(\d{1,2})(?:st|nd|rd|th)?[ -]([A-Za-z]{3,9})\.?,?[ -](\d{4})", re.ASCII)
_MONTH_FIRST = re.compile(r"(?:\w{3,9}, )?([A-Za-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})", re.ASCII)
_SLASHED = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})|(\d{4})([/.])(\d\d)\6(\d\d)|(20\d\d|19\d\d)(\d\d)(\d\d)", re.ASCII)
_SECONDS, _MILLISECONDS = range(10**9, 42 * 10**8), range(10**12, 42 * 10**11)


def times_of(value: Any) -> tuple[WrittenTime, ...]:
    """Returns the dates or times that a text or a number may be; 05/03/2024 may be two."""
    if type(value) is str:
        return _times_of_text(value) if 8 <= len(value) <= 40 else ()
    if type(value) is not int:
        return ()
    return (_of_ms("seconds", value * 1000),) if value in _SECONDS else (_of_ms("milliseconds", value),) if value in _MILLISECONDS else ()


@lru_cache(maxsize=16384)
def _times_of_text(text: str) -> tuple[WrittenTime, ...]:
    return (*_of_text(text),)


def _of_ms(form: str, at_ms: int) -> WrittenTime:
    return WrittenTime(form, (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)).date(), at_ms)


def _of_text(text: str) -> Iterator[WrittenTime]:
    if (found := _ISO_DATE.fullmatch(text)) is not None:
        yield from _day("date", found[1], found[2], found[3])
    elif (found := _ISO_TIME.fullmatch(text)) is not None:
        yield from _iso_time(found)
    elif (found := _DAY_FIRST.fullmatch(text)) is not None and found[2].lower() in _MONTH:
        yield from _day("words", found[3], _MONTH[found[2].lower()], found[1])
    elif (found := _MONTH_FIRST.fullmatch(text)) is not None and found[1].lower() in _MONTH:
        yield from _day("words", found[3], _MONTH[found[1].lower()], found[2])
    elif (found := _SLASHED.fullmatch(text)) is not None:
        if found[1]:
            yield from _day("numbers", found[4], found[1], found[3])
            yield from _day("numbers", found[4], found[3], found[1]) if found[1] != found[3] else ()
        else:
            yield from _day("numbers", found[5] or found[9], found[7] or found[10], found[8] or found[11])


def _day(form: str, year: Any, month: Any, day: Any) -> Iterator[WrittenTime]:
    try:
        yield WrittenTime(form, date(int(year), int(month), int(day)), None)
    except ValueError:
        return


def _iso_time(found: "re.Match[str]") -> Iterator[WrittenTime]:
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    zone = found[8] or ""
    hours, minutes = (int(zone[1:3]), int(zone[-2:])) if len(zone) > 1 else (0, 0)
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if zone.startswith("-") else 1)
    try:
        at = datetime(year, month, day, hour, minute, second, int((found[7] or "").ljust(6, "0")[:6]), tzinfo=timezone(offset))
        at_ms = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        _ = at.astimezone(UTC)
    except (ValueError, OverflowError):  # no such time, or none that can be written in UTC: it is just text
        return
    form = "utc" if zone == "Z" and "T" in found[0] and found[6] else "zoned" if zone and "T" in found[0] and found[6] and ":" in zone else "local"
    yield WrittenTime(form, at.date(), at_ms)


def date_texts(day: date) -> Iterator[str]:
    """Yields texts that are written for a date."""
    name = _MONTHS[day.month - 1].title()
    for month in (name, name[:3]):
        yield from (f"{month} {day.day}, {day.year}", f"{day.day} {month} {day.year}", f"{day.day:02d} {month} {day.year}", f"{month} {day.day} {day.year}")
    for sign in ("/", ".", "-"):
        yield from (f"{day.day:02d}{sign}{day.month:02d}{sign}{day.year}", f"{day.month:02d}{sign}{day.day:02d}{sign}{day.year}")
    yield from (day.isoformat(), f"{day.year}/{day.month:02d}/{day.day:02d}", f"{day.year}{day.month:02d}{day.day:02d}")


def utc_text(at_ms: int) -> str:
    """Returns a time as CEL writes it."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}" + (f".{at_ms % 1000:03d}" if at_ms % 1000 else "") + "Z"


def same_time(target: WrittenTime, source: WrittenTime) -> bool:
    """Returns whether two spellings are of one time; those of a date and of a time, of one day."""
    if target.at_ms is not None and source.at_ms is not None:
        is_rounded = "seconds" in (target.form, source.form)
        return target.at_ms // 1000 == source.at_ms // 1000 if is_rounded else target.at_ms == source.at_ms
    return target.day == source.day


_DAY_TEXT = 'string(T.getFullYear()) + (T.getMonth() < 9 ? "-0" : "-") + string(T.getMonth() + 1) + (T.getDate() < 10 ? "-0" : "-") + string(T.getDate())'
_READ = {
    "date": 'timestamp($ + "T00:00:00Z")',
    "utc": "timestamp($)",
    "zoned": "timestamp($)",
    "seconds": "timestamp($)",
    "milliseconds": "timestamp($ / 1000)",
}


def time_conversion(target: Any, wanted: WrittenTime, source: WrittenTime) -> str:
    """Returns the CEL that makes the value `target`, which is the time `wanted`, of a source."""
    read = _READ.get(source.form, "")
    at_ms = source.at_ms if source.at_ms is not None else int((source.day - date(1970, 1, 1)).total_seconds()) * 1000
    if not read:
        return ""
    if wanted.form == "date":
        return _DAY_TEXT.replace("T.", f"{read}.") if _of_ms("", at_ms).day == wanted.day else ""
    if wanted.form == "seconds":
        return "$ / 1000" if source.form == "milliseconds" else f"int({read})" if at_ms // 1000 == target else ""
    if wanted.form == "milliseconds" and source.form == "seconds":
        return "$ * 1000"
    if wanted.form == "milliseconds" and at_ms == target:
        return f"int({read}) * 1000" + (f" + {read}.getMilliseconds()" if at_ms % 1000 else "")
    is_exact = source.form != "milliseconds" or at_ms % 1000 == 0
    return f"string({read})" if is_exact and isinstance(target, str) and target == utc_text(at_ms) else ""
