"""What the commands of webhooks do: they send signed deliveries to a server, show what was received, and replay it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from click.testing import CliRunner, Result

from perdure import App
from perdure.cli import webhook_commands
from perdure.cli.command_list import root
from perdure.service.triggers.trigger_records import Verification, VerificationScheme, WebhookConfig
from tests.api.api_setup import api_on_a_port
from tests.api.webhook_setup import HOOKED, SECRET, how


class Served(NamedTuple):
    """An App with webhooks, and the URL of its server."""

    app: App
    url: str
    db: str

    async def trigger(self, verify: Verification, path: str = "in", **more: Any) -> str:
        """The id of a new webhook."""
        made = await self.app.client.triggers.create("hook", WebhookConfig(path=path, verify=verify, **more), "take")
        return made.id

    async def on_server(self, *words: str, stdin: str = "") -> Result:
        """What a command with the server says."""
        return await asyncio.to_thread(CliRunner().invoke, root, [*words, "--server", self.url], prog_name="perdure", input=stdin)


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server whose default tenant has the secret HOOK."""
    monkeypatch.setenv("PERDURE_SECRET_HOOK", SECRET)
    monkeypatch.chdir(tmp_path)
    db = f"sqlite:///{tmp_path}/app.db"
    async with App(HOOKED, db=db) as app, api_on_a_port(app.client.access) as url:
        yield Served(app, url, db)


def test_the_schemes_of_the_option_are_all() -> None:
    assert get_args(VerificationScheme) == webhook_commands.SCHEMES


@pytest.mark.parametrize("scheme", get_args(VerificationScheme))
async def test_a_delivery_is_sent_as_its_trigger_expects_it(served: Served, scheme: Any) -> None:
    trigger = await served.trigger(how(scheme))
    said = await served.on_server("webhook", "send", trigger, "--file", "-", "--event", "made", "--id", "d1", stdin='{"id": "evt_1", "event_id": "Ev1"}')
    assert (said.exit_code, said.stdout.splitlines()[0]) == (0, "202 Accepted"), said.output
    again = await served.on_server("webhook", "send", trigger, "--file", "-", "--id", "d1", "--json", stdin='{"id": "evt_1", "event_id": "Ev1"}')
    assert json.loads(again.stdout)["status"] == 200
    listed = await served.on_server("webhook", "deliveries", trigger, "--json")
    (one,) = json.loads(listed.stdout)["items"]
    assert one["sender_id"] == {"stripe": "evt_1", "slack": "Ev1"}.get(scheme, "d1")


async def test_a_delivery_is_sent_to_a_url(served: Served, tmp_path: Path) -> None:
    _ = await served.trigger(how("github"))
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    to = f"{served.url}/webhooks/in"
    sent = await served.on_server("webhook", "send", to, "--scheme", "github", "--secret-file", "secret", "--event", "push")
    assert (sent.exit_code, sent.stdout[:3]) == (0, "202")
    named = await served.on_server("webhook", "send", to, "--scheme", "github", "--secret-name", "HOOK", "--event", "ping")
    assert (named.exit_code, named.stdout) == (0, '200 OK\n{"pong":true}\n')
    refused = await served.on_server("webhook", "send", to)
    assert (refused.exit_code, refused.stdout[:16]) == (46, "401 Unauthorized")
    for words, code, message in (
        ((to, "--scheme", "github"), 20, "pass --secret-name or --secret-file"),
        ((to, "--scheme", "github", "--secret-name", "ABSENT"), 10, "there is no secret ABSENT here"),
        ((to, "--secret-name", "HOOK"), 20, "name it with --scheme"),
        ((to, "--secret-file", "secret", "--scheme", "none"), 20, "name it with --scheme"),
        ((to, "--to", served.url), 20, "a URL names the server itself"),
        ((to, "--header", "nonsense"), 20, "write it as 'NAME: VALUE', in ASCII"),
        ((to, "--header", "X-More: é"), 20, "write it as 'NAME: VALUE', in ASCII"),
        ((to, "--header", "X-More: a\r\nX: b"), 20, "write it as 'NAME: VALUE', in ASCII"),
        (("http://127.0.0.1:9/x",), 50, "did not answer"),
        (("none",), 10, "there is no trigger 'none'"),
    ):
        said = await served.on_server("webhook", "send", *words)
        assert (said.exit_code, message in said.stderr) == (code, True), (words, said.output)


