"""Finds what people are notified of, each kind by an index: approvals by when people were last to be notified, failures by when they failed, triggers by when
they paused themselves, and proposals by when they were made.
"""

import logging
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import NamedTuple, cast

import msgspec

from perdure.code.approval_attributes import NOTICE, NOTICED
from perdure.core.attribute_filter import AttributeCondition, AttributeOrder, Is, attribute_conditions
from perdure.core.attributes import AttributeTime, sortable_bytes, value_of_sortable
from perdure.core.errors import UNREADABLE, ErrorInfo
from perdure.core.failure_causes import FAILED_AT, FailureCause, failure_cause
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.service.approvals import read_approval
from perdure.service.notifications.app_channel import NoticedEvent
from perdure.service.notifications.notification_rules import ASSIGNED_KINDS, NotificationRule
from perdure.service.people.person_records import NotificationKind
from perdure.service.people.substitutes import with_substitutes
from perdure.service.proposals.proposal_records import PROPOSALS
from perdure.service.queries import INTERNAL_WORKFLOWS
from perdure.service.record_kinds import KeptValue, RecordKind, V
from perdure.service.reruns import read_execution
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.trigger_records import BROKE_AT, TRIGGERS
from perdure.stores.protocol import Head, HeadFilter, head_position

FAILURE_KINDS = frozenset(("failure", "needs_attention"))
AT_A_TIME = 200

logger = logging.getLogger("perdure.notifications")


class FoundEvent(NamedTuple):
    """An event that was found: its id, its time, and what is told of it (None: it was seen before, and was not read again)."""

    id: str
    at_s: float
    event: NoticedEvent | None = None


async def found_events(
    access: StoreAccess, tenant: str, since_s: float, kinds: AbstractSet[NotificationKind], seen: AbstractSet[str]
) -> AsyncIterator[FoundEvent]:
    """Yields the events of some kinds since a time, except surges: whether there is one, a rule says. `seen` are the ids of those that are known."""
    finders = ((ASSIGNED_KINDS, _approvals), (FAILURE_KINDS, _failures), ({"breaker_open"}, _breakers), ({"proposal_filed"}, _proposals))
    for of, find in finders:
        if kinds & of:
            async for one in find(access, tenant, since_s, seen):
                yield one


async def count_failures(access: StoreAccess, tenant: str, workflow: str, since_s: float, most: int) -> int:
    """Counts the executions of users, of one workflow or of all, that have failed or need attention since a time, up to `most`."""
    count = 0
    async for head in _heads(access, tenant, FAILED_AT, since_s, workflow or None):
        count += head.key.workflow not in INTERNAL_WORKFLOWS
        if count == most:
            break
    return count


def surge_event(name: str, rule: NotificationRule, look_s: float, now_s: float) -> NoticedEvent:
    """The event that there are more dead letters than a rule allows, first found by the look behind the one at `look_s`."""
    title = f"more than {rule.surge_above} dead letters within {rule.surge_s / 60:g} min{f' of {rule.workflow}' if rule.workflow else ''}"
    text = "perdure dead-letters lists them, grouped with those that failed alike."
    return NoticedEvent(f"{name}:dead_letter_surge:{look_s:.6f}", "dead_letter_surge", title, text, rule.workflow, "", now_s)


def _since(name: str, since_s: float) -> AttributeCondition:
    return AttributeCondition(name, ((sortable_bytes(AttributeTime(int(since_s * 1e6))), b"u"),))


async def _heads(access: StoreAccess, tenant: str, name: str, since_s: float, workflow: str | None) -> AsyncIterator[Head]:
    """The heads whose time of this name is not before `since_s`, the earliest first."""
    order = AttributeOrder(name)
    which = HeadFilter(tenant=tenant, workflow=workflow, where=(_since(name, since_s),), order=order, limit=AT_A_TIME)
    while True:
        page = await access.store.heads(which)
        for head in page:
            yield head
        if len(page) < which.limit:
            return
        which = msgspec.structs.replace(which, after=head_position(page[-1], order))


async def _records(
    access: StoreAccess, tenant: str, kind: RecordKind[V], where: tuple[AttributeCondition, ...], order: AttributeOrder
) -> AsyncIterator[KeptValue[V]]:
    """The records of a kind that match."""
    after = None
    while True:
        page = await kind.page(access.store, tenant, where=where, order=order, after=after, limit=AT_A_TIME)
        for kept in page:
            yield kept
        if len(page) < AT_A_TIME:
            return
        after = page[-1].position


def _time(head: Head, name: str) -> float:
    value = value_of_sortable(next(form for named, form in head.attributes if named == name))
    return value.us / 1e6 if isinstance(value, AttributeTime) else 0.0


