"""Queues: telling the store what the code declares of them, and which of them only the store hands out.

What somebody has changed by hand stays until the code declares something else.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.core.errors import BadValue
from perdure.programs.code.declare import Step
from perdure.programs.code.queues import Queue
from perdure.programs.workflows import Workflow
from perdure.stores.base import UNLIMITED, Limits, Store


def limits_of(queue: Queue) -> Limits:
    """The limits of a declared queue."""
    interval_s, burst = (0.0, 1) if queue.rate is None else (queue.rate.interval_s, queue.rate.burst)
    limits = Limits(queue.concurrency, queue.concurrency_per_key, interval_s, burst)
    return msgspec.structs.replace(limits, declared=msgspec.json.encode(limits).decode())


def declared(workflows: Iterable[Workflow], steps: Iterable[Step[Any, Any, Any]]) -> list[Queue]:
    """The queues that code declares, by their steps and workflows.

    Raises:
        BadValue: two of one name are declared in different ways.
    """
    found: dict[str, Queue] = {}
    for queue in (*(one.calling.line for one in workflows), *(one.line for one in steps)):
        if queue is not None and found.setdefault(queue.name, queue) != queue:
            raise BadValue("Queue", queue.name, "declared in one way; there are two that differ, make one and import it")
    return list(found.values())


async def declare(store: Store, queues: Iterable[Queue]) -> None:
    """Give the store the limits of these queues, but for those that it was given before."""
    wanted = {queue.name: limits_of(queue) for queue in queues}
    if not wanted:
        return
    known = {stand.name: stand.limits for stand in await store.queues()}
    for name, limits in wanted.items():
        if known.get(name, UNLIMITED).declared != limits.declared:
            await store.limit(name, limits)


async def with_limits(store: Store) -> frozenset[str]:
    """The queues whose calls are handed out by the store alone, as they have limits."""
    return frozenset(stand.name for stand in await store.queues() if _bounds(stand.limits))


def _bounds(limits: Limits) -> bool:
    return limits.concurrency is not None or limits.per_lane is not None or limits.interval_s > 0
