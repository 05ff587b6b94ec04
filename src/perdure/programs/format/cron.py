"""Cron: whether a text is the five fields of one, or an alias such as ``@daily``. What a field may say is decided by the library that schedules by it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from perdure.core.errors import MissingExtra

ALIASES: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

FIELDS: Mapping[str, str] = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, in a month that has it",
    "month": "1 to 12, or jan to dec",
    "day-of-week": "0 to 7, or sun to sat",
}
"""The fields in their order, with what stands in each."""

CHARACTERS_MAX = 1_000
"""A longer text is no cron."""

_ANY_DAY = datetime(2024, 1, 1, tzinfo=UTC)


def problem(text: str) -> str:
    """Why a text is no cron, in words; empty, if it is one."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise MissingExtra("schedules", "cronsim", "definitions") from None
    fields = text[: CHARACTERS_MAX + 1].split()
    if len(fields) == 1 and fields[0].startswith("@"):
        return "" if fields[0] in ALIASES else f"there is no {fields[0][:40]!r}; there are {', '.join(ALIASES)}"
    if len(fields) != len(FIELDS) or len(text) > CHARACTERS_MAX:
        return f"a cron has five fields ({', '.join(FIELDS)}), found {len(fields)}"
    try:
        CronSim(text, _ANY_DAY)
    except CronSimError as error:
        name = str(error).removeprefix("Bad ")
        said = dict(zip(FIELDS, fields, strict=True)).get(name, "")
        return f"{name} {said[:40]!r} is not {FIELDS[name]}" if name in FIELDS else str(error)
    return ""
