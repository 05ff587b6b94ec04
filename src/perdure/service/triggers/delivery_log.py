"""The deliveries of a webhook, as people see them: listed, shown, and replayed.

A replay starts a new execution with the body that was received, by the trigger and the workflow as they are now. Of many, a count comes first: they are
replayed only with `expect`, the number that was counted. Repeated under one request id, a replay finds the executions that it has started.
"""

import base64
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import uuid4

import msgspec

from perdure.code.declarations import checked_name
from perdure.core.errors import BadValue, NotFound
from perdure.service import execution_operations
from perdure.service.execution_operations import initiated_by
from perdure.service.record_kinds import KeptValue, is_record_key
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.trigger_directory import TriggeredRun, find_trigger
from perdure.service.triggers.trigger_input import TriggerFacts
from perdure.service.triggers.trigger_records import TriggerRecord, WebhookConfig
from perdure.service.triggers.trigger_starts import TriggeredStart, triggered_start
from perdure.service.triggers.webhook_deliveries import (
    BODY_BYTES_MAX,
    DELIVERIES,
    Delivery,
    RejectedDelivery,
    delivery_prefix,
    delivery_record_key,
    execution_of,
    first_delivery_id,
)
from perdure.service.triggers.webhook_payloads import RawWebhook, body_text, read_payload
from perdure.service.triggers.webhook_receiver import queue_of
from perdure.stores.protocol import HeadFilter
from perdure.stores.records import PagePosition

PAGE = 200
REPLAYED_MAX = 1_000
"""How many deliveries are replayed at a time."""

LOOKED_AT_MAX = 10_000
"""How many deliveries one call looks at to find those that match."""

BodyEncoding = Literal["", "text", "base64"]


class DeliveryDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that was accepted: what was received, and the execution that it has started.

    `sender_id` is the id that its sender gave it (empty: none), `event` what has happened, as the sender names it, and `secret` the name of the secret that has
    signed. `status` is that of the execution (empty: it was removed). A `body` is shown for one delivery, if it was not too large to be kept.
    """

    id: str
    received_at_s: float
    idempotency_key: str
    sender_id: str
    event: str
    method: str
    query: str
    headers: dict[str, str]
    address: str
    secret: str
    body_bytes: int
    body_sha256: str
    body: str | None
    body_encoding: BodyEncoding
    workflow_id: str
    execution_id: str
    status: str


class DeliveryPage(msgspec.Struct, frozen=True):
    """A page of the deliveries of a trigger, newest first, and the id behind which the next one begins (None: this was the last).

    `rejected` counts those that the answering process has rejected since it began, and `last_rejected` are the last of them; they are in its memory alone.
    """

    items: list[DeliveryDetails]
    rejected: int
    last_rejected: list[RejectedDelivery]
    next: str | None = None


class DeliveryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on deliveries, all of which must hold: when they came, what has happened, and the status of their execution now.

    `since` and `until` are times, or numbers of seconds before now.
    """

    since: float | datetime | None = None
    until: float | datetime | None = None
    event: str = ""
    status: str = ""


class ReplayedDeliveries(msgspec.Struct, frozen=True):
    """What was replayed: how many deliveries match, and the executions that were started (none before `applied`).

    `left_out` are deliveries that match and whose body was too large to be kept.
    """

    matching: int
    applied: bool
    started: list[TriggeredRun]
    left_out: list[str]


async def list_deliveries(access: StoreAccess, tenant: str, trigger: str, which: DeliveryFilter, limit: int = 100, after: str | None = None) -> DeliveryPage:
    """Lists the deliveries of a trigger, newest first, behind `after`.

    Raises:
        NotFound: there is no such trigger.
        BadValue: it is no webhook, or the position is not one.
    """
    _ = await _webhook(access, tenant, trigger)
    if after is not None and not is_record_key(delivery_record_key(trigger, after)):
        raise BadValue("after", after, "the `next` of the page before")
    found, seen, last = list[DeliveryDetails](), 0, ""
    is_narrow = bool(which.event or which.status)  # then most of a page may be passed over
    async for one in _selected(access, tenant, trigger, which, after, PAGE if is_narrow else min(limit, PAGE)):
        found += [one.details] if one.matches else []
        seen, last = seen + 1, one.details.id
        if len(found) == limit or seen == LOOKED_AT_MAX:
            break
    else:
        last = ""
    rejected = access.rejected_deliveries
    return DeliveryPage(found, rejected.count(tenant, trigger), rejected.last(tenant, trigger), last or None)


