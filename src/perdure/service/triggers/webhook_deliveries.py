"""The deliveries of webhooks: accepted ones are records, in the commit that starts their execution; rejected ones are counted in memory.

Two records belong to an accepted delivery. The *delivery* is what people read, under a key by which the newest comes first. The *delivery key* makes sure that
a repetition by the sender starts nothing: there is one for what identifies a delivery, and a second post that would add it is refused by the store. The key
of a delivery that has an id is kept as long as the delivery; that of the hash of a request for a day, since somebody may mean to send the same thing again.

A rejected delivery never writes anything, so a flood of them costs no disk. Each process counts its own, and remembers the last ones of each trigger.
"""

import secrets
from collections import OrderedDict, deque

import msgspec

from perdure.core.paths import Key
from perdure.service.record_kinds import RecordKind
from perdure.stores.records import RecordChange

KEPT_S = 14 * 86_400.0
"""How long a delivery is kept."""

HASH_KEPT_S = 86_400.0
"""For how long a request that has no id of its own is taken for a repetition of an equal one."""

BODY_BYTES_MAX = 64 * 1024
"""The largest body that a delivery has. Of a larger one it has the size and the hash, and can't be replayed."""

REJECTED_KEPT = 20
TRIGGERS_MAX = 1_000
"""Of how many triggers a process remembers rejected deliveries: those that had one last."""

_SEPARATOR = "\x1f"
"""Stands between the id of a trigger, which has no control characters, and the rest of a key."""

_LATEST_US = 10**16  # in the year 2286


class Delivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An accepted delivery, as it is stored. `key` is the idempotency key, and `execution_id` the id of the execution of `workflow` that it has started.

    `sender_id` is the id that the sender gave it (empty: none), and `secret` the name of the secret that has signed. `body` is None if it was too large.
    """

    received_at_s: float
    key: str
    sender_id: str = ""
    event: str = ""
    method: str
    query: str = ""
    headers: dict[str, str] = {}
    content_type: str = ""
    address: str = ""
    body: bytes | None = None
    body_bytes: int
    body_sha256: str
    secret: str = ""
    workflow: str
    execution_id: str


class DeliveryKey(msgspec.Struct, frozen=True):
    """Which delivery something identifies: its id, and the execution that it has started."""

    delivery: str
    workflow: str
    execution_id: str


DELIVERIES = RecordKind("delivery", Delivery, audited=False, expires=True)
DELIVERY_KEYS = RecordKind("delivery key", DeliveryKey, audited=False, expires=True)


def new_delivery_id(at_s: float, number: int) -> str:
    """A new id of a delivery at a time, the `number`th of its receiver: in order of id, the newest comes first."""
    return f"{first_delivery_id(at_s)}-{999_999 - number % 1_000_000:06}-{secrets.token_hex(4)}"


def first_delivery_id(at_s: float) -> str:
    """A text behind which, in order of id, the deliveries of a time and earlier ones come."""
    return f"{_LATEST_US - round(at_s * 1e6):017}"


def delivery_prefix(trigger: str) -> str:
    """The beginning of the keys of all deliveries of a trigger."""
    return f"{trigger}{_SEPARATOR}"


def delivery_record_key(trigger: str, delivery: str) -> str:
    """The key of a delivery, and of a delivery key by what identifies the delivery."""
    return f"{delivery_prefix(trigger)}{delivery}"


def accepted_records(tenant: str, trigger: str, delivery: str, made: Delivery, identity: str) -> tuple[RecordChange, RecordChange]:
    """The changes that accept a delivery. The store refuses them if there is another delivery of this identity."""
    kept_s = KEPT_S if made.sender_id else HASH_KEPT_S
    known = DeliveryKey(delivery, made.workflow, made.execution_id)
    return (
        DELIVERY_KEYS.change(tenant, delivery_record_key(trigger, identity), 0, known, expires_at_s=made.received_at_s + kept_s),
        DELIVERIES.change(tenant, delivery_record_key(trigger, delivery), 0, made, expires_at_s=made.received_at_s + KEPT_S),
    )


def execution_of(tenant: str, known: DeliveryKey | Delivery) -> Key:
    """The execution that a delivery has started."""
    return Key(tenant, known.workflow, known.execution_id)


# Rejected


class RejectedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that was not accepted: what was answered, and why, as the operator may know it. `headers` are masked."""

    received_at_s: float
    status: int
    code: str
    message: str
    method: str
    address: str
    headers: dict[str, str]
    body_bytes: int


class _Rejected:
    """The rejected deliveries of one trigger in this process."""

    def __init__(self) -> None:
        self.count = 0
        self.last: deque[RejectedDelivery] = deque(maxlen=REJECTED_KEPT)


class RejectedDeliveries:
    """Counts the rejected deliveries of each trigger in this process, and has the last ones of each, in memory."""

    def __init__(self) -> None:
        self._by_trigger: OrderedDict[tuple[str, str], _Rejected] = OrderedDict()

    def add(self, tenant: str, trigger: str, rejected: RejectedDelivery) -> None:
        """Counts one."""
        found = self._by_trigger.setdefault((tenant, trigger), _Rejected())
        self._by_trigger.move_to_end((tenant, trigger))
        found.count += 1
        found.last.appendleft(rejected)
        if len(self._by_trigger) > TRIGGERS_MAX:
            self._by_trigger.popitem(last=False)

    def count(self, tenant: str, trigger: str) -> int:
        """How many of a trigger there were."""
        found = self._by_trigger.get((tenant, trigger))
        return 0 if found is None else found.count

    def last(self, tenant: str, trigger: str) -> list[RejectedDelivery]:
        """The last ones of a trigger, the newest first."""
        found = self._by_trigger.get((tenant, trigger))
        return [] if found is None else list(found.last)
