"""The times of a schedule, its *ticks*, as a pure function of its config, of the time zone, and of when it began.

A tick is a moment, in seconds since 1970, so that each hour that a clock shows twice has two different ticks. Where clocks are changed:

- A cron expression whose minute and hour are both fixed (neither begins with ``*``) names times of the day. A time that the clock skips is due at the moment of
  the jump, and several such times together are one tick. A time that the clock shows twice is due once, the first time.
- Every other expression follows the time that passes: in the skipped hour nothing is due, and in the doubled hour each time is due twice.
- Intervals are lengths of time that passes, whatever clocks show.

Day of the month and day of the week together mean *or*, unless one of them begins with ``*``.
"""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import islice
from math import ceil, floor
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from perdure.core.errors import MissingExtra
from perdure.definitions.format.validator import CRON_ALIASES
from perdure.service.triggers.trigger_records import LATEST_S, ScheduleConfig

FIRST_WINDOW_S = 3_600.0
"""Where the search for the last ticks before a time begins: it goes back twice as far each time."""

UNCHANGED_S = 7 * 86_400.0
"""A clock that is changed stays so for longer than this."""

COUNTED_MAX = 1_000
"""How many missed ticks are counted."""


ClockNote = Literal["", "moved", "first", "second"]
"""What is special about a tick where clocks are changed: its time is skipped, so it is due at the jump; or it is the first or the second of two equal times."""


class PassedTicks(NamedTuple):
    """Ticks that have passed: how `many`, up to `COUNTED_MAX`, and the last of them in order."""

    many: int
    last: tuple[float, ...]


def next_tick(config: ScheduleConfig, began_at_s: float, after_s: float) -> float | None:
    """The first tick after a time; None if there is none any more.

    Intervals are counted from the start date of the schedule, which is then its first tick, or else from `began_at_s`, when it began.
    """
    return next(ticks_after(config, began_at_s, after_s), None)


def ticks_after(config: ScheduleConfig, began_at_s: float, after_s: float) -> Iterator[float]:
    """Yields the ticks after a time, in order."""
    starts_at_s = config.starts_at_s
    begin_s = after_s if starts_at_s is None or after_s >= starts_at_s else starts_at_s - 1e-6
    for tick_s in _ticks(config, began_at_s, begin_s):
        if config.ends_at_s is not None and tick_s >= config.ends_at_s:
            return
        if tick_s > after_s and (starts_at_s is None or tick_s >= starts_at_s):
            yield tick_s


def passed_ticks(config: ScheduleConfig, began_at_s: float, after_s: float, until_s: float, last: int) -> PassedTicks:
    """The ticks after one time up to another: their number, and the `last` of them."""
    count = sum(1 for _ in islice(_until(ticks_after(config, began_at_s, after_s), until_s), COUNTED_MAX))
    if not count or not last:
        return PassedTicks(count, ())
    window_s = FIRST_WINDOW_S
    while True:
        from_s = max(after_s, until_s - window_s)
        found = deque(_until(ticks_after(config, began_at_s, from_s), until_s), maxlen=last)
        if len(found) == last or from_s == after_s:
            return PassedTicks(count, tuple(found))
        window_s *= 2


def due_time(config: ScheduleConfig, trigger: str, tick_s: float) -> float:
    """When a tick is started: at its time, or later by a part of the jitter that is always the same for it."""
    if not config.jitter_s:
        return tick_s
    drawn = int.from_bytes(sha256(f"{trigger}\0{tick_text(tick_s)}".encode()).digest()[:8])
    return tick_s + config.jitter_s * drawn / 2**64