async def test_what_was_received_is_listed_shown_and_replayed(served: Served) -> None:
    trigger = await served.trigger(how("github"))
    none = await served.on_server("webhook", "deliveries", trigger)
    assert (none.exit_code, "there are no such deliveries" in none.stderr) == (0, True)
    for number in range(3):
        words = ("--event", "push" if number else "release", "--file", "-", "--id", f"g{number}", "--header", "X-More: 1")
        assert (await served.on_server("webhook", "send", trigger, *words, stdin=json.dumps({"n": number}))).exit_code == 0
    _ = await served.on_server("webhook", "send", f"{served.url}/webhooks/in")
    listed = await served.on_server("webhook", "deliveries", trigger, "--event", "push", "--since", "1h")
    assert listed.exit_code == 0 and listed.stdout.count(f"take/webhook:{trigger}:g") == 2
    assert "1 delivery rejected" in listed.stderr and "not_verified: the header x-hub-signature-256 is missing" in listed.stderr
    ids = (await served.on_server("webhook", "deliveries", trigger, "-o", "ids")).stdout.split()
    shown = await served.on_server("webhook", "deliveries", trigger, ids[-1])
    assert '{"n": 0}' in shown.stdout and "x-hub-signature-256: ***" in shown.stdout and "secret    HOOK" in shown.stdout
    one = await served.on_server("webhook", "replay", trigger, ids[0])
    assert (one.exit_code, one.stdout.startswith("take/replay")) == (0, True), one.output
    counted = await served.on_server("webhook", "replay", trigger, "--event", "push")
    assert (counted.exit_code, counted.stdout) == (0, "") and "2 deliveries match; nothing was started; --expect 2 replays them" in counted.stderr
    done = await served.on_server("webhook", "replay", trigger, "--event", "push", "--expect", "2")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 2) and "2 executions started" in done.stderr
    for idle in (("deliveries", "--event", "push", "--limit", "50"), ("replay", "--since", "1h", "--expect", "1")):
        said = await served.on_server("webhook", idle[0], trigger, ids[0], *idle[1:])
        assert (said.exit_code, f"a DELIVERY is one; leave {idle[1]}, {idle[3]} out" in said.stderr) == (20, True), said.output
    wrong = await served.on_server("webhook", "replay", trigger, "--expect", "9")
    assert (wrong.exit_code, "3, the number of deliveries that match" in wrong.stderr) == (10, True)


async def test_a_trigger_that_verifies_nothing_takes_no_secret(served: Served) -> None:
    trigger = await served.trigger(how("none"))
    assert (await served.on_server("webhook", "send", trigger)).exit_code == 0
    said = await served.on_server("webhook", "send", trigger, "--secret-name", "HOOK")
    assert (said.exit_code, "the trigger has the scheme none" in said.stderr) == (20, True), said.output


async def test_on_a_database_what_was_accepted_is_shown_and_sending_needs_an_address(served: Served) -> None:
    trigger = await served.trigger(how("github"))
    assert (await served.on_server("webhook", "send", trigger, "--event", "push")).exit_code == 0

    async def on_database(*words: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, root, ["--db", served.db, *words], prog_name="perdure")

    assert "push" in (await on_database("webhook", "deliveries", trigger)).stdout
    unaddressed = await on_database("webhook", "send", trigger)
    assert (unaddressed.exit_code, "a database has no address" in unaddressed.stderr) == (10, True)
    assert (await on_database("webhook", "send", trigger, "--to", served.url)).exit_code == 0