async def read_delivery(access: StoreAccess, tenant: str, trigger: str, id: str) -> DeliveryDetails:
    """A delivery, with its body.

    Raises:
        NotFound: there is no such trigger, or no such delivery any more.
        BadValue: the trigger is no webhook.
    """
    _ = await _webhook(access, tenant, trigger)
    kept = await _find(access, tenant, trigger, id)
    (status,) = await _statuses(access, tenant, [kept.value])
    body = kept.value.body
    text = None if body is None else body_text(body)
    shown = text if text is not None or body is None else base64.b64encode(body).decode()
    encoding: BodyEncoding = "" if body is None else "base64" if text is None else "text"
    return _details(id, kept.value, status, shown, encoding)


async def replay_delivery(access: StoreAccess, tenant: str, trigger: str, id: str, author: str, request_id: str = "") -> TriggeredRun:
    """Starts a new execution with what a delivery has brought.

    Raises:
        NotFound: there is no such trigger, delivery or workflow any more.
        BadValue: the body was not kept, or the workflow does not take it.
        BadDefinition, DefinitionDisabled: the workflow can't be started.
    """
    record = await _webhook(access, tenant, trigger)
    kept = await _find(access, tenant, trigger, id)
    if kept.value.body is None:
        raise BadValue("delivery", id, f"one whose body was kept; this one had {kept.value.body_bytes:,} bytes, and at most {BODY_BYTES_MAX:,} are")
    return await _replay(access, _Replay(tenant, record, author, request_id or uuid4().hex), id, kept.value)


async def replay_deliveries(
    access: StoreAccess, tenant: str, trigger: str, which: DeliveryFilter, author: str, *, expect: int | None = None, request_id: str = ""
) -> ReplayedDeliveries:
    """Counts the deliveries that match or, with `expect`, replays them, the oldest first.

    Raises:
        NotFound: there is no such trigger, or no such workflow any more.
        BadValue: others match than are expected, more than can be replayed at a time, or the workflow does not take one; what was started goes on.
        BadDefinition, DefinitionDisabled: the workflow can't be started.
    """
    record = await _webhook(access, tenant, trigger)
    found, seen = list[_Selected](), 0
    async for one in _selected(access, tenant, trigger, which):
        found += [one] if one.matches else []
        seen += 1
        if len(found) > REPLAYED_MAX or seen > LOOKED_AT_MAX:
            raise BadValue("since", which.since, f"a time that leaves at most {REPLAYED_MAX:,} deliveries to replay, of {LOOKED_AT_MAX:,} to look at")
    left_out = [one.details.id for one in found if one.kept.body is None]
    if expect is None:
        return ReplayedDeliveries(len(found), False, [], left_out)
    if expect != len(found):
        raise BadValue("expect", expect, f"{len(found)}, the number of deliveries that match. Look at them, then repeat the call")
    by = _Replay(tenant, record, author, request_id or uuid4().hex)
    started = [await _replay(access, by, one.details.id, one.kept) for one in reversed(found) if one.kept.body is not None]
    return ReplayedDeliveries(len(found), True, started, left_out)


class _Replay(NamedTuple):
    """Who replays something of a trigger, under which request id."""

    tenant: str
    trigger: TriggerRecord
    author: str
    request_id: str


