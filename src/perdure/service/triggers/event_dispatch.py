"""The workflow of announced events: starts the executions that one event triggers, each once, across crashes.

Its execution is started in the commit in which the event happens, or by which one is posted, so no event is lost. It looks which triggers listen, holds the
event against their conditions, and starts what they start, under ids that follow from trigger and event. What a trigger can't start is in the result, and holds
up no other.

A chain of triggers that would run for ever, since each starts what the next one listens to, is stopped after `CHAIN_MAX` triggers: the next one is paused, with
the chain as the reason.
"""

import logging
from hashlib import sha256
from typing import Any

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Retry, step
from perdure.code.step_environment import current_resources, step_info
from perdure.core import values
from perdure.core.errors import BadExpression, ExpressionFailed, LogDamaged, PerdureError, StoreError
from perdure.core.operations import EVENTS_WORKFLOW, Success
from perdure.core.paths import Key
from perdure.definitions.expr.condition import compile_condition
from perdure.definitions.expr.plain_values import ValueKindError
from perdure.service import execution_operations
from perdure.service.reruns import read_execution
from perdure.service.store_access import StoreAccess
from perdure.service.triggers import trigger_directory
from perdure.service.triggers.event_listeners import AnnouncedEvent, read_listeners
from perdure.service.triggers.trigger_input import TriggerFacts, TriggerScope
from perdure.service.triggers.trigger_records import SYSTEM, TRIGGERS, EventConfig, TriggerPause, TriggerRecord
from perdure.service.triggers.trigger_starts import TriggeredStart, triggered_start

logger = logging.getLogger("perdure.triggers")

CHAIN_MAX = 16
"""How many triggers may lead from one to the next."""

ID_BYTES_MAX = 900
"""A longer id of an event is replaced by its hash."""


class FailedTrigger(msgspec.Struct, frozen=True):
    """A trigger that could not start what it starts, and why."""

    trigger: str
    code: str
    message: str


class DispatchedEvent(msgspec.Struct, frozen=True):
    """What an event has started, by which triggers it was heard and passed over since a condition did not hold, and what failed."""

    started: tuple[Key, ...] = ()
    passed: tuple[str, ...] = ()
    failed: tuple[FailedTrigger, ...] = ()


async def _dispatched(access: StoreAccess, tenant: str, event: AnnouncedEvent, id: str) -> DispatchedEvent:
    of = "" if event.source is None else event.source.workflow
    payload = await _payload(access, event)
    started, passed, failed = list[Key](), list[str](), list[FailedTrigger]()
    for listener in await read_listeners(access.store, tenant):
        if not listener.hears(event.type, of):
            continue
        try:
            kept = await TRIGGERS.read(access.store, tenant, listener.trigger)
            if kept is None or not kept.value.is_active:
                continue
            if not _holds(kept.value, event, payload):
                passed.append(listener.trigger)
            elif await _is_stopped(access, tenant, kept.value, event):
                failed.append(FailedTrigger(listener.trigger, "trigger_chain", f"a chain of {CHAIN_MAX} triggers was stopped"))
            else:
                started.append(await _started(access, tenant, kept.value, event, id, payload))
        except PerdureError as error:
            if isinstance(error, StoreError) and not isinstance(error, LogDamaged):
                raise  # the step is attempted again; what was started is found then
            logger.warning("the trigger %s could not start anything on the event %s: %s", listener.trigger, event.type, error)
            failed.append(FailedTrigger(listener.trigger, error.code, str(error)))
    return DispatchedEvent(tuple(started), tuple(passed), tuple(failed))


async def _payload(access: StoreAccess, event: AnnouncedEvent) -> dict[str, Any]:
    """The event as triggers see it."""
    if event.source is None:
        return dict(event.data)
    found: dict[str, Any] = {"type": event.type, "workflow": event.source.workflow, "id": event.source.id, "number": event.number, "at_s": event.at_s}
    if event.error is not None:
        return found | {"error": {"type": event.error[0], "message": event.error[1]}}
    raw = event.value
    if raw is None and event.type == "completed":
        ended = (await read_execution(access, event.source)).ended
        raw = await access.payload(ended.outcome.value) if ended is not None and isinstance(ended.outcome, Success) else None
    return found | ({"omitted": True, "value": None} if raw is None else {"value": values.decode(raw, Any, "the value of an event")})


def _holds(trigger: TriggerRecord, event: AnnouncedEvent, payload: dict[str, Any]) -> bool:
    """Whether all conditions of a trigger hold. One that can't be evaluated, because the event lacks what it reads, does not."""
    assert isinstance(trigger.config, EventConfig), "it listens to events"
    scope = TriggerScope({"self": payload, "trigger": {"id": trigger.id, "name": trigger.name, "kind": trigger.kind, "payload": payload}})
    try:
        return all(compile_condition(row, "false").evaluate(scope) for row in trigger.config.where)
    except (ExpressionFailed, BadExpression, ValueKindError):
        return False


async def _started(access: StoreAccess, tenant: str, trigger: TriggerRecord, event: AnnouncedEvent, id: str, payload: dict[str, Any]) -> Key:
    key = f"event:{trigger.id}:{id}"
    key = key if len(key.encode()) <= ID_BYTES_MAX else f"event:{sha256(key.encode()).hexdigest()}"
    about = {"event": event.type} | ({} if event.source is None else {"workflow": event.source.workflow, "execution": event.source.id})
    facts = TriggerFacts(id=trigger.id, name=trigger.name, kind="event", key=key, at_s=event.at_s, about=about, chain=event.chain)
    request, hosted = await triggered_start(access, tenant, trigger, TriggeredStart(key, payload, facts))
    started, _ = await execution_operations.start_execution(access, request, hosted)
    return started


async def _is_stopped(access: StoreAccess, tenant: str, trigger: TriggerRecord, event: AnnouncedEvent) -> bool:
    """Pauses a trigger to which a chain leads that is too long; returns whether it is."""
    if len(event.chain) < CHAIN_MAX:
        return False
    shown = " → ".join([*event.chain[-4:], trigger.id])
    reason = f"a chain of {CHAIN_MAX} triggers that would run for ever was stopped: … → {shown}. Change what one of them listens to, and resume this one"
    pause = TriggerPause((await access.store.store_time()).now_s, SYSTEM, reason, breaker=True)
    _ = await trigger_directory.change_trigger(access, tenant, trigger.id, SYSTEM, trigger_directory.replacing(pause=pause))
    logger.warning("the trigger %s of tenant %s is paused: %s", trigger.id, tenant, reason)
    return True


@step(name="event_dispatch", retry=Retry(max=1_000))
async def _dispatch(event: AnnouncedEvent) -> DispatchedEvent:
    own = step_info().execution
    return await _dispatched(StoreAccess(current_resources.get().store), own.tenant, event, own.id)


async def _event_workflow(ctx: Context, event: AnnouncedEvent) -> DispatchedEvent:
    return await ctx.step(_dispatch, event)


EVENTS_CODE = CodeWorkflow(_event_workflow, EVENTS_WORKFLOW)
"""The workflow of announced events."""
