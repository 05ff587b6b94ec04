"""Receives webhooks: finds their trigger, verifies who sends them, and starts executions, each delivery once.

The start, the delivery and what identifies it are one post: after a crash there are all of them or none, and a repetition by the sender finds the execution.
Nothing of a request is stored before it is verified, and nothing of one that is rejected.

What can be changed is read for each request, so a change takes effect with the next one: the trigger, and the definition that it starts. Only the id of the
trigger that a path had last is remembered, and checked each time. Requests that are read in one turn of the event loop share what the first of them has read,
so that many at once cost little more than one. Secrets are remembered for `SECRETS_KEPT_S`.
"""

import asyncio
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from perdure.core.errors import BadValue, PerdureError, SealedSecret, StoreError, StoreUnavailable
from perdure.core.paths import Key
from perdure.service.execution_operations import refused_start, start_post
from perdure.service.record_kinds import KeptValue, is_record_key
from perdure.service.secrets.secret_resolver import SecretResolver, secret_resolver_for
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.trigger_input import TriggerFacts
from perdure.service.triggers.trigger_records import TRIGGERS, WEBHOOK_PATHS, TriggerRecord, Verification, WebhookConfig
from perdure.service.triggers.trigger_starts import TriggeredStart, triggered_start
from perdure.service.triggers.webhook_deliveries import (
    BODY_BYTES_MAX,
    DELIVERY_KEYS,
    Delivery,
    DeliveryKey,
    accepted_records,
    delivery_record_key,
    execution_of,
    new_delivery_id,
)
from perdure.service.triggers.webhook_payloads import (
    MASKED,
    DeliveryIdentity,
    RawWebhook,
    UnreadablePayload,
    challenge_of,
    event_of,
    identity_of,
    read_payload,
    shown_headers,
)
from perdure.service.triggers.webhook_signatures import SignedRequest, check_secret, verify
from perdure.stores.protocol import Committed, HeadFilter, QueueLimits, Refused
from perdure.stores.records import Stale

T = TypeVar("T")

logger = logging.getLogger("perdure.webhooks")

SECRETS_KEPT_S = 2.0
"""How long the value of a secret is remembered. That one is missing is not."""

PATHS_KEPT = 1_000
"""Of how many paths the trigger that they had last is remembered."""

WARNED_EVERY_S = 60.0
"""How often the log says that a secret of a trigger is missing."""

ATTEMPTS_MAX = 3
"""How often a delivery is tried: another one with the same identity may come first, and expire."""

FACTS_HEADERS_MAX = 20

THREAD_BYTES_MIN = 256 * 1024
"""Larger bodies are verified and read in a thread."""

RejectionCode = Literal["not_verified", "method_not_allowed", "header_missing", "unreadable"]


