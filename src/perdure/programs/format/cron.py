"""Cron: whether a text is the five fields of one, or an alias such as ``@daily``."""

from __future__ import annotations

from typing import NamedTuple

ALIASES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class _Unit(NamedTuple):
    """One of the five fields: what it is called, its least and greatest number, and the names that stand for numbers from the least on."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_UNITS = (_Unit("minute", 0, 59), _Unit("hour", 0, 23), _Unit("day", 1, 31), _Unit("month", 1, 12, _MONTHS), _Unit("weekday", 0, 7, _WEEKDAYS))


class _Wrong(Exception):
    """Why a field is wrong."""


def problem(text: str) -> str:
    """Why a text is no cron, in words; empty, if it is one."""
    fields = text.split()
    if len(fields) == 1 and fields[0].startswith("@"):
        return "" if fields[0] in ALIASES else f"there is no {fields[0][:40]!r}; there are {', '.join(ALIASES)}"
    if len(fields) != len(_UNITS):
        return f"a cron has five fields (minute, hour, day, month, weekday), found {len(fields)}"
    try:
        numbers = [_numbers(field, unit) for field, unit in zip(fields, _UNITS, strict=True)]
    except _Wrong as wrong:
        return str(wrong)
    _, _, days, months, _ = numbers
    if fields[4] == "*" and min(days) > max(_LONGEST[month - 1] for month in months):
        return f"day {min(days)} is in none of its months, so it would never start anything"
    return ""


def _numbers(field: str, unit: _Unit) -> set[int]:
    """The numbers that a field stands for: of ``*``, numbers, ranges and steps, joined by commas."""
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        begin = unit.least if span == "*" else _number(first, unit)
        end = unit.most if span == "*" or (slash and not dash) else _number(last, unit) if dash else begin
        if begin > end:
            raise _Wrong(f"{unit.name} {span[:40]!r} runs backwards; write the smaller number first")
        if slash and not (step.isascii() and step.isdigit() and 0 < int(step[:9]) <= unit.most):
            raise _Wrong(f"{unit.name} {part[:40]!r}: a step is a whole number from 1 to {unit.most}")
        found.update(range(begin, end + 1, int(step) if slash else 1))
    return found


def _number(text: str, unit: _Unit) -> int:
    if text.lower() in unit.names:
        return unit.least + unit.names.index(text.lower())
    if not (text.isascii() and text.isdigit() and unit.least <= int(text[:9]) <= unit.most):
        raise _Wrong(f"{unit.name} {text[:40]!r} is not a number from {unit.least} to {unit.most}{' or a name such as ' + unit.names[0] if unit.names else ''}")
    return int(text)
