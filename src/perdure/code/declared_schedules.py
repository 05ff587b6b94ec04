"""The schedule that code declares for a workflow: when its executions start by themselves."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from perdure.code.durations import Duration
from perdure.core.errors import BadValue


@dataclasses.dataclass(frozen=True)
class Schedule:
    """When executions of a workflow start by themselves: ``@workflow(schedule=Schedule("0 9 * * 1-5", timezone="Europe/London", overlap="skip"))``.

    One of `cron` (in a `timezone`), `every` (intervals) and `once` (times, with their zones) says when. Each start is up to `jitter` later; there are none
    before `starts`, and none from `ends` on. Of times that were missed, the last `catch_up` are started late. `overlap` says what happens while an earlier
    execution of the schedule is in progress; with ``queue`` up to `queued_max` wait. After `break_after` failures in a row (0: never) the schedule pauses
    itself. `input` are arguments by name; a text may read ``@trigger``, such as ``@trigger.about.tick``.
    """

    cron: str = ""
    timezone: str = "UTC"
    every: Duration | None = None
    once: Sequence[datetime] = ()
    jitter: Duration = 0.0
    starts: datetime | None = None
    ends: datetime | None = None
    catch_up: int = 0
    overlap: Literal["allow", "skip", "queue", "cancel"] = "allow"
    queued_max: int = 10
    break_after: int = 0
    input: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        moments: tuple[Any, ...] = (self.starts, self.ends, *self.once)
        for moment in moments:
            if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
                raise BadValue("Schedule(starts, ends, once)", moment, "a datetime with its zone")


def schedule_of(schedule: "str | Schedule | None", timezone: str) -> Schedule | None:
    """The schedule that the options of a workflow declare.

    Raises:
        BadValue: `timezone` is given beside something that is no cron expression.
    """
    if isinstance(schedule, str):
        return Schedule(schedule, timezone or "UTC")
    if timezone:
        raise BadValue("@workflow(timezone)", timezone, 'given with schedule="…", a cron expression; a Schedule(…) has its own')
    if schedule is not None and not isinstance(schedule, Schedule):
        raise BadValue("@workflow(schedule)", schedule, "a cron expression, or a Schedule(…)")
    return schedule
