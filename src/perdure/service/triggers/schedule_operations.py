"""Shows the next ticks of a schedule, and starts executions for ticks of the past."""

from datetime import datetime
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import msgspec

from perdure.code.declarations import checked_name
from perdure.core.errors import BadValue, StoreUnavailable
from perdure.core.paths import Key
from perdure.service.execution_operations import initiated_by, start_post
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.schedule_sentences import schedule_sentence
from perdure.service.triggers.schedule_states import SCHEDULE_STATES
from perdure.service.triggers.schedule_times import ClockNote, clock_note, due_time, start_id, tick_text, ticks_after
from perdure.service.triggers.trigger_directory import find_trigger
from perdure.service.triggers.trigger_input import TriggerFacts
from perdure.service.triggers.trigger_records import ScheduleConfig, TriggerRecord
from perdure.service.triggers.trigger_specs import checked_config
from perdure.service.triggers.trigger_starts import TriggeredStart, triggered_start
from perdure.stores.protocol import Committed, HeadFilter, Post

PREVIEW_MAX = 1_000
"""How many ticks are previewed at a time."""

BACKFILL_MAX = 1_000
"""How many ticks are backfilled by one request."""

BACKFILL_PIECE = 100
"""How many starts are posted in one commit."""


class PreviewedTick(msgspec.Struct, frozen=True):
    """A tick to come. `local` is what a clock of the zone shows, and `due_at_s` when it is started: later than `tick_at_s` by its part of the jitter."""

    tick_at_s: float
    due_at_s: float
    local: str
    note: ClockNote


class SchedulePreview(msgspec.Struct, frozen=True):
    """The next ticks of a schedule, in order. Fewer than were asked for: there are no more. `sentence` says the schedule in words."""

    timezone: str
    sentence: str
    ticks: list[PreviewedTick]


class Backfill(msgspec.Struct, frozen=True):
    """The ticks of a range of time: how many there are in all, the first and the last of them, and for how many an execution was there before.

    `started` counts the executions that were started now, and is 0 in a dry run.
    """

    total: int
    existing: int
    started: int
    dry_run: bool
    first_at_s: float | None
    last_at_s: float | None


async def preview_trigger(access: StoreAccess, tenant: str, trigger: str, count: int) -> SchedulePreview:
    """The next ticks of a schedule, as if it were active now.

    Raises:
        NotFound: there is no such trigger.
        BadValue: it is no schedule, or the number is out of range.
    """
    record, config = await _schedule(access, tenant, trigger)
    state = await SCHEDULE_STATES.read(access.store, tenant, trigger)
    now_s = (await access.store.store_time()).now_s
    began_at_s = record.resumed_at_s or now_s
    after_s = now_s if state is None or not record.is_active else max(state.value.after_s, now_s)
    return _preview(config, trigger, began_at_s, after_s, count)


async def preview_config(access: StoreAccess, config: ScheduleConfig, count: int) -> SchedulePreview:
    """The next ticks of a schedule that is not saved, as if it began now.

    Raises:
        BadValue: it is not valid, or the number is out of range.
    """
    _ = checked_config(config)
    now_s = (await access.store.store_time()).now_s
    return _preview(config, "", now_s, now_s, count)


async def backfill(access: StoreAccess, tenant: str, trigger: str, author: str, from_at_s: float, until_at_s: float, *, expect: int | None = None) -> Backfill:
    """Starts executions for the ticks of a schedule from one time up to but not including another, whatever its overlap and whether or not it is active.

    Without `expect` it is a dry run, which counts; `expect` is then the number that it has found. A tick that has started an execution already is not started
    again, so a backfill can be repeated.

    Raises:
        NotFound, Ambiguous: there is no such trigger, or no such workflow any more.
        BadValue: it is no schedule, the range has too many ticks, or another number than was expected; or the workflow does not take the input.
        DefinitionDisabled, BadDefinition: the definition can't be started.
    """
    record, config = await _schedule(access, tenant, trigger)
    if not from_at_s < until_at_s:
        raise BadValue("untilAt", tick_text(until_at_s), "after fromAt")
    came = takewhile(lambda tick_s: tick_s < until_at_s, ticks_after(config, record.resumed_at_s or record.created_at_s, from_at_s - 0.001))
    ticks = list(islice(came, BACKFILL_MAX + 1))
    if len(ticks) > BACKFILL_MAX:
        raise BadValue(
            "untilAt", tick_text(until_at_s), f"earlier: the range has more than {BACKFILL_MAX:,} times, of which the last is {tick_text(ticks[-2])}"
        )
    if expect is not None and expect != len(ticks):
        raise BadValue("expect", expect, f"{len(ticks)}, the number of times in the range. Look at the dry run, which is the same without expect")
    existing = started = 0
    for first in range(0, len(ticks), BACKFILL_PIECE):
        piece = ticks[first : first + BACKFILL_PIECE]
        there, made = await _backfill_piece(access, tenant, record, author, piece, dry_run=expect is None)
        existing, started = existing + there, started + made
    return Backfill(len(ticks), existing, started, expect is None, ticks[0] if ticks else None, ticks[-1] if ticks else None)


async def _backfill_piece(access: StoreAccess, tenant: str, record: TriggerRecord, author: str, ticks: list[float], dry_run: bool) -> tuple[int, int]:
    """Starts the executions of some ticks that have none. Returns how many had one, and how many were started."""
    posts, keys, now_s = dict[Key, Post](), list[Key](), (await access.store.store_time()).now_s
    for tick_s in ticks:
        id, about = start_id(record.id, tick_s), {"tick": tick_text(tick_s), "number": 0, "by": author}
        facts = TriggerFacts(id=record.id, name=record.name, kind="schedule", key=id, at_s=now_s, about=about)
        request, hosted = await triggered_start(access, tenant, record, TriggeredStart(checked_name(id, "id"), about, facts))
        keys.append(request.key)
        if not dry_run:
            posts[request.key] = await start_post(access, initiated_by(request, author), hosted)
    known = {head.key for head in await access.store.heads(HeadFilter(keys=tuple(keys), limit=len(keys)))}
    wanted = [post for key, post in posts.items() if key not in known]
    answers = await access.store.commit(wanted) if wanted else []
    if not all(isinstance(answer, Committed) for answer in answers):
        raise StoreUnavailable("the store did not carry out all starts of the backfill. Repeat it: what was started is not started again")
    return len(known), sum(len(answer.created) for answer in answers if isinstance(answer, Committed))


async def _schedule(access: StoreAccess, tenant: str, trigger: str) -> tuple[TriggerRecord, ScheduleConfig]:
    record = (await find_trigger(access, tenant, trigger)).value
    if not isinstance(record.config, ScheduleConfig):
        raise BadValue("trigger", trigger, f"a schedule; it is of the type {record.kind}")
    return record, record.config


def _preview(config: ScheduleConfig, trigger: str, began_at_s: float, after_s: float, count: int) -> SchedulePreview:
    if not 1 <= count <= PREVIEW_MAX:
        raise BadValue("count", count, f"a number from 1 to {PREVIEW_MAX:,}")
    zone = ZoneInfo(config.timezone)
    ticks = list[PreviewedTick]()
    for tick_s in islice(ticks_after(config, began_at_s, after_s), count):
        local = datetime.fromtimestamp(tick_s, zone).isoformat(timespec="seconds" if tick_s == int(tick_s) else "milliseconds")
        ticks.append(PreviewedTick(tick_s, due_time(config, trigger, tick_s), local, clock_note(config, tick_s)))
    return SchedulePreview(config.timezone, schedule_sentence(config), ticks)
