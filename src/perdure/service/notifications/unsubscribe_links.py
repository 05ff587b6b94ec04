"""Signed links in e-mails to people, by which they unsubscribe from what the e-mail is about, without an account, as RFC 8058 has it.

    PERDURE_PUBLIC_URL       the address at which people reach the API; without it, e-mails have no such links
    PERDURE_SIGNING_SECRET   the secret that signs them

A link has no end: it does nothing but unsubscribe its person from its kinds, which they can undo.
"""

import os

import msgspec

from perdure.service.people.person_records import NotificationKind
from perdure.service.people.signed_links import checked_public_url
from perdure.service.signed_texts import read_signed_text, signed_text
from perdure.service.signing_secrets import environment_secrets

DOMAIN = b"perdure unsubscribe link"
PAGE_PATH = "/unsubscribe/"
PUBLIC_VARIABLE = "PERDURE_PUBLIC_URL"


class UnsubscribeLink(msgspec.Struct, frozen=True, array_like=True):
    """The content of a link: the tenant, the person, and what they are not to be notified of any more."""

    tenant: str
    person: str
    kinds: tuple[NotificationKind, ...]


def unsubscribe_url(tenant: str, person: str, kinds: tuple[NotificationKind, ...]) -> str:
    """Returns the address of the page of a link; an empty text where the public address or the secret is not known.

    Raises:
        BadValue: the public address is none, or the secret is too short.
    """
    public, secret = checked_public_url(os.environ.get(PUBLIC_VARIABLE, ""), PUBLIC_VARIABLE), environment_secrets()
    if not public or not secret.strip():
        return ""
    return f"{public}{PAGE_PATH}{sign_unsubscribe_link(secret, UnsubscribeLink(tenant, person, kinds))}"


def sign_unsubscribe_link(secret: bytes, link: UnsubscribeLink) -> str:
    """Returns the signed text of a link.

    Raises:
        BadValue: there is no secret, or it is too short.
    """
    return signed_text(secret, DOMAIN, link)


def read_unsubscribe_link(secret: bytes, signed: str) -> UnsubscribeLink:
    """Verifies a link by its signed text, and returns its content.

    Raises:
        LinkRefused: the signature is not of this deployment.
    """
    return read_signed_text(secret, DOMAIN, signed, UnsubscribeLink)
