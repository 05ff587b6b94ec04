"""The limits of queues in Postgres, and how much is in each. `migrations/0005_limited_queues.sql` has what claims do with them.

Limits apply to the queue of one tenant, or of all that have no limits of their own in it. Executions and tasks under limits are marked by `limited`, the
number of these limits; it is 0 without limits.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import astuple

from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import escape_nul, unescape_nul
from perdure.stores.protocol import UNLIMITED, QueueLimits, QueueStatus

Fetch = Callable[..., Awaitable[list[Any]]]


async def set_limits(fetch: Fetch, name: str, limits: QueueLimits | None, tenant: str | None) -> None:
    """See `Store.limit`."""
    *numbers, declared = astuple(UNLIMITED if limits is None else limits)
    done = False
    while not done:
        ((done,),) = await fetch(SQL.set_limits, name, tenant or "", limits is not None, *numbers, escape_nul(declared))


async def queue_statuses(fetch: Fetch, now_s: float) -> list[QueueStatus]:
    """See `Store.queues`."""
    limits: dict[str, list[tuple[str, int, QueueLimits]]] = {}
    for number, name, tenant, *four, declared in map(tuple, await fetch(SQL.all_limits)):
        limits.setdefault(name, []).append((tenant, number, msgspec.structs.replace(QueueLimits(*four), declared=unescape_nul(declared))))
    executions, work = [
        {(name, number): counts for name, number, *counts in map(tuple, await fetch(sql, now_s))} for sql in (SQL.executions_in_queues, SQL.tasks_in_queues)
    ]
    names = sorted({*limits, *(name for name, _ in (*executions, *work))})

    def status(name: str, number: int, its: QueueLimits, tenant: str) -> QueueStatus:
        held, waiting = executions.get((name, number), (0, 0))
        leased, work_waiting, oldest_at_s = work.get((name, number), (0, 0, None))
        return QueueStatus(name, its, held, leased, waiting, work_waiting, tenant or None, oldest_at_s)

    def statuses(name: str) -> Iterator[QueueStatus]:
        known = sorted(limits.get(name, []), key=lambda one: one[0])
        if not known or known[0][0]:
            yield status(name, 0, UNLIMITED, "")
        for tenant, number, its in known:
            yield status(name, number, its, tenant)

    return [one for name in names for one in statuses(name)]
