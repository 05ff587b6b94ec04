"""The page of a link in an e-mail: it shows and never unsubscribes by itself, unsubscribes as RFC 8058 has it, and leaves its token nowhere."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure import App
from perdure.api.service_api import ServiceApi, ServiceSettings
from perdure.api.unsubscribe_page import ROUTE, SHOWN_KINDS
from perdure.core.errors import BadValue, LinkRefused
from perdure.observe.log_setup import ACCESS_LOGGER
from perdure.service.access_records import AUDIT_ENTRIES
from perdure.service.notifications.notification_channels import OutgoingNotification, email_of
from perdure.service.notifications.unsubscribe_links import UnsubscribeLink, read_unsubscribe_link, sign_unsubscribe_link, unsubscribe_url
from perdure.service.people.person_records import NOTIFICATION_KINDS
from perdure.sync_client import AsyncClient
from tests.api.service_setup import Service

OLD, NEW = b"the secret of last year", b"the secret of this year"
LINK = UnsubscribeLink("default", "ada", ("reminder", "failure"))


@asynccontextmanager
async def served(directory: Path, secret: bytes = NEW) -> AsyncIterator[tuple[Service, AsyncClient]]:
    async with App(db=f"sqlite:///{directory}/people.db") as app:
        service = ServiceApi(app.client.access, ServiceSettings(secret=secret))
        running = asyncio.create_task(service.run())
        try:
            async with AsyncClient(app.client.access.store) as client:
                await client.people.save_person("ada", email="ada@example.com", unsubscribed=["asked", "reminder"])
                yield Service(service), client
        finally:
            running.cancel()
            _ = await asyncio.gather(running, return_exceptions=True)


async def test_reading_the_page_unsubscribes_nobody_and_one_click_does_also_twice(tmp_path: Path) -> None:
    async with served(tmp_path) as (service, client):
        path = f"/unsubscribe/{sign_unsubscribe_link(NEW, LINK)}"
        for method in ("GET", "HEAD"):
            page = await service(method, path)
            assert page.status == 200 and page.headers["referrer-policy"] == "no-referrer" and page.headers["cache-control"] == "no-store"
        text = (await service("GET", path)).body.decode()
        assert "<b>ada</b>" in text and "reminders of approvals" in text and '<form method="post">' in text and "<script" not in text
        assert (await client.people.person("ada")).unsubscribed == ("asked", "reminder")
        for _ in range(2):
            done = await service("POST", path, raw="List-Unsubscribe=One-Click", content_type="application/x-www-form-urlencoded")
            assert done.status == 200 and b"You have unsubscribed" in done.body
            known = await client.people.person("ada")
            assert (known.unsubscribed, known.email, known.version) == (("asked", "reminder", "failure"), "ada@example.com", 2)
        entries = [kept.value async for kept in AUDIT_ENTRIES.all(client.access.store, "default")]
        assert [(one.subject, one.operation) for one in entries if one.operation == "people.unsubscribe"] == [("oidc:ada", "people.unsubscribe")]


async def test_a_body_in_parts_unsubscribes_as_well_and_other_methods_do_not(tmp_path: Path) -> None:
    async with served(tmp_path) as (service, client):
        path = f"/unsubscribe/{sign_unsubscribe_link(NEW, LINK)}"
        assert (await service("DELETE", path)).status == 405
        assert (await service("POST", path, raw="x" * 20_000, content_type="text/plain")).status == 413
        assert (await client.people.person("ada")).version == 1
        parts = '--b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--\r\n'
        assert (await service("POST", path, raw=parts, content_type="multipart/form-data; boundary=b")).status == 200
        assert "failure" in (await client.people.person("ada")).unsubscribed


@pytest.mark.parametrize("secret", [b"", b"another secret, of others"])
async def test_a_link_that_was_not_signed_here_does_nothing(tmp_path: Path, secret: bytes) -> None:
    genuine = sign_unsubscribe_link(NEW, LINK)
    async with served(tmp_path, secret or NEW) as (service, client):
        for token in (genuine,) if secret else ("", "x", genuine[:-1], f"{genuine[1:]}", f"x.{genuine.partition('.')[2]}"):
            for method in ("GET", "POST"):
                assert (await service(method, f"/unsubscribe/{token or 'nothing'}")).status == 403
        assert (await client.people.person("ada")).version == 1


async def test_a_link_of_a_secret_that_was_replaced_holds_and_the_log_has_no_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, ACCESS_LOGGER)
    token = sign_unsubscribe_link(OLD, LINK)
    async with served(tmp_path, NEW + b"\n" + OLD) as (service, _):
        assert (await service("POST", f"/unsubscribe/{token}")).status == 200
    assert any(getattr(record, "route", "") == ROUTE for record in caplog.records)
    assert not any(token in str(vars(record)) for record in caplog.records)


async def test_a_person_of_whom_nothing_is_known_stays_unknown(tmp_path: Path) -> None:
    async with served(tmp_path) as (service, client):
        token = sign_unsubscribe_link(NEW, UnsubscribeLink("default", "eve", ("asked",)))
        assert (await service("POST", f"/unsubscribe/{token}")).status == 200
        assert (await client.people.person("eve")).version == 0


def test_emails_to_people_have_a_link_where_the_address_and_the_secret_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(SHOWN_KINDS) == set(NOTIFICATION_KINDS)
    for known in ({}, {"PERDURE_PUBLIC_URL": "https://flows.example.com/p/"}, {"PERDURE_SIGNING_SECRET": NEW.decode()}):
        for name in ("PERDURE_PUBLIC_URL", "PERDURE_SIGNING_SECRET"):
            monkeypatch.delenv(name, raising=False)
        for name, value in known.items():
            monkeypatch.setenv(name, value)
        assert unsubscribe_url("default", "ada", ("asked",)) == ""
    monkeypatch.setenv("PERDURE_PUBLIC_URL", "https://flows.example.com/p/")
    url = unsubscribe_url("default", "ada", ("asked",))
    start = "https://flows.example.com/p/unsubscribe/"
    assert url.startswith(start) and read_unsubscribe_link(NEW, url.removeprefix(start)) == UnsubscribeLink("default", "ada", ("asked",))
    with pytest.raises(LinkRefused):
        read_unsubscribe_link(OLD, url.removeprefix(start))
    sent = email_of("flows@example.com", ["ada@example.com"], OutgoingNotification("n", "t", "text", [], url))
    assert (sent["List-Unsubscribe"], sent["List-Unsubscribe-Post"]) == (f"<{url}>", "List-Unsubscribe=One-Click")
    assert f"Unsubscribe: {url}" in sent.get_content()
    insecure = email_of("flows@example.com", ["ada@example.com"], OutgoingNotification("n", "t", "text", [], "http://localhost/unsubscribe/x"))
    assert insecure["List-Unsubscribe"] and insecure["List-Unsubscribe-Post"] is None
    assert email_of("flows@example.com", ["a@example.com"], OutgoingNotification("n", "t", "text", []))["List-Unsubscribe"] is None
    monkeypatch.setenv("PERDURE_PUBLIC_URL", "flows.example.com")
    with pytest.raises(BadValue):
        unsubscribe_url("default", "ada", ("asked",))