class WebhookRejected(Exception):  # an expected outcome on its way to the answer
    """A delivery that is not accepted: a code, what its sender is told, and what to do. `cause` is what the operator is told in place of that."""

    def __init__(self, code: RejectionCode, message: str, next: str, cause: str = "", where: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.next, self.cause, self.where = code, message, next, cause or message, where


class AcceptedDelivery(NamedTuple):
    """A delivery that was accepted, now or before (`created` is false): its id, and the execution that it has started."""

    delivery: str
    execution: Key
    created: bool


class AnsweredWebhook(NamedTuple):
    """A request that starts nothing, and what its sender wants to hear."""

    body: dict[str, Any]


WebhookReceipt = AcceptedDelivery | AnsweredWebhook


class _Received(NamedTuple):
    """A verified delivery: its trigger, the request and the address that it came from, what was read of it, and when."""

    tenant: str
    trigger: TriggerRecord
    config: WebhookConfig
    raw: RawWebhook
    address: str
    payload: Any
    event: str
    headers: dict[str, str]
    secret: str
    now_s: float


class _TurnReads:
    """What was read by other tasks in the same turn of the event loop.

    From a store whose reads do not suspend, one read serves all requests of a turn; from another one, each request reads for itself. A task gets a find once:
    what it reads next may be different, since it may have been changed within the turn.
    """

    def __init__(self) -> None:
        self._turn: dict[object, tuple[Any, set[asyncio.Task[Any] | None]]] = {}
        self._lasts = False

    async def get(self, what: object, read: Callable[[], Awaitable[T]]) -> T:
        """What another task has read in this turn; reads it if none has."""
        turn, task = self._turn, asyncio.current_task()
        if what in turn:
            found, takers = turn[what]
            if task not in takers:
                takers.add(task)
                kept: T = found
                return kept
        if not self._lasts:
            self._lasts = True
            asyncio.get_running_loop().call_soon(self._end)
        read_now = await read()
        turn[what] = (read_now, {task})
        return read_now

    def _end(self) -> None:
        self._turn, self._lasts = {}, False


class WebhookReceiver:
    """Receives the webhooks of all tenants of a store. `clock` is monotonic, for what is remembered."""

    def __init__(self, access: StoreAccess, resolver: SecretResolver | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._access, self._resolver, self._clock = access, resolver, clock
        self._turn, self._numbers = _TurnReads(), itertools.count()
        self._triggers_of_paths: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._secrets: dict[tuple[str, str], tuple[float, str]] = {}
        self._warned_at_s: dict[tuple[str, str], float] = {}
        self._limited: dict[tuple[str, str], int] = {}

    async def trigger_at(self, tenant: str, path: str) -> KeptValue[TriggerRecord] | None:
        """The trigger of a path; None if there is none, or it is not active."""
        place = (tenant, path)
        if (known := self._triggers_of_paths.get(place)) is not None and (found := await self._active(tenant, known, path)) is not None:
            return found
        self._triggers_of_paths.pop(place, None)
        if not is_record_key(path) or not is_record_key(tenant):
            return None
        named = await WEBHOOK_PATHS.read(self._access.store, tenant, path)
        found = None if named is None else await self._active(tenant, named.value.trigger, path)
        if found is not None:
            self._triggers_of_paths[place] = found.key
            if len(self._triggers_of_paths) > PATHS_KEPT:
                self._triggers_of_paths.popitem(last=False)
        return found

    async def _active(self, tenant: str, id: str, path: str) -> KeptValue[TriggerRecord] | None:
        kept = await self._turn.get((tenant, id), lambda: TRIGGERS.read(self._access.store, tenant, id))
        if kept is None or not kept.value.is_active or not kept.value.workflow:
            return None
        return kept if isinstance(kept.value.config, WebhookConfig) and kept.value.config.path == path else None

    async def receive(self, tenant: str, kept: KeptValue[TriggerRecord], raw: RawWebhook, address: str = "") -> WebhookReceipt:
        """Receives a request that is for a trigger.

        Raises:
            WebhookRejected: it is not verified, or is not what the trigger takes.
            BadValue, BadDefinition, DefinitionDisabled, NotFound, TooLarge: its workflow can't be started with it.
            TooManyActive: as many of its executions as the trigger allows have not ended.
        """
        trigger, config = kept.value, kept.value.config
        assert isinstance(config, WebhookConfig), "only webhooks have paths"
        now_s = (await self._turn.get("time", self._access.store.store_time)).now_s
        secret = await self._verified(tenant, trigger, config, raw, now_s)
        _expect_fitting(config, raw)
        try:
            payload = await _beside_others(raw, partial(read_payload, raw))
        except UnreadablePayload as error:
            raise WebhookRejected("unreadable", error.why, "send what its Content-Type says", where=error.where) from None
        scheme = "none" if config.verify is None else config.verify.scheme
        if scheme == "github" and raw.header("x-github-event") == "ping":
            return AnsweredWebhook({"pong": True})
        if scheme == "slack" and (challenge := challenge_of(payload)) is not None:
            return AnsweredWebhook({"challenge": challenge})
        if config.active_max:
            await self._limit_queue(tenant, kept, config)
        shown = shown_headers(config, raw.headers)
        return await self._accepted(_Received(tenant, trigger, config, raw, address, payload, event_of(raw, payload), shown, secret, now_s))

    # Who sends it

    async def _verified(self, tenant: str, trigger: TriggerRecord, config: WebhookConfig, raw: RawWebhook, now_s: float) -> str:
        """Verifies a request, and returns the name of the secret that has signed."""
        how = config.verify or Verification(scheme="none")
        found = {name: value for name in how.secrets if (value := await self._secret(tenant, trigger, name)) is not None}
        unusable = list[str]()
        for name in list(found):
            try:
                check_secret(how, found[name])
            except BadValue as error:  # another one may be right, during a rotation
                del found[name]
                unusable.append(f"{name}: {error}")
                self._warn(tenant, trigger, name, str(error))
        if how.secrets and not found:
            named = ", ".join(unusable or how.secrets)
            missing = f"none of its secrets can be used ({named}); set one with perdure secret set {how.secrets[0]}"
            raise _unverified("this server can't verify it at present", missing)
        checked = await _beside_others(raw, partial(verify, how, list(found.values()), SignedRequest(raw.headers, raw.body), now_s))
        if checked.refused:
            raise _unverified(checked.refused)
        return "" if checked.secret is None else list(found)[checked.secret]

    async def _secret(self, tenant: str, trigger: TriggerRecord, name: str) -> str | None:
        known = self._secrets.get((tenant, name))
        if known is not None and self._clock() < known[0]:
            return known[1]
        if self._resolver is None:
            self._resolver = secret_resolver_for(self._access.store)
        why = "it is not set"
        try:
            found = await asyncio.to_thread(self._resolver.of(tenant), name)
        except (SealedSecret, BadValue) as error:
            found, why = None, str(error)
        if found is None:
            self._secrets.pop((tenant, name), None)
            self._warn(tenant, trigger, name, why)
            return None
        self._secrets[tenant, name] = (self._clock() + SECRETS_KEPT_S, found)
        return found

    def _warn(self, tenant: str, trigger: TriggerRecord, name: str, why: str) -> None:
        """Says in the log, from time to time, that a secret can't be used."""
        place, now_s = (tenant, name), self._clock()
        if now_s >= self._warned_at_s.get(place, -WARNED_EVERY_S) + WARNED_EVERY_S:
            self._warned_at_s[place] = now_s
            logger.warning("webhooks of the trigger %s can't be verified with the secret %s: %s", trigger.id, name, why)

    # Its execution

    async def _limit_queue(self, tenant: str, kept: KeptValue[TriggerRecord], config: WebhookConfig) -> None:
        """Sets the limit of the queue of a trigger, once for each of its revisions in this process."""
        if self._limited.get((tenant, kept.key)) != kept.version:
            await self._access.store.limit(queue_of(kept.value), QueueLimits(config.active_max), tenant)
            self._limited[tenant, kept.key] = kept.version

    async def _accepted(self, got: _Received) -> AcceptedDelivery:
        identity = identity_of(got.config, got.raw, got.payload)
        for _ in range(ATTEMPTS_MAX):
            try:
                accepted = await self._post(got, identity)
            except StoreError:
                raise
            except PerdureError:
                if (known := await self._known(got, identity)) is not None:
                    return known  # it was accepted before the workflow was changed
                raise
            if accepted is not None or (accepted := await self._known(got, identity)) is not None:
                return accepted
        raise StoreUnavailable("the store did not accept a delivery that is not there either; it is to be sent again")

    async def _post(self, got: _Received, identity: DeliveryIdentity) -> AcceptedDelivery | None:
        """Starts the execution of a delivery; None if it was accepted before."""
        access, tenant, trigger = self._access, got.tenant, got.trigger
        key = f"webhook:{trigger.id}:{identity.id}"
        id = f"{key}.{round(got.now_s * 1000)}" if identity.is_hash else key
        delivery = new_delivery_id(got.now_s, next(self._numbers))
        about = {"delivery": delivery, "event": got.event, "method": got.raw.method, "headers": _plain_headers(got)}
        facts = TriggerFacts(id=trigger.id, name=trigger.name, kind="webhook", key=key, at_s=got.now_s, about=about)
        queue, most = queue_of(trigger) if got.config.active_max else "", got.config.active_max + got.config.queued_max
        request, hosted = await triggered_start(access, tenant, trigger, TriggeredStart(id, got.payload, facts, most, queue))
        made = _delivery(got, identity, key, request.key)
        post = await start_post(access, request, hosted)
        (answer,) = await access.store.commit([msgspec.structs.replace(post, records=accepted_records(tenant, trigger.id, delivery, made, identity.id))])
        match answer:
            case Committed():
                return AcceptedDelivery(delivery, request.key, request.key in answer.created or not await self._is_older(request.key, got.now_s))
            case Refused():
                raise refused_start(request.key, answer)
            case Stale():
                return None
        raise StoreUnavailable(f"the store did not accept a delivery and answered {type(answer).__name__}; it is to be sent again")

    async def _is_older(self, key: Key, now_s: float) -> bool:
        """Whether an execution was there before: its delivery is no longer kept, or it began in another way."""
        found = await self._access.store.heads(HeadFilter(keys=(key,), limit=1))
        return bool(found) and found[0].created_at_s < now_s

    async def _known(self, got: _Received, identity: DeliveryIdentity) -> AcceptedDelivery | None:
        """The delivery that has this identity, if there is one."""
        kept: KeptValue[DeliveryKey] | None = await DELIVERY_KEYS.read(self._access.store, got.tenant, delivery_record_key(got.trigger.id, identity.id))
        return None if kept is None else AcceptedDelivery(kept.value.delivery, execution_of(got.tenant, kept.value), False)


async def _beside_others(raw: RawWebhook, work: Callable[[], T]) -> T:
    """Does what takes long for a large body in a thread, so that other requests are answered meanwhile."""
    return await asyncio.to_thread(work) if len(raw.body) >= THREAD_BYTES_MIN else work()


def queue_of(trigger: TriggerRecord) -> str:
    """The queue in which executions of a trigger wait for their turn, if it limits how many are in progress."""
    return f"webhook:{trigger.id}"


def _unverified(message: str, cause: str = "") -> WebhookRejected:
    return WebhookRejected("not_verified", message, "sign the body as it is sent, with the secret of this webhook, now", cause)


def _expect_fitting(config: WebhookConfig, raw: RawWebhook) -> None:
    if raw.method != config.method:
        raise WebhookRejected("method_not_allowed", f"{raw.method} is not allowed here", f"use {config.method}", where=config.method)
    for name, wanted in config.headers.items():
        given = raw.headers.get(name.lower())
        if given is None or (wanted and given != wanted):
            message = f"the header {name} is missing" if given is None else f"the header {name} has another value than this webhook takes"
            raise WebhookRejected("header_missing", message, f"send the header {name} as this webhook expects it", where=name.lower())


def _plain_headers(got: _Received) -> dict[str, str]:
    """The headers of the sender's own that an execution may read."""
    own = [(name, value) for name, value in got.headers.items() if name.startswith("x-") and not name.startswith("x-forwarded") and value != MASKED]
    return dict(own[:FACTS_HEADERS_MAX])


def _delivery(got: _Received, identity: DeliveryIdentity, key: str, execution: Key) -> Delivery:
    raw = got.raw
    return Delivery(
        received_at_s=got.now_s,
        key=key,
        sender_id="" if identity.is_hash else identity.id,
        event=got.event,
        method=raw.method,
        query=raw.query,
        headers=got.headers,
        content_type=raw.header("content-type"),
        address=got.address,
        body=raw.body if len(raw.body) <= BODY_BYTES_MAX else None,
        body_bytes=len(raw.body),
        body_sha256=sha256(raw.body).hexdigest(),
        secret=got.secret,
        workflow=execution.workflow,
        execution_id=execution.id,
    )
