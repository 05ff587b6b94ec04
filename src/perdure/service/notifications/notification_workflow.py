"""The workflow that sends a notification: gathers what belongs together, waits for the end of quiet hours and for its turn, and sends until it arrives.

Whether something is sent is decided when it is sent: a rule that was removed or disabled in the meantime sends nothing, and neither is anything sent to
somebody who has unsubscribed. Its id follows from the rule, the recipient and the event, or the group of events, so the same one is never begun twice.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Retry, Signal, step
from perdure.code.step_environment import current_resources, step_info
from perdure.core.errors import StaleRecord
from perdure.core.operations import NOTIFICATION_WORKFLOW
from perdure.service.notifications import notification_channels
from perdure.service.notifications.app_channel import APP_HOOK, ATTEMPTS, AppNotification, NoticedEvent
from perdure.service.notifications.notification_channels import NotificationFailed, NotificationRefused, OutgoingNotification
from perdure.service.notifications.notification_rules import RULES, NotificationRule, addresses_of, quiet_until
from perdure.service.notifications.notification_templates import TemplateScope, filled
from perdure.service.notifications.unsubscribe_links import unsubscribe_url
from perdure.service.people.person_records import PEOPLE
from perdure.service.record_kinds import KeptValue, RecordKind, post_records
from perdure.stores.protocol import Store

EVENTS_MAX = 500
"""The most events that go together."""


class NotificationOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be sent: by which rule, to whom (empty: the rule's own target), which events, and until when further ones are gathered.

    `more` events of a group are only counted, beyond the `EVENTS_MAX` that are told. A trial is sent at once, also if the rule is disabled, and is attempted
    once.
    """

    rule: str
    to: str = ""
    events: tuple[NoticedEvent, ...] = ()
    gather_until_s: float | None = None
    more: int = 0
    is_trial: bool = False


EVENT_SIGNAL = Signal("event", NoticedEvent)
"""The message with a further event of a group."""


class HourlyCount(msgspec.Struct, frozen=True):
    """How many notifications a rule has sent in an hour, counted from 1970."""

    hour: int
    count: int


COUNTS = RecordKind("notification count", HourlyCount, audited=False, expires=True)


class SendPermission(msgspec.Struct, frozen=True):
    """Whether a notification is sent: not before `wait_s` have passed, or not at all and `why`. With `by_app`, the application does it."""

    wait_s: float = 0.0
    why: str = ""
    by_app: bool = False


@step(name="notification_admission")
async def _admit(order: NotificationOrder) -> SendPermission:
    """Decides whether a notification may be sent now, and counts it if so. One that was counted before a crash may be counted twice."""
    store, tenant = _store(), step_info().execution.tenant
    kept = await _rule_of(store, tenant, order)
    if kept is None:
        return SendPermission(why="the rule was removed or disabled")
    if order.is_trial:
        return SendPermission(by_app=kept.value.channel == "app")
    now_s = (await store.store_time()).now_s
    end_s = quiet_until(kept.value, now_s)
    if end_s is not None:
        return SendPermission(end_s - now_s)
    wait_s = await _turn(store, tenant, order.rule, kept.value.hourly_max, now_s) if kept.value.hourly_max else 0.0
    return SendPermission(wait_s, by_app=kept.value.channel == "app")


