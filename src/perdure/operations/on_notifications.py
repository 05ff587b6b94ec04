"""Operations on notifications: the rules by which people are told of approvals and failures."""

from perdure.service.callers import Caller
from perdure.service.notifications import notification_rules, rule_trials
from perdure.service.notifications.app_channel import expect_hook
from perdure.service.notifications.notification_rules import NotificationRule, RuleDetails, RulePage
from perdure.service.notifications.rule_trials import RuleTrial
from perdure.service.page_cursors import page_limit
from perdure.service.store_access import StoreAccess


async def list_rules(access: StoreAccess, tenant: str, limit: int = 100, after: str | None = None) -> RulePage:
    """Lists the notification rules of a tenant in order of name, in pages of up to `limit`.

    Raises:
        BadValue: the limit is no number from 1 on, or `after` is not the `next` of a page.
    """
    return await notification_rules.list_rules(access.store, tenant, page_limit(limit), after)


async def read_rule(access: StoreAccess, tenant: str, rule: str) -> RuleDetails:
    """A notification rule, by its name.

    Raises:
        NotFound: there is none.
    """
    return await notification_rules.read_rule(access.store, tenant, rule)


async def save_rule(access: StoreAccess, tenant: str, rule: str, settings: NotificationRule, revision: int | None = None) -> RuleDetails:
    """Saves a notification rule in place of what it was.

    Events from more than about a minute before are not told; a surge also counts dead letters from before, if there was a rule then. What is over when it is
    looked for is not told: an approval that is decided, a proposal that is reviewed, a trigger that is resumed.

    Raises:
        BadName, BadValue: the name or a field is not valid, or its channel is app and no living engine has a function for notifications.
        StaleRecord: the rule is not at the revision, or was changed at the same time.
    """
    if settings.channel == "app":
        await expect_hook(access)
    return await notification_rules.save_rule(access.store, tenant, rule, settings, revision)


async def remove_rule(access: StoreAccess, tenant: str, rule: str, revision: int | None = None) -> None:
    """Removes a notification rule. What was not sent yet by it is not sent any more.

    Raises:
        NotFound: there is none.
        StaleRecord: it is not at the revision.
    """
    await notification_rules.remove_rule(access.store, tenant, rule, revision)


async def try_rule(access: StoreAccess, caller: Caller, rule: str, to: str = "") -> RuleTrial:
    """Sends a sample by a notification rule, to its target; if it has none, to the address of the person `to`, by default the caller.

    It is sent at once, also if the rule is disabled. A request or an e-mail is attempted once.

    Raises:
        NotFound: there is no such rule.
        BadValue: its channel is app, and no living engine has a function for notifications.
    """
    return await rule_trials.try_rule(access, caller.tenant, rule, to or caller.decides_as(""))
