"""The inbox: lists of the approvals that wait, read from the index by who may decide, priority, due time and resource.

A page costs as much as its approvals, however many wait. Approvals that began with an earlier version have no attributes: they are behind all others, newest
first, and are looked for only where the indexed ones end.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec

from perdure.code.approval_attributes import (
    ASKED,
    ASSIGNEE,
    DUE,
    EXECUTION,
    OPEN_STATUSES,
    PRIORITIES,
    PRIORITY,
    RESOURCE_ID,
    RESOURCE_TYPE,
    URGENCY,
    WORKFLOW,
    Priority,
    is_indexed,
)
from perdure.code.results import Vote
from perdure.core.attribute_filter import AttributeCondition, AttributeOrder, Is, attribute_conditions
from perdure.core.attributes import sortable_bytes
from perdure.core.errors import BadValue
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.service.approvals import Approval, read_approval, why_refused
from perdure.service.page_cursors import cursor_text, parse_cursor
from perdure.service.people.substitutes import stood_in_for
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Head, HeadFilter, head_position
from perdure.stores.records import PagePosition

InboxOrder = Literal["newest", "due", "priority"]
"""The order of a list of approvals: the newest first, the one that is due first, or the most urgent first and, of one priority, the one that is due first."""

ORDERS = {"newest": AttributeOrder(ASKED, descending=True), "due": AttributeOrder(DUE), "priority": AttributeOrder(URGENCY)}

GROUPS_MAX = 200
"""The most groups by which approvals are selected."""

COUNTED_MAX = 1_000
"""Beyond this number, approvals are not counted."""

HEADS_AT_A_TIME = 100
EARLIER = "earlier:"
"""Begins the cursor of a page of approvals that have no attributes."""


class InboxFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects approvals that wait, and their order.

    `assignee`, a member of `groups`, may still decide. `group` is an assignee itself. `execution` is the id of the execution that asks, and `workflow` the name
    of its workflow. One that is `overdue` was due before now.
    """

    assignee: str | None = None
    groups: tuple[str, ...] = ()
    group: str = ""
    priority: Priority | None = None
    resource_type: str = ""
    resource_id: str = ""
    workflow: str = ""
    execution: str = ""
    overdue: bool = False
    order: InboxOrder = "newest"

    def __post_init__(self) -> None:
        """Checks the filter.

        Raises:
            BadValue: a condition is invalid.
        """
        if self.order not in (known := get_args(InboxOrder)):
            raise BadValue("order", self.order, f"one of {', '.join(known)}")
        if self.priority not in (None, *PRIORITIES):
            raise BadValue("priority", self.priority, f"one of {', '.join(PRIORITIES)}")
        if len(self.groups) > GROUPS_MAX:
            raise BadValue("groups", f"{len(self.groups):,} groups", f"at most {GROUPS_MAX}")


def inbox_filter(assignee: str | None, groups: Sequence[str], *, resource: Sequence[str] | None = None, **conditions: Any) -> InboxFilter:
    """Builds a filter from what users write.

    Raises:
        BadValue: a condition is invalid.
    """
    if isinstance(groups, str):
        raise BadValue("groups", groups, f"a list of names, such as [{groups!r}]")
    if resource is not None and (isinstance(resource, str) or len(resource) != 2):
        raise BadValue("resource", resource, 'a type and an id, such as ("invoice", "17")')
    type, id = resource or ("", "")
    return InboxFilter(assignee=assignee, groups=tuple(groups), resource_type=type, resource_id=id, **conditions)


class _Selection(msgspec.Struct, frozen=True):
    """The approvals of a tenant that a filter selects at a time. Those of people who are out of office count for `stands_in_for` as well."""

    tenant: str
    which: InboxFilter
    now_s: float
    stands_in_for: tuple[str, ...] = ()

    def conditions(self) -> tuple[AttributeCondition, ...]:
        """The conditions on indexed attributes. What can't be indexed, `selects` decides."""
        which, found = self.which, list[AttributeCondition]()
        if which.assignee is not None:
            found.append(_one_of(which.assignee, *self.stands_in_for, *(f"group:{group}" for group in which.groups)))
        if which.group:
            found.append(_one_of(f"group:{which.group}"))
        wanted: dict[str, Any] = {PRIORITY: None if which.priority is None else PRIORITIES.index(which.priority)}
        wanted |= {RESOURCE_TYPE: which.resource_type, RESOURCE_ID: which.resource_id, WORKFLOW: which.workflow, EXECUTION: which.execution}
        if which.overdue:
            wanted[DUE] = Is("<", datetime.fromtimestamp(self.now_s, UTC))
        return (*found, *attribute_conditions({name: value for name, value in wanted.items() if value not in (None, "")}))

    def heads(self, after: PagePosition | None, limit: int) -> HeadFilter:
        """The filter of indexed approvals in the form that stores take."""
        return HeadFilter(
            tenant=self.tenant,
            workflow=APPROVAL_WORKFLOW,
            statuses=OPEN_STATUSES,
            ended=False,
            order=ORDERS[self.which.order],
            where=self.conditions(),
            after=after,
            limit=limit,
        )

    def selects(self, one: Approval) -> bool:
        """Whether an approval that waits is selected."""
        which, asks = self.which, one.requested_by
        return (
            (which.assignee is None or self._may_decide(one, which.assignee))
            and (not which.group or not one.assignees or f"group:{which.group}" in one.assignees)
            and which.priority in (None, one.priority)
            and which.resource_type in ("", one.resource_type)
            and which.resource_id in ("", one.resource_id)
            and (not which.workflow or (asks is not None and asks.workflow == which.workflow))
            and (not which.execution or (asks is not None and asks.id == which.execution))
            and (not which.overdue or (one.due_at_s is not None and one.due_at_s < self.now_s))
        )

    def _may_decide(self, one: Approval, assignee: str) -> bool:
        if not why_refused(one, Vote(assignee, True, groups=self.which.groups)):
            return True
        voted = {vote.by for vote in one.votes}
        return assignee not in voted and any(name in one.assignees and name not in voted for name in self.stands_in_for)


