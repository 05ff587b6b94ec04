"""The asyncio interface of a client to people: how many approvals wait for them, delegation, who stands in for whom, and notifications.

It holds no rules, but gives operations their typed interface. `perdure.sync_people` is generated from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from perdure.code.approval_attributes import Priority
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.code.durations import Duration
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.operations import on_approvals, on_notifications, on_people
from perdure.operations.local_service import LocalService
from perdure.service.approvals import Approval
from perdure.service.notifications.notification_rules import NotificationRule, RuleDetails
from perdure.service.notifications.rule_trials import RuleTrial
from perdure.service.page_cursors import PAGE_MAX
from perdure.service.people.inbox import ApprovalCount, inbox_filter
from perdure.service.people.person_records import NotificationKind, PersonDetails, PersonSettings
from perdure.service.service_access import ServiceAccess
from perdure.service.store_access import with_timeout

Rules = list[RuleDetails]
KnownPeople = list[PersonDetails]


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

    async def delegate(
        self, approval: Approval | Key, to: str, *, by: str, note: str = "", groups: Sequence[str] = (), wait: bool = True, timeout: Duration | None = None
    ) -> None:
        """Lets `to` decide on an approval in place of `by`, who then may not any more, unless they are in an assigned group.

        An engine accepts it; without `wait`, it is stored until one does. The approval shows who has delegated to whom.

        Raises:
            HasEnded: it was decided before.
            DecisionRefused: `by` may not decide, or anybody may, or `to` may already, or one of them has decided.
            Timeout: no engine accepted it in time; it remains stored.
        """
        key = approval.key if isinstance(approval, Approval) else approval
        async with with_timeout(timeout if wait else None, f"an engine that takes the delegation of {key}"):
            await self._access.call(on_approvals.delegate, key, to, by, note, groups=tuple(groups), wait=wait)

    async def list(self, *, tenant: str = DEFAULT_TENANT) -> KnownPeople:
        """Lists the people of whom something is known, in order of name. Others decide on approvals as well; they need no record."""
        found: KnownPeople = []
        call, after = LocalService(self._access, checked_name(tenant, "tenant")), ""
        while True:
            page = await call(on_people.page, tenant, PAGE_MAX, after)
            found += page.items
            if page.next is None:
                return found
            after = page.next

    async def person(self, name: str, *, tenant: str = DEFAULT_TENANT) -> PersonDetails:
        """What is known of a person: when they are out of office, who then stands in, and what they are not notified of."""
        call = LocalService(self._access, checked_name(tenant, "tenant"))
        return await call(on_people.read_person, call.caller, name)

    async def save_person(
        self,
        name: str,
        *,
        out_from: datetime | None = None,
        out_until: datetime | None = None,
        substitute: str = "",
        email: str = "",
        unsubscribed: Sequence[NotificationKind] = (),
        revision: int | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> PersonDetails:
        """Saves what is known of a person, in place of what was. From `out_from` until `out_until`, the `substitute` may decide in their place.

        Raises:
            BadName, BadValue: the name, a time, the substitute, the address or a kind is not valid.
            StaleRecord: the record is not at the revision, or was changed at the same time.
        """
        begin_s, end_s = _seconds(out_from, "out_from"), _seconds(out_until, "out_until")
        person = PersonSettings(out_from_at_s=begin_s, out_until_at_s=end_s, substitute=substitute, email=email, unsubscribed=tuple(unsubscribed))
        call = LocalService(self._access, checked_name(tenant, "tenant"))
        return await call(on_people.save_person, call.caller, name, person, revision)

    async def notification_rules(self, *, tenant: str = DEFAULT_TENANT) -> Rules:
        """Lists the notification rules of a tenant in order of name."""
        call, found, after = LocalService(self._access, checked_name(tenant, "tenant")), Rules(), None
        while True:
            page = await call(on_notifications.list_rules, tenant, PAGE_MAX, after)
            found += page.items
            if (after := page.next) is None:
                return found

    async def notification_rule(self, name: str, *, tenant: str = DEFAULT_TENANT) -> RuleDetails:
        """A notification rule.

        Raises:
            NotFound: there is none of this name.
        """
        return await LocalService(self._access, checked_name(tenant, "tenant"))(on_notifications.read_rule, tenant, name)

    async def save_notification_rule(self, name: str, rule: NotificationRule, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> RuleDetails:
        """Saves a notification rule in place of what it was.

        Events from more than about a minute before are not told; a surge also counts dead letters from before, if there was a rule then. What is over when it
        is looked for is not told: an approval that is decided, a proposal that is reviewed, a trigger that is resumed.

        Raises:
            BadName, BadValue: the name or a field is not valid.
            StaleRecord: the rule is not at the revision, or was changed at the same time.
        """
        return await LocalService(self._access, checked_name(tenant, "tenant"))(on_notifications.save_rule, tenant, name, rule, revision)

    async def remove_notification_rule(self, name: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """Removes a notification rule. What was not sent yet by it is not sent any more.

        Raises:
            NotFound: there is none of this name.
            StaleRecord: it is not at the revision.
        """
        await LocalService(self._access, checked_name(tenant, "tenant"))(on_notifications.remove_rule, tenant, name, revision)

    async def try_notification_rule(self, name: str, *, to: str = "", tenant: str = DEFAULT_TENANT) -> RuleTrial:
        """Sends a sample by a notification rule, to its target; if it has none, to the address of the person `to`, by default the caller.

        It is sent at once, also if the rule is disabled. A request or an e-mail is attempted once. The result of the execution says to whom.

        Raises:
            NotFound: there is none of this name.
            BadValue: its channel is app, and no living engine has a function for notifications.
        """
        call = LocalService(self._access, checked_name(tenant, "tenant"))
        return await call(on_notifications.try_rule, call.caller, name, to)


def _seconds(time: datetime | None, what: str) -> float | None:
    if time is not None and time.tzinfo is None:
        raise BadValue(f"save_person({what})", time, "a time with its zone, such as datetime.now(UTC)")
    return None if time is None else time.timestamp()
