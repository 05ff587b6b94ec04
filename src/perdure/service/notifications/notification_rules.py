"""Rules of notifications: which events, of which workflow, go by which channel to whom, in what words, how often, and when not."""

import re
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from perdure.code.declarations import checked_name
from perdure.core.errors import BadValue, NotFound
from perdure.core.header_values import is_http_url
from perdure.service.notifications.notice_watch import watch_messages
from perdure.service.notifications.notification_templates import check_template
from perdure.service.people.person_records import NOTIFICATION_KINDS, NotificationKind, is_email_address
from perdure.service.record_kinds import KeptValue, RecordKind, expect_revision, post_records
from perdure.service.wire_types import Version
from perdure.stores.protocol import ReadOnlyStore, Store

Channel = Literal["webhook", "smtp", "app"]

ASSIGNED_KINDS: frozenset[NotificationKind] = frozenset(("asked", "reminder", "escalated"))
"""The kinds of events of approvals, which have assignees."""

DEFAULT_TITLE, DEFAULT_BODY = "@{event.title}", "@{event.text}"
GROUP_S_MAX, NAME_CHARACTERS_MAX = 7 * 86_400.0, 64
SURGE_ABOVE_MAX, SURGE_S_MIN, SURGE_S_MAX = 1_000, 60.0, 86_400.0
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class NotificationRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule. It is for events of `kinds`, of executions of `workflow` (empty: of any).

    `target` is the URL of a webhook, or addresses of e-mail, separated by commas; without one, each assignee of an approval gets an e-mail at the address in
    their record. With the channel ``app``, a function of the application is called. `secret` names the secret that signs requests. `title` and `body` are
    templates with references, such as ``@{event.title}``, ``@{rule.name}`` and ``@{count}``.

    Events within `group_s` go together. No more than `hourly_max` notifications are sent in an hour (0: any number), and none between `quiet_from` and
    `quiet_until`, times such as ``22:00`` in `zone`: they are sent later.

    More than `surge_above` dead letters of `workflow`, or of the tenant, that have failed within `surge_s` are a ``dead_letter_surge``.
    """

    kinds: tuple[NotificationKind, ...]
    channel: Channel
    target: str = ""
    workflow: str = ""
    secret: str = ""
    title: str = DEFAULT_TITLE
    body: str = DEFAULT_BODY
    group_s: float = 0.0
    hourly_max: int = 0
    quiet_from: str = ""
    quiet_until: str = ""
    zone: str = "UTC"
    enabled: bool = True
    surge_above: int = 20
    surge_s: float = 600.0


RULES = RecordKind("notification rule", NotificationRule)


class RuleDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A rule by its name, at a version."""

    name: str
    version: Version
    rule: NotificationRule


class RulePage(msgspec.Struct, frozen=True):
    """A page of rules. `next` is the `after` of the next page; None if this was the last."""

    items: list[RuleDetails]
    next: str | None


def check_rule(name: str, rule: NotificationRule) -> None:
    """Checks a rule.

    Raises:
        BadName, BadValue: the name or a field is not valid.
    """
    if len(checked_name(name, "rule")) > NAME_CHARACTERS_MAX or _NAME.fullmatch(name) is None:
        raise BadValue("/rule", name[:100], f"a name of up to {NAME_CHARACTERS_MAX} letters, digits, _, . and -")
    if not rule.kinds or not set(rule.kinds) <= set(NOTIFICATION_KINDS):
        raise BadValue("/kinds", list(rule.kinds), f"one or several of {', '.join(NOTIFICATION_KINDS)}")
    _check_target(rule)
    check_template("/title", rule.title)
    check_template("/body", rule.body)
    if not 0 <= rule.group_s <= GROUP_S_MAX:
        raise BadValue("/groupSeconds", rule.group_s, "from 0 to a week")
    if rule.hourly_max < 0:
        raise BadValue("/hourlyMax", rule.hourly_max, "a number from 0 on")
    if not 0 <= rule.surge_above <= SURGE_ABOVE_MAX:
        raise BadValue("/surgeAbove", rule.surge_above, f"from 0 to {SURGE_ABOVE_MAX:,}")
    if not SURGE_S_MIN <= rule.surge_s <= SURGE_S_MAX:
        raise BadValue("/surgeSeconds", rule.surge_s, "from a minute to a day")
    _check_quiet_hours(rule)


