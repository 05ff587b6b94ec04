"""Reads the limits of a queue, and changes them while workers use it.

Limits are no record, so a change is compared with what was there just before it: of two that arrive at the same moment, the second one wins.
"""

from hashlib import sha256
from math import inf
from typing import Any

import msgspec

from perdure.code.durations import whole_number
from perdure.core.errors import BadValue
from perdure.service.record_kinds import expect_revision
from perdure.service.wire_types import Version
from perdure.stores.protocol import UNLIMITED, QueueLimits, QueueStatus, Store


class QueueDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a queue: its limits, how many executions and tasks live holders hold, how many wait, and since when the longest waiting task is due.

    See `QueueStatus`. `revision` is another one whenever the limits are: a change can be made on the condition that it is still the same.
    """

    name: str
    limits: QueueLimits
    executions: int
    work: int
    executions_waiting: int
    work_waiting: int
    tenant: str | None
    oldest_task_at_s: float | None
    revision: Version


class LimitChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New limits of a queue. One that is unset stays as it is; None removes it. A rate is the time between two starts, and how many may begin at once."""

    concurrency: int | msgspec.UnsetType | None = msgspec.UNSET
    per_lane: int | msgspec.UnsetType | None = msgspec.UNSET
    rate: tuple[float, int] | msgspec.UnsetType | None = msgspec.UNSET


async def read_queue(store: Store, name: str, tenant: str | None = None) -> QueueDetails:
    """A queue with its limits for all, or those of a `tenant` of its own. One that has no limits and holds nothing is unlimited and empty."""
    return _details((await _statuses(store, name)).get(tenant, QueueStatus(name, UNLIMITED, tenant=tenant)))


async def change_queue_limits(store: Store, name: str, changes: LimitChanges, tenant: str | None = None, revision: int | None = None) -> QueueDetails:
    """Changes limits of a queue while workers use it. Tasks that are already claimed are not affected. Returns the queue.

    With a `tenant`, its own limits are changed. They begin as those for all, and then apply to it in their place.

    Raises:
        BadValue: a limit is invalid.
        StaleRecord: the limits are not those of the revision.
    """
    statuses = await _statuses(store, name)
    _expect_revision(statuses, name, tenant, revision)
    limits = {of: status.limits for of, status in statuses.items()}
    known = limits.get(tenant, msgspec.structs.replace(limits.get(None, UNLIMITED), declared=""))
    given = {"concurrency": changes.concurrency, "per_lane": changes.per_lane}
    changed: dict[str, Any] = {field: limit for field, limit in given.items() if limit is not msgspec.UNSET}
    if changes.rate is not msgspec.UNSET:
        interval_s, burst = changes.rate or (0.0, 1)
        if changes.rate is not None and interval_s == 0:
            raise BadValue("rate", interval_s, _INTERVAL)
        changed |= {"interval_s": interval_s, "burst": burst}
    await store.limit(name, checked_limits(msgspec.structs.replace(known, **changed)), tenant)
    return await read_queue(store, name, tenant)


_INTERVAL = "a time between two starts in seconds, above 0"


def checked_limits(limits: QueueLimits) -> QueueLimits:
    """Returns limits of a queue as a store takes them.

    Raises:
        BadValue: one is invalid.
    """
    for what, limit in (("concurrency", limits.concurrency), ("concurrency_per_key", limits.per_lane)):
        if limit is not None:
            whole_number(limit, what, 0)
    if not 0 <= limits.interval_s < inf:
        raise BadValue("rate", limits.interval_s, _INTERVAL)
    whole_number(limits.burst, "burst")
    return limits


async def remove_queue_limits(store: Store, name: str, tenant: str | None = None, revision: int | None = None) -> None:
    """Removes all limits of a queue, or those of a `tenant`, to which the limits for all then apply again. It does nothing if there are none.

    Raises:
        StaleRecord: the limits are not those of the revision.
    """
    if revision is not None:
        _expect_revision(await _statuses(store, name), name, tenant, revision)
    await store.limit(name, None, tenant)


async def _statuses(store: Store, name: str) -> dict[str | None, QueueStatus]:
    return {status.tenant: status for status in await store.queues() if status.name == name}


def _expect_revision(statuses: dict[str | None, QueueStatus], name: str, tenant: str | None, revision: int | None) -> None:
    present = _revision_of(statuses[tenant].limits if tenant in statuses else UNLIMITED)
    expect_revision("queue", name, revision, present)


def _details(status: QueueStatus) -> QueueDetails:
    return QueueDetails(**msgspec.structs.asdict(status), revision=_revision_of(status.limits))


def _revision_of(limits: QueueLimits) -> int:
    """A number that stands for limits. JSON has it exactly."""
    return int.from_bytes(sha256(msgspec.msgpack.encode(limits)).digest()[:6]) or 1
