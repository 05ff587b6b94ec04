"""The channels of notifications: requests that are signed as Standard Webhooks has it, and e-mail over SMTP.

    PERDURE_SMTP_URL    smtp://user:password@smtp.example.com:587?from=flows@example.com (smtps:// for TLS from the first byte on)

What the other side refuses for good is not attempted again (`NotificationRefused`); everything else is.
"""

import asyncio
import os
from email.message import EmailMessage
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from perdure.core.errors import BadValue, MissingExtra
from perdure.definitions.kinds.http.http_client import http_client
from perdure.service.secrets.secret_resolver import secret_resolver_for
from perdure.service.triggers.trigger_records import Verification
from perdure.service.triggers.webhook_signatures import Signing, signed_headers
from perdure.stores.protocol import Store

SMTP_VARIABLE = "PERDURE_SMTP_URL"
TIMEOUT_S = 20.0
REPEATED_STATUSES = frozenset((408, 409, 425, 429))
"""Statuses of refusals that pass."""


class NotificationRefused(Exception):
    """The other side has refused a notification for good."""


class NotificationFailed(Exception):
    """The other side did not take a notification. It may later."""


class OutgoingNotification(NamedTuple):
    """What is sent: its id, the same in each attempt, the title, the text, and what it is about, as data; and the address at which its reader unsubscribes."""

    id: str
    title: str
    text: str
    data: object
    unsubscribe: str = ""


async def send_webhook(store: Store, tenant: str, url: str, secret: str, one: OutgoingNotification) -> None:
    """Sends a signed request.

    Raises:
        NotificationRefused, NotificationFailed: it was not accepted.
        BadValue: the secret is missing, or is not of the form that Standard Webhooks has, or a variable of the environment is not usable.
        MissingExtra: httpx2 is not installed.
    """
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtra("a notification by webhook", "httpx2", "http") from error
    value = await asyncio.to_thread(secret_resolver_for(store).of(tenant), secret)
    if value is None:
        raise BadValue(f"the secret {secret}", "", "there. Set it with perdure secret set")
    body = msgspec.json.encode({"id": one.id, "title": one.title, "text": one.text, "events": one.data})
    at_s = int((await store.store_time()).now_s)
    headers = signed_headers(Verification(scheme="standard_webhooks", secrets=(secret,)), value, Signing(body, at_s, one.id))
    try:
        async with http_client(url, timeout=TIMEOUT_S, follow_redirects=False) as client:
            answer = await client.post(url, content=body, headers={"content-type": "application/json", **headers})
    except httpx2.HTTPError as error:
        raise NotificationFailed(f"the webhook did not answer: {type(error).__name__}") from error
    if 200 <= answer.status_code < 300:
        return
    if 400 <= answer.status_code < 500 and answer.status_code not in REPEATED_STATUSES:
        raise NotificationRefused(f"the webhook has answered {answer.status_code}")
    raise NotificationFailed(f"the webhook has answered {answer.status_code}")


class SmtpServer(NamedTuple):
    """The server of `PERDURE_SMTP_URL`, and the address that messages are from."""

    host: str
    port: int
    user: str | None
    password: str | None
    has_tls: bool
    sender: str


def smtp_server(text: str) -> SmtpServer:
    """Reads where e-mail is sent from.

    Raises:
        BadValue: it is no such URL. It may have a password, so it is not shown.
    """
    bad = BadValue(SMTP_VARIABLE, "...", "of the form smtp://user:password@smtp.example.com:587?from=flows@example.com")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise bad from None
    sender = parse_qs(parts.query).get("from", [""])[0]
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or sender.count("@") != 1:
        raise bad
    has_tls = parts.scheme == "smtps"
    user, password = (None if one is None else unquote(one) for one in (parts.username, parts.password))
    return SmtpServer(parts.hostname, port or (465 if has_tls else 587), user, password, has_tls, sender)


async def send_email(to: list[str], one: OutgoingNotification) -> list[str]:
    """Sends an e-mail. Returns the addresses that the server has refused, if it took others.

    Raises:
        NotificationRefused, NotificationFailed: it was not accepted.
        BadValue: `PERDURE_SMTP_URL` is missing or invalid.
        MissingExtra: aiosmtplib is not installed.
    """
    try:
        import aiosmtplib
    except ImportError as error:
        raise MissingExtra("a notification by e-mail", "aiosmtplib", "mail") from error
    server = smtp_server(os.environ.get(SMTP_VARIABLE, ""))
    try:
        refused, _ = await aiosmtplib.send(
            email_of(server.sender, to, one),
            hostname=server.host,
            port=server.port,
            username=server.user,
            password=server.password,
            use_tls=server.has_tls,
            timeout=TIMEOUT_S,
        )
    except (aiosmtplib.SMTPRecipientsRefused, aiosmtplib.SMTPResponseException) as error:
        code = error.code if isinstance(error, aiosmtplib.SMTPResponseException) else min((one.code for one in error.recipients), default=550)
        kind = NotificationRefused if code >= 500 else NotificationFailed
        raise kind(f"the server of e-mail has answered {code}") from error
    except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
        raise NotificationFailed(f"the server of e-mail did not take it: {type(error).__name__}") from error
    return list(refused)


def email_of(sender: str, to: list[str], one: OutgoingNotification) -> EmailMessage:
    """Returns an e-mail. Its ``Message-ID`` is the same in each attempt, so that one which arrives twice can be recognized."""
    message = EmailMessage()
    message["From"], message["To"] = sender, ", ".join(to)
    message["Subject"] = " ".join(one.title.split())[:200] or "Notification"
    message["Message-ID"] = f"<{sha256(one.id.encode()).hexdigest()[:32]}@{sender.partition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    if one.unsubscribe:
        message["List-Unsubscribe"] = f"<{one.unsubscribe}>"
    if one.unsubscribe.startswith("https://"):  # RFC 8058 is for these alone
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(f"{one.text}\n\n-- \nUnsubscribe: {one.unsubscribe}\n" if one.unsubscribe else one.text)
    return message
