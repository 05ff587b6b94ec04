"""Decides on changes of triggers: the records and messages that change together, in one post.

A schedule that becomes active has a state with a due time from then on, and without one when it is no longer active (see `schedule_states`). A trigger of a
definition is changed by the publication of a version of that, by its name: see `declared_edits`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from perdure.core.attribute_filter import attribute_conditions
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import AlreadyExists
from perdure.service.record_kinds import KeptValue
from perdure.service.triggers.event_listeners import listener_changes
from perdure.service.triggers.schedule_decisions import due_ticks
from perdure.service.triggers.schedule_states import SCHEDULE_STATES, begun_state, clock_messages, ended_state, state_change
from perdure.service.triggers.trigger_records import (
    TRIGGERS,
    WEBHOOK_PATHS,
    ScheduleConfig,
    TriggerRecord,
    WebhookConfig,
    WebhookPath,
    declared_trigger_id,
    trigger_change,
)
from perdure.service.triggers.trigger_specs import DeclaredTrigger, checked_config
from perdure.stores.protocol import ReadOnlyStore
from perdure.stores.records import RecordChange


class TriggerEdit(NamedTuple):
    """What a trigger was (None: there was none), and what it is to be (None: it is removed)."""

    before: KeptValue[TriggerRecord] | None
    after: TriggerRecord | None

    @property
    def begins_schedule(self) -> bool:
        """Whether a schedule begins by it: it was not active, or was another one."""
        was = None if self.before is None else self.before.value
        return _is_scheduled(self.after) and (not _is_scheduled(was) or (was is not None and self.after is not None and was.config != self.after.config))

    @property
    def ends_schedule(self) -> bool:
        """Whether a schedule is no longer active after it, or is removed."""
        was = None if self.before is None else self.before.value
        is_removed = was is not None and self.after is None and isinstance(was.config, ScheduleConfig)
        return is_removed or (_is_scheduled(was) and not _is_scheduled(self.after))


class TriggerChanges(NamedTuple):
    """Changes of triggers that were decided on: what they are afterwards, as far as they are there, and all records and messages."""

    after: tuple[TriggerRecord, ...] = ()
    records: tuple[RecordChange, ...] = ()
    messages: tuple[OutgoingMessage, ...] = ()


async def change_triggers(store: ReadOnlyStore, tenant: str, edits: Sequence[TriggerEdit], now_s: float) -> TriggerChanges:
    """Decides on edits of several triggers, which are carried out together.

    Raises:
        AlreadyExists: the path of a webhook is that of another trigger.
    """
    after, records = list[TriggerRecord](), list[RecordChange]()
    for edit in edits:
        version = 0 if edit.before is None else edit.before.version
        if edit.after is not None:
            after.append(msgspec.structs.replace(edit.after, resumed_at_s=now_s) if edit.begins_schedule else edit.after)
            records.append(trigger_change(tenant, version, after[-1]))
        elif edit.before is not None:
            records.append(TRIGGERS.change(tenant, edit.before.key, version, None))
        if edit.begins_schedule or edit.ends_schedule:
            records += await _state_changes(store, tenant, edit, now_s)
    records += await _path_changes(store, tenant, edits)
    records += await listener_changes(store, tenant, ((None if edit.before is None else edit.before.value, edit.after) for edit in edits))
    begun = [edit.after.id for edit in edits if edit.begins_schedule and edit.after is not None]
    return TriggerChanges(tuple(after), tuple(records), await clock_messages(store, tenant, f"{begun[0]}:{now_s}") if begun else ())


async def _state_changes(store: ReadOnlyStore, tenant: str, edit: TriggerEdit, now_s: float) -> list[RecordChange]:
    id = edit.after.id if edit.after is not None else edit.before.key if edit.before is not None else ""
    kept = await SCHEDULE_STATES.read(store, tenant, id)
    before, version = (None, 0) if kept is None else (kept.value, kept.version)
    if edit.begins_schedule:
        was = None if edit.before is None else edit.before.value
        owed = due_ticks(was, before, now_s) if was is not None and before is not None and _is_scheduled(was) else []
        return [state_change(tenant, id, version, begun_state(before, now_s, owed))]
    if before is None:
        return []
    return [state_change(tenant, id, version, None if edit.after is None else ended_state(before))]


def _is_scheduled(record: TriggerRecord | None) -> bool:
    return record is not None and record.is_active and isinstance(record.config, ScheduleConfig)


def _path_of(record: TriggerRecord | None) -> str:
    """The path that a trigger occupies; empty if it has none."""
    return record.config.path if record is not None and record.withdrawn_at_s is None and isinstance(record.config, WebhookConfig) else ""


async def _path_changes(store: ReadOnlyStore, tenant: str, edits: Sequence[TriggerEdit]) -> list[RecordChange]:
    """The changes of the records of paths: of those that are given up, and those that are taken, perhaps by another trigger."""
    given_up = {_path_of(edit.before.value): edit.before.key for edit in edits if edit.before is not None}
    taken = dict[str, str]()
    for edit in edits:
        path = _path_of(edit.after)
        if edit.after is not None and path and taken.setdefault(path, edit.after.id) != edit.after.id:
            raise AlreadyExists(path, f"the path {path!r} is that of two triggers of the definition. Give each its own")
    changes = list[RecordChange]()
    for path in sorted({*given_up, *taken} - {""}):
        if given_up.get(path) == (trigger := taken.get(path)):
            continue
        kept = await WEBHOOK_PATHS.read(store, tenant, path)
        if kept is not None and kept.value.trigger != given_up.get(path):
            raise AlreadyExists(path, f"the path {path!r} is that of the trigger {kept.value.trigger}. Give this one another path")
        changes.append(WEBHOOK_PATHS.change(tenant, path, 0 if kept is None else kept.version, None if trigger is None else WebhookPath(trigger)))
    return changes


# Triggers of definitions


class Declaration(NamedTuple):
    """What a version of a definition says of triggers (None: the definition is deleted), and when and by whom it becomes current."""

    slug: str
    triggers: Sequence[DeclaredTrigger] | None
    now_s: float
    by: str


async def declared_edits(store: ReadOnlyStore, tenant: str, said: Declaration) -> list[TriggerEdit]:
    """What becomes of the triggers of a definition when one of its versions becomes current, or when it is deleted.

    A trigger that is there by its name stays as it is, but for what the version says of it. One that the version no longer has is withdrawn, and with it its
    path and its state; it comes back with the state of its operators, and what it has missed is not made up for.

    Raises:
        BadValue: a trigger can't be set up.
    """
    where = attribute_conditions({"definition": said.slug})
    known = {one.value.name: one async for one in TRIGGERS.all(store, tenant, where=where) if one.value.owner == "definition"}
    edits = list[TriggerEdit]()
    for declared in said.triggers or ():
        before = known.pop(declared.name, None)
        after = _declared_record(said, declared, None if before is None else before.value)
        if before is None or before.value != after:
            edits.append(TriggerEdit(before, _touched(after, said)))
    for before in known.values():
        if said.triggers is None:
            edits.append(TriggerEdit(before, None))
        elif before.value.withdrawn_at_s is None:
            edits.append(TriggerEdit(before, _touched(msgspec.structs.replace(before.value, withdrawn_at_s=said.now_s), said)))
    return edits


def _declared_record(said: Declaration, declared: DeclaredTrigger, was: TriggerRecord | None) -> TriggerRecord:
    path = was.config.path if was is not None and isinstance(was.config, WebhookConfig) else ""
    config = checked_config(declared.config, path)
    if was is not None:
        return msgspec.structs.replace(was, config=config, mapping=declared.mapping, input=declared.input, withdrawn_at_s=None)
    return TriggerRecord(
        id=declared_trigger_id(said.slug, declared.name),
        name=declared.name,
        config=config,
        workflow=said.slug,
        mapping=declared.mapping,
        input=declared.input,
        enabled=declared.enabled,
        owner="definition",
        definition=said.slug,
        created_at_s=said.now_s,
        created_by=said.by,
        updated_at_s=said.now_s,
        updated_by=said.by,
    )


def _touched(record: TriggerRecord, said: Declaration) -> TriggerRecord:
    return msgspec.structs.replace(record, updated_at_s=said.now_s, updated_by=said.by)
