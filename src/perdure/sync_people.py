"""The people of a tenant for a client of sync programs.

Made from `perdure.async_people` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from perdure.async_people import AsyncPeople, KnownPeople, Rules
from perdure.code.approval_attributes import Priority
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.durations import Duration
from perdure.core.paths import Key
from perdure.loop_thread import LoopThread
from perdure.service.approvals import Approval
from perdure.service.notifications.notification_rules import NotificationRule, RuleDetails
from perdure.service.notifications.rule_trials import RuleTrial
from perdure.service.people.inbox import ApprovalCount
from perdure.service.people.person_records import NotificationKind, PersonDetails


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

    def delegate(
        self, approval: Approval | Key, to: str, *, by: str, note: str = "", groups: Sequence[str] = (), wait: bool = True, timeout: Duration | None = None
    ) -> None:
        """Lets `to` decide on an approval in place of `by`, who then may not any more, unless they are in an assigned group.

        An engine accepts it; without `wait`, it is stored until one does. The approval shows who has delegated to whom.

        Raises:
            HasEnded: it was decided before.
            DecisionRefused: `by` may not decide, or anybody may, or `to` may already, or one of them has decided.
            Timeout: no engine accepted it in time; it remains stored.
        """
        self._thread.call(self._inner.delegate(approval, to, by=by, note=note, groups=groups, wait=wait, timeout=timeout))

    def list(self, *, tenant: str = DEFAULT_TENANT) -> KnownPeople:
        """Lists the people of whom something is known, in order of name. Others decide on approvals as well; they need no record."""
        return self._thread.call(self._inner.list(tenant=tenant))

    def person(self, name: str, *, tenant: str = DEFAULT_TENANT) -> PersonDetails:
        """What is known of a person: when they are out of office, who then stands in, and what they are not notified of."""
        return self._thread.call(self._inner.person(name, tenant=tenant))

    def save_person(
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
        return self._thread.call(
            self._inner.save_person(
                name, out_from=out_from, out_until=out_until, substitute=substitute, email=email, unsubscribed=unsubscribed, revision=revision, tenant=tenant
            )
        )

    def notification_rules(self, *, tenant: str = DEFAULT_TENANT) -> Rules:
        """Lists the notification rules of a tenant in order of name."""
        return self._thread.call(self._inner.notification_rules(tenant=tenant))

    def notification_rule(self, name: str, *, tenant: str = DEFAULT_TENANT) -> RuleDetails:
        """A notification rule.

        Raises:
            NotFound: there is none of this name.
        """
        return self._thread.call(self._inner.notification_rule(name, tenant=tenant))

    def save_notification_rule(self, name: str, rule: NotificationRule, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> RuleDetails:
        """Saves a notification rule in place of what it was.

        Events from more than about a minute before are not told; a surge also counts dead letters from before, if there was a rule then. What is over when it
        is looked for is not told: an approval that is decided, a proposal that is reviewed, a trigger that is resumed.

        Raises:
            BadName, BadValue: the name or a field is not valid.
            StaleRecord: the rule is not at the revision, or was changed at the same time.
        """
        return self._thread.call(self._inner.save_notification_rule(name, rule, revision=revision, tenant=tenant))

    def remove_notification_rule(self, name: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """Removes a notification rule. What was not sent yet by it is not sent any more.

        Raises:
            NotFound: there is none of this name.
            StaleRecord: it is not at the revision.
        """
        self._thread.call(self._inner.remove_notification_rule(name, revision=revision, tenant=tenant))

    def try_notification_rule(self, name: str, *, to: str = "", tenant: str = DEFAULT_TENANT) -> RuleTrial:
        """Sends a sample by a notification rule, to its target; if it has none, to the address of the person `to`, by default the caller.

        It is sent at once, also if the rule is disabled. A request or an e-mail is attempted once. The result of the execution says to whom.

        Raises:
            NotFound: there is none of this name.
            BadValue: its channel is app, and no living engine has a function for notifications.
        """
        return self._thread.call(self._inner.try_notification_rule(name, to=to, tenant=tenant))
