"""Converts durations (seconds, a timedelta, or text such as ``"3d"`` or ``"2h 30m"``) to seconds."""

import math
import re
from datetime import timedelta

from perdure.core.errors import BadValue

Duration = float | int | str | timedelta

LONGEST_S = 1000 * 365.25 * 86_400
"""A thousand years: calendars and databases can't represent later times."""

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*")


def duration_seconds(duration: Duration, what: str = "duration") -> float:
    """Returns `duration` in seconds.

    Raises:
        BadValue: it is negative, longer than a thousand years, not finite, or text that is not a duration.
    """
    expected = "a duration: seconds, a timedelta, or text such as '500ms', '30s', '2h 30m', '3d'"
    match duration:
        case timedelta():
            value_s = duration.total_seconds()
        case bool():
            raise BadValue(what, duration, expected)
        case int() | float():
            value_s = _float(duration)
        case str():
            value_s = _parsed(duration, what, expected)
        case _:
            raise BadValue(what, duration, expected)
    if not math.isfinite(value_s) or value_s < 0:
        raise BadValue(what, duration, "finite and at least 0")
    if value_s > LONGEST_S:
        raise BadValue(what, duration, "at most 1,000 years; to wait without end, listen for a message")
    return value_s


def whole_number(number: object, what: str, least: int = 1) -> int:
    """Returns `number` if it is a whole number from `least`.

    Raises:
        BadValue: it is not.
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise BadValue(what, number, f"a whole number from {least}")
    return number


def duration_text(duration: Duration) -> str:
    """Returns the duration as people would write it, for the default name of a sleep."""
    return duration if isinstance(duration, str) else f"{duration_seconds(duration):g}s"


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an int may be larger than any float
        return math.inf


def _parsed(text: str, what: str, expected: str) -> float:
    position, total_s = 0, 0.0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            break
        total_s += float(part[1]) * _UNITS_S[part[2]]
        position = part.end()
    if not text or position < len(text):
        raise BadValue(what, text, expected)
    return total_s
