"""Operations on approvals, and on steps that are completed from outside."""

from typing import Any

import msgspec

from perdure.code.approval_requests import Delegation
from perdure.code.declarations import checked_name
from perdure.code.results import Vote
from perdure.core import values
from perdure.core.completions import Completion
from perdure.core.errors import BadValue, ErrorInfo, NotFound
from perdure.core.paths import Key
from perdure.service import approvals, step_completions
from perdure.service.approvals import Approval
from perdure.service.callers import LOCAL, Caller
from perdure.service.page_cursors import page_limit
from perdure.service.people import signed_links
from perdure.service.people.inbox import ApprovalCount, ApprovalPage, InboxFilter, count_approvals, inbox_page
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import NOTHING, EncodedValue, Nested

NOTE_CHARACTERS_MAX = 10_000
"""The longest note of a delegation."""


async def waiting(
    access: StoreAccess, tenant: str, which: InboxFilter, mine: bool = False, *, limit: int = 100, after: str = "", caller: Caller = LOCAL
) -> ApprovalPage:
    """A page of the approvals that wait: of all, or of those that `which` selects. With `mine`, those on which the caller may still decide.

    Raises:
        BadValue: a condition or the limit is not valid, `after` is not the `next` of a page, or the caller is a program and has none of its own.
    """
    return await inbox_page(access, tenant, _own(which, mine, caller), page_limit(limit), after)


async def count(access: StoreAccess, tenant: str, which: InboxFilter, mine: bool = False, caller: Caller = LOCAL) -> ApprovalCount:
    """Counts the approvals that wait and those of them that are overdue, up to 1,000. The conditions are those of the list.

    Raises:
        BadValue: a condition is not valid, or the caller is a program and has no approvals of its own.
    """
    return await count_approvals(access, tenant, _own(which, mine, caller))


def _own(which: InboxFilter, mine: bool, caller: Caller) -> InboxFilter:
    """The filter of the approvals on which the caller may decide, if these are wanted."""
    if not mine:
        return which
    if not caller.is_person:
        raise BadValue("/mine", True, f"asked by a person who has signed in; {caller.subject} is none, so give assignee and groups")
    return msgspec.structs.replace(which, assignee=caller.decides_as(""), groups=caller.groups)


async def find(access: StoreAccess, tenant: str, which: str, path: str | None = None) -> Key:
    """Finds an approval by its own id, or by the execution that asks for it. If that asks for several, `path` selects one.

    Raises:
        NotFound, Ambiguous: the text names no approval, or several.
    """
    return await approvals.find_approval(access, which, tenant, path)


async def read(access: StoreAccess, key: Key) -> Approval:
    """One approval, waiting or decided.

    Raises:
        NotFound: there is none of this key, or no engine has started it.
    """
    found = await approvals.read_approval(access, key)
    if found is None:
        raise NotFound(key, f"the approval {key} can't be read: no engine has started it. Start an engine, or ask again later")
    return found


async def vote(access: StoreAccess, key: Key, vote: Vote, wait: bool = True, caller: Caller = LOCAL) -> None:
    """Decides on an approval. Of two concurrent decisions one is accepted. An engine accepts it; without `wait`, it is stored until one does.

    Raises:
        NotFound: there is no such approval.
        AlreadyDecided, HasEnded: it was decided before, or was cancelled.
        DecisionRefused: `by` may not decide, or has decided already.
        BadValue: the value does not fit the form.
        Forbidden: the caller is a person, and gives the decision of another one without being an admin.
    """
    _ = checked_name(vote.by, "by")
    await approvals.vote(access, key, vote_of(caller, vote), wait)


def vote_of(caller: Caller, vote: Vote) -> Vote:
    """Returns a vote as the caller may give it: a person who has signed in is in their own groups alone, but for an admin.

    Raises:
        Forbidden: it is the vote of another person.
    """
    groups = caller.groups if caller.is_person and not caller.may("admin") else vote.groups
    return msgspec.structs.replace(vote, by=caller.decides_as(vote.by), groups=groups)


