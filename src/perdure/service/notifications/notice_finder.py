"""The workflow that looks for what people are notified of, one execution in a tenant, every `LOOK_S`.

It looks back a little further than it has looked, since what was committed late has an earlier time; the ids of what it has found there before are its state.
Notifications have ids that follow from events, so a look that is repeated after a crash begins none of them twice.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import NamedTuple

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

BEGUN_AT_A_TIME = 200
"""How many notifications are begun in one commit."""


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
    seen, begun = list[str](), list[BegunNotification]()
    async for found in found_events(access, tenant, since_s, kinds, frozenset(cursor.seen)):
        seen += [found.id] if found.at_s >= now_s - OVERLAP_S else []
        begun += [] if found.event is None else [one for kept in rules for one in _begun_by(kept, found.event)]
        if len(begun) >= BEGUN_AT_A_TIME:
            await _begin(access, tenant, begun)
            begun = []
    await _begin(access, tenant, begun)
    surging = [kept.key for kept in rules if await _surges(access, tenant, kept, cursor, now_s)]
    return NoticeCursor(now_s, tuple(seen), True, cursor.since_s, tuple(surging))


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
        await _begin(access, tenant, [*_begun_by(kept, surge_event(kept.key, rule, cursor.until_s, now_s))])
    return count > rule.surge_above


class BegunNotification(NamedTuple):
    """A notification to begin: by which rule, to whom (empty: the target of the rule, or the application), and of which event."""

    rule: KeptValue[NotificationRule]
    to: str
    event: NoticedEvent


def _begun_by(kept: KeptValue[NotificationRule], event: NoticedEvent) -> Iterator[BegunNotification]:
    """The notifications of an event by a rule: to its target or the application, else to each of the people."""
    rule = kept.value
    if event.kind not in rule.kinds or rule.workflow not in ("", event.workflow):
        return
    if rule.channel == "app":
        yield BegunNotification(kept, "", event)
        return
    names = ("",) if rule.target else (name for name in event.people if not name.startswith("group:"))
    yield from (BegunNotification(kept, name, msgspec.structs.replace(event, people=())) for name in names)


async def _begin(access: StoreAccess, tenant: str, begun: Sequence[BegunNotification]) -> None:
    """Begins notifications, or adds their events to groups that are still there."""
    for first in range(0, len(begun), BEGUN_AT_A_TIME):
        piece = begun[first : first + BEGUN_AT_A_TIME]
        groups = tuple({_key(tenant, one, grouped=True) for one in piece if _gathered_until(one) is not None})
        heads = await access.store.heads(HeadFilter(keys=groups, ended=True, limit=len(groups))) if groups else []
        sent = {head.key for head in heads}  # what is found after its group was sent goes alone
        _ = await access.store.commit([await _post(access, tenant, one, sent) for one in piece])


def _gathered_until(one: BegunNotification) -> float | None:
    """Until when the events of its group are gathered; None if its rule has no groups."""
    group_s = one.rule.value.group_s
    return (one.event.at_s // group_s + 1) * group_s + GATHER_GRACE_S if group_s else None


def _key(tenant: str, one: BegunNotification, grouped: bool) -> Key:
    whose = sha256(f"{one.to}\0{_gathered_until(one) if grouped else one.event.id}".encode()).hexdigest()[:24]
    return Key(tenant, NOTIFICATION_WORKFLOW, f"{one.rule.key}:{whose}")


async def _post(access: StoreAccess, tenant: str, one: BegunNotification, sent: AbstractSet[Key]) -> Post:
    """The post that begins a notification, or adds its event to its group unless that was `sent`."""
    until_s, key = _gathered_until(one), _key(tenant, one, grouped=True)
    if until_s is None or key in sent:
        key, order = _key(tenant, one, grouped=False), NotificationOrder(one.rule.key, one.to, (one.event,))
        return await start_post(access, _start(key, order))
    post = await start_post(access, _start(key, NotificationOrder(one.rule.key, one.to, (), until_s)))
    signal = signal_message(EVENT_SIGNAL, one.event, sha256(one.event.id.encode()).hexdigest()[:32])
    return msgspec.structs.replace(post, messages=(*post.messages, OutgoingMessage(key, f"message:{signal.key}", messages.encode_message(signal))))


def _start(key: Key, order: NotificationOrder) -> StartRequest:
    return StartRequest(key=key, input=encode_input(NOTIFICATION_CODE, (order,), {}, "start"), version=1)


async def _notices_workflow(ctx: Context) -> None:
    first = await ctx.step(_look, None)
    async for turn in ctx.loop("looks", state=first, keep=1):
        _ = await turn.listen(CHANGED, timeout=LOOK_S if turn.state.has_rules else IDLE_S, default=None, name="wait")
        turn.state = await turn.step(_look, turn.state)


NOTICES_CODE = CodeWorkflow(_notices_workflow, NOTICES_WORKFLOW)
"""The workflow that looks for what people are notified of."""
