"""The records of what model calls have used: one for each answer, by day, with what it cost and for which step of which workflow.

An answer that was paid for and then lost, since its process died before the log had it, has a record of its own, as the one that replaced it has.
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec

from perdure.core.record_format import decode_record_value, encode_record_value
from perdure.stores.records import RecordKey

MODEL_USAGE = "model_usage"
"""The kind of these records."""

KEPT_S = 92 * 86_400.0
"""How long they are kept: three months."""


class ModelUsageEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one answer has used. `workflow` and `step` are what asked: for an agent that is a step of a definition, that step. `model` is its name in the
    deployment, and `execution` the one whose log has the answer. `cost_usd` None: the price is not known.
    """

    workflow: str
    step: str
    model: str
    execution: str
    at_s: float
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost_usd: float | None = None


def usage_key(tenant: str, at_s: float, attempt_key: str) -> RecordKey:
    """The key of the record of an attempt, by its day."""
    return RecordKey(tenant, MODEL_USAGE, f"{day_of(at_s)}/{sha256(attempt_key.encode()).hexdigest()[:32]}")


def day_of(at_s: float) -> str:
    """The day of a time, in UTC, as keys begin with it."""
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()


def days_between(since_s: float, until_s: float) -> list[str]:
    """The days from one time to another, both included, the latest first."""
    first, last = (datetime.fromtimestamp(one, UTC).date() for one in (since_s, until_s))
    return [(last - timedelta(days=back)).isoformat() for back in range((last - first).days + 1)]


def encode_usage(entry: ModelUsageEntry) -> bytes:
    """The value of the record of an entry."""
    return encode_record_value(msgspec.msgpack.encode(entry))


def decode_usage(value: bytes) -> ModelUsageEntry:
    """The entry of a record.

    Raises:
        LogVersionUnsupported, LogDamaged: the record is of another version, or damaged.
    """
    return msgspec.msgpack.decode(decode_record_value(value), type=ModelUsageEntry)