class ApprovalPage(msgspec.Struct, frozen=True):
    """A page of a list of approvals. `next` is the `after` of the next page; it is empty if this was the last."""

    items: list[Approval]
    next: str = ""


class ApprovalCount(msgspec.Struct, frozen=True):
    """How many approvals wait, and how many of them are overdue. With `is_more`, there are more, which were not counted.

    They are counted in the index: an approval of one's group, or of an absent person, counts until it is decided, even after one's own vote.
    """

    waiting: int
    overdue: int
    is_more: bool = False


def _one_of(*names: str) -> AttributeCondition:
    """The condition that one of these is an assignee, or that the index can't say who is."""
    forms = [sortable_bytes(True), *(sortable_bytes(name) for name in dict.fromkeys(names) if is_indexed(name))]
    return AttributeCondition(ASSIGNEE, tuple((form, form + b"\0") for form in forms))


async def inbox_page(access: StoreAccess, tenant: str, which: InboxFilter, limit: int, after: str = "") -> ApprovalPage:
    """Returns a page of the approvals of a tenant that wait and that `which` selects, behind the cursor `after`.

    Raises:
        BadValue: `after` is no cursor.
    """
    selection = await _selection(access, tenant, which)
    items: list[Approval] = []
    cursor = ""
    async for one, behind in _approvals(access, selection, limit, after):
        if len(items) == limit:
            return ApprovalPage(items, cursor)
        items.append(one)
        cursor = behind
    return ApprovalPage(items)


async def count_approvals(access: StoreAccess, tenant: str, which: InboxFilter) -> ApprovalCount:
    """Counts the approvals of a tenant that wait and that `which` selects, up to `COUNTED_MAX`."""
    every, counts = await _selection(access, tenant, which), list[int]()
    for selection in (every, msgspec.structs.replace(every, which=msgspec.structs.replace(which, overdue=True))):
        count = len(await access.store.heads(selection.heads(None, COUNTED_MAX + 1)))
        if count <= COUNTED_MAX:
            async for _ in _approvals(access, selection, COUNTED_MAX, EARLIER):
                count += 1
        counts.append(count)
    return ApprovalCount(min(counts[0], COUNTED_MAX), min(counts[1], COUNTED_MAX), counts[0] > COUNTED_MAX)


async def _selection(access: StoreAccess, tenant: str, which: InboxFilter) -> _Selection:
    now_s = (await access.store.store_time()).now_s
    absent = () if which.assignee is None else await stood_in_for(access.store, tenant, which.assignee, now_s)
    return _Selection(tenant, which, now_s, absent)


async def _approvals(access: StoreAccess, selection: _Selection, limit: int, after: str) -> AsyncIterator[tuple[Approval, str]]:
    """Yields approvals, each with the cursor behind it."""
    if not after.startswith(EARLIER):
        async for head in _indexed_heads(access, selection, limit, parse_cursor(after)):
            one = await read_approval(access, head.key)
            if one is not None and selection.selects(one):
                yield one, cursor_text(head_position(head, ORDERS[selection.which.order]))
        after = EARLIER
    position = parse_cursor(after.removeprefix(EARLIER))
    selection = msgspec.structs.replace(selection, stands_in_for=())  # nobody can decide in the place of another on approvals of earlier versions
    for head in await access.earlier_approvals.waiting(selection.tenant):
        if position is None or (head.created_at_s, head.key) < (position.created_at_s, position.key):
            one = await read_approval(access, head.key)
            if one is not None and selection.selects(one):
                yield one, EARLIER + cursor_text(head_position(head))


async def _indexed_heads(access: StoreAccess, selection: _Selection, limit: int, after: PagePosition | None) -> AsyncIterator[Head]:
    wanted = selection.heads(after, min(limit + 1, HEADS_AT_A_TIME))
    while True:
        found = await access.store.heads(wanted)
        for head in found:
            yield head
        if len(found) < wanted.limit:
            return
        wanted = msgspec.structs.replace(wanted, after=head_position(found[-1], wanted.order), limit=HEADS_AT_A_TIME)
