"""Says a schedule in a sentence: ``every day at 09:00, Europe/Berlin``. Pure. An expression of no common form is said as it is written."""

import re
from datetime import UTC
from typing import NamedTuple

from perdure.service.triggers.schedule_times import cron_fields, tick_text
from perdure.service.triggers.trigger_records import ScheduleConfig

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_DAY_NAMES = {name[:3].upper(): number for number, name in enumerate(_DAYS)}
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
_NUMBERS = re.compile(r"\d+(?:,\d+)*")
_HOURS = re.compile(r"(\d+)-(\d+)")
_STEP = re.compile(r"\*/(\d+)")
_UNITS = ((86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"), (1.0, "second"))


class _Cron(NamedTuple):
    minute: str
    hour: str
    day: str
    month: str
    weekday: str


def schedule_sentence(config: ScheduleConfig) -> str:
    """The sentence of a schedule, without a final point."""
    if config.cron:
        said = f"{_cron_text(_Cron(*cron_fields(config.cron).split()))}, {config.timezone}"
    elif config.every_s is not None:
        said = _every_text(config.every_s)
    else:
        times = sorted(one.astimezone(UTC).timestamp() for one in config.once)
        said = f"once, at {tick_text(times[0])}" if len(times) == 1 else f"{len(times)} times, from {tick_text(times[0])} to {tick_text(times[-1])}"
    if config.jitter_s:
        said += f", up to {_duration_text(config.jitter_s)} later"
    if config.starts_at_s is not None:
        said += f", from {tick_text(config.starts_at_s)} on"
    return said if config.ends_at_s is None else f"{said}, until {tick_text(config.ends_at_s)}"


def _cron_text(cron: _Cron) -> str:
    """The sentence of an expression; the expression itself if it is of no common form."""
    times, days = _times_text(cron), _days_text(cron)
    return (
        f"cron {' '.join(cron)}"
        if times is None or days is None
        else f"{times}{days}"
        if times.startswith("every") and not days
        else f"{days.strip() or 'every day'} {times}"
    )


def _times_text(cron: _Cron) -> str | None:
    minute, hour = cron.minute, cron.hour
    if hour == "*":
        if minute == "*":
            return "every minute"
        if (step := _STEP.fullmatch(minute)) is not None and 60 % int(step[1]) == 0:
            return f"every {int(step[1])} minutes"
        return f"every hour at minute {_listed(minute.split(','))}" if _NUMBERS.fullmatch(minute) else None
    if (step := _STEP.fullmatch(hour)) is not None and minute.isdecimal() and 24 % int(step[1]) == 0:
        return f"every {int(step[1])} hours at minute {minute}"
    if (hours := _HOURS.fullmatch(hour)) is not None and int(hours[1]) < int(hours[2]) < 24:
        return _hours_text(minute, int(hours[1]), int(hours[2]))
    if _NUMBERS.fullmatch(minute) and _NUMBERS.fullmatch(hour):
        return f"at {_listed([f'{int(h):02}:{int(m):02}' for h in hour.split(',') for m in minute.split(',')])}"
    return None


def _hours_text(minute: str, first: int, last: int) -> str | None:
    """The sentence of the times in all hours of a range; None for what is of no common form."""
    if minute.isdecimal():
        return f"every hour from {first:02}:{int(minute):02} to {last:02}:{int(minute):02}"
    if minute == "*":
        return f"every minute from {first:02}:00 to {last:02}:59"
    if (step := _STEP.fullmatch(minute)) is not None and 60 % int(step[1]) == 0:
        return f"every {int(step[1])} minutes from {first:02}:00 to {last:02}:{60 - int(step[1]):02}"
    return None


def _days_text(cron: _Cron) -> str | None:
    """The days, with a blank before them; empty for every day, None for what is of no common form."""
    weekday, day, month = _weekday_text(cron.weekday), cron.day, cron.month
    if month != "*" and not (_NUMBERS.fullmatch(month) and all(1 <= int(one) <= 12 for one in month.split(","))):
        return None
    of = "" if month == "*" else f" of {_listed([_MONTHS[int(one) - 1] for one in month.split(',')])}"
    if day == "*":
        return None if weekday is None else f" {weekday}{of.replace(' of ', ' in ')}" if weekday else f" every day{of}" if of else ""
    if weekday or weekday is None:
        return None
    if day == "L":
        return f" on the last day{of or ' of each month'}"
    return f" on day {_listed(day.split(','))}{of or ' of each month'}" if _NUMBERS.fullmatch(day) else None


def _weekday_text(field: str) -> str | None:
    """The days of the week; empty for all, None for what is of no common form."""
    if field == "*":
        return ""
    parts = [_weekday_number(part) for part in re.split("[-,]", field)]
    if any(part is None for part in parts) or ("-" in field and ("," in field or len(parts) != 2)):
        return None
    names = [_DAYS[part % 7] for part in parts if part is not None]
    return f"from {names[0]} to {names[1]}" if "-" in field else f"on {_listed(names)}"


def _weekday_number(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) <= 7 else _DAY_NAMES.get(text.upper())


def _every_text(every_s: float) -> str:
    size_s, unit = next((one for one in _UNITS if every_s >= one[0] and every_s % one[0] == 0), (1.0, "second"))
    count = every_s / size_s
    return f"every {unit}" if count == 1 else f"every {count:g} {unit}s"


def _duration_text(length_s: float) -> str:
    said = _every_text(length_s).removeprefix("every ")
    return said if said[0].isdecimal() else f"1 {said}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
