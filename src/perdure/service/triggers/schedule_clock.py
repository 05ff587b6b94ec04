"""The schedule clock: the workflow of which one execution in each tenant starts what the schedules of the tenant have due.

It sleeps until the first schedule is due, or until a message says that something has changed. Then a step reads the schedules that are due, in pages. The start
of an execution and the new state of its schedule are one post, which expects the state that was read. So a step that is performed again after a crash, or a
second clock, starts nothing twice. What goes wrong with one schedule is noted in its state and in the log, and stops neither the others nor the clock.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Retry, step
from perdure.code.step_environment import current_resources, step_info
from perdure.core.attribute_filter import Is, attribute_conditions
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import LogDamaged, PerdureError, StoreError
from perdure.core.operations import SCHEDULE_WORKFLOW
from perdure.core.paths import Key
from perdure.service.execution_operations import start_post
from perdure.service.execution_requests import cancel_request
from perdure.service.record_kinds import KeptValue
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.damaged_schedules import mend_schedules
from perdure.service.triggers.schedule_decisions import (
    ON_TIME_S,
    POSTPONED_S,
    ScheduleDecision,
    ScheduleLook,
    decide,
    failed_state,
    postponed_state,
    scheduled,
    set_right,
    with_incident,
)
from perdure.service.triggers.schedule_states import (
    BY_DUE,
    CLOCK_SIGNAL,
    DUE,
    SCHEDULE_STATES,
    ZONE,
    ScheduleState,
    active_schedules,
    ended_state,
    following_clock,
    state_change,
)
from perdure.service.triggers.schedule_times import start_id, tick_text
from perdure.service.triggers.trigger_input import TriggerFacts
from perdure.service.triggers.trigger_records import SYSTEM, TRIGGERS, ScheduleConfig, TriggerPause, TriggerRecord, trigger_change
from perdure.service.triggers.trigger_starts import TRIGGER_ATTRIBUTE, TriggeredStart, triggered_start
from perdure.service.triggers.zone_database import outdated_by, zone_version
from perdure.stores.protocol import Committed, HeadFilter, Post, Refused, Store
from perdure.stores.records import Stale

logger = logging.getLogger("perdure.schedules")

PAGE = 200
"""How many schedules are dealt with in one commit."""

PAGES_AHEAD = 2
"""How many pages of executions the clock starts ahead of the engines that begin them."""

STEP_S = 1.0
"""About how long one step goes on while more is due."""

LOOKS_AT_A_TIME = 1_000
"""How many messages one look answers."""

CANCELLED_MAX = 500
"""How many executions of a schedule one tick cancels."""

BACKLOG_WAIT_S, BACKLOG_POLL_S = 1.0, 0.02
"""How long the clock lets engines begin what it has started before it starts more, so that other executions find their turn; and how often it asks."""

CLOCK_RETRY = Retry(max=1_000_000_000, max_wait=5.0)
"""A clock never gives up: only the store can keep it from its work."""


class ClockState(msgspec.Struct, frozen=True):
    """What a clock knows of its last look: the time, and the zone database by which all schedules are right."""

    looked_at_s: float = 0.0
    zone_version: str = ""


class ClockLook(msgspec.Struct, frozen=True):
    """What a step of the clock has done: how many schedules it has dealt with, and how many executions it has started. The next look is after `wait_s`
    (None: when a message comes). If the time of the store `was_set_back`, this clock has started the one that follows it.
    """

    looked_at_s: float
    zone_version: str
    seen: int
    started: int
    wait_s: float | None
    was_set_back: bool = False


class _Plan(NamedTuple):
    """What is posted for one schedule. If the start in it is not admitted or impossible, its state is changed all the same, by what `decision` says."""

    kept: KeptValue[ScheduleState]
    post: Post
    look: ScheduleLook | None = None
    decision: ScheduleDecision | None = None
    key: Key | None = None


async def look_at_schedules(access: StoreAccess, own: Key, last: ClockState) -> ClockLook:
    """Starts what the schedules of a tenant have due, for about `STEP_S` seconds, and finds out when the next one is due. `own` is the clock.

    Raises:
        StoreError: the store failed. What was started until then is started; the others are dealt with by the next look.
    """
    tenant, until_s, seen, started = own.tenant, monotonic() + STEP_S, 0, 0
    now_s = (await access.store.store_time()).now_s
    if now_s < last.looked_at_s - ON_TIME_S:
        await _look_again_at_all(access, tenant, now_s)
        _ = await access.store.commit([Post(messages=following_clock(own, f"set back:{own.id}"))])
        return ClockLook(now_s, last.zone_version, 0, 0, None, was_set_back=True)
    version = last.zone_version
    if version != zone_version() and not await _renew_zones(access, tenant, now_s):
        version = zone_version()
    recent = deque[list[Key]]()
    while True:
        page = await SCHEDULE_STATES.page(access.store, tenant, where=attribute_conditions({DUE: Is("<=", now_s)}), order=BY_DUE, limit=PAGE)
        keys = await _deal_with(access, tenant, page, now_s)
        seen, started = seen + len(page), started + len(keys)
        now_s = (await access.store.store_time()).now_s
        wait_s = await _time_to_next(access.store, tenant, now_s)
        if wait_s != 0 or monotonic() > until_s:
            break
        recent.append(keys)
        if len(recent) > PAGES_AHEAD:
            await _let_engines_begin(access.store, recent.popleft())
    return ClockLook(now_s, version, seen, started, wait_s if version == zone_version() else 0.0)


async def _time_to_next(store: Store, tenant: str, now_s: float) -> float | None:
    """How long it is until the next schedule is due; None if none is."""
    first = await active_schedules(store, tenant, 1)
    return None if not first or first[0].value.due_at_s is None else max(first[0].value.due_at_s - now_s, 0.0)


async def _deal_with(access: StoreAccess, tenant: str, page: Sequence[KeptValue[ScheduleState]], now_s: float) -> list[Key]:
    """Deals with schedules that are due, each by its own post, and returns what was started."""
    triggers = await asyncio.gather(*(TRIGGERS.read(access.store, tenant, kept.key) for kept in page))
    plans = [await _planned(access, tenant, kept, trigger, now_s) for kept, trigger in zip(page, triggers, strict=True)]
    answers = await access.store.commit([plan.post for plan in plans]) if plans else []
    others = list[Post]()
    for plan, answer in zip(plans, answers, strict=True):
        if isinstance(answer, Committed | Stale) or plan.look is None or plan.decision is None:
            continue  # another one was first, which found what there is to do
        if isinstance(answer, Refused):
            after = plan.decision.refused
        else:
            after = failed_state(plan.look, plan.decision, f"the store did not take the start and answered {type(answer).__name__}")
        others.append(Post(records=(state_change(tenant, plan.kept.key, plan.kept.version, after),)))
    if others:
        _ = await access.store.commit(others)
    return [plan.key for plan, answer in zip(plans, answers, strict=True) if plan.key is not None and isinstance(answer, Committed)]


async def _planned(access: StoreAccess, tenant: str, kept: KeptValue[ScheduleState], trigger: KeptValue[TriggerRecord] | None, now_s: float) -> _Plan:
    if trigger is None or not isinstance(trigger.value.config, ScheduleConfig):
        return _Plan(kept, Post(records=(state_change(tenant, kept.key, kept.version, None),)))
    if not trigger.value.is_active:
        return _Plan(kept, Post(records=(state_change(tenant, kept.key, kept.version, ended_state(kept.value)),)))
    look = ScheduleLook(trigger.value, trigger.value.config, kept.value, now_s, zone_version())
    try:
        decision = decide(look)
    except Exception as error:  # of whatever kind: one schedule must not stop the others
        return _Plan(kept, Post(records=(state_change(tenant, kept.key, kept.version, _postponed(look, error)),)))
    if decision.tick_s is None:
        return _Plan(kept, Post(records=(state_change(tenant, kept.key, kept.version, decision.after),)))
    if broken := await _broken(access.store, tenant, look, decision.tick_s):
        pause = TriggerPause(now_s, SYSTEM, broken.incidents[-1].why, breaker=True)
        paused = msgspec.structs.replace(trigger.value, pause=pause, updated_at_s=now_s, updated_by=SYSTEM)
        logger.warning("the schedule %s of %s has paused itself: %s", trigger.value.id, tenant, pause.reason)
        return _Plan(kept, Post(records=(trigger_change(tenant, trigger.version, paused), state_change(tenant, kept.key, kept.version, broken))))
    try:
        post, key = await _start(access, tenant, look, decision.tick_s, decision.after.number)
    except Exception as error:  # of whatever kind: one schedule must not stop the others
        if isinstance(error, StoreError) and not isinstance(error, LogDamaged):
            raise  # it is the store that has failed, and not the schedule
        shown = _shown(error)
        logger.warning("the schedule %s of %s started nothing at %s: %s", trigger.value.id, tenant, tick_text(decision.tick_s), shown)
        failed = failed_state(look, decision, shown)
        return _Plan(kept, Post(records=(state_change(tenant, kept.key, kept.version, failed),)))
    state = state_change(tenant, kept.key, kept.version, decision.after)
    return _Plan(kept, msgspec.structs.replace(post, records=(state,)), look, decision, key)


def _postponed(look: ScheduleLook, error: Exception) -> ScheduleState:
    logger.warning("nothing could be decided on the schedule %s: %s. It is looked at again in %g s", look.trigger.id, error, POSTPONED_S)
    return postponed_state(look, _shown(error))


def _shown(error: Exception) -> str:
    return str(error) if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}"


async def _start(access: StoreAccess, tenant: str, look: ScheduleLook, tick_s: float, number: int) -> tuple[Post, Key]:
    """The post that starts the execution of a tick, and the key of that."""
    trigger, config = look.trigger, look.config
    about = {"tick": tick_text(tick_s), "number": number}
    facts = TriggerFacts(id=trigger.id, name=trigger.name, kind="schedule", key=start_id(trigger.id, tick_s), at_s=look.now_s, about=about)
    most = 1 if config.overlap in ("skip", "queue") else None
    request, hosted = await triggered_start(access, tenant, trigger, TriggeredStart(facts.key, about, facts, most))
    post = await start_post(access, request, hosted)
    if config.overlap == "cancel":
        cancelled = await _cancel_messages(access.store, tenant, trigger.id, request.key, tick_s)
        post = msgspec.structs.replace(post, messages=(*post.messages, *cancelled))
    await asyncio.sleep(0)
    return post, request.key


async def _cancel_messages(store: Store, tenant: str, trigger: str, but: Key, tick_s: float) -> list[OutgoingMessage]:
    which = HeadFilter(tenant=tenant, ended=False, where=attribute_conditions({TRIGGER_ATTRIBUTE: trigger}), limit=CANCELLED_MAX)
    requests = [
        cancel_request(head, f"its schedule has started another execution for {tick_text(tick_s)}") for head in await store.heads(which) if head.key != but
    ]
    return [message for request in requests if request is not None for message in request.post.messages]


async def _broken(store: Store, tenant: str, look: ScheduleLook, tick_s: float) -> ScheduleState | None:
    """The state of a schedule that has failed as often in a row as it may; None if it has not."""
    most = look.config.break_after
    if not most:
        return None
    of_trigger = attribute_conditions({TRIGGER_ATTRIBUTE: look.trigger.id})
    newest = await store.heads(HeadFilter(tenant=tenant, ended=True, created_from_s=look.trigger.resumed_at_s, where=of_trigger, limit=most))
    if len(newest) < most or any(head.status != "failed" for head in newest):
        return None
    why = f"its last {most} executions have failed, the newest is {newest[0].key.id}. Resume it when the cause is mended"
    return with_incident(look, ended_state(look.state), "broken", tick_s, why)


async def _let_engines_begin(store: Store, keys: Sequence[Key]) -> None:
    """Waits until engines have begun half of what was started, but not for long: there may be no engine for it."""
    until_s = monotonic() + BACKLOG_WAIT_S
    while keys and monotonic() < until_s:
        pending = await store.heads(HeadFilter(keys=tuple(keys), statuses=frozenset(("pending",)), limit=len(keys)))
        if 2 * len(pending) <= len(keys):
            return
        await asyncio.sleep(BACKLOG_POLL_S)


async def _renew_zones(access: StoreAccess, tenant: str, now_s: float) -> bool:
    """Finds the next ticks of a page of schedules anew, by a zone database that has changed. Returns whether there may be more of them."""
    where = attribute_conditions({ZONE: outdated_by(zone_version())})
    page = await SCHEDULE_STATES.page(access.store, tenant, where=where, limit=PAGE)
    await _reschedule(access, tenant, page, now_s)
    return len(page) == PAGE


async def _look_again_at_all(access: StoreAccess, tenant: str, now_s: float) -> None:
    """Finds the next ticks of all schedules anew, after the time of the store was set back."""
    logger.warning("the time of the store was set back; the next times of all schedules of %s are found anew", tenant)
    found = [kept async for kept in SCHEDULE_STATES.all(access.store, tenant, where=attribute_conditions({DUE: Is("exists")}))]
    for first in range(0, len(found), PAGE):
        await _reschedule(access, tenant, found[first : first + PAGE], now_s)


async def _reschedule(access: StoreAccess, tenant: str, page: Sequence[KeptValue[ScheduleState]], now_s: float) -> None:
    triggers = await asyncio.gather(*(TRIGGERS.read(access.store, tenant, kept.key) for kept in page))
    posts = list[Post]()
    for kept, trigger in zip(page, triggers, strict=True):
        if trigger is None or not isinstance(trigger.value.config, ScheduleConfig) or not trigger.value.is_active:
            continue  # its state says so already, or is about to
        look = set_right(ScheduleLook(trigger.value, trigger.value.config, kept.value, now_s, zone_version()))
        try:
            state = scheduled(look, look.state)
        except Exception as error:  # as above
            state = _postponed(look, error)
        posts.append(Post(records=(state_change(tenant, kept.key, kept.version, state),)))
    if posts:
        _ = await access.store.commit(posts)


# The workflow


@step(name="look_at_schedules", retry=CLOCK_RETRY)
async def _look(last: ClockState) -> ClockLook:
    access, own = StoreAccess(current_resources.get().store), step_info().execution
    try:
        return await look_at_schedules(access, own, last)
    except LogDamaged:
        if not await mend_schedules(access.store, own.tenant):
            raise
        return await look_at_schedules(access, own, last)


async def _clock_workflow(ctx: Context) -> None:
    async for turn in ctx.loop("looks", state=ClockState(), keep=1):
        look = await turn.step(_look, turn.state)
        if look.was_set_back:
            return  # the time of an execution never goes back, so this one would sleep for too long; another one has begun
        turn.state = ClockState(look.looked_at_s, look.zone_version)
        if look.wait_s != 0:
            await _until_due_or_changed(turn, look.wait_s)


async def _until_due_or_changed(ctx: Context, wait_s: float | None) -> None:
    async def changed(ctx: Context) -> None:
        _ = await ctx.listen_many(CLOCK_SIGNAL, limit=LOOKS_AT_A_TIME)

    async def due(ctx: Context) -> None:
        await ctx.sleep(wait_s or 0.0)

    if wait_s is None:
        await changed(ctx)
    else:
        _ = await ctx.race(changed=changed, due=due)


SCHEDULE_CODE = CodeWorkflow(_clock_workflow, SCHEDULE_WORKFLOW)
"""The workflow of the schedule clock. Engines that run code of users have it as well."""
