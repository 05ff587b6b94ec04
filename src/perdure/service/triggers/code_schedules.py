"""The schedules that code declares: a trigger for each, which belongs to code, made and changed when an engine with that code begins.

An engine says in the description of its process which of its workflows have one. A schedule that no living engine declares any more is neither removed nor
stopped: whoever begins next may have the code again, as during a deployment. It is listed as undeclared, and can be deleted then.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from perdure.code.declarations import CodeWorkflow
from perdure.code.declared_schedules import Schedule
from perdure.code.durations import duration_seconds
from perdure.core.attribute_filter import attribute_conditions
from perdure.core.errors import LogDamaged, LogVersionUnsupported, StaleRecord, StoreUnavailable
from perdure.runtime.holder import decode_process_info
from perdure.service.record_kinds import CHANGES_MAX, post_records
from perdure.service.triggers.trigger_changes import TriggerEdit, change_triggers
from perdure.service.triggers.trigger_input import checked_mapping
from perdure.service.triggers.trigger_records import TRIGGERS, ScheduleConfig, TriggerRecord
from perdure.service.triggers.trigger_specs import checked_config
from perdure.stores.protocol import ReadOnlyStore, Store

logger = logging.getLogger("perdure.schedules")

BY_CODE = "code"
"""Who has made and changed what code declares."""


def code_trigger_id(workflow: str) -> str:
    """The id of the trigger for the schedule that a workflow of code declares."""
    return f"code:{workflow}"


def schedule_config(schedule: Schedule) -> ScheduleConfig:
    """The config of a schedule that code declares, checked.

    Raises:
        BadValue, BadExpression: it is not valid.
    """
    config = ScheduleConfig(
        cron=schedule.cron,
        timezone=schedule.timezone,
        every_s=None if schedule.every is None else duration_seconds(schedule.every, "Schedule(every)"),
        once=tuple(schedule.once),
        jitter_s=duration_seconds(schedule.jitter, "Schedule(jitter)") if schedule.jitter else 0.0,
        starts_at_s=None if schedule.starts is None else schedule.starts.timestamp(),
        ends_at_s=None if schedule.ends is None else schedule.ends.timestamp(),
        catch_up=schedule.catch_up,
        overlap=schedule.overlap,
        queued_max=schedule.queued_max,
        break_after=schedule.break_after,
    )
    _ = checked_config(config)
    checked_mapping({}, schedule.input)
    return config


async def declare_schedules(store: Store, tenant: str, workflows: Iterable[CodeWorkflow]) -> None:
    """Makes the triggers that code declares, and changes those for which it says something else. Their switch and pause stay as they are.

    One whose record can't be read stays as it is, and the others are declared.

    Raises:
        StoreUnavailable: the store failed, or others keep changing one.
    """
    for workflow in workflows:
        if workflow.schedule is not None:
            try:
                await _declare(store, tenant, workflow.name, workflow.schedule)
            except (LogDamaged, LogVersionUnsupported) as error:
                logger.error("the schedule of the workflow %s is not declared: %s. perdure db verify says more", workflow.name, error)
    try:
        undeclared = await undeclared_schedules(store, tenant)
    except (LogDamaged, LogVersionUnsupported) as error:
        logger.warning("it is not known which schedules no engine declares any more: %s", error)
        return
    if undeclared:
        named = ", ".join(one.workflow for one in undeclared)
        logger.warning("no engine declares the schedules of %s any more; they go on until perdure trigger prune deletes them", named)


async def _declare(store: Store, tenant: str, workflow: str, schedule: Schedule) -> None:
    config, id = schedule_config(schedule), code_trigger_id(workflow)
    for _ in range(CHANGES_MAX):
        before = await TRIGGERS.read(store, tenant, id)
        if before is not None and before.value.owner != "code":
            logger.error("the schedule of the workflow %s is not declared: the trigger %s belongs to somebody else. Rename one of them", workflow, id)
            return
        if before is not None and (before.value.config, before.value.input) == (config, dict(schedule.input)):
            return
        now_s = (await store.store_time()).now_s
        fields = {"config": config, "input": dict(schedule.input), "updated_at_s": now_s, "updated_by": BY_CODE}
        if before is None:
            made: dict[str, object] = {"id": id, "name": workflow, "workflow": workflow, "is_code": True, "owner": "code"}
            after = msgspec.convert(made | {"created_at_s": now_s, "created_by": BY_CODE} | fields, TriggerRecord, from_attributes=True)
        else:
            after = msgspec.structs.replace(before.value, **fields)
        changes = await change_triggers(store, tenant, [TriggerEdit(before, after)], now_s)
        with suppress(StaleRecord):
            await post_records(store, changes.records, changes.messages)
            return
    raise StoreUnavailable(f"the trigger {id!r} was changed by others {CHANGES_MAX} times in a row")


async def undeclared_schedules(store: ReadOnlyStore, tenant: str) -> list[TriggerRecord]:
    """The schedules of code that no living engine declares. Without a living engine nobody can say so, and there are none."""
    declared = await _declared_by_engines(store)
    if declared is None:
        return []
    where = attribute_conditions({"owner": "code"})
    return [one.value async for one in TRIGGERS.all(store, tenant, where=where) if one.value.workflow not in declared]


async def undeclared_among(store: ReadOnlyStore, records: Iterable[TriggerRecord]) -> frozenset[str]:
    """The ids of those triggers that are schedules of code which no living engine declares any more."""
    of_code = [one for one in records if one.owner == "code"]
    declared = await _declared_by_engines(store) if of_code else None
    return frozenset() if declared is None else frozenset(one.id for one in of_code if one.workflow not in declared)


async def _declared_by_engines(store: ReadOnlyStore) -> frozenset[str] | None:
    """The workflows whose schedules living engines declare; None if no engine lives."""
    about = [decode_process_info(one.about) for one in await store.leases() if one.alive]
    engines = [one for one in about if one is not None and one.kind == "engine" and one.roots is None]
    return frozenset(name for one in engines for name in one.scheduled) if engines else None
