"""Notifications: who is told of what, once, by a real server of e-mail and by real requests; in groups, not at night, and not too often."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiosmtpd.controller import Controller

from perdure import App, Context, ExecutionFailed, workflow
from perdure.core.errors import BadName, BadValue, NotFound, StaleRecord
from perdure.core.operations import APPROVAL_WORKFLOW, NOTICES_WORKFLOW, NOTIFICATION_WORKFLOW
from perdure.core.paths import Key
from perdure.service.notifications import notice_finder, notification_channels, notification_workflow
from perdure.service.notifications.notification_channels import NotificationRefused, OutgoingNotification, email_of, smtp_server
from perdure.service.notifications.notification_rules import NotificationRule, check_rule, quiet_until
from perdure.service.notifications.notification_workflow import EVENTS_MAX
from perdure.service.service_workflows import SERVICE_WORKFLOWS
from perdure.service.triggers.trigger_records import Verification
from perdure.service.triggers.webhook_signatures import SignedRequest, verify
from perdure.stores.protocol import HeadFilter, LogRow
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, now_s
from tests.service.cluster_client import virtually

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
URL = "https://hooks.example.com/perdure"


@workflow
async def asks(ctx: Context, title: str, assignees: list[str]) -> bool:
    return (await ctx.approve(title, assignees=assignees, remind="1h", deep_link="/invoices/17")).approved


@workflow
async def fails(ctx: Context, why: str) -> None:
    raise ValueError(why)


sent: list[tuple[str, float]] = []
trouble: list[Exception] = []


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    sent.clear()
    trouble.clear()


async def take(store: Any, tenant: str, url: str, secret: str, one: OutgoingNotification) -> None:
    """The end of a webhook in the tests in virtual time."""
    if trouble:
        raise trouble.pop()
    sent.append((f"{one.title}: {one.text}", asyncio.get_running_loop().time()))


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    monkeypatch.setattr(notification_channels, "send_webhook", take)
    return sent


def rule(*kinds: Any, **fields: Any) -> NotificationRule:
    return NotificationRule(**{"kinds": kinds or ("asked", "failure"), "channel": "webhook", "target": URL, "secret": "HOOK", **fields})


async def begun(c: Cluster, client: AsyncClient, *rules: tuple[str, NotificationRule]) -> None:
    await c.engine(asks, fails, built_in=SERVICE_WORKFLOWS)
    for name, one in rules:
        await client.people.save_notification_rule(name, one)
    await asyncio.sleep(30)


async def failed(client: AsyncClient, *ids: str) -> None:
    for id in ids:
        with pytest.raises(ExecutionFailed):
            await (await client.start(fails.with_(id=id), f"why {id}")).result()


def titles() -> list[str]:
    return [one.partition(":")[0] for one, _ in sent]


@pytest.mark.usefixtures("caught")
def test_of_approvals_and_failures_somebody_is_told_once() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        await failed_before_the_rule(c, client)
        await asyncio.sleep(1)
        await client.people.save_notification_rule("all", rule("asked", "reminder", "failure"))
        await asyncio.sleep(30)
        await client.start(asks.with_(id="a"), "Pay?", ["ada"])
        await failed(client, "f")
        await asyncio.sleep(120)
        assert sorted(titles()) == ["Pay?", "fails f has failed"]
        assert any("ValueError: why f" in text for text, _ in sent)
        await asyncio.sleep(3_600)
        assert titles().count("Pay?") == 2 and any("It still waits" in text for text, _ in sent)

    async def failed_before_the_rule(c: Cluster, client: AsyncClient) -> None:
        await c.engine(asks, fails, built_in=SERVICE_WORKFLOWS)
        await failed(client, "before")

    told()


@pytest.mark.usefixtures("caught")
def test_logs_that_can_t_be_read_keep_nobody_from_being_told_of_others() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        await begun(c, client, ("all", rule()))
        for id in ("a", "b"):
            await client.start(asks.with_(id=id), f"Pay {id}?", ["ada"])
        await failed(client, "f", "g")
        (damaged, _) = await c.store.heads(HeadFilter(workflow=APPROVAL_WORKFLOW))
        for key in (damaged.key, Key(damaged.key.tenant, "fails", "f")):
            execution = c.store._executions[key]
            execution.rows = [LogRow(row.version, row.payload[:-1] + b"?") for row in execution.rows]
        await asyncio.sleep(60)
        assert sorted(titles())[1:] == ["fails f has failed", "fails g has failed"] and titles().count("Pay a?") + titles().count("Pay b?") == 1
        assert any("log_damaged: its log can't be read" in text for text, _ in sent)

    told()


@pytest.mark.usefixtures("caught")
def test_a_rule_is_for_its_kinds_and_its_workflow_and_fills_in_its_words() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        words = rule(
            "asked",
            workflow="asks",
            title="[@{event.kind}] @{event.title} {nothing}",
            body="@{rule.name} @{count} @{event.workflow}/@{event.execution} @{event.link} {title}",
        )
        await begun(c, client, ("words", words), ("other", rule("asked", workflow="none")), ("off", rule("asked", enabled=False)))
        await client.start(asks.with_(id="a"), "Pay?", ["ada"])
        await failed(client, "f")
        await asyncio.sleep(60)
        assert [text for text, _ in sent] == ["[asked] Pay? {nothing}: words 1 asks/a /invoices/17 {title}"]

    told()


@pytest.mark.usefixtures("caught")
def test_events_of_a_group_go_together_once() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        await begun(c, client, ("grouped", rule("failure", group_s=600.0)))
        now_s = asyncio.get_running_loop().time()
        await asyncio.sleep(600 - now_s % 600 + 5)
        await failed(client, "a", "b", "c")
        await asyncio.sleep(500)
        assert sent == []
        await asyncio.sleep(300)
        ((text, _),) = sent
        assert "(and 2 more)" in text and all(f"why {id}" in text for id in "abc")

    told()


@pytest.mark.slow
@pytest.mark.usefixtures("caught")
def test_of_a_group_with_very_many_events_the_first_are_told_and_the_others_are_counted() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        await begun(c, client, ("all", rule("failure", group_s=120.0)))
        await asyncio.sleep(120 - now_s() % 120)
        await c.post_all(fails, [(str(number), ("broken",)) for number in range(EVENTS_MAX + 100)])
        await asyncio.sleep(200)
        ((text, _),) = sent
        assert text.count("has failed\n") == EVENTS_MAX and f"(and {EVENTS_MAX + 99} more)" in text and "and 100 more" in text

    told()


@pytest.mark.usefixtures("caught")
def test_more_failures_than_a_page_are_all_told() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        await begun(c, client, ("all", rule("failure")))
        await c.post_all(fails, [(str(number), ("broken",)) for number in range(450)])
        await asyncio.sleep(200)
        assert sorted(titles()) == sorted(f"fails {number} has failed" for number in range(450))

    told()


@pytest.mark.usefixtures("caught")
def test_nothing_is_sent_in_quiet_hours_nor_more_than_the_rule_allows() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        now = datetime.fromtimestamp(asyncio.get_running_loop().time(), UTC)
        until = (now + timedelta(hours=2)).replace(second=0, microsecond=0)
        quiet = rule("failure", quiet_from=f"{now - timedelta(hours=1):%H:%M}", quiet_until=f"{until:%H:%M}")
        await begun(c, client, ("quiet", quiet), ("few", rule("failure", hourly_max=2, title="few @{event.execution}")))
        await failed(client, "a", "b", "c")
        await asyncio.sleep(120)
        assert sorted(titles()) == ["few a", "few b"]
        await asyncio.sleep(3 * 3_600)
        assert sorted(titles()) == [*(f"fails {id} has failed" for id in "abc"), *(f"few {id}" for id in "abc")]
        assert all(at_s >= until.timestamp() for text, at_s in sent if text.startswith("fails"))

    told()


@pytest.mark.prove
@pytest.mark.usefixtures("caught")
def test_what_does_not_arrive_is_sent_again_and_what_is_refused_is_not() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        await begun(c, client, ("all", rule("failure")))
        trouble.extend([OSError("down"), OSError("down"), OSError("down")])
        await failed(client, "a")
        await asyncio.sleep(600)
        assert titles() == ["fails a has failed"]
        trouble.append(NotificationRefused("410"))
        await failed(client, "b")
        await asyncio.sleep(86_400)
        assert titles() == ["fails a has failed"]
        statuses = {head.status for head in await c.store.heads(HeadFilter(workflow=NOTIFICATION_WORKFLOW))}
        assert statuses == {"completed", "failed"}, "a notification that failed is there to be seen, and is nothing that people are notified of"

    told()


@pytest.mark.usefixtures("caught")
def test_after_a_crash_nobody_is_told_twice_and_a_removed_rule_tells_nothing() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        await begun(c, client, ("all", rule("failure")))
        for id in "abc":
            await failed(client, id)
            await asyncio.sleep(5)
            await c.processes[-1].kill()
            await c.engine(asks, fails, built_in=SERVICE_WORKFLOWS)
            await asyncio.sleep(120)
        assert sorted(titles()) == [f"fails {id} has failed" for id in "abc"]
        await client.people.remove_notification_rule("all")
        await failed(client, "d")
        await asyncio.sleep(120)
        assert len(sent) == 3 and await client.people.notification_rules() == []
        await client.people.save_notification_rule("all", rule("failure"))
        await asyncio.sleep(30)
        await failed(client, "e")
        await asyncio.sleep(60)
        assert titles()[-1] == "fails e has failed"
        assert len(await c.store.heads(HeadFilter(workflow=NOTICES_WORKFLOW))) == 1

    told()


@virtually
async def test_rules_have_names_and_versions(c: Cluster, client: AsyncClient) -> None:
    saved = await client.people.save_notification_rule("a", rule())
    assert saved.version == 1 and (await client.people.notification_rule("a")).rule == rule()
    with pytest.raises(StaleRecord):
        await client.people.save_notification_rule("a", rule("failure"), revision=5)
    with pytest.raises(StaleRecord):
        await client.people.remove_notification_rule("a", revision=5)
    with pytest.raises(NotFound):
        await client.people.notification_rule("a", tenant="other")
    assert [one.name for one in await client.people.notification_rules()] == ["a"]


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("a b", {}),
    ("x" * 65, {}),
    ("a", {"kinds": ()}),
    ("a", {"kinds": ("proposal",)}),
    ("a", {"channel": "app", "target": "https://example.com"}),
    ("a", {"surge_above": -1}),
    ("a", {"surge_above": 1_001}),
    ("a", {"surge_s": 1.0}),
    ("a", {"target": "ftp://example.com"}),
    ("a", {"target": "https://"}),
    ("a", {"target": ""}),
    ("a", {"secret": ""}),
    ("a", {"channel": "smtp", "target": "nobody"}),
    ("a", {"channel": "smtp", "target": "a@b.c\r\nBcc: d@e.f"}),
    ("a", {"channel": "smtp", "target": "", "kinds": ("failure",)}),
    ("a", {"group_s": -1.0}),
    ("a", {"group_s": 1e9}),
    ("a", {"hourly_max": -1}),
    ("a", {"quiet_from": "22:00"}),
    ("a", {"quiet_from": "22:00", "quiet_until": "25:00"}),
    ("a", {"zone": "Mars/Olympus"}),
    ("a", {"zone": "../../etc/passwd"}),
    ("a", {"body": "x" * 10_001}),
    ("a", {"title": "@{event.nothing}"}),
]


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_a_rule_that_is_not_valid_is_refused(name: str, wrong: dict[str, Any]) -> None:
    @virtually
    async def refused(c: Cluster, client: AsyncClient) -> None:
        with pytest.raises((BadName, BadValue)):
            await client.people.save_notification_rule(name, rule(**{"kinds": ("failure",), **wrong}) if "kinds" not in wrong else rule(**wrong))
        assert await client.people.notification_rules() == []

    refused()


def test_quiet_hours_end_where_they_are() -> None:
    night = rule(quiet_from="22:00", quiet_until="07:00", zone="Europe/Berlin")
    at = datetime(2026, 1, 10, 23, 30, tzinfo=UTC)
    assert quiet_until(night, at.timestamp()) == datetime(2026, 1, 11, 6, 0, tzinfo=UTC).timestamp()
    assert quiet_until(night, datetime(2026, 1, 10, 21, 30, tzinfo=UTC).timestamp()) == datetime(2026, 1, 11, 6, 0, tzinfo=UTC).timestamp()
    assert quiet_until(night, datetime(2026, 1, 10, 20, 30, tzinfo=UTC).timestamp()) is None
    assert quiet_until(rule(), at.timestamp()) is None


def test_an_email_has_one_line_of_title_and_one_id_in_every_attempt() -> None:
    one = OutgoingNotification("n1", "Pay?\r\nBcc: eve@example.com", "text", [])
    message = email_of("flows@example.com", ["ada@example.com"], one)
    assert message["Subject"] == "Pay? Bcc: eve@example.com" and message["Bcc"] is None
    assert message["Message-ID"] == email_of("flows@example.com", ["ada@example.com"], one)["Message-ID"]


@pytest.mark.parametrize("target", ["http://[::1", "http://", "http://host:port/", "https://host:99999/", "ftp://host", "http://a b", "host/path"])
def test_a_rule_needs_a_url_that_can_be_called(target: str) -> None:
    with pytest.raises(BadValue, match="the URL of a webhook"):
        check_rule("r", NotificationRule(kinds=("failure",), channel="webhook", target=target, secret="HOOK"))
    check_rule("r", NotificationRule(kinds=("failure",), channel="webhook", target="https://[::1]:8080/hook?a=b", secret="HOOK"))


def test_a_rule_takes_the_addresses_that_people_may_have() -> None:
    for wrong in ("a@" + "b" * 400, "no address", "a@b, c@d@e"):
        with pytest.raises(BadValue, match="addresses of e-mail"):
            check_rule("r", NotificationRule(kinds=("failure",), channel="smtp", target=wrong))
    check_rule("r", NotificationRule(kinds=("failure",), channel="smtp", target="ada@example.com, bob@example.com"))


@pytest.mark.parametrize("text", ["", "smtp://", "http://a?from=a@b", "smtp://host", "smtp://user:secret@host?from=x", "smtp://h:x?from=a"])
def test_a_server_of_email_that_is_not_valid_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(BadValue) as refused:
        smtp_server(text)
    assert "secret" not in str(refused.value)


# Real servers


class Mailbox:
    """What a server of e-mail receives. It refuses the first so many for now."""

    def __init__(self, refusals: int) -> None:
        self.left, self.received = refusals, list[tuple[list[str], str]]()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # as aiosmtpd calls it
        if self.left:
            self.left -= 1
            return "451 try again later"
        self.received.append((envelope.rcpt_tos, envelope.content.decode()))
        return "250 taken"


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    box = Mailbox(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    monkeypatch.setenv("PERDURE_SMTP_URL", f"smtp://127.0.0.1:{port}?from=flows@example.com")
    yield box
    controller.stop()


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


async def looked(app: App) -> None:
    """Waits until events have been looked for, after which they are for the rules that there are."""
    async with asyncio.timeout(30):
        while {one.status for one in await app.client.access.store.heads(HeadFilter(workflow=NOTICES_WORKFLOW))} != {"waiting"}:
            await asyncio.sleep(0.02)


def retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a delivery that failed be tried again without the usual wait."""
    soon = msgspec.structs.replace(notification_workflow._deliver.rule, wait_s=0.05)
    monkeypatch.setitem(vars(notification_workflow._deliver), "rule", soon)


