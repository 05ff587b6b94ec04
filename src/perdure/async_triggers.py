"""The asyncio interface of a client to triggers: what starts executions at times, on requests, on events, and by hand.

It holds no rules, but gives `perdure.operations.on_triggers` its typed interface. `perdure.sync_triggers` is generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.code.durations import whole_number
from perdure.core import values
from perdure.operations import on_triggers
from perdure.operations.local_service import LocalService
from perdure.service.page_cursors import PAGE_MAX
from perdure.service.service_access import ServiceAccess
from perdure.service.triggers.trigger_directory import TriggerDetails, TriggeredRun, TriggerFields
from perdure.service.triggers.trigger_records import TriggerConfig, TriggerKind

ListedTriggers = list[TriggerDetails]


class AsyncTriggers:
    """The triggers of a client's store. It is the client's `triggers`.

    A `trigger` is named by its id. What it is, its `config` says: a `ScheduleConfig`, `WebhookConfig`, `EventConfig` or `ManualConfig`. With a `revision`, a
    change happens only while the trigger is at it.
    """

    def __init__(self, access: ServiceAccess) -> None:
        self._access = access

    def _service(self, tenant: str) -> LocalService:
        return LocalService(self._access, checked_name(tenant, "tenant"))

    async def list(
        self, *, kind: TriggerKind | None = None, workflow: str = "", enabled: bool | None = None, limit: int = 1_000, tenant: str = DEFAULT_TENANT
    ) -> ListedTriggers:
        """Lists up to `limit` triggers in order of id: of one kind, of the workflow that they start, or those that are enabled."""
        found: ListedTriggers = []
        call, after, left = self._service(tenant), "", whole_number(limit, "limit")
        while len(found) < left:
            which: dict[str, Any] = {"type_": kind, "workflow_id": workflow, "enabled": enabled}
            page = await call(on_triggers.page, tenant, **which, limit=min(left - len(found), PAGE_MAX), after=after)
            found += page.items
            if page.next is None:
                break
            after = page.next
        return found

    async def get(self, trigger: str, *, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """A trigger: what it is, when it last started an execution and, of a schedule, when it is due.

        Raises:
            NotFound: there is none.
        """
        return await self._service(tenant)(on_triggers.read, tenant, trigger)

    async def create(
        self,
        name: str,
        config: TriggerConfig,
        workflow: str = "",
        *,
        mapping: Mapping[str, str] | None = None,
        input: Mapping[str, Any] | None = None,
        enabled: bool = True,
        tenant: str = DEFAULT_TENANT,
    ) -> TriggerDetails:
        """Creates a trigger that starts `workflow`: the slug or a reference of a definition, or code of a living engine by its name.

        Its input is made of `mapping`, a JSONPath in the payload for each input, and of `input`, fixed values that may read ``@trigger``.

        Raises:
            BadValue, BadExpression: a field is not valid.
            NotFound, Ambiguous: there is no such workflow, or the reference names several versions.
            AlreadyExists: the path of a webhook is that of another trigger.
        """
        call = self._service(tenant)
        given: dict[str, Any] = {"variable_mapping": dict(mapping or {}), "input": dict(input or {}), "enabled": enabled}
        return await call(on_triggers.create, tenant, call.author, name, config, workflow_id=workflow, **given)

    async def update(self, trigger: str, fields: TriggerFields, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """Changes the fields that are set. Of a trigger that a definition or code declares, only the switch can be changed.

        Raises:
            NotFound, Ambiguous: there is no such trigger, no such workflow, or the reference names several versions.
            StaleRecord: it is not at this revision.
            TriggerOwned: a definition, or code, declares it.
            BadValue, BadExpression: a field is not valid.
            AlreadyExists: the path of a webhook is that of another trigger.
        """
        call = self._service(tenant)
        return await call(on_triggers.update, tenant, trigger, call.author, fields, revision)

    async def delete(self, trigger: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """Deletes a trigger. Executions that it has started go on.

        Raises:
            NotFound: there is no such trigger.
            StaleRecord: it is not at this revision.
            TriggerOwned: a definition, or code, declares it.
        """
        await self._service(tenant)(on_triggers.delete, tenant, trigger, revision)

    async def enable(self, trigger: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """Enables a trigger. A schedule goes on with its next time.

        Raises:
            NotFound: there is no such trigger.
            StaleRecord: it is not at this revision.
        """
        call = self._service(tenant)
        return await call(on_triggers.enable, tenant, trigger, call.author, revision)

    async def disable(self, trigger: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """Disables a trigger: it starts nothing.

        Raises:
            NotFound: there is no such trigger.
            StaleRecord: it is not at this revision.
        """
        call = self._service(tenant)
        return await call(on_triggers.disable, tenant, trigger, call.author, revision)

    async def pause(self, trigger: str, reason: str = "", *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """Pauses a trigger, with a reason that people see.

        Raises:
            NotFound: there is no such trigger.
            StaleRecord: it is not at this revision.
        """
        call = self._service(tenant)
        return await call(on_triggers.pause, tenant, trigger, call.author, reason, revision)

    async def resume(self, trigger: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """Ends a pause, also one that a schedule began by itself after failures in a row. What was missed meanwhile is not made up for.

        Raises:
            NotFound: there is no such trigger.
            StaleRecord: it is not at this revision.
        """
        call = self._service(tenant)
        return await call(on_triggers.resume, tenant, trigger, call.author, revision)

    async def run(self, trigger: str, payload: Any = None, *, request_id: str = "", tenant: str = DEFAULT_TENANT) -> TriggeredRun:
        """Starts an execution by a trigger now, whether or not it is enabled, with a payload such as it receives.

        With a `request_id`, its repetition by the same caller finds the execution that the first has started.

        Raises:
            NotFound, Ambiguous: there is no such trigger, or its workflow is there no more.
            BadValue: the workflow does not take the input that the payload gives, or the trigger starts no workflow.
            DefinitionDisabled: the definition is disabled.
        """
        call = self._service(tenant)
        return await call(on_triggers.run, tenant, trigger, call.author, values.encode(payload, "the payload"), request_id)