async def _turn(store: Store, tenant: str, rule: str, most: int, now_s: float) -> float:
    """Counts a notification, or returns how long it waits because there were so many in this hour."""
    hour = int(now_s // 3_600)
    while True:
        kept = await COUNTS.read(store, tenant, rule)
        count = kept.value.count if kept is not None and kept.value.hour == hour else 0
        if count >= most:
            return (hour + 1) * 3_600 - now_s
        try:
            change = COUNTS.change(tenant, rule, 0 if kept is None else kept.version, HourlyCount(hour, count + 1), expires_at_s=(hour + 2) * 3_600.0)
            await post_records(store, [change])
        except StaleRecord:  # another notification was counted meanwhile
            continue
        return 0.0


async def _rule_of(store: Store, tenant: str, order: NotificationOrder) -> KeptValue[NotificationRule] | None:
    """The rule of a notification; None if it was removed or disabled."""
    kept = await RULES.read(store, tenant, order.rule)
    return kept if kept is not None and (kept.value.enabled or order.is_trial) else None


async def _delivered(order: NotificationOrder) -> str:
    """Sends a notification, and returns to whom; why not, if it is sent to nobody."""
    store, own = _store(), step_info().execution
    kept = await _rule_of(store, own.tenant, order)
    if kept is None:
        return "nobody: the rule was removed or disabled"
    rule, person = kept.value, None if not order.to else await PEOPLE.read(store, own.tenant, order.to)
    unwanted = () if person is None else person.value.unsubscribed
    events = [event for event in order.events if event.kind not in unwanted or order.is_trial]
    if not events:
        return f"nobody: {'they have unsubscribed' if order.events else 'there is no event'}"
    one = composed(own.id, order.rule, rule, events, order.more)
    if rule.channel == "webhook":
        await notification_channels.send_webhook(store, own.tenant, rule.target, rule.secret, one)
        return rule.target
    to = addresses_of(rule) if not order.to else [person.value.email] if person is not None and person.value.email else []
    if not to:
        return f"nobody: the address of {order.to} is not known"
    if order.to:
        one = one._replace(unsubscribe=unsubscribe_url(own.tenant, order.to, tuple(dict.fromkeys(event.kind for event in events))))
    refused = await notification_channels.send_email(to, one)
    taken = ", ".join(address for address in to if address not in refused)
    return f"{taken}; its server refused {', '.join(refused)}" if refused else taken


@step(name="notification_for_app")
async def _for_app(order: NotificationOrder) -> AppNotification | None:
    """What the application is handed; None if the rule was removed or disabled."""
    store, own = _store(), step_info().execution
    kept = await _rule_of(store, own.tenant, order)
    if kept is None:
        return None
    events = tuple([msgspec.structs.replace(event, people=await _wanting(store, own.tenant, event)) for event in order.events])
    one = composed(own.id, order.rule, kept.value, events, order.more)
    return AppNotification(own.id, order.rule, one.title, one.text, events)


async def _wanting(store: Store, tenant: str, event: NoticedEvent) -> tuple[str, ...]:
    """The people of an event who have not unsubscribed from its kind."""
    known = [(name, None if name.startswith("group:") else await PEOPLE.read(store, tenant, name)) for name in event.people]
    return tuple(name for name, kept in known if kept is None or event.kind not in kept.value.unsubscribed)


@step(name="notification_delivery", retry=ATTEMPTS, raises=(NotificationRefused, NotificationFailed))
async def _deliver(order: NotificationOrder) -> str:
    return await _delivered(order)


@step(name="notification_trial", retry=Retry(max=1), raises=(NotificationRefused, NotificationFailed))
async def _try(order: NotificationOrder) -> str:
    return await _delivered(order)


def composed(id: str, name: str, rule: NotificationRule, events: Sequence[NoticedEvent], more: int = 0) -> OutgoingNotification:
    """Returns what is sent of some events by the rule of a name: of several, the texts of all below each other. Of `more`, only the number is told."""
    count = len(events) + more
    scopes = [TemplateScope(event, name, count) for event in events]
    titles, texts = [filled(rule.title, scope) for scope in scopes], [filled(rule.body, scope) for scope in scopes]
    if count > 1:
        texts = [f"{title}\n{text}" for title, text in zip(titles, texts, strict=True)]
    texts += [f"and {more} more"] if more else []
    others = f" (and {count - 1} more)" if count > 1 else ""
    return OutgoingNotification(id, f"{titles[0]}{others}", "\n\n".join(texts), [msgspec.to_builtins(event) for event in events])


def _store() -> Store:
    store: Store = current_resources.get().store
    return store


async def _notification_workflow(ctx: Context, order: NotificationOrder) -> str:
    while True:
        if order.gather_until_s is not None:
            order = await _gathered(ctx, order, order.gather_until_s)
        admission = await ctx.step(_admit, order)
        if admission.why:
            return f"nobody: {admission.why}"
        if not admission.wait_s:
            return await (_hand_over(ctx, order) if admission.by_app else ctx.step(_try if order.is_trial else _deliver, order))
        await ctx.sleep(admission.wait_s)


async def _gathered(ctx: Context, order: NotificationOrder, until_s: float) -> NotificationOrder:
    """Receives the events of a group until a time, and then those that are there and were not received yet."""
    known = {event.id: event for event in order.events}
    is_over, more = False, order.more
    while not is_over:
        left_s = max(until_s - ctx.now().timestamp(), 0.0)
        bodies: list[Any] = await ctx.listen_many(EVENT_SIGNAL, limit=EVENTS_MAX, timeout=left_s)
        for event in bodies:
            if len(known) < EVENTS_MAX:
                known[event.id] = event
            else:
                more += 1
        is_over = not left_s and len(bodies) < EVENTS_MAX
    return msgspec.structs.replace(order, events=tuple(known.values()), more=more)


async def _hand_over(ctx: Context, order: NotificationOrder) -> str:
    notification = await ctx.step(_for_app, order)
    if notification is None:
        return "nobody: the rule was removed or disabled"
    await ctx.call(APP_HOOK, notification)
    return "the application"


NOTIFICATION_CODE = CodeWorkflow(_notification_workflow, NOTIFICATION_WORKFLOW)
"""The workflow of notifications."""
