"""Decides what becomes of a schedule when it is looked at: which tick is started now, if any, and what the state is afterwards. Nothing is read or written.

A tick that is less than `ON_TIME_S` late is on time: engines restart. Of those that are later, which nobody was there to start, the last `catch_up` are
started, one after the other, and the others are missed. With ``overlap: queue``, a tick that has to wait for an earlier execution is kept in the state, and
tried again after a time that grows with how long it has waited.
"""

from typing import NamedTuple

import msgspec

from perdure.service.triggers.schedule_states import INCIDENT_CHARACTERS_MAX, IncidentKind, ScheduleIncident, ScheduleState
from perdure.service.triggers.schedule_times import COUNTED_MAX, depends_on_zone, due_time, next_tick, passed_ticks, tick_text, ticks_after
from perdure.service.triggers.trigger_records import ScheduleConfig, TriggerRecord

ON_TIME_S = 300.0
"""By how much a tick may be late and still counts as on time."""

OWED_MAX = 1_000
"""How many ticks that are due an edit of a schedule keeps."""

POSTPONED_S = 300.0
"""After how long a schedule is looked at again on which nothing could be decided."""

IN_PROGRESS = "an earlier execution of the schedule has not ended"

RETRY_MIN_S, RETRY_MAX_S, RETRY_PART = 1.0, 30.0, 0.1
"""When a tick that waits is tried again: after this part of the time that it has waited, within these bounds."""


class ScheduleLook(NamedTuple):
    """What a look at a schedule has found: a trigger, its state, and the time and the zone database by which it is decided on."""

    trigger: TriggerRecord
    config: ScheduleConfig
    state: ScheduleState
    now_s: float
    zone_version: str


class ScheduleDecision(NamedTuple):
    """The `tick_s` to start (None: nothing), and the state if it is started, or if nothing is.

    If the start is not admitted, the state is `refused`; if it fails, it is what `failed_state` makes.
    """

    tick_s: float | None
    after: ScheduleState
    refused: ScheduleState


def decide(look: ScheduleLook) -> ScheduleDecision:
    """Decides on one tick of a schedule, or on when it is looked at next."""
    look = set_right(look)
    state, now_s = look.state, look.now_s
    if state.waiting and state.retry_at_s <= now_s:
        return _turn_of_waiting(look)
    look = _without_missed(look)
    state = look.state
    tick_s = next_tick(look.config, look.trigger.resumed_at_s, state.after_s)
    if tick_s is None or due_time(look.config, look.trigger.id, tick_s) > now_s:
        return _nothing(scheduled(look, state))
    passed = msgspec.structs.replace(state, after_s=tick_s)
    if state.waiting:
        return _nothing(scheduled(look, _with_waiting(look, passed, tick_s)))
    started = scheduled(look, msgspec.structs.replace(passed, number=state.number + 1))
    if look.config.overlap == "queue":
        return ScheduleDecision(tick_s, started, scheduled(look, _with_waiting(look, passed, tick_s)))
    return ScheduleDecision(tick_s, started, scheduled(look, with_incident(look, passed, "skipped", tick_s, IN_PROGRESS)))


def due_ticks(trigger: TriggerRecord, state: ScheduleState, now_s: float) -> list[float]:
    """The ticks that wait for their turn, and those that are due and on time, in order: what a schedule still has to start."""
    config = trigger.config
    if not isinstance(config, ScheduleConfig):
        return []
    due = list(state.waiting)
    for tick_s in ticks_after(config, trigger.resumed_at_s, max(state.after_s, now_s - ON_TIME_S - config.jitter_s)):
        if tick_s > now_s or len(due) >= OWED_MAX:
            break
        if due_time(config, trigger.id, tick_s) <= now_s:
            due.append(tick_s)
    return due


def scheduled(look: ScheduleLook, state: ScheduleState) -> ScheduleState:
    """The state with its next tick, and with the time at which it is looked at next."""
    tick_s = next_tick(look.config, look.trigger.resumed_at_s, state.after_s)
    times_s = [] if tick_s is None else [due_time(look.config, look.trigger.id, tick_s)]
    if state.waiting:
        times_s.append(state.retry_at_s)
    zone_version = look.zone_version if depends_on_zone(look.config) else ""
    return msgspec.structs.replace(state, tick_s=tick_s, due_at_s=min(times_s, default=None), zone_version=zone_version)


