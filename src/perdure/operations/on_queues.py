"""Operations on queues, and on the processes that work on a store."""

from perdure.code.declarations import checked_name
from perdure.service import queries, queue_details
from perdure.service.queries import HolderView
from perdure.service.queue_details import LimitChanges, QueueDetails
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import Nested
from perdure.stores.protocol import UNLIMITED, QueueLimits, QueueStatus


async def statuses(access: StoreAccess) -> list[QueueStatus]:
    """Lists the queues that have limits or hold anything: their limits, what is claimed, and what waits.

    The status of a queue is that of all tenants, and is followed by those of tenants that have limits of their own in it, which it does not count.
    """
    return await access.store.queues()


async def read(access: StoreAccess, queue: str, only_tenant: str | None = None) -> QueueDetails:
    """One queue: its limits, what is claimed, and what waits; with `only_tenant`, that of a tenant with limits of its own.

    A queue without limits that holds nothing is unlimited and empty: queues need not be made.

    Raises:
        BadName: the name is invalid.
    """
    return await queue_details.read_queue(access.store, checked_name(queue, "queue"), _checked_tenant(only_tenant))


async def declare(access: StoreAccess, queue: str, limits: Nested[QueueLimits]) -> None:
    """Sets the limits that code declares for a queue, unless the same declaration has set them before.

    Raises:
        BadValue, BadName: a limit or a name is invalid.
    """
    _ = checked_name(queue, "queue"), queue_details.checked_limits(limits)
    known = {status.name: status.limits for status in await access.store.queues() if status.tenant is None}
    if known.get(queue, UNLIMITED).declared != limits.declared:
        await access.store.limit(queue, limits)


async def change(access: StoreAccess, queue: str, changes: LimitChanges, only_tenant: str | None = None, revision: int | None = None) -> QueueDetails:
    """Changes limits of a queue while workers use it. The change holds until code declares other limits.

    Limits are for all tenants together. With `only_tenant`, this one gets limits of its own in their place, which begin as those for all.

    With `revision`, this happens only while the limits are those of it, which is looked at just before.

    Raises:
        BadValue, BadName: a limit or a name is invalid.
        StaleRecord: the limits are not those of the revision.
    """
    return await queue_details.change_queue_limits(access.store, checked_name(queue, "queue"), changes, _checked_tenant(only_tenant), revision)


async def remove(access: StoreAccess, queue: str, only_tenant: str | None = None, revision: int | None = None) -> None:
    """Removes all limits of a queue. With `only_tenant`, removes its own, so that those for all apply to it again.

    Raises:
        BadName: the name is invalid.
        StaleRecord: the limits are not those of the revision.
    """
    await queue_details.remove_queue_limits(access.store, checked_name(queue, "queue"), _checked_tenant(only_tenant), revision)


def _checked_tenant(tenant: str | None) -> str | None:
    return None if tenant is None else checked_name(tenant, "tenant")


async def processes(access: StoreAccess) -> list[HolderView]:
    """Lists the engines and workers of the store, with what they serve and hold."""
    return await queries.list_holders(access)
