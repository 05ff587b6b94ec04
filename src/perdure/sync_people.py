"""The people of a tenant for a client of sync programs.

Made from `perdure.async_people` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.async_people import AsyncPeople
from perdure.code.approval_attributes import Priority
from perdure.code.call_options import DEFAULT_TENANT
from perdure.loop_thread import LoopThread
from perdure.service.people.inbox import ApprovalCount


class People:
    """The people of a tenant. See `AsyncPeople`."""

    def __init__(self, thread: LoopThread, inner: AsyncPeople) -> None:
        self._thread = thread
        self._inner = inner

    def approval_count(
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
        return self._thread.call(
            self._inner.approval_count(assignee, groups=groups, group=group, priority=priority, resource=resource, workflow=workflow, mine=mine, tenant=tenant)
        )