async def _approvals(access: StoreAccess, tenant: str, since_s: float, seen: AbstractSet[str]) -> AsyncIterator[FoundEvent]:
    """The approvals of which people were to be notified since a time, and that wait still."""
    async for head in _heads(access, tenant, NOTICED, since_s, APPROVAL_WORKFLOW):
        if head.ended_at_s is not None:
            continue
        kind = str(value_of_sortable(next(form for name, form in head.attributes if name == NOTICE)))
        at_s = _time(head, NOTICED)
        if (id := f"{head.key.id}:{kind}:{at_s:.6f}") in seen:
            yield FoundEvent(id, at_s)
            continue
        try:
            one = await read_approval(access, head.key)
        except UNREADABLE as error:  # nobody can decide it before it is repaired, and engines report it
            logger.warning("nobody is notified of the approval %s of %s: %s", head.key.id, tenant, error)
            continue
        if one is None:
            continue
        asks = one.requested_by or one.key
        due = "" if one.due_at_s is None else f" It is due at {datetime.fromtimestamp(one.due_at_s, UTC):%Y-%m-%d %H:%M} UTC."
        said = {"reminder": "It still waits.", "escalated": "Others have not decided in time."}.get(kind, f"{asks.workflow} {asks.id} waits for a decision.")
        people, name = await with_substitutes(access.store, tenant, one.assignees, at_s), cast("NotificationKind", kind)
        yield FoundEvent(id, at_s, NoticedEvent(id, name, one.title, f"{said}{due}", asks.workflow, asks.id, at_s, one.deeplink, people))


async def _failures(access: StoreAccess, tenant: str, since_s: float, seen: AbstractSet[str]) -> AsyncIterator[FoundEvent]:
    """The executions of users that have failed or need attention since a time."""
    async for head in _heads(access, tenant, FAILED_AT, since_s, None):
        if (key := head.key).workflow in INTERNAL_WORKFLOWS:
            continue
        kind: NotificationKind = "failure" if head.status == "failed" else "needs_attention"
        at_s = _time(head, FAILED_AT)
        if (id := f"{key.workflow}/{key.id}:{kind}:{at_s:.6f}") in seen:
            yield FoundEvent(id, at_s)
            continue
        try:
            cause = failure_cause(await read_execution(access, key))
        except UNREADABLE as error:
            cause = FailureCause((), ErrorInfo(error.code, f"its log can't be read: {error}"), at_s)
        if cause is None:
            continue
        title = f"{key.workflow} {key.id} {'has failed' if kind == 'failure' else 'needs attention'}"
        text = cause.error.line[:1_000]
        yield FoundEvent(id, at_s, NoticedEvent(id, kind, title, text, key.workflow, key.id, at_s))


async def _breakers(access: StoreAccess, tenant: str, since_s: float, seen: AbstractSet[str]) -> AsyncIterator[FoundEvent]:
    """The triggers that have paused themselves since a time, and were not resumed yet."""
    async for kept in _records(access, tenant, TRIGGERS, (_since(BROKE_AT, since_s),), AttributeOrder(BROKE_AT)):
        trigger, pause = kept.value, kept.value.pause
        if pause is None:
            continue
        workflow = trigger.workflow.partition("@")[0].partition(":")[0]
        title, text = f"the trigger {trigger.name or trigger.id} has paused itself", f"{pause.reason[:1_000]}. perdure trigger resume {trigger.id} resumes it."
        id = f"{trigger.id}:breaker_open:{pause.at_s:.6f}"
        yield FoundEvent(id, pause.at_s, None if id in seen else NoticedEvent(id, "breaker_open", title, text, workflow, "", pause.at_s))


async def _proposals(access: StoreAccess, tenant: str, since_s: float, seen: AbstractSet[str]) -> AsyncIterator[FoundEvent]:
    """The proposals that were made since a time, and wait for a review."""
    where = attribute_conditions({"created": Is(">=", since_s), "status": "pending"})
    async for kept in _records(access, tenant, PROPOSALS, where, AttributeOrder("created")):
        one = kept.value
        widens = f" It widens rights: {', '.join(one.widens_rights)}." if one.widens_rights else ""
        title, until = f"{one.proposed_by} proposes a change of {one.slug}", f"{datetime.fromtimestamp(one.expires_at_s, UTC):%Y-%m-%d %H:%M} UTC"
        text = f"{one.note[:1_000] or 'It has no note.'}{widens} It waits for a review until {until}: perdure proposal show {one.id}"
        execution, id = "" if one.execution is None else one.execution.id, f"{one.id}:proposal_filed"
        event = None if id in seen else NoticedEvent(id, "proposal_filed", title, text, one.slug, execution, one.created_at_s)
        yield FoundEvent(id, one.created_at_s, event)
