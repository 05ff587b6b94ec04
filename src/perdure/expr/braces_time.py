"""The filters of the ``{{ }}`` language about time.

A time is text in ISO 8601 (without a zone: UTC), or a number: milliseconds since 1970, or seconds if it is below 1e11.
"""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.expr.braces_run import Run

SECONDS_BELOW = 1e11
"""Numbers below are seconds: as milliseconds they would lie before 1973."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_ms(value: Any) -> float | None:
    """The time that `value` names, in milliseconds since 1970; None if it names none."""
    match value:
        case bool() | None:
            return None
        case int() | float():
            return float(value) * (1000 if 0 < value < SECONDS_BELOW else 1) if abs(value) < 1e18 else None
        case str():
            return _parsed_ms(value.strip())
        case _:
            return None


def _parsed_ms(written: str) -> float | None:
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return None
    moment = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (moment - _EPOCH) / timedelta(milliseconds=1)


def iso_text(moment: float) -> str:
    """Milliseconds since 1970 as text in ISO 8601; empty if no calendar has them."""
    try:
        return (_EPOCH + timedelta(milliseconds=math.floor(moment))).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return ""


def _ago(run: Run, value: Any, unit_s: int) -> int:
    moment = moment_ms(value)
    return -1 if moment is None else math.floor((run.now_s() - moment / 1000) / unit_s)


def days_ago(run: Run, value: Any) -> int:
    """Whole days from then until now; -1 of what is no time."""
    return _ago(run, value, 86_400)


def hours_ago(run: Run, value: Any) -> int:
    """Whole hours from then until now; -1 of what is no time."""
    return _ago(run, value, 3600)


def minutes_ago(run: Run, value: Any) -> int:
    """Whole minutes from then until now; -1 of what is no time."""
    return _ago(run, value, 60)


def milliseconds(run: Run, value: Any) -> int | None:
    """Milliseconds since 1970; null of what is no time."""
    moment = moment_ms(value)
    return None if moment is None else math.floor(moment)


def seconds(run: Run, value: Any) -> int | str:
    """Seconds since 1970; empty text of what is no time."""
    moment = moment_ms(value)
    return "" if moment is None else math.floor(moment / 1000)


def iso(run: Run, value: Any) -> str:
    """The time as text in ISO 8601; empty of what is no time."""
    moment = moment_ms(value)
    return "" if moment is None else iso_text(moment)


def is_before(run: Run, value: Any, other: Any) -> bool:
    """Whether both are times, and the first is earlier."""
    one, two = moment_ms(value), moment_ms(other)
    return one is not None and two is not None and one < two


def is_after(run: Run, value: Any, other: Any) -> bool:
    """Whether both are times, and the first is later."""
    return is_before(run, other, value)
