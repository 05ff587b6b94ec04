"""The asyncio interface of a client to people: how many approvals wait for them.

It holds no rules, but gives operations their typed interface. `perdure.sync_people` is generated from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.code.approval_attributes import Priority
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.operations import on_approvals
from perdure.service.people.inbox import ApprovalCount, inbox_filter
from perdure.service.service_access import ServiceAccess


class AsyncPeople:
    """The people of a tenant. It is the client's `people`."""

    def __init__(self, access: ServiceAccess) -> None:
        self._access = access

    async def approval_count(
        self,
        assignee: str | None = None,
        *,
        groups: Sequence[str] = (),
        group: str = "",
        priority: Priority | None = None,
        resource: tuple[str, str] | None = None,
        workflow: str = "",
        mine: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> ApprovalCount:
        """Counts the approvals that wait, and those of them that are overdue, up to 1,000. The conditions are those of the client's `approvals`.

        Raises:
            BadValue: a condition is not valid.
        """
        which = inbox_filter(assignee, groups, group=group, priority=priority, resource=resource, workflow=workflow)
        return await self._access.call(on_approvals.count, checked_name(tenant, "tenant"), which, mine)
