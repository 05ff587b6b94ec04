"""The workflow that looks for what people are notified of, one execution in a tenant, every `LOOK_S`.

It looks back a little further than it has looked, since what was committed late has an earlier time; the ids of what it has found there before are its state.
Notifications have ids that follow from events, so a look that is repeated after a crash begins none of them twice.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, step
from perdure.code.step_environment import current_resources, step_info
from perdure.core import messages
from perdure.core.envelopes import OutgoingMessage
from perdure.core.operations import NOTICES_WORKFLOW, NOTIFICATION_WORKFLOW
from perdure.core.paths import Key
from perdure.runtime.workflow_programs import encode_input
from perdure.service.execution_operations import StartRequest, signal_message, start_post
from perdure.service.notifications.app_channel import NoticedEvent
from perdure.service.notifications.found_events import count_failures, found_events, surge_event
from perdure.service.notifications.notice_watch import CHANGED
from perdure.service.notifications.notification_rules import RULES, NotificationRule
from perdure.service.notifications.notification_workflow import EVENT_SIGNAL, NOTIFICATION_CODE, NotificationOrder
from perdure.service.record_kinds import KeptValue
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import HeadFilter, Post

LOOK_S = 10.0
"""How often it looks while there are rules."""

IDLE_S = 86_400.0
"""How often it looks while there are none."""

OVERLAP_S = 60.0
"""How much further back it looks than it has looked."""

GATHER_GRACE_S = 15.0
"""How much longer than its time a group of events is gathered, for what is found late."""


class NoticeCursor(msgspec.Struct, frozen=True):
    """How far events were looked for, and the ids of those behind that time less `OVERLAP_S` that were found. Events before `since_s` are not for any rule.

    For the rules `surging`, a surge of dead letters was told that is not over.
    """

    until_s: float
    seen: tuple[str, ...] = ()
    has_rules: bool = False
    since_s: float = 0.0
    surging: tuple[str, ...] = ()


@step(name="notices_look")
async def _look(cursor: NoticeCursor | None) -> NoticeCursor:
    """Looks for events, and begins the notifications of new ones."""
    access, tenant = StoreAccess(current_resources.get().store), step_info().execution.tenant
    now_s = (await access.store.store_time()).now_s
    rules = [kept async for kept in RULES.all(access.store, tenant) if kept.value.enabled]
    if cursor is None or not rules or not cursor.has_rules:
        return NoticeCursor(now_s, (), bool(rules), now_s)
    since_s, kinds = max(cursor.until_s - OVERLAP_S, cursor.since_s), {kind for kept in rules for kind in kept.value.kinds}
    found = [one async for one in found_events(access, tenant, since_s, kinds)]
    new = [one for one in found if one.id not in cursor.seen]
    for one in new:
        for kept in rules:
            await _begin(access, tenant, kept, one)
    seen = tuple(one.id for one in found if one.at_s >= now_s - OVERLAP_S)
    surging = [kept.key for kept in rules if await _surges(access, tenant, kept, cursor, now_s)]
    return NoticeCursor(now_s, seen, True, cursor.since_s, tuple(surging))


async def _surges(access: StoreAccess, tenant: str, kept: KeptValue[NotificationRule], cursor: NoticeCursor, now_s: float) -> bool:
    """Whether there is a surge for a rule. It is told when it begins, under an id that follows from the look before.

    A surge is over when there are no more than half as many as the rule allows.
    """
    rule, lasts = kept.value, kept.key in cursor.surging
    if "dead_letter_surge" not in rule.kinds:
        return False
    count = await count_failures(access, tenant, rule.workflow, max(now_s - rule.surge_s, cursor.since_s), rule.surge_above + 1)
    if lasts:
        return count > rule.surge_above // 2
    if count > rule.surge_above:
        await _begin(access, tenant, kept, surge_event(kept.key, rule, cursor.until_s, now_s))
    return count > rule.surge_above


async def _begin(access: StoreAccess, tenant: str, kept: KeptValue[NotificationRule], event: NoticedEvent) -> None:
    """Begins the notifications of an event by a rule, or adds it to a group."""
    rule = kept.value
    if event.kind not in rule.kinds or rule.workflow not in ("", event.workflow):
        return
    sent = event if rule.channel == "app" else msgspec.structs.replace(event, people=())
    for to in _recipients(rule, event.people):
        await access.store.commit([await _post(access, tenant, kept.key, rule, to, sent)])


def _recipients(rule: NotificationRule, people: Iterable[str]) -> Iterator[str]:
    """The people who are notified; the empty name for the target of the rule, and for the application."""
    if rule.target or rule.channel == "app":
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