def _check_quiet_hours(rule: NotificationRule) -> None:
    if bool(rule.quiet_from) != bool(rule.quiet_until) or not all(_TIME.fullmatch(one) for one in (rule.quiet_from, rule.quiet_until) if one):
        raise BadValue("/quietFrom", rule.quiet_from, "a time such as 22:00, together with quietUntil")
    try:
        ZoneInfo(rule.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadValue("/zone", rule.zone, "a time zone such as Europe/Berlin") from None


def _check_target(rule: NotificationRule) -> None:
    if rule.channel == "webhook":
        if not is_http_url(rule.target):
            raise BadValue("/target", rule.target[:200], "the URL of a webhook")
        if not rule.secret:
            raise BadValue("/secret", rule.secret, "the name of the secret that signs requests, which perdure secret set keeps")
        return
    if rule.channel == "app":
        if rule.target:
            raise BadValue("/target", rule.target[:200], "left out with the channel app, which calls a function of the application")
        return
    if rule.target and not all(map(is_email_address, addresses_of(rule))):
        raise BadValue("/target", rule.target[:200], "addresses of e-mail, separated by commas")
    if not rule.target and not set(rule.kinds) <= ASSIGNED_KINDS:
        raise BadValue("/target", rule.target, f"given for what has no assignees: {', '.join(sorted(set(rule.kinds) - ASSIGNED_KINDS))}")


def addresses_of(rule: NotificationRule) -> list[str]:
    """Returns the addresses of a rule."""
    return [one.strip() for one in rule.target.split(",") if one.strip()]


def quiet_until(rule: NotificationRule, now_s: float) -> float | None:
    """Returns when the quiet hours end that it is now; None if it is none of them."""
    if not rule.quiet_from:
        return None
    zone = ZoneInfo(rule.zone)
    now = datetime.fromtimestamp(now_s, UTC).astimezone(zone)
    for days in (-1, 0):
        day = (now + timedelta(days=days)).date()
        begin, end = _at(day, rule.quiet_from, zone), _at(day, rule.quiet_until, zone)
        if end <= begin:
            end = _at(day + timedelta(days=1), rule.quiet_until, zone)
        if begin <= now_s < end:
            return end
    return None


def _at(day: object, text: str, zone: ZoneInfo) -> float:
    return datetime.fromisoformat(f"{day}T{text}:00").replace(tzinfo=zone).timestamp()


async def list_rules(store: ReadOnlyStore, tenant: str, limit: int, after: str | None) -> RulePage:
    """Lists the rules of a tenant in order of name.

    Raises:
        BadValue: `after` is no name.
    """
    found, following = await RULES.page_behind(store, tenant, limit, after)
    return RulePage([_details(one) for one in found], following)


async def read_rule(store: ReadOnlyStore, tenant: str, name: str) -> RuleDetails:
    """Returns a rule.

    Raises:
        NotFound: there is none of this name.
    """
    kept = await RULES.read(store, tenant, checked_name(name, "rule"))
    if kept is None:
        raise NotFound(name, f"there is no notification rule {name!r}. List the rules")
    return _details(kept)


async def save_rule(store: Store, tenant: str, name: str, rule: NotificationRule, revision: int | None) -> RuleDetails:
    """Saves a rule in place of what it was, and has events looked for, in one commit.

    Raises:
        BadName, BadValue: the name or a field is not valid.
        StaleRecord: the rule is not at the revision, or was changed at the same time.
    """
    check_rule(name, rule)
    kept = await RULES.read(store, tenant, name)
    version = 0 if kept is None else kept.version
    expect_revision(RULES.name, name, revision, version)
    await post_records(store, [RULES.change(tenant, name, version, rule)], await watch_messages(store, tenant, uuid4().hex))
    return await read_rule(store, tenant, name)


async def remove_rule(store: Store, tenant: str, name: str, revision: int | None) -> None:
    """Removes a rule. Notifications that are not sent yet are not sent any more.

    Raises:
        NotFound: there is none of this name.
        StaleRecord: it is not at the revision.
    """
    found = await read_rule(store, tenant, name)
    expect_revision(RULES.name, name, revision, found.version)
    await post_records(store, [RULES.change(tenant, name, found.version, None)])


def _details(kept: KeptValue[NotificationRule]) -> RuleDetails:
    return RuleDetails(name=kept.key, version=kept.version, rule=kept.value)
