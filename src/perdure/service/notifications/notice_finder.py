"""The workflow that looks for what people are notified of, one execution in a tenant: approvals by when people were last to be notified, failures by when they
failed, both from indexes, every `LOOK_S`.

It looks back a little further than it has looked, since what was committed late has an earlier time; the ids of what it has found there before are its state.
Notifications have ids that follow from events, so a look that is repeated after a crash begins none of them twice.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from perdure.code.approval_attributes import NOTICE, NOTICED
from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, step
from perdure.code.step_environment import current_resources, step_info
from perdure.core import messages
from perdure.core.attribute_filter import AttributeCondition, AttributeOrder
from perdure.core.attributes import AttributeTime, sortable_bytes, value_of_sortable
from perdure.core.envelopes import OutgoingMessage
from perdure.core.failure_causes import FAILED_AT, failure_cause
from perdure.core.operations import APPROVAL_WORKFLOW, NOTICES_WORKFLOW, NOTIFICATION_WORKFLOW
from perdure.core.paths import Key
from perdure.runtime.workflow_programs import encode_input
from perdure.service.approvals import read_approval
from perdure.service.execution_operations import StartRequest, signal_message, start_post
from perdure.service.notifications.notice_watch import CHANGED
from perdure.service.notifications.notification_rules import RULES, NotificationRule
from perdure.service.notifications.notification_workflow import EVENT_SIGNAL, NOTIFICATION_CODE, NoticedEvent, NotificationOrder
from perdure.service.people.substitutes import with_substitutes
from perdure.service.queries import INTERNAL_WORKFLOWS
from perdure.service.record_kinds import KeptValue
from perdure.service.reruns import read_execution
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Head, HeadFilter, Post, head_position

LOOK_S = 10.0
"""How often it looks while there are rules."""

IDLE_S = 86_400.0
"""How often it looks while there are none."""

OVERLAP_S = 60.0
"""How much further back it looks than it has looked."""

GATHER_GRACE_S = 15.0
"""How much longer than its time a group of events is gathered, for what is found late."""

HEADS_AT_A_TIME, EVENTS_AT_A_TIME = 200, 2_000
APPROVAL_KINDS, FAILURE_KINDS = frozenset(("asked", "reminder", "escalated")), frozenset(("failure", "needs_attention"))


class NoticeCursor(msgspec.Struct, frozen=True):
    """How far events were looked for, and the ids of those behind that time less `OVERLAP_S` that were found. Events before `since_s` are not for any rule."""

    until_s: float
    seen: tuple[str, ...] = ()
    has_rules: bool = False
    since_s: float = 0.0


class _Found(msgspec.Struct, frozen=True):
    event: NoticedEvent
    people: tuple[str, ...] = ()


@step(name="notices_look")
async def _look(cursor: NoticeCursor | None) -> NoticeCursor:
    """Looks for events, and begins the notifications of new ones."""
    access, tenant = StoreAccess(current_resources.get().store), step_info().execution.tenant
    now_s = (await access.store.store_time()).now_s
    rules = [kept async for kept in RULES.all(access.store, tenant) if kept.value.enabled]
    if cursor is None or not rules or not cursor.has_rules:
        return NoticeCursor(now_s, (), bool(rules), now_s)
    since_s, kinds = max(cursor.until_s - OVERLAP_S, cursor.since_s), {kind for kept in rules for kind in kept.value.kinds}
    found: list[_Found] = []
    if kinds & APPROVAL_KINDS:
        found += [one async for one in _approvals(access, tenant, since_s)]
    if kinds & FAILURE_KINDS:
        found += [one async for one in _failures(access, tenant, since_s)]
    new = [one for one in found if one.event.id not in cursor.seen]
    for one in new:
        for kept in rules:
            await _begin(access, tenant, kept, one)
    return NoticeCursor(now_s, tuple(one.event.id for one in found if one.event.at_s >= now_s - OVERLAP_S), True, cursor.since_s)


def _since(name: str, since_s: float) -> AttributeCondition:
    return AttributeCondition(name, ((sortable_bytes(AttributeTime(int(since_s * 1e6))), b"u"),))


async def _heads(access: StoreAccess, tenant: str, name: str, since_s: float, workflow: str | None) -> list[Head]:
    """The heads whose time of this name is not before `since_s`, the earliest first, up to `EVENTS_AT_A_TIME`."""
    order = AttributeOrder(name)
    which = HeadFilter(tenant=tenant, workflow=workflow, where=(_since(name, since_s),), order=order, limit=HEADS_AT_A_TIME)
    found: list[Head] = []
    while len(found) < EVENTS_AT_A_TIME:
        page = await access.store.heads(which)
        found += page
        if len(page) < which.limit:
            break
        which = msgspec.structs.replace(which, after=head_position(page[-1], order))
    return found


def _time(head: Head, name: str) -> float:
    value = value_of_sortable(next(form for named, form in head.attributes if named == name))
    return value.us / 1e6 if isinstance(value, AttributeTime) else 0.0


async def _approvals(access: StoreAccess, tenant: str, since_s: float) -> AsyncIterator[_Found]:
    """The approvals of which people were to be notified since a time, and that wait still."""
    for head in await _heads(access, tenant, NOTICED, since_s, APPROVAL_WORKFLOW):
        one = None if head.ended_at_s is not None else await read_approval(access, head.key)
        if one is None:
            continue
        kind = str(value_of_sortable(next(form for name, form in head.attributes if name == NOTICE)))
        at_s, asks = _time(head, NOTICED), one.requested_by or one.key
        due = "" if one.due_at_s is None else f" It is due at {datetime.fromtimestamp(one.due_at_s, UTC):%Y-%m-%d %H:%M} UTC."
        said = {"reminder": "It still waits.", "escalated": "Others have not decided in time."}.get(kind, f"{asks.workflow} {asks.id} waits for a decision.")
        event = NoticedEvent(f"{one.id}:{kind}:{at_s:.6f}", kind, one.title, f"{said}{due}", asks.workflow, asks.id, at_s, one.deeplink)  # type: ignore[arg-type]  # what a notice is called
        yield _Found(event, await with_substitutes(access.store, tenant, one.assignees, at_s))


async def _failures(access: StoreAccess, tenant: str, since_s: float) -> AsyncIterator[_Found]:
    """The executions of users that have failed or need attention since a time."""
    for head in await _heads(access, tenant, FAILED_AT, since_s, None):
        if head.key.workflow in INTERNAL_WORKFLOWS or (cause := failure_cause(await read_execution(access, head.key))) is None:
            continue
        key, text = head.key, f"{cause.error.type}: {cause.error.message}"[:1_000]
        kind, title = (
            ("failure", f"{key.workflow} {key.id} has failed") if head.status == "failed" else ("needs_attention", f"{key.workflow} {key.id} needs attention")
        )
        yield _Found(NoticedEvent(f"{key.workflow}/{key.id}:{kind}:{cause.at_s:.6f}", kind, title, text, key.workflow, key.id, cause.at_s))  # type: ignore[arg-type]  # one of the two


async def _begin(access: StoreAccess, tenant: str, kept: KeptValue[NotificationRule], one: _Found) -> None:
    """Begins the notifications of an event by a rule, or adds it to a group."""
    rule, event = kept.value, one.event
    if event.kind not in rule.kinds or rule.workflow not in ("", event.workflow):
        return
    for to in _recipients(rule, one.people):
        await access.store.commit([await _post(access, tenant, kept.key, rule, to, event)])


def _recipients(rule: NotificationRule, people: Iterable[str]) -> Iterator[str]:
    """The people who are notified; the empty name for the target of the rule."""
    if rule.target:
        yield ""
    else:
        yield from (name for name in people if not name.startswith("group:"))


async def _post(access: StoreAccess, tenant: str, name: str, rule: NotificationRule, to: str, event: NoticedEvent) -> Post:
    group = int(event.at_s // rule.group_s) if rule.group_s else None
    whose = sha256(f"{to}\0{event.id if group is None else group}".encode()).hexdigest()[:24]
    key = Key(tenant, NOTIFICATION_WORKFLOW, f"{name}:{whose}")
    until_s = None if group is None else (group + 1) * rule.group_s + GATHER_GRACE_S
    if group is not None and (heads := await access.store.heads(HeadFilter(keys=(key,), limit=1))) and heads[0].ended_at_s is not None:
        return await _post(access, tenant, name, msgspec.structs.replace(rule, group_s=0.0), to, event)  # it was found after its group was sent
    order = NotificationOrder(name, to, (event,) if group is None else (), until_s)
    post = await start_post(access, StartRequest(key=key, input=encode_input(NOTIFICATION_CODE, (order,), {}, "start"), version=1))
    if group is None:
        return post
    signal = signal_message(EVENT_SIGNAL, event, sha256(event.id.encode()).hexdigest()[:32])
    return msgspec.structs.replace(post, messages=(*post.messages, OutgoingMessage(key, f"message:{signal.key}", messages.encode_message(signal))))


async def _notices_workflow(ctx: Context) -> None:
    first = await ctx.step(_look, None)
    async for turn in ctx.loop("looks", state=first, keep=1):
        _ = await turn.listen(CHANGED, timeout=LOOK_S if turn.state.has_rules else IDLE_S, default=None, name="wait")
        turn.state = await turn.step(_look, turn.state)


NOTICES_CODE = CodeWorkflow(_notices_workflow, NOTICES_WORKFLOW)
"""The workflow that looks for what people are notified of."""
