"""Queues: changing what they allow, while everything runs."""

from typing import Any

import msgspec

from perdure.programs.code.durations import whole
from perdure.programs.code.queues import Rate
from perdure.stores.base import UNLIMITED, QueueStand, Store

UNCHANGED: Any = object()


async def change(
    store: Store,
    name: str,
    concurrency: int | None = UNCHANGED,
    concurrency_per_key: int | None = UNCHANGED,
    rate: Rate | None = UNCHANGED,
) -> QueueStand:
    """Change limits of a queue, from now on; None takes one away. What is held stays held. Return how the queue stands then.

    Raises:
        BadValue: a limit means nothing.
    """
    known = next((stand.limits for stand in await store.queues() if stand.name == name), UNLIMITED)
    changes: dict[str, Any] = {}
    for field, what, limit in (("concurrency", "concurrency", concurrency), ("per_lane", "concurrency_per_key", concurrency_per_key)):
        if limit is not UNCHANGED:
            changes[field] = None if limit is None else whole(limit, what, 0)
    if rate is not UNCHANGED:
        changes |= {"interval_s": 0.0, "burst": 1} if rate is None else {"interval_s": rate.interval_s, "burst": rate.burst}
    await store.limit(name, msgspec.structs.replace(known, **changes))
    return next(stand for stand in await store.queues() if stand.name == name)
