"""Real payloads of GitHub, Stripe and Slack, signed as these sign, start definitions that use them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from perdure.stores.protocol import ALL_HEADS
from tests.api.api_setup import Answer
from tests.api.webhook_setup import SECRET, Hooks, hooks_in_process, how

DATA = Path(__file__).parents[3] / "shared/data/webhooks"

pytestmark = [pytest.mark.real, pytest.mark.skipif(not DATA.exists(), reason="the payloads are not at hand")]


def definition(name: str, scheme: str, inputs: dict[str, str], more: dict[str, Any] | None = None) -> dict[str, Any]:
    """A definition whose webhook maps the payload to its inputs, and that returns them."""
    webhook = {"path": name, "verify": {"scheme": scheme, "secret": "@secrets.HOOK"}, "map": inputs}
    return {
        "perdure": 1,
        "name": name,
        "input": {one: {} for one in (*inputs, *(more or {}))},
        "triggers": [{"name": "sender", "webhook": webhook, **({"with": more} if more else {})}],
        "steps": [{"id": "seen", "set": {"seen": "@input"}}],
        "output": "@input",
    }


PULL = {"number": "$.pull_request.number", "by": "$.pull_request.user.login", "repository": "$.repository.full_name", "labels": "$.pull_request.labels[*].name"}
RUN = {"result": "$.workflow_run.conclusion", "workflow": "$.workflow_run.name"}
LABEL = {"label": "$.label.name"}
EVENT = {"event": "@trigger.about.event"}
INVOICE = {"invoice": "$.data.object.id", "due": "$.data.object.amount_due", "currency": "$.data.object.currency"}
MENTION = {"kind": "$.event.type", "blocks": "$.event.blocks.length()"}
CASES: dict[str, tuple[str, str, dict[str, str], dict[str, Any]]] = {
    "pull": ("github", "github/pull_request.opened.json", PULL, EVENT),
    "run": ("github", "github/workflow_run.completed.json", RUN, EVENT),
    "label": ("github", "github/label.created.json", LABEL, EVENT),
    "refund": ("stripe", "stripe/charge.refunded.json", {"refund": "$.data.object.id", "amount": "$.data.object.amount"}, EVENT),
    "invoice": ("stripe", "stripe/invoice.paid.json", INVOICE, EVENT),
    "mention": ("slack", "slack/AppMentionPayload.json", MENTION, EVENT),
    "said": ("slack", "slack/MessagePayload.json", {"kind": "$.event.type"}, EVENT),
}


@pytest.fixture
async def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hooks]:
    """A service with all definitions."""
    monkeypatch.setenv("PERDURE_SECRET_HOOK", SECRET)
    async with hooks_in_process(tmp_path) as found:
        key = await found.key("author")
        for name, (scheme, _, inputs, more) in CASES.items():
            made = await found.by(key, "POST", "/api/workflows", {"document": definition(name, scheme, inputs, more)})
            assert made.status in (200, 201), made
        yield found


async def sent(hooks: Hooks, name: str, body: bytes, **more: Any) -> Answer:
    """The answer to a payload that is sent as its sender does."""
    scheme, file = CASES[name][:2]
    github = {"x_github_event": Path(file).name.partition(".")[0], "x_github_delivery": f"{name}-1"} if scheme == "github" else {}
    return await hooks.send({"webhookUrl": f"/webhooks/{name}"}, body, how(scheme), **github, **more)  # type: ignore[arg-type]  # the schemes of the cases


def at(payload: Any, path: str) -> Any:
    """What a path of a case means, written by hand."""
    found = payload
    for part in path.removeprefix("$.").split("."):
        if part == "length()":
            return len(found)
        if part.endswith("[*]"):
            return [one["name"] for one in found[part[:-3]]]
        found = found[part]
    return found


@pytest.mark.parametrize("name", CASES)
async def test_a_real_payload_starts_its_definition_once_with_what_the_mapping_finds(hooks: Hooks, name: str) -> None:
    scheme, file, inputs, _ = CASES[name]
    body = (DATA / file).read_bytes()
    payload = json.loads(body)
    first = await sent(hooks, name, body)
    assert (first.status, first.json["workflow"]) == (202, name), first
    key = await hooks.key("viewer")
    result = (await hooks.by(key, "GET", f"/api/executions/{name}/{quote(first.json['executionId'], safe='')}/result?waitSeconds=10")).json["value"]
    event = {"github": Path(file).name.partition(".")[0], "stripe": payload.get("type"), "slack": payload.get("event", {}).get("type")}[scheme]
    expected = {one: at(payload, path) for one, path in inputs.items()}
    assert result == {**expected, "event": event} and all(one not in (None, []) or name == "pull" for one in expected.values())
    assert ((await sent(hooks, name, body)).status, len(await hooks.store.heads(ALL_HEADS))) == (200, 1)
    other = body.replace(b"{", b"{ ", 1)
    assert (await hooks.send({"webhookUrl": f"/webhooks/{name}"}, other, how(scheme), secret="c2VjcmV0")).status == 401  # type: ignore[arg-type]  # the same


@pytest.mark.parametrize("name", ["pull", "mention"])
async def test_a_real_payload_may_come_as_a_form(hooks: Hooks, name: str) -> None:
    body = (DATA / CASES[name][1]).read_bytes()
    form = urlencode({"payload": body.decode()}).encode()
    first = await sent(hooks, name, form, content_type="application/x-www-form-urlencoded")
    assert first.status == 202, first
    shown = await hooks.by(await hooks.key("viewer"), "GET", f"/api/triggers/{name}:sender/deliveries/{first.json['delivery']}")
    assert shown.json["body"].encode() == form


async def test_the_real_ping_of_github_starts_nothing(hooks: Hooks) -> None:
    body = (DATA / "github/ping.with-organization.json").read_bytes()
    answer = await hooks.send({"webhookUrl": "/webhooks/pull"}, body, how("github"), x_github_event="ping")
    assert (answer.status, answer.json, await hooks.store.heads(ALL_HEADS)) == (200, {"pong": True}, [])