async def _replay(access: StoreAccess, by: _Replay, id: str, kept: Delivery) -> TriggeredRun:
    key = f"replay:{by.trigger.id}:{id}:{checked_name(by.request_id, 'client request id')}"
    raw = RawWebhook(kept.method, kept.query, {"content-type": kept.content_type}, kept.body or b"")
    about = {"delivery": id, "replay_of": kept.execution_id, "event": kept.event, "method": kept.method, "by": by.author}
    now_s = (await access.store.store_time()).now_s
    facts = TriggerFacts(id=by.trigger.id, name=by.trigger.name, kind="webhook", key=key, at_s=now_s, about=about)
    limits = isinstance(by.trigger.config, WebhookConfig) and by.trigger.config.active_max
    wanted = TriggeredStart(checked_name(key, "id"), read_payload(raw), facts, None, queue_of(by.trigger) if limits else "")
    request, hosted = await triggered_start(access, by.tenant, by.trigger, wanted)
    started, created = await execution_operations.start_execution(access, initiated_by(request, by.author), hosted)
    return TriggeredRun(started, started.id, created)


# What there is


class _Selected(NamedTuple):
    """A delivery that was looked at, as it is kept and as it is shown, and whether it is one of those that are wanted."""

    kept: Delivery
    details: DeliveryDetails
    matches: bool


async def _webhook(access: StoreAccess, tenant: str, trigger: str) -> TriggerRecord:
    record = (await find_trigger(access, tenant, trigger)).value
    if not isinstance(record.config, WebhookConfig):
        raise BadValue("trigger", trigger, f"a webhook; it is of type {record.kind}, and has no deliveries")
    return record


async def _find(access: StoreAccess, tenant: str, trigger: str, id: str) -> KeptValue[Delivery]:
    key = delivery_record_key(trigger, id)
    kept = await DELIVERIES.read(access.store, tenant, key) if is_record_key(key) else None
    if kept is None:
        raise NotFound(id, f"there is no delivery {id[:200]!r} of this trigger: perdure webhook deliveries lists those that are kept")
    return kept


async def _selected(
    access: StoreAccess, tenant: str, trigger: str, which: DeliveryFilter, after: str | None = None, size: int = PAGE
) -> AsyncIterator[_Selected]:
    """Yields the deliveries of a time, newest first, with those that do not match. They are read in pages of this size."""
    now_s = (await access.store.store_time()).now_s
    since_s, until_s = _time_s(which.since, "since", now_s), _time_s(which.until, "until", now_s)
    behind = max(after or "", "" if until_s is None else first_delivery_id(until_s))
    position = PagePosition(DELIVERIES.key(tenant, delivery_record_key(trigger, behind))) if behind else None
    prefix = delivery_prefix(trigger)
    while True:
        page = await DELIVERIES.page(access.store, tenant, prefix, after=position, limit=size)
        statuses = await _statuses(access, tenant, [one.value for one in page])
        for one, status in zip(page, statuses, strict=True):
            if since_s is not None and one.value.received_at_s < since_s:
                return
            matches = which.event in ("", one.value.event) and which.status in ("", status)
            yield _Selected(one.value, _details(one.key.removeprefix(prefix), one.value, status), matches)
        if len(page) < size:
            return
        position = page[-1].position


def _time_s(given: float | datetime | None, what: str, now_s: float) -> float | None:
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise BadValue(what, given, "a time with its zone, such as datetime.now(UTC) - timedelta(hours=1), or a duration")
        return given.timestamp()
    return None if given is None else now_s - given


async def _statuses(access: StoreAccess, tenant: str, found: list[Delivery]) -> list[str]:
    """The status of the execution of each delivery; empty if it was removed."""
    keys = tuple(dict.fromkeys(execution_of(tenant, one) for one in found))
    heads = await access.store.heads(HeadFilter(keys=keys, limit=len(keys))) if keys else []
    known = {head.key: head.status for head in heads}
    return [known.get(execution_of(tenant, one), "") for one in found]


def _details(id: str, kept: Delivery, status: str, body: str | None = None, encoding: BodyEncoding = "") -> DeliveryDetails:
    return DeliveryDetails(
        id=id,
        received_at_s=kept.received_at_s,
        idempotency_key=kept.key,
        sender_id=kept.sender_id,
        event=kept.event,
        method=kept.method,
        query=kept.query,
        headers=kept.headers,
        address=kept.address,
        secret=kept.secret,
        body_bytes=kept.body_bytes,
        body_sha256=kept.body_sha256,
        body=body,
        body_encoding=encoding,
        workflow_id=kept.workflow,
        execution_id=kept.execution_id,
        status=status,
    )
