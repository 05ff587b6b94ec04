"""Signed links, by which somebody decides on an approval once, without an account.

A link names the approval, the person, the answer or that both are offered, and an end. It is signed with a secret of the deployment, so anybody can read it,
and only a holder of the secret can make one. It stands for its person and gives them no right that they have not: when it is used, the person must still be
among those who may decide, and not have delegated the decision, nor be out of office. The groups by which they may are those that the link was made with.
"""

from typing import Any

import msgspec

from perdure.code.results import Vote
from perdure.core.errors import BadValue, DecisionRefused, LinkRefused, NotFound
from perdure.core.header_values import is_http_url
from perdure.core.paths import Key
from perdure.service.approvals import Approval, already_decided, decide_approval, read_approval, why_refused
from perdure.service.people.person_records import PEOPLE
from perdure.service.queries import approval_after_votes
from perdure.service.signed_texts import read_signed_text, signed_text
from perdure.service.store_access import StoreAccess

DOMAIN = b"perdure approval link"

PAGE_PATH = "/approvals/link/"
"""The beginning of the path of the page of a link."""


class ApprovalLink(msgspec.Struct, frozen=True, array_like=True):
    """The content of a signed link: the approval, the person, the answer (None: both are offered), when the link ends, and the person's groups.

    Links of earlier versions say nothing of groups; they count for all groups of their approval.
    """

    key: Key
    by: str
    approve: bool | None
    until_s: float
    groups: tuple[str, ...] | None = None


async def make_link(access: StoreAccess, secret: bytes, key: Key, by: str, approve: bool | None, lifetime_s: float, *, public_url: str = "") -> str:
    """Returns a link for a person: a URL if the public one of the service is known, else the signed text alone.

    The maker vouches for the person: if they are no assignee by name, they count as a member of the groups that are assigned now.

    Raises:
        BadValue: there is no secret, or it is too short.
    """
    until_s = (await access.store.store_time()).now_s + lifetime_s
    one = await _known(access, key)
    groups = None if one is None else () if by in one.assignees else _groups(one)
    return link_url(public_url, sign_link(secret, ApprovalLink(key, by, approve, until_s, groups)))


def checked_public_url(text: str, what: str) -> str:
    """Returns the address at which people reach a service, without a slash at its end; empty if it is not known. `what` names what was given.

    Raises:
        BadValue: it is no address.
    """
    if text and (not is_http_url(text) or "?" in text or "#" in text):
        raise BadValue(what, text[:200], "the address at which people reach the API, such as https://perdure.example.com")
    return text.rstrip("/")


def link_url(public_url: str, signed: str) -> str:
    """Returns the address of the page of a link; the signed text alone if the address of the service is not known."""
    return f"{public_url.rstrip('/')}{PAGE_PATH}{signed}" if public_url else signed


def sign_link(secret: bytes, link: ApprovalLink) -> str:
    """Returns the signed text of a link.

    Raises:
        BadValue: there is no secret, or it is too short.
    """
    return signed_text(secret, DOMAIN, link)


async def read_link(access: StoreAccess, secret: bytes, signed: str) -> ApprovalLink:
    """Verifies a link, or its signed text, and returns its content.

    Raises:
        LinkRefused: the signature is not of this deployment, or the link has expired.
    """
    link = read_signed_text(secret, DOMAIN, signed.strip().rpartition("/")[2], ApprovalLink)
    if link.until_s <= (await access.store.store_time()).now_s:
        raise LinkRefused("it has expired; ask for another one")
    return link


async def decide_by_link(access: StoreAccess, link: ApprovalLink, approve: bool, value: Any = None, comment: str = "") -> None:
    """Votes as the person of a link.

    Raises:
        LinkRefused: the person may not decide any more, or the link does not offer this answer.
        HasEnded, DecisionRefused, BadValue: see `decide_approval`.
    """
    if link.approve not in (None, approve):
        raise LinkRefused(f"it is a link to {'approve' if link.approve else 'reject'} alone")
    one = await _known(access, link.key)
    await expect_eligible(access, link, one)
    vote = Vote(link.by, approve, comment, value if approve else None, link_groups(link, one), means="link")
    _ = await decide_approval(access, link.key, vote)


async def is_vote_known(access: StoreAccess, link: ApprovalLink, approve: bool) -> bool:
    """Whether the store has the vote of the person of a link, whether or not an engine has received it.

    Raises:
        NotFound: no approval has this key.
    """
    found = await approval_after_votes(access, link.key)
    return found is not None and any(vote.by == link.by and vote.approve == approve for vote in found[0].votes)


async def expect_eligible(access: StoreAccess, link: ApprovalLink, one: Approval | None) -> None:
    """Checks that the person of a link may still decide.

    Raises:
        HasEnded: the approval is decided.
        DecisionRefused: the person has decided.
        LinkRefused: the decision was delegated or is others', or the person is out of office.
    """
    if (decided := await already_decided(access, link.key)) is not None:
        raise decided
    if one is None:
        return
    kept = await PEOPLE.read(access.store, link.key.tenant, link.by)
    if kept is not None and kept.value.is_out((await access.store.store_time()).now_s):
        raise LinkRefused(f"{link.by} is out of office, and {kept.value.substitute} decides in their place")
    if why := why_refused(one, Vote(link.by, True, groups=link_groups(link, one))):
        if any(vote.by == link.by for vote in one.votes):
            raise DecisionRefused(link.key, why)
        raise LinkRefused(why)


def link_groups(link: ApprovalLink, one: Approval | None) -> tuple[str, ...]:
    """Returns the groups that the person of a link counts as a member of."""
    if link.groups is not None or one is None:
        return link.groups or ()
    return () if any(passed.by == link.by for passed in one.delegations) else _groups(one)


def _groups(one: Approval) -> tuple[str, ...]:
    return tuple(name.removeprefix("group:") for name in one.assignees if name.startswith("group:"))


async def _known(access: StoreAccess, key: Key) -> Approval | None:
    """The approval of a link; None if it has not begun, or is not there (a vote then says so)."""
    try:
        return await read_approval(access, key)
    except NotFound:
        return None
