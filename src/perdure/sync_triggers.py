"""The triggers of a client of sync programs.

Made from `perdure.async_triggers` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from perdure.async_triggers import AsyncTriggers, ListedTriggers
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.durations import Duration
from perdure.loop_thread import LoopThread
from perdure.service.triggers.delivery_log import DeliveryDetails, DeliveryPage, ReplayedDeliveries
from perdure.service.triggers.posted_events import PostedEvent
from perdure.service.triggers.sample_deliveries import SentSample
from perdure.service.triggers.schedule_operations import Backfill, SchedulePreview
from perdure.service.triggers.trigger_directory import TriggerDetails, TriggeredRun, TriggerFields
from perdure.service.triggers.trigger_records import ScheduleConfig, TriggerConfig, TriggerKind


class Triggers:
    """The triggers of a client's store. See `AsyncTriggers`."""

    def __init__(self, thread: LoopThread, inner: AsyncTriggers) -> None:
        self._thread = thread
        self._inner = inner

    def list(
        self, *, kind: TriggerKind | None = None, workflow: str = "", enabled: bool | None = None, limit: int = 1_000, tenant: str = DEFAULT_TENANT
    ) -> ListedTriggers:
        """Lists up to `limit` triggers in order of id: of one kind, of the workflow that they start, or those that are enabled."""
        return self._thread.call(self._inner.list(kind=kind, workflow=workflow, enabled=enabled, limit=limit, tenant=tenant))

    def get(self, trigger: str, *, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """A trigger: what it is, when it last started an execution and, of a schedule, when it is due.

        Raises:
            NotFound: there is none.
        """
        return self._thread.call(self._inner.get(trigger, tenant=tenant))

    def create(
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
            NoPromptHandler: it hands prompts to the application, and no living engine has a handler for them.
            AlreadyExists: the path of a webhook is that of another trigger.
        """
        return self._thread.call(self._inner.create(name, config, workflow, mapping=mapping, input=input, enabled=enabled, tenant=tenant))

    def update(self, trigger: str, fields: TriggerFields, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """Changes the fields that are set. Of a trigger that a definition or code declares, only the switch can be changed.

        Raises:
            NotFound, Ambiguous: there is no such trigger, no such workflow, or the reference names several versions.
            StaleRecord: it is not at this revision.
            TriggerOwned: a definition, or code, declares it.
            BadValue, BadExpression: a field is not valid.
            AlreadyExists: the path of a webhook is that of another trigger.
        """
        return self._thread.call(self._inner.update(trigger, fields, revision=revision, tenant=tenant))

    def delete(self, trigger: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """Deletes a trigger. Executions that it has started go on.

        Raises:
            NotFound: there is no such trigger.
            StaleRecord: it is not at this revision.
            TriggerOwned: a definition, or code, declares it.
        """
        self._thread.call(self._inner.delete(trigger, revision=revision, tenant=tenant))

    def enable(self, trigger: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """Enables a trigger. A schedule goes on with its next time.

        Raises:
            NotFound: there is no such trigger.
            StaleRecord: it is not at this revision.
        """
        return self._thread.call(self._inner.enable(trigger, revision=revision, tenant=tenant))

    def disable(self, trigger: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """Disables a trigger: it starts nothing.

        Raises:
            NotFound: there is no such trigger.
            StaleRecord: it is not at this revision.
        """
        return self._thread.call(self._inner.disable(trigger, revision=revision, tenant=tenant))

    def pause(self, trigger: str, reason: str = "", *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """Pauses a trigger, with a reason that people see.

        Raises:
            NotFound: there is no such trigger.
            StaleRecord: it is not at this revision.
        """
        return self._thread.call(self._inner.pause(trigger, reason, revision=revision, tenant=tenant))

    def resume(self, trigger: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> TriggerDetails:
        """Ends a pause, also one that a schedule began by itself after failures in a row. What was missed meanwhile is not made up for.

        Raises:
            NotFound: there is no such trigger.
            StaleRecord: it is not at this revision.
        """
        return self._thread.call(self._inner.resume(trigger, revision=revision, tenant=tenant))

    def run(self, trigger: str, payload: Any = None, *, request_id: str = "", tenant: str = DEFAULT_TENANT) -> TriggeredRun:
        """Starts an execution by a trigger now, whether or not it is enabled, with a payload such as it receives.

        With a `request_id`, its repetition by the same caller finds the execution that the first has started.

        Raises:
            NotFound, Ambiguous: there is no such trigger, or its workflow is there no more.
            BadValue: the workflow does not take the input that the payload gives.
            DefinitionDisabled: the definition is disabled.
        """
        return self._thread.call(self._inner.run(trigger, payload, request_id=request_id, tenant=tenant))

    def deliveries(
        self,
        trigger: str,
        *,
        since: Duration | datetime | None = None,
        until: Duration | datetime | None = None,
        event: str = "",
        status: str = "",
        limit: int = 100,
        after: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> DeliveryPage:
        """A page of the deliveries of a webhook that were accepted, newest first.

        `since` and `until` are times, or durations before now; `status` is that of the execution. The next page begins behind the `next` of this one. Of those
        that were rejected, it has the number and the last 20, as far as the answering process has rejected them.

        Raises:
            NotFound: there is no such trigger.
            BadValue: it is no webhook, or the limit or the position is invalid.
        """
        return self._thread.call(self._inner.deliveries(trigger, since=since, until=until, event=event, status=status, limit=limit, after=after, tenant=tenant))

    def delivery(self, trigger: str, delivery: str, *, tenant: str = DEFAULT_TENANT) -> DeliveryDetails:
        """A delivery of a webhook, with its body.

        Raises:
            NotFound: there is no such trigger, or no such delivery any more.
        """
        return self._thread.call(self._inner.delivery(trigger, delivery, tenant=tenant))

    def replay(self, trigger: str, delivery: str, *, request_id: str = "", tenant: str = DEFAULT_TENANT) -> TriggeredRun:
        """Starts a new execution with what a delivery has brought, by the trigger and the workflow as they are now.

        With a `request_id`, its repetition finds the execution that the first has started.

        Raises:
            NotFound, Ambiguous: there is no such trigger, delivery or workflow any more.
            BadValue: the body was not kept, or the workflow does not take it.
            DefinitionDisabled: the definition is disabled.
        """
        return self._thread.call(self._inner.replay(trigger, delivery, request_id=request_id, tenant=tenant))

    def replay_many(
        self,
        trigger: str,
        *,
        since: Duration | datetime | None = None,
        until: Duration | datetime | None = None,
        event: str = "",
        status: str = "",
        expect: int | None = None,
        request_id: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> ReplayedDeliveries:
        """Counts the deliveries that match or, with `expect`, the number that was counted, replays them, the oldest first.

        Raises:
            NotFound, Ambiguous: there is no such trigger, or no such workflow any more.
            BadValue: others match than are expected, more than can be replayed at a time, or the workflow does not take one.
            DefinitionDisabled: the definition is disabled.
        """
        return self._thread.call(
            self._inner.replay_many(trigger, since=since, until=until, event=event, status=status, expect=expect, request_id=request_id, tenant=tenant)
        )

    def send_sample(
        self, trigger: str, body: str = "{}", *, content_type: str = "application/json", event: str = "", id: str = "", tenant: str = DEFAULT_TENANT
    ) -> SentSample:
        """Sends a delivery to a webhook as its sender would, signed with a secret of the trigger. It starts an execution like any other.

        Raises:
            NotFound, Ambiguous: there is no such trigger, or its workflow is there no more.
            BadValue: it is no webhook, or is not active, its secret is not set, the body is too long, or the workflow does not take it.
            DefinitionDisabled: the definition is disabled.
            TooManyActive: as many executions as the trigger allows have not ended.
        """
        return self._thread.call(self._inner.send_sample(trigger, body, content_type=content_type, event=event, id=id, tenant=tenant))

    def post_event(self, event: Mapping[str, Any], *, tenant: str = DEFAULT_TENANT) -> PostedEvent:
        """Posts a CloudEvent (1.0, as data), which starts what triggers of its `type` start. One of the same `source` and `id` is posted once.

        Raises:
            BadValue: it is no CloudEvent, or is too large.
        """
        return self._thread.call(self._inner.post_event(event, tenant=tenant))

    def preview(self, schedule: str | ScheduleConfig, count: int = 10, *, tenant: str = DEFAULT_TENANT) -> SchedulePreview:
        """The next ticks of a schedule, by its id, or of one that is not saved, as if it began now.

        Raises:
            NotFound: there is no such trigger.
            BadValue: it is no schedule, or is not valid, or the number is out of range.
        """
        return self._thread.call(self._inner.preview(schedule, count, tenant=tenant))

    def backfill(self, trigger: str, since: datetime, until: datetime, *, expect: int | None = None, tenant: str = DEFAULT_TENANT) -> Backfill:
        """Starts executions for the ticks of a schedule from `since` up to but not including `until`, whether or not it is active.

        Without `expect` it is a dry run, which counts them; `expect` is then the number that it has found. A tick that has started an execution already is
        not started again, so a backfill can be repeated.

        Raises:
            NotFound, Ambiguous: there is no such trigger, or its workflow is there no more.
            BadValue: it is no schedule, the range has too many ticks, or another number than was expected; or the workflow does not take the input.
            DefinitionDisabled: the definition is disabled.
        """
        return self._thread.call(self._inner.backfill(trigger, since, until, expect=expect, tenant=tenant))
