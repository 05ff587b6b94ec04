"""Operations on queues, and on the processes that work on a store."""

from perdure.code.declarations import checked_name
from perdure.service import execution_operations, queries
from perdure.service.execution_operations import LimitChanges
from perdure.service.queries import HolderView
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import Nested
from perdure.stores.protocol import UNLIMITED, QueueLimits, QueueStatus


async def statuses(access: StoreAccess) -> list[QueueStatus]:
    """Lists the queues that have limits or hold anything: their limits, what is claimed, and what waits.

    The status of a queue is that of all tenants, and is followed by those of tenants that have limits of their own in it, which it does not count.
    """
    return await access.store.queues()


async def declare(access: StoreAccess, queue: str, limits: Nested[QueueLimits]) -> None:
    """Sets the limits that code declares for a queue, unless the same declaration has set them before.

    Raises:
        BadValue, BadName: a limit or a name is invalid.
    """
    _ = checked_name(queue, "queue"), execution_operations.checked_limits(limits)
    known = {status.name: status.limits for status in await access.store.queues() if status.tenant is None}
    if known.get(queue, UNLIMITED).declared != limits.declared:
        await access.store.limit(queue, limits)


async def change(access: StoreAccess, queue: str, changes: LimitChanges, only_tenant: str | None = None) -> QueueStatus:
    """Changes limits of a queue while workers use it. The change holds until code declares other limits.

    Limits are for all tenants together. With `only_tenant`, this one gets limits of its own in their place, which begin as those for all.

    Raises:
        BadValue, BadName: a limit or a name is invalid.
    """
    return await execution_operations.change_queue_limits(access.store, checked_name(queue, "queue"), changes, _checked_tenant(only_tenant))


async def remove(access: StoreAccess, queue: str, only_tenant: str | None = None) -> None:
    """Removes all limits of a queue. With `only_tenant`, removes its own, so that those for all apply to it again.

    Raises:
        BadName: the name is invalid.
    """
    await execution_operations.remove_queue_limits(access.store, checked_name(queue, "queue"), _checked_tenant(only_tenant))


def _checked_tenant(tenant: str | None) -> str | None:
    return None if tenant is None else checked_name(tenant, "tenant")


async def processes(access: StoreAccess) -> list[HolderView]:
    """Lists the engines and workers of the store, with what they serve and hold."""
    return await queries.list_holders(access)
