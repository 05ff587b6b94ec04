"""Counts what is going on in a tenant, from indexes alone: each number up to a bound, with the filter of the list that it counts."""

import msgspec

from perdure.core.failure_causes import DEAD_STATUSES
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service import queries
from perdure.service.people.inbox import InboxFilter, count_approvals
from perdure.service.queries import STATUSES, ExecutionFilter
from perdure.service.store_access import StoreAccess

COUNTED_MAX = 1_000
"""Beyond this number, nothing is counted."""

OPEN_STATUSES = tuple(status for status in STATUSES if status not in ENDED_STATUSES)
"""The statuses of executions that have not ended."""


class BoundedCount(msgspec.Struct, frozen=True):
    """A number. With `is_more`, there are more, which were not counted."""

    count: int
    is_more: bool = False


class TenantNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """What is going on in a tenant, Perdure's own executions left out.

    `open` counts executions that have not ended, of which `running` are being performed, and `needs_attention` are parked until a person acts on them.
    `waiting_for_people` counts approvals that wait, and `overdue` those of them that are past their due time. `failed` counts executions that have failed since
    `failed_from_at_s`, and `dead_letters` all that have failed or need attention.
    """

    open: BoundedCount
    running: BoundedCount
    needs_attention: BoundedCount
    waiting_for_people: BoundedCount
    overdue: BoundedCount
    failed: BoundedCount
    dead_letters: BoundedCount
    failed_from_at_s: float


async def read_numbers(access: StoreAccess, tenant: str, failed_since_s: float) -> TenantNumbers:
    """Counts what is going on in a tenant; failures of the last `failed_since_s`."""
    now_s = (await access.store.store_time()).now_s
    asked = await count_approvals(access, tenant, InboxFilter())
    return TenantNumbers(
        open=await _count(access, ExecutionFilter(tenant=tenant, status=OPEN_STATUSES)),
        running=await _count(access, ExecutionFilter(tenant=tenant, status=("running",))),
        needs_attention=await _count(access, ExecutionFilter(tenant=tenant, status=("needs_attention",))),
        waiting_for_people=BoundedCount(asked.waiting, asked.is_more),
        overdue=BoundedCount(asked.overdue, asked.overdue >= COUNTED_MAX and asked.is_more),
        failed=await _count(access, ExecutionFilter(tenant=tenant, status=("failed",), failed_since=failed_since_s)),
        dead_letters=await _count(access, ExecutionFilter(tenant=tenant, status=tuple(DEAD_STATUSES))),
        failed_from_at_s=now_s - failed_since_s,
    )


async def _count(access: StoreAccess, which: ExecutionFilter) -> BoundedCount:
    found = await queries.count_executions(access, which, COUNTED_MAX + 1)
    return BoundedCount(min(found, COUNTED_MAX), found > COUNTED_MAX)