@pytest.mark.slow
async def test_assignees_get_an_email_at_their_address_unless_they_have_unsubscribed(tmp_path: Path, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice_finder, "LOOK_S", 0.05)
    retry_soon(monkeypatch)
    monkeypatch.setenv("PERDURE_PUBLIC_URL", "https://flows.example.com")
    monkeypatch.setenv("PERDURE_SIGNING_SECRET", "the secret of this year")
    async with App([asks], db=f"sqlite:///{tmp_path}/mail.db") as app, AsyncClient(app.client.access.store) as client:
        begin = datetime.now(UTC) - timedelta(hours=1)
        await client.people.save_person("ada", email="ada@example.com", out_from=begin, substitute="bob")
        await client.people.save_person("bob", email="bob@example.com")
        await client.people.save_person("eve", email="eve@example.com", unsubscribed=["asked"])
        await client.people.save_notification_rule("mail", NotificationRule(kinds=("asked",), channel="smtp", body="@{event.text} @{event.link}"))
        await looked(app)
        await client.start(asks.with_(id="a"), "Zahlen, bitte: 17 €?", ["ada", "eve", "carl", "group:ops"])
        await until(lambda: len(mailbox.received) == 2)
    assert sorted(to for to, _ in mailbox.received) == [["ada@example.com"], ["bob@example.com"]]
    assert all("/invoices/17" in text and "Auto-Submitted: auto-generated" in text for _, text in mailbox.received)
    assert all("List-Unsubscribe-Post: List-Unsubscribe=One-Click" in text for _, text in mailbox.received)


@pytest.mark.slow
async def test_a_request_is_signed_as_standard_webhooks_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[tuple[dict[str, str], bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(503 if len(received) == 1 else 204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(notice_finder, "LOOK_S", 0.05)
    retry_soon(monkeypatch)
    monkeypatch.setenv("PERDURE_SECRET_HOOK", KEY)
    async with App([fails], db=f"sqlite:///{tmp_path}/hook.db") as app, AsyncClient(app.client.access.store) as client:
        await client.people.save_notification_rule("hook", rule("failure", target=f"http://127.0.0.1:{server.server_port}/hook"))
        await looked(app)
        await failed(client, "f")
        await until(lambda: len(received) == 2)
        now_s = (await app.client.access.store.store_time()).now_s
    server.shutdown()
    server.server_close()
    assert len({headers["webhook-id"] for headers, _ in received}) == 1, "each attempt has the same id"
    for headers, body in received:
        how = Verification(scheme="standard_webhooks", secrets=("HOOK",))
        assert verify(how, [KEY], SignedRequest(headers, body), now_s).refused == ""
    assert json.loads(received[-1][1])["title"] == "fails f has failed"