def tick_text(tick_s: float) -> str:
    """A tick as text, in UTC: ``2027-03-28T01:00:00Z``, with milliseconds if it has any."""
    moment = datetime.fromtimestamp(tick_s, UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


def start_id(trigger: str, tick_s: float) -> str:
    """The id of the execution that a tick starts: there is one for each, whoever starts it."""
    return f"schedule:{trigger}:{tick_text(tick_s)}"


def clock_note(config: ScheduleConfig, tick_s: float) -> ClockNote:
    """What is special about a tick where clocks are changed."""
    if not depends_on_zone(config):
        return ""
    zone = ZoneInfo(config.timezone)
    shown = datetime.fromtimestamp(tick_s, zone)
    if shown.fold:
        return "second"
    if shown.utcoffset() != shown.replace(fold=1).utcoffset():
        return "first"
    fields = cron_fields(config.cron)
    is_at_jump = _offset(zone, tick_s - 1) < _offset(zone, tick_s)
    next_of_naive = next(_cron_moments(fields, shown.replace(tzinfo=None) - timedelta(seconds=1)))
    return "moved" if is_at_jump and next_of_naive != shown.replace(tzinfo=None) else ""


def cron_fields(expression: str) -> str:
    """The five fields of a cron expression, of which ``@daily`` and the like stand for some."""
    return CRON_ALIASES.get(expression.strip(), expression)


def depends_on_zone(config: ScheduleConfig) -> bool:
    """Whether the ticks depend on what the database of time zones says."""
    return bool(config.cron) and config.timezone != "UTC"


def _until(ticks: Iterator[float], until_s: float) -> Iterator[float]:
    for tick_s in ticks:
        if tick_s > until_s:
            return
        yield tick_s


def _ticks(config: ScheduleConfig, began_at_s: float, after_s: float) -> Iterator[float]:
    if config.cron:
        yield from _cron_ticks(config.cron, config.timezone, after_s)
    elif config.every_s is not None:
        yield from _interval_ticks(config.every_s, began_at_s, config.starts_at_s, after_s)
    else:
        yield from sorted({round(tick.timestamp(), 3) for tick in config.once})


def _cron_ticks(expression: str, timezone: str, after_s: float) -> Iterator[float]:
    fields = cron_fields(expression)
    minute, hour, *_ = fields.split()
    if timezone == "UTC":
        yield from (moment.timestamp() for moment in _cron_moments(fields, datetime.fromtimestamp(after_s, UTC)))
    elif minute.startswith("*") or hour.startswith("*"):
        yield from _ticks_of_passing_time(fields, ZoneInfo(timezone), after_s)
    else:
        latest_s = after_s
        # A time that the clock shows twice is found again from between its two moments, so what is not later than the last tick is passed over.
        for moment in _cron_moments(fields, datetime.fromtimestamp(after_s, ZoneInfo(timezone))):
            if (tick_s := moment.timestamp()) > latest_s:
                latest_s = tick_s
                yield tick_s


def _cron_moments(fields: str, after: datetime) -> Iterator[datetime]:
    try:
        from cronsim import CronSim
    except ImportError:
        raise MissingExtra("schedules", "cronsim", "definitions") from None
    return iter(CronSim(fields, after))


def _ticks_of_passing_time(fields: str, zone: ZoneInfo, after_s: float) -> Iterator[float]:
    """Yields the moments at which the clock shows a time of the expression: in each stretch of time without a change of the clock by itself.

    (CronSim, which could do it alone, loses times where a clock is changed by half an hour.)
    """
    from_s, offset = after_s, _offset(zone, after_s)
    while True:
        change_s: float | None = None
        for shown in _cron_moments(fields, datetime.fromtimestamp(from_s, UTC).replace(tzinfo=None) + offset):
            tick_s = (shown - offset).replace(tzinfo=UTC).timestamp()
            if (change_s := _clock_change(zone, max(from_s, after_s), offset, tick_s)) is not None:
                break
            yield tick_s
            from_s = tick_s
        if change_s is None:
            return
        from_s = after_s = change_s - 1
        offset, after_s = _offset(zone, change_s), change_s


def _offset(zone: ZoneInfo, moment_s: float) -> timedelta:
    return datetime.fromtimestamp(moment_s, zone).utcoffset() or timedelta()


def _clock_change(zone: ZoneInfo, from_s: float, offset: timedelta, until_s: float) -> float | None:
    """The first second at which the clock of a zone no longer has this offset, after one time and up to another."""
    same_s = from_s
    while same_s < until_s:
        other_s = min(same_s + UNCHANGED_S, until_s)
        if _offset(zone, other_s) != offset:
            low, high = floor(same_s), ceil(other_s)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(zone, middle) == offset else (low, middle)
            return float(high)
        same_s = other_s
    return None


def _interval_ticks(every_s: float, began_at_s: float, starts_at_s: float | None, after_s: float) -> Iterator[float]:
    anchor_s, least = (float(ceil(began_at_s)), 1) if starts_at_s is None else (starts_at_s, 0)
    number = max(least, floor((after_s - anchor_s) / every_s))
    while (tick_s := round(anchor_s + number * every_s, 3)) <= LATEST_S:
        if tick_s > after_s:
            yield tick_s
        number += 1
