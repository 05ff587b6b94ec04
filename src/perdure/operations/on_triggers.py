"""Operations on triggers: what starts executions at times, on requests, on events, and by hand."""

from typing import Any

from perdure.service.page_cursors import page_limit
from perdure.service.store_access import StoreAccess
from perdure.service.triggers import schedule_operations, trigger_directory
from perdure.service.triggers.schedule_operations import Backfill, SchedulePreview
from perdure.service.triggers.trigger_directory import TriggerDetails, TriggeredRun, TriggerFields, TriggerFilter, TriggerPage
from perdure.service.triggers.trigger_records import ScheduleConfig, TriggerConfig, TriggerKind
from perdure.service.wire_types import NOTHING, EncodedValue


async def page(
    access: StoreAccess,
    tenant: str,
    *,
    type_: TriggerKind | None = None,
    workflow_id: str = "",
    enabled: bool | None = None,
    limit: int = 100,
    after: str = "",
) -> TriggerPage:
    """Lists triggers in order of id, behind `after`: of one type, of the workflow that they start, or those that are enabled.

    Raises:
        BadValue: the limit or the position is invalid.
    """
    which = TriggerFilter(type_=type_, workflow_id=workflow_id, enabled=enabled)
    return await trigger_directory.list_triggers(access, tenant, which, page_limit(limit), after or None)


async def read(access: StoreAccess, tenant: str, trigger: str) -> TriggerDetails:
    """A trigger, by its id.

    Raises:
        NotFound: there is none.
    """
    return await trigger_directory.read_trigger(access, tenant, trigger)


async def create(
    access: StoreAccess,
    tenant: str,
    author: str,
    name: str,
    config: TriggerConfig,
    *,
    workflow_id: str = "",
    variable_mapping: dict[str, str] | None = None,
    input: dict[str, Any] | None = None,
    enabled: bool = True,
) -> TriggerDetails:
    """Creates a trigger that starts `workflow_id`: the slug or a reference of a definition, or code of a living engine by its name.

    Its input is made of `variable_mapping`, a JSONPath in the payload for each input, and of `input`, fixed values that may read ``@trigger``.

    Raises:
        BadValue, BadExpression: a field is not valid.
        NotFound, Ambiguous: there is no such workflow, or the reference names several versions.
        NoPromptHandler: it hands prompts to the application, and no living engine has a handler for them.
        AlreadyExists: the path of a webhook is that of another trigger.
    """
    fields = TriggerFields(name=name, config=config, workflow_id=workflow_id, variable_mapping=variable_mapping or {}, input=input or {}, enabled=enabled)
    return await trigger_directory.create_trigger(access, tenant, author, fields)


async def update(access: StoreAccess, tenant: str, trigger: str, author: str, fields: TriggerFields, revision: int | None = None) -> TriggerDetails:
    """Changes fields of a trigger; those that are not given stay as they are. Of one that a definition or code declares, only the switch can be changed.

    Raises:
        NotFound, Ambiguous: there is no such trigger, no such workflow, or the reference names several versions.
        StaleRecord: it is not at this revision.
        TriggerOwned: a definition, or code, declares it.
        BadValue, BadExpression: a field is not valid.
        AlreadyExists: the path of a webhook is that of another trigger.
    """
    return await trigger_directory.update_trigger(access, tenant, trigger, author, fields, revision)


async def delete(access: StoreAccess, tenant: str, trigger: str, revision: int | None = None) -> None:
    """Deletes a trigger. Executions that it has started go on.

    Raises:
        NotFound: there is no such trigger.
        StaleRecord: it is not at this revision.
        TriggerOwned: a definition, or code, declares it.
    """
    await trigger_directory.delete_trigger(access, tenant, trigger, revision)


async def enable(access: StoreAccess, tenant: str, trigger: str, author: str, revision: int | None = None) -> TriggerDetails:
    """Enables a trigger. A schedule goes on with its next time.

    Raises:
        NotFound: there is no such trigger.
        StaleRecord: it is not at this revision.
    """
    return await trigger_directory.switch_trigger(access, tenant, trigger, author, True, revision)


async def disable(access: StoreAccess, tenant: str, trigger: str, author: str, revision: int | None = None) -> TriggerDetails:
    """Disables a trigger: it starts nothing.

    Raises:
        NotFound: there is no such trigger.
        StaleRecord: it is not at this revision.
    """
    return await trigger_directory.switch_trigger(access, tenant, trigger, author, False, revision)


async def pause(access: StoreAccess, tenant: str, trigger: str, author: str, reason: str = "", revision: int | None = None) -> TriggerDetails:
    """Pauses a trigger, with a reason that people see.

    Raises:
        NotFound: there is no such trigger.
        StaleRecord: it is not at this revision.
    """
    return await trigger_directory.pause_trigger(access, tenant, trigger, author, reason, revision)


async def resume(access: StoreAccess, tenant: str, trigger: str, author: str, revision: int | None = None) -> TriggerDetails:
    """Ends a pause, also one that a schedule began by itself after failures in a row. What was missed meanwhile is not made up for.

    Raises:
        NotFound: there is no such trigger.
        StaleRecord: it is not at this revision.
    """
    return await trigger_directory.resume_trigger(access, tenant, trigger, author, revision)


async def run(access: StoreAccess, tenant: str, trigger: str, author: str, payload: EncodedValue = NOTHING, client_request_id: str = "") -> TriggeredRun:
    """Starts an execution by a trigger now, whether or not it is enabled, with a payload such as it receives.

    With a `client_request_id`, its repetition by the same caller finds the execution that the first has started.

    Raises:
        NotFound, Ambiguous: there is no such trigger, or its workflow is there no more.
        BadValue, BadName: the workflow does not take the input that the payload gives.
        BadDefinition: the definition calls something that is not there.
        DefinitionDisabled: the definition is disabled.
    """
    return await trigger_directory.run_trigger(access, tenant, trigger, author, payload, client_request_id)


async def preview(access: StoreAccess, tenant: str, trigger: str, count: int = 10) -> SchedulePreview:
    """The next ticks of a schedule, with what a clock of its zone shows, and what is special about them where clocks are changed.

    Raises:
        NotFound: there is no such trigger.
        BadValue: it is no schedule, or the number is out of range.
    """
    return await schedule_operations.preview_trigger(access, tenant, trigger, count)


async def preview_config(access: StoreAccess, tenant: str, config: ScheduleConfig, count: int = 10) -> SchedulePreview:
    """The next ticks of a schedule that is not saved, as if it began now.

    Raises:
        BadValue: it is not valid, or the number is out of range.
    """
    return await schedule_operations.preview_config(access, config, count)


async def backfill(access: StoreAccess, tenant: str, trigger: str, author: str, from_at_s: float, until_at_s: float, *, expect: int | None = None) -> Backfill:
    """Starts executions for the ticks of a schedule from one time up to but not including another, whether or not it is active.

    Without `expect` it is a dry run, which counts them; `expect` is then the number that it has found. A tick that has started an execution already is not
    started again, so a backfill can be repeated.

    Raises:
        NotFound, Ambiguous: there is no such trigger, or its workflow is there no more.
        BadValue: it is no schedule, the range has too many ticks, or another number than was expected; or the workflow does not take the input.
        BadDefinition: the definition calls something that is not there.
        DefinitionDisabled: the definition is disabled.
    """
    return await schedule_operations.backfill(access, tenant, trigger, author, from_at_s, until_at_s, expect=expect)