async def delegate(
    access: StoreAccess, key: Key, to: str, by: str = "", note: str = "", *, groups: tuple[str, ...] = (), wait: bool = True, caller: Caller = LOCAL
) -> None:
    """Lets `to` decide on an approval in place of `by`, by default the caller, who then may not any more, unless they are in an assigned group.

    An engine accepts it; without `wait`, it is stored until one does.

    Raises:
        NotFound: there is no such approval.
        AlreadyDecided, HasEnded: it was decided before, or was cancelled.
        DecisionRefused: `by` may not decide, or anybody may, or `to` may already, or one of them has decided.
        Forbidden: the caller is a person, and delegates for another one without being an admin.
        BadName, BadValue: a name is not valid, or the note is too long.
    """
    if checked_name(to, "to").startswith("group:"):
        raise BadValue("/to", to, "the name of a person; a group can't be delegated to")
    if len(note) > NOTE_CHARACTERS_MAX:
        raise BadValue("/note", f"{len(note):,} characters", f"at most {NOTE_CHARACTERS_MAX:,}")
    who = vote_of(caller, Vote(by, True, groups=groups))
    await approvals.delegate_approval(access, key, Delegation(checked_name(who.by, "by"), to, note, who.groups), wait)


async def sign_link(access: StoreAccess, key: Key, by: str, approve: bool | None, lifetime_s: float, secret: bytes, *, public_url: str = "") -> str:
    """A signed link whose bearer can give this answer as `by`, or without an answer the one or the other. It is a URL if the service knows its own.

    Raises:
        BadValue: there is no secret, or it is too short.
    """
    return await signed_links.make_link(access, secret, key, checked_name(by, "by"), approve, lifetime_s, public_url=public_url)


async def vote_by_link(access: StoreAccess, link: str, secret: bytes, value: EncodedValue = NOTHING, comment: str = "", approve: bool | None = None) -> None:
    """Gives the answer of a signed link, or `approve` if that offers both, and waits until an engine has accepted it.

    Raises:
        LinkRefused: it was not signed with this secret, has expired, does not offer the answer, or its person may not decide any more.
        AlreadyDecided, HasEnded, DecisionRefused, BadValue: see `vote`.
    """
    found = await signed_links.read_link(access, secret, link)
    answer = found.approve if approve is None else approve
    if answer is None:
        raise BadValue("/approve", None, "given, since the link offers both answers")
    await signed_links.decide_by_link(access, found, answer, values.decode(value, Any, "what was filled in"), comment)


# Steps that are completed from outside


async def complete(access: StoreAccess, token: str, value: EncodedValue = NOTHING) -> None:
    """Completes a step that waits for it with a result, durably. It takes effect as soon as an engine runs.

    Raises:
        BadValue: the token was given to no step of this database.
        AlreadyCompleted: it was used before; the first completion counts.
        CompletionRefused: the step is not wanted any more: it has timed out, or was cancelled.
        HasEnded: the execution has ended without it.
    """
    await step_completions.complete_attempt(access, token, Completion(value=value))


async def fail(access: StoreAccess, token: str, error: Nested[ErrorInfo], final: bool = False) -> None:
    """Fails an attempt of a step that waits for its completion. There is another one, by the retry policy of the step, unless the failure is `final`.

    Raises:
        BadValue, AlreadyCompleted, CompletionRefused, HasEnded: see `complete`.
    """
    await step_completions.complete_attempt(access, token, Completion(error=error, final=final))


async def heartbeat(access: StoreAccess, token: str) -> None:
    """Reports that the work for a step that waits for its completion is alive.

    Raises:
        BadValue, AlreadyCompleted, CompletionRefused, HasEnded: see `complete`. The work can be stopped.
    """
    await step_completions.report_heartbeat(access, token)
