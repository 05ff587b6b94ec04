"""The triggers of a tenant: lists and shows them, creates, changes and deletes them, and starts executions by them on request."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any
from uuid import uuid4

import msgspec

from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.core import values
from perdure.core.attribute_filter import attribute_conditions
from perdure.core.attributes import AttributeValue
from perdure.core.errors import BadValue, NoPromptHandler, NotFound, StaleRecord, TriggerOwned, Undecodable
from perdure.core.operations import PROMPT_WORKFLOW
from perdure.core.paths import Key
from perdure.service import execution_operations, manual_runs
from perdure.service.catalog_references import resolve_reference
from perdure.service.execution_operations import initiated_by
from perdure.service.record_kinds import CHANGES_MAX, KeptValue, expect_revision, is_record_key, post_records
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.code_schedules import undeclared_among
from perdure.service.triggers.schedule_sentences import schedule_sentence
from perdure.service.triggers.schedule_states import SCHEDULE_STATES, ScheduleIncident
from perdure.service.triggers.schedule_times import tick_text
from perdure.service.triggers.trigger_changes import TriggerEdit, change_triggers
from perdure.service.triggers.trigger_input import TriggerFacts, checked_mapping
from perdure.service.triggers.trigger_records import (
    TRIGGERS,
    ManualConfig,
    ScheduleConfig,
    TriggerConfig,
    TriggerKind,
    TriggerOwner,
    TriggerPause,
    TriggerRecord,
    WebhookConfig,
)
from perdure.service.triggers.trigger_specs import checked_config, checked_trigger_name
from perdure.service.triggers.trigger_starts import TRIGGER_ATTRIBUTE, TriggeredStart, expect_users_workflow, triggered_start
from perdure.service.wire_types import Version
from perdure.stores.protocol import HeadFilter

"""How often a change is decided on again because another one came first."""


class ScheduleProgress(msgspec.Struct, frozen=True):
    """How a schedule has gone: how many of its ticks have started an execution, how many wait for their turn, and the last of those that started nothing."""

    started: int
    waiting: int
    incidents: list[ScheduleIncident]


class TriggerDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger. `workflow_id` is what it starts, a reference to the catalog or the name of code, and `variable_mapping` and `input` make its input.

    `owner` is ``definition`` for one that `definition` declares, ``code`` for one that code declares, else empty: then it is changed here. One of code is
    `undeclared` if there are engines, and none of them declares it any more; then it can be deleted. `last_run_at_s` is when it last started an execution,
    `last_execution_id` that execution, `due_at_s` when a schedule is due next, `sentence` its times in words, and `schedule` what else is known of one.
    `webhook_url` is where a webhook is sent, as a path of this service. `revision` counts the changes.
    """

    id: str
    name: str
    type_: TriggerKind
    config: TriggerConfig
    workflow_id: str
    variable_mapping: dict[str, str]
    input: dict[str, Any]
    enabled: bool
    pause: TriggerPause | None
    owner: TriggerOwner
    undeclared: bool
    definition: str
    webhook_url: str
    due_at_s: float | None
    schedule: ScheduleProgress | None
    sentence: str
    last_run_at_s: float | None
    last_execution_id: str
    revision: Version
    created_at_s: float
    created_by: str
    updated_at_s: float
    updated_by: str


class TriggerPage(msgspec.Struct, frozen=True):
    """A page of a list of triggers, and the id behind which the next one begins (None: this was the last)."""

    items: list[TriggerDetails]
    next: str | None = None


class TriggerFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of a trigger that people and programs set. One that is unset stays as it is. See `TriggerDetails`."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    config: TriggerConfig | msgspec.UnsetType = msgspec.UNSET
    workflow_id: str | msgspec.UnsetType = msgspec.UNSET
    variable_mapping: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    input: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    enabled: bool | msgspec.UnsetType = msgspec.UNSET


class TriggerFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on triggers, all of which must hold: what they are, the workflow that they start, and whether they are enabled."""

    type_: TriggerKind | None = None
    workflow_id: str = ""
    enabled: bool | None = None


# Read


async def find_trigger(access: StoreAccess, tenant: str, id: str) -> KeptValue[TriggerRecord]:
    """A trigger by its id.

    Raises:
        NotFound: there is none, or it is withdrawn.
    """
    found = await TRIGGERS.read(access.store, tenant, id) if is_record_key(id) else None
    if found is None or found.value.withdrawn_at_s is not None:
        why = "its definition no longer declares it" if found is not None else "perdure trigger ls lists those that there are"
        raise NotFound(id, f"there is no trigger {id[:200]!r}: {why}")
    return found


async def read_trigger(access: StoreAccess, tenant: str, id: str) -> TriggerDetails:
    """Shows a trigger.

    Raises:
        NotFound: there is none.
    """
    return await _shown(access, tenant, await find_trigger(access, tenant, id))


async def list_triggers(access: StoreAccess, tenant: str, which: TriggerFilter, limit: int, after: str | None = None) -> TriggerPage:
    """Lists triggers in order of id, behind `after`.

    Raises:
        BadValue: `after` is no position.
    """
    where: dict[str, AttributeValue] = {"listed": True}
    if which.type_ is not None:
        where["kind"] = which.type_
    if which.workflow_id:
        where["workflow"] = which.workflow_id
    if which.enabled is not None:
        where["enabled"] = which.enabled
    found, behind = await TRIGGERS.page_behind(access.store, tenant, limit, after, attribute_conditions(where))
    undeclared = await undeclared_among(access.store, [one.value for one in found])
    return TriggerPage([await _shown(access, tenant, one, undeclared) for one in found], behind)


async def _shown(access: StoreAccess, tenant: str, kept: KeptValue[TriggerRecord], undeclared: AbstractSet[str] | None = None) -> TriggerDetails:
    """A trigger as it is shown. `undeclared` has the ids of the schedules that no engine declares any more, if that is known."""
    record = kept.value
    undeclared = await undeclared_among(access.store, [record]) if undeclared is None else undeclared
    last = await access.store.heads(HeadFilter(tenant=tenant, where=attribute_conditions({TRIGGER_ATTRIBUTE: record.id}), limit=1))
    state = await SCHEDULE_STATES.read(access.store, tenant, record.id) if isinstance(record.config, ScheduleConfig) else None
    return TriggerDetails(
        id=record.id,
        name=record.name,
        type_=record.kind,
        config=record.config,
        workflow_id=record.workflow,
        variable_mapping=record.mapping,
        input=record.input,
        enabled=record.enabled,
        pause=record.pause,
        owner=record.owner,
        undeclared=record.id in undeclared,
        definition=record.definition,
        webhook_url=webhook_url(tenant, record.config.path) if isinstance(record.config, WebhookConfig) else "",
        due_at_s=None if state is None or state.value.tick_s is None else state.value.due_at_s,
        schedule=None if state is None else ScheduleProgress(state.value.number, len(state.value.waiting), list(state.value.incidents)),
        sentence=schedule_sentence(record.config) if isinstance(record.config, ScheduleConfig) else "",
        last_run_at_s=last[0].created_at_s if last else None,
        last_execution_id=last[0].key.id if last else "",
        revision=kept.version,
        created_at_s=record.created_at_s,
        created_by=record.created_by,
        updated_at_s=record.updated_at_s,
        updated_by=record.updated_by,
    )


def webhook_url(tenant: str, path: str) -> str:
    """Where the requests for a path go, as a path of the service."""
    return f"/webhooks/{path}" if tenant == DEFAULT_TENANT else f"/webhooks/~{tenant}/{path}"


# Change


async def create_trigger(access: StoreAccess, tenant: str, author: str, fields: TriggerFields) -> TriggerDetails:
    """Creates a trigger that belongs to nobody but its author.

    Raises:
        BadValue, BadExpression, BadName: a field is not valid, or the workflow is no reference.
        NotFound: there is no such workflow.
        NoPromptHandler: it hands prompts to the application, and no living engine has a handler.
        AlreadyExists: the path of a webhook is that of another trigger.
    """
    now_s = (await access.store.store_time()).now_s
    blank = TriggerRecord(
        id=uuid4().hex, name="", config=ManualConfig(), created_at_s=now_s, created_by=checked_name(author, "by"), updated_at_s=now_s, updated_by=author
    )
    if fields.name is msgspec.UNSET or fields.config is msgspec.UNSET:
        raise BadValue("/name" if fields.name is msgspec.UNSET else "/config", None, "given")
    after = await _with_fields(access, tenant, blank, fields)
    return await _carried_out(access, tenant, TriggerEdit(None, after), now_s)


async def update_trigger(access: StoreAccess, tenant: str, id: str, author: str, fields: TriggerFields, revision: int | None = None) -> TriggerDetails:
    """Changes fields of a trigger.

    Raises:
        NotFound: there is no such trigger, or no such workflow.
        StaleRecord: it is not at this revision.
        TriggerOwned: a definition, or code, declares it, so only its switch can be changed here.
        BadValue, BadExpression: a field is not valid.
        AlreadyExists: the path of a webhook is that of another trigger.
    """

    async def change(record: TriggerRecord) -> TriggerRecord:
        return await _with_fields(access, tenant, record, fields)

    return await change_trigger(access, tenant, id, author, change, revision)


async def delete_trigger(access: StoreAccess, tenant: str, id: str, revision: int | None = None) -> None:
    """Deletes a trigger. Executions that it has started go on.

    Raises:
        NotFound: there is no such trigger.
        StaleRecord: it is not at this revision.
        TriggerOwned: a definition, or code, declares it.
    """
    kept = await find_trigger(access, tenant, id)
    expect_revision("trigger", kept.key, revision, kept.version)
    if not await undeclared_among(access.store, [kept.value]):
        _expect_unowned(kept.value)
    changes = await change_triggers(access.store, tenant, [TriggerEdit(kept, None)], (await access.store.store_time()).now_s)
    await post_records(access.store, changes.records)


async def switch_trigger(access: StoreAccess, tenant: str, id: str, author: str, enabled: bool, revision: int | None = None) -> TriggerDetails:
    """Enables or disables a trigger, also one that a definition declares.

    Raises:
        NotFound: there is no such trigger.
        StaleRecord: it is not at this revision.
    """
    return await change_trigger(access, tenant, id, author, replacing(enabled=enabled), revision)


async def pause_trigger(access: StoreAccess, tenant: str, id: str, author: str, reason: str, revision: int | None = None) -> TriggerDetails:
    """Pauses a trigger, with a reason: it starts nothing until it is resumed.

    Raises:
        NotFound: there is no such trigger.
        StaleRecord: it is not at this revision.
    """
    pause = TriggerPause((await access.store.store_time()).now_s, checked_name(author, "by"), reason)
    return await change_trigger(access, tenant, id, author, replacing(pause=pause), revision)


async def resume_trigger(access: StoreAccess, tenant: str, id: str, author: str, revision: int | None = None) -> TriggerDetails:
    """Ends a pause. What was missed meanwhile is not made up for.

    Raises:
        NotFound: there is no such trigger.
        StaleRecord: it is not at this revision.
    """
    return await change_trigger(access, tenant, id, author, replacing(pause=None), revision)


def replacing(**fields: Any) -> Callable[[TriggerRecord], Any]:
    """A change that replaces fields of a record, for `change_trigger`."""

    async def change(record: TriggerRecord) -> TriggerRecord:
        return msgspec.structs.replace(record, **fields)

    return change


async def change_trigger(
    access: StoreAccess, tenant: str, id: str, author: str, change: Callable[[TriggerRecord], Any], revision: int | None = None
) -> TriggerDetails:
    """Changes a trigger from what it is; if another change came first, from what it is then. What stays as it is is not written.

    Raises:
        NotFound: there is no such trigger.
        StaleRecord: it is not at this revision.
    """
    for number in range(1, CHANGES_MAX + 1):
        kept = await find_trigger(access, tenant, id)
        expect_revision("trigger", kept.key, revision, kept.version)
        after = await change(kept.value)
        if after == kept.value:
            return await _shown(access, tenant, kept)
        now_s = (await access.store.store_time()).now_s
        touched = msgspec.structs.replace(after, updated_at_s=now_s, updated_by=checked_name(author, "by"))
        try:
            return await _carried_out(access, tenant, TriggerEdit(kept, touched), now_s)
        except StaleRecord:
            if revision is not None or number == CHANGES_MAX:
                raise
    raise AssertionError  # the last round raises


async def _carried_out(access: StoreAccess, tenant: str, edit: TriggerEdit, now_s: float) -> TriggerDetails:
    changes = await change_triggers(access.store, tenant, [edit], now_s)
    await post_records(access.store, changes.records, changes.messages)
    return await read_trigger(access, tenant, changes.after[0].id)


def _expect_unowned(record: TriggerRecord) -> None:
    if record.owner:
        raise TriggerOwned(record.id, record.definition or record.workflow, record.owner)


async def _with_fields(access: StoreAccess, tenant: str, record: TriggerRecord, fields: TriggerFields) -> TriggerRecord:
    """The record with the fields that are set, checked."""
    given = {name: value for name in fields.__struct_fields__ if (value := getattr(fields, name)) is not msgspec.UNSET}
    if given.keys() - {"enabled"}:
        _expect_unowned(record)
    changed = dict(given)
    if "name" in given:
        changed["name"] = checked_trigger_name(given["name"])
    if "config" in given:
        path = record.config.path if isinstance(record.config, WebhookConfig) else ""
        changed["config"] = checked_config(given["config"], path)
    changed["mapping"] = changed.pop("variable_mapping", record.mapping)
    changed["workflow"] = changed.pop("workflow_id", record.workflow)
    after = msgspec.structs.replace(record, **changed)
    checked_mapping(after.mapping, after.input)
    if record.name and after.workflow == record.workflow and after.asks == record.asks:
        return after  # what it starts was there when that was set
    return await _with_target(access, tenant, after)


async def _with_target(access: StoreAccess, tenant: str, record: TriggerRecord) -> TriggerRecord:
    """The record, which knows whether its workflow is a definition or code."""
    asks = record.asks
    if asks or not record.workflow:
        if asks == bool(record.workflow):
            raise BadValue("/workflowId", record.workflow, "the slug of a definition or the name of code; not given with target orchestrator")
        try:
            await manual_runs.expect_code(access, PROMPT_WORKFLOW)
        except NotFound:
            raise NoPromptHandler from None
        return msgspec.structs.replace(record, is_code=False)
    expect_users_workflow(record.workflow)
    try:
        _ = await resolve_reference(access.store, tenant, record.workflow)
    except NotFound:
        await manual_runs.expect_code(access, record.workflow)
        return msgspec.structs.replace(record, is_code=True)
    return msgspec.structs.replace(record, is_code=False)


# Run


class TriggeredRun(msgspec.Struct, frozen=True):
    """The execution that a trigger has started, or found: `execution_id` is its id."""

    key: Key
    execution_id: str
    created: bool


async def run_trigger(access: StoreAccess, tenant: str, id: str, author: str, payload: bytes, request_id: str = "") -> TriggeredRun:
    """Starts an execution by a trigger now, whether or not it is enabled, with a payload as it would receive.

    With a `request_id`, its repetition by the same caller finds the execution that the first has started.

    Raises:
        NotFound: there is no such trigger, or no such workflow any more.
        BadValue: the workflow does not take the input that the payload gives, or is Perdure's own.
        DefinitionDisabled: the definition is disabled.
    """
    record = (await find_trigger(access, tenant, id)).value
    try:
        given = values.decode(payload, Any, "the payload")
    except Undecodable as error:
        raise BadValue("/payload", "given", f"plain data: {error.why}") from error
    key = f"manual:{record.id}:{author}:{checked_name(request_id or uuid4().hex, 'client request id')}"
    now_s = (await access.store.store_time()).now_s
    about = {"by": author} | ({"tick": tick_text(float(int(now_s))), "number": 0} if isinstance(record.config, ScheduleConfig) else {})
    facts = TriggerFacts(id=record.id, name=record.name, kind=record.kind, key=key, at_s=now_s, about=about)
    request, hosted = await triggered_start(access, tenant, record, TriggeredStart(checked_name(key, "id"), given, facts))
    started, created = await execution_operations.start_execution(access, initiated_by(request, author), hosted)
    return TriggeredRun(started, started.id, created)
