"""Sends a sample delivery to a webhook within the process: signed with a secret of the trigger as its sender would, and received as any other.

The secret and the signature stay in this process. The delivery is accepted or rejected by the same rules, is logged like others, and starts an execution.
"""

import asyncio
import time
from typing import Literal, NamedTuple
from uuid import uuid4

import msgspec

from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.core.secret_masks import SecretFinder
from perdure.service.secrets.secret_resolver import secret_resolver_for
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.trigger_directory import find_trigger
from perdure.service.triggers.trigger_records import Verification, WebhookConfig
from perdure.service.triggers.webhook_payloads import RawWebhook, shown_headers
from perdure.service.triggers.webhook_receiver import AnsweredWebhook, WebhookReceiver, WebhookRejected
from perdure.service.triggers.webhook_sender import OutgoingDelivery, delivery_headers

BODY_CHARACTERS_MAX = 64 * 1024
SENT_FROM = "sample"
"""The address that a sample shows as that of its sender."""


class SampleDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is sent: the body as text, its type, the event, and the id of the delivery (empty: a new one)."""

    body: str = "{}"
    content_type: str = "application/json"
    event: str = ""
    delivery_id: str = ""


SampleVerdict = Literal["accepted", "known", "answered", "rejected"]
"""``known``: it was accepted before. ``answered``: it starts nothing, such as a ping."""


class SentSample(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a sample: the verdict, the headers that were sent (signatures are masked), the delivery and the execution that it has started, or
    why it was rejected, as the operator may know it.
    """

    verdict: SampleVerdict
    headers: dict[str, str]
    sender_id: str
    delivery: str = ""
    execution: Key | None = None
    code: str = ""
    message: str = ""


class _Signed(NamedTuple):
    """A delivery as it is received."""

    raw: RawWebhook
    sender_id: str


async def send_sample(access: StoreAccess, tenant: str, trigger: str, sent: SampleDelivery) -> SentSample:
    """Signs a delivery with a secret of the trigger, and receives it.

    Raises:
        NotFound: there is no such trigger, or its workflow is there no more.
        BadValue: it is no webhook, or is not active; its secrets are not set; the body is too long; or the workflow does not take it.
        BadDefinition, DefinitionDisabled, TooManyActive: see `WebhookReceiver.receive`.
    """
    kept = await find_trigger(access, tenant, trigger)
    config = kept.value.config
    if not isinstance(config, WebhookConfig):
        raise BadValue("trigger", trigger, f"a webhook; it is of type {kept.value.kind}")
    if not kept.value.is_active:
        raise BadValue("trigger", trigger, "one that is enabled and not paused: its sender gets 404 at present")
    if len(sent.body) > BODY_CHARACTERS_MAX:
        raise BadValue("/body", f"{len(sent.body):,} characters", f"at most {BODY_CHARACTERS_MAX:,}")
    resolver = secret_resolver_for(access.store)
    signed = await asyncio.to_thread(_signed, config, resolver.of(tenant), sent)  # a secret may be looked for in the store
    shown = shown_headers(config, signed.raw.headers)
    try:
        receipt = await WebhookReceiver(access, resolver).receive(tenant, kept, signed.raw, SENT_FROM)
    except WebhookRejected as rejected:
        return SentSample(verdict="rejected", headers=shown, sender_id=signed.sender_id, code=rejected.code, message=rejected.cause)
    if isinstance(receipt, AnsweredWebhook):
        return SentSample(verdict="answered", headers=shown, sender_id=signed.sender_id)
    verdict: SampleVerdict = "accepted" if receipt.created else "known"
    return SentSample(verdict=verdict, headers=shown, sender_id=signed.sender_id, delivery=receipt.delivery, execution=receipt.execution)


def _signed(config: WebhookConfig, find: SecretFinder, sent: SampleDelivery) -> _Signed:
    how, id = config.verify or Verification(scheme="none"), sent.delivery_id or f"sample-{uuid4().hex}"
    secret = ""
    if how.scheme != "none":
        secret = next((value for name in how.secrets if (value := find(name)) is not None), "")
        if not secret:
            raise BadValue("secret", ", ".join(how.secrets), f"set: perdure secret set {next(iter(how.secrets), 'NAME')}, or PUT /api/secrets/{{name}}")
    outgoing = OutgoingDelivery(sent.body.encode(), sent.content_type, id, sent.event, int(time.time()), config.delivery_header)
    headers = {**{name: value or "sample" for name, value in config.headers.items()}, **delivery_headers(how, secret, outgoing)}
    return _Signed(RawWebhook(config.method, "", {name.lower(): value for name, value in headers.items()}, outgoing.body), id)