def with_incident(look: ScheduleLook, state: ScheduleState, kind: IncidentKind, tick_s: float, why: str) -> ScheduleState:
    """The state with an incident that was found now."""
    return state.with_incident(ScheduleIncident(kind, tick_s, look.now_s, why[:INCIDENT_CHARACTERS_MAX]))


def failed_state(look: ScheduleLook, decision: ScheduleDecision, why: str) -> ScheduleState:
    """The state if the start of a tick has failed: it is dealt with, and has started nothing."""
    assert decision.tick_s is not None, "only a start fails"
    after = msgspec.structs.replace(decision.after, number=look.state.number)
    return with_incident(look, after, "failed", decision.tick_s, why)


def postponed_state(look: ScheduleLook, why: str) -> ScheduleState:
    """The state of a schedule on which nothing could be decided, such as one whose time zone is not known here: it is looked at again later."""
    state = msgspec.structs.replace(look.state, due_at_s=look.now_s + POSTPONED_S, zone_version=look.state.zone_version and look.zone_version)
    return with_incident(look, state, "failed", look.now_s if look.state.tick_s is None else look.state.tick_s, why)


def _nothing(state: ScheduleState) -> ScheduleDecision:
    return ScheduleDecision(None, state, state)


def set_right(look: ScheduleLook) -> ScheduleLook:
    """The look after a clock was set back: what lies in the future has not been dealt with. What was started already is found by its id when it comes again."""
    state = look.state
    if state.after_s <= look.now_s + ON_TIME_S:
        return look
    return look._replace(state=msgspec.structs.replace(state, after_s=look.now_s))


def _turn_of_waiting(look: ScheduleLook) -> ScheduleDecision:
    """Attempts the start of the first of the ticks that wait for their turn."""
    state, now_s = look.state, look.now_s
    first, *others = state.waiting
    popped = msgspec.structs.replace(state, waiting=tuple(others), waiting_since_s=now_s, retry_at_s=now_s + RETRY_MIN_S, number=state.number + 1)
    if look.config.overlap == "queue":
        waited_s = min(max(RETRY_PART * (now_s - state.waiting_since_s), RETRY_MIN_S), RETRY_MAX_S)
        return ScheduleDecision(first, scheduled(look, popped), scheduled(look, msgspec.structs.replace(state, retry_at_s=now_s + waited_s)))
    # The schedule was edited while a tick was due, and no longer queues.
    popped = msgspec.structs.replace(popped, retry_at_s=now_s)
    skipped = with_incident(look, msgspec.structs.replace(popped, number=state.number), "skipped", first, IN_PROGRESS)
    return ScheduleDecision(first, scheduled(look, popped), scheduled(look, skipped))


def _with_waiting(look: ScheduleLook, state: ScheduleState, tick_s: float) -> ScheduleState:
    if len(state.waiting) >= look.config.queued_max:
        why = f"{len(state.waiting)} earlier ones wait for their turn, which is the maximum"
        return with_incident(look, state, "skipped", tick_s, why)
    if state.waiting:
        return msgspec.structs.replace(state, waiting=(*state.waiting, tick_s))
    return msgspec.structs.replace(state, waiting=(tick_s,), waiting_since_s=look.now_s, retry_at_s=look.now_s + RETRY_MIN_S)


def _without_missed(look: ScheduleLook) -> ScheduleLook:
    """The look without the ticks that are too late to be started."""
    config, state, began_at_s = look.config, look.state, look.trigger.resumed_at_s
    late_until_s = look.now_s - ON_TIME_S - config.jitter_s
    first = next_tick(config, began_at_s, state.after_s)
    if first is None or first > late_until_s:
        return look
    passed = passed_ticks(config, began_at_s, state.after_s, late_until_s, config.catch_up + 1)
    if passed.many <= config.catch_up:
        return look
    after_s = passed.last[0]
    missed = passed.many - config.catch_up
    number = f"{missed} or more times were" if passed.many >= COUNTED_MAX else "a time was" if missed == 1 else f"{missed} times were"
    why = f"{number} missed up to {tick_text(after_s)}: no engine was there to start an execution"
    return look._replace(state=with_incident(look, msgspec.structs.replace(state, after_s=after_s), "missed", first, why))
