"""The workflow that sends a notification: gathers what belongs together, waits for the end of quiet hours and for its turn, and sends until it arrives.

Whether something is sent is decided when it is sent: a rule that was removed or disabled in the meantime sends nothing, and neither is anything sent to
somebody who has unsubscribed. Its id follows from the rule, the recipient and the event, or the group of events, so the same one is never begun twice.
"""

from typing import Any

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Retry, Signal, step
from perdure.code.step_environment import current_resources, step_info
from perdure.core.errors import StaleRecord
from perdure.core.operations import NOTIFICATION_WORKFLOW
from perdure.service.notifications import notification_channels
from perdure.service.notifications.notification_channels import NotificationFailed, NotificationRefused, OutgoingNotification
from perdure.service.notifications.notification_rules import RULES, NotificationRule, addresses_of, filled, quiet_until
from perdure.service.people.person_records import PEOPLE, NotificationKind
from perdure.service.record_kinds import RecordKind, post_records
from perdure.stores.protocol import Store

EVENTS_MAX = 500
"""The most events that go together."""

ATTEMPTS = Retry(max=12, wait=5.0, factor=3.0, max_wait="2h", fatal=(NotificationRefused,))
"""About fourteen hours, with two hours between the last attempts."""


class NoticedEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event that somebody is notified of: its id, its kind, the title and text, the execution, and the address of a page."""

    id: str
    kind: NotificationKind
    title: str
    text: str
    workflow: str
    execution: str
    at_s: float
    link: str = ""


class NotificationOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be sent: by which rule, to whom (empty: the rule's own target), which events, and until when further ones are gathered."""

    rule: str
    to: str = ""
    events: tuple[NoticedEvent, ...] = ()
    gather_until_s: float | None = None


EVENT_SIGNAL = Signal("event", NoticedEvent)
"""The message with a further event of a group."""


class HourlyCount(msgspec.Struct, frozen=True):
    """How many notifications a rule has sent in an hour, counted from 1970."""

    hour: int
    count: int


COUNTS = RecordKind("notification count", HourlyCount, audited=False, expires=True)


class SendPermission(msgspec.Struct, frozen=True):
    """Whether a notification is sent: not before `wait_s` have passed, or not at all and `why`."""

    wait_s: float = 0.0
    why: str = ""


@step(name="notification_admission")
async def _admit(order: NotificationOrder) -> SendPermission:
    """Decides whether a notification may be sent now, and counts it if so. One that was counted before a crash may be counted twice."""
    store, tenant = _store(), step_info().execution.tenant
    kept = await RULES.read(store, tenant, order.rule)
    if kept is None or not kept.value.enabled:
        return SendPermission(why="the rule was removed or disabled")
    now_s = (await store.store_time()).now_s
    end_s = quiet_until(kept.value, now_s)
    if end_s is not None:
        return SendPermission(end_s - now_s)
    return SendPermission() if not kept.value.hourly_max else await _counted(store, tenant, order.rule, kept.value.hourly_max, now_s)


async def _counted(store: Store, tenant: str, rule: str, most: int, now_s: float) -> SendPermission:
    hour = int(now_s // 3_600)
    while True:
        kept = await COUNTS.read(store, tenant, rule)
        count = kept.value.count if kept is not None and kept.value.hour == hour else 0
        if count >= most:
            return SendPermission((hour + 1) * 3_600 - now_s)
        try:
            change = COUNTS.change(tenant, rule, 0 if kept is None else kept.version, HourlyCount(hour, count + 1), expires_at_s=(hour + 2) * 3_600.0)
            await post_records(store, [change])
        except StaleRecord:  # another notification was counted meanwhile
            continue
        return SendPermission()


@step(name="notification_delivery", retry=ATTEMPTS, raises=(NotificationRefused, NotificationFailed))
async def _deliver(order: NotificationOrder) -> str:
    """Sends a notification, and returns to whom; why not, if it is sent to nobody."""
    store, own = _store(), step_info().execution
    kept = await RULES.read(store, own.tenant, order.rule)
    if kept is None or not kept.value.enabled:
        return "nobody: the rule was removed or disabled"
    rule, person = kept.value, None if not order.to else await PEOPLE.read(store, own.tenant, order.to)
    unwanted = () if person is None else person.value.unsubscribed
    events = [event for event in order.events if event.kind not in unwanted]
    if not events:
        return "nobody: they have unsubscribed"
    one = composed(own.id, rule, events)
    if rule.channel == "webhook":
        await notification_channels.send_webhook(store, own.tenant, rule.target, rule.secret, one)
        return rule.target
    to = addresses_of(rule) if not order.to else [person.value.email] if person is not None and person.value.email else []
    if not to:
        return f"nobody: the address of {order.to} is not known"
    await notification_channels.send_email(to, one)
    return ", ".join(to)


def composed(id: str, rule: NotificationRule, events: list[NoticedEvent]) -> OutgoingNotification:
    """Returns what is sent of some events: of several, the texts of all below each other."""
    texts = [filled(rule.body, fields_of(event)) for event in events]
    title = filled(rule.title, fields_of(events[0]))
    if len(events) > 1:
        title = f"{title} (and {len(events) - 1} more)"
        texts = [f"{filled(rule.title, fields_of(event))}\n{text}" for event, text in zip(events, texts, strict=True)]
    return OutgoingNotification(id, title, "\n\n".join(texts), [msgspec.to_builtins(event) for event in events])


def fields_of(event: NoticedEvent) -> dict[str, str]:
    """Returns the fields of templates."""
    return {name: str(getattr(event, name)) for name in ("title", "text", "kind", "workflow", "execution", "link")}


def _store() -> Store:
    store: Store = current_resources.get().store
    return store


async def _notification_workflow(ctx: Context, order: NotificationOrder) -> str:
    if order.gather_until_s is not None:
        gathered: list[NoticedEvent] = []
        timeout_s = max(order.gather_until_s - ctx.now().timestamp(), 0.0)
        bodies: list[Any] = await ctx.listen_many(EVENT_SIGNAL, limit=EVENTS_MAX, timeout=timeout_s)
        known = {event.id: event for event in (*order.events, *bodies)}
        gathered += known.values()
        order = msgspec.structs.replace(order, events=tuple(gathered))
    while True:
        admission = await ctx.step(_admit, order)
        if admission.why:
            return f"nobody: {admission.why}"
        if not admission.wait_s:
            return await ctx.step(_deliver, order)
        await ctx.sleep(admission.wait_s)


NOTIFICATION_CODE = CodeWorkflow(_notification_workflow, NOTIFICATION_WORKFLOW)
"""The workflow of notifications."""
