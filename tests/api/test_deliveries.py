"""Claims about the deliveries of webhooks, as people see them: what was accepted and rejected, and replays."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.core import values
from perdure.core.paths import Key
from perdure.service.triggers.webhook_deliveries import BODY_BYTES_MAX
from perdure.stores.protocol import ALL_HEADS
from tests.api.api_setup import Answer
from tests.api.webhook_setup import SECRET, Hooks, hooks_in_process, how


@pytest.fixture
async def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hooks]:
    """A service whose default tenant has the secret HOOK."""
    monkeypatch.setenv("PERDURE_SECRET_HOOK", SECRET)
    async with hooks_in_process(tmp_path) as found:
        yield found


async def asked(hooks: Hooks, method: str, trigger: Any, path: str = "", body: Any = None, role: Any = "operator") -> Answer:
    """The answer to a request about the deliveries of a trigger."""
    return await hooks.by(await hooks.key(role, "viewer"), method, f"/api/triggers/{trigger['id']}/deliveries{path}", body)


async def result_of(hooks: Hooks, execution: str) -> Any:
    """The result of an execution of `take`."""
    return values.decode(await hooks.app.access.result(Key("default", "take", execution)), Any, "the result")["got"]


async def test_deliveries_are_listed_newest_first_and_in_pages(hooks: Hooks) -> None:
    trigger, other = await hooks.trigger(), await hooks.trigger(path="other")
    sent = [await hooks.send(trigger, {"n": n}, x_delivery_id=f"d{n}", x_event_type="made") for n in range(5)]
    _ = await hooks.send(other, {}, x_delivery_id="d0")
    page = (await asked(hooks, "GET", trigger, "?limit=3")).json
    rest = (await asked(hooks, "GET", trigger, f"?limit=3&after={page['next']}")).json
    assert [one["id"] for one in page["items"] + rest["items"]] == [one.json["delivery"] for one in reversed(sent)]
    assert [one["senderId"] for one in page["items"]] == ["d4", "d3", "d2"] and rest["next"] is None
    (first,) = [one for one in rest["items"] if one["senderId"] == "d0"]
    assert (first["executionId"], first["event"], first["secret"], first["bodyBytes"]) == (sent[0].json["executionId"], "made", "HOOK", 8)
    assert first["headers"]["x-signature"] == "***" and first["body"] is None
    assert len((await asked(hooks, "GET", other)).json["items"]) == 1


async def test_a_delivery_is_shown_with_its_body(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    text = await hooks.send(trigger, {"a": "é"})
    image = await hooks.send(trigger, b"\x89PNG", content_type="image/png")
    large = await hooks.send(trigger, b'"' + b"x" * BODY_BYTES_MAX + b'"')
    shown = [(await asked(hooks, "GET", trigger, f"/{one.json['delivery']}")).json for one in (text, image, large)]
    assert (shown[0]["body"], shown[0]["bodyEncoding"]) == ('{"a": "\\u00e9"}', "text")
    assert (base64.b64decode(shown[1]["body"]), shown[1]["bodyEncoding"]) == (b"\x89PNG", "base64")
    assert (shown[2]["body"], shown[2]["bodyEncoding"], shown[2]["bodyBytes"]) == (None, "", BODY_BYTES_MAX + 2)


async def test_deliveries_are_found_by_event_time_and_what_became_of_their_execution(hooks: Hooks) -> None:
    trigger = await hooks.trigger("add", mapping={"a": "$.a"}, respond="result")
    for n in (1, -1, 2):
        _ = await hooks.send(trigger, {"a": n}, x_event_type="odd" if n % 2 else "even")

    async def found(query: str) -> int:
        answer = await asked(hooks, "GET", trigger, f"?{query}")
        assert answer.status == 200, answer
        return len(answer.json["items"])

    assert [await found(one) for one in ("", "event=odd", "event=none", "status=failed", "status=completed")] == [3, 2, 0, 1, 2]
    assert [await found(one) for one in ("since=1h", "until=1h", "since=1h&until=0s", "since=2020-01-01T00:00:00Z", "until=2020-01-01T00:00:00Z")] == [
        3,
        0,
        3,
        3,
        0,
    ]


async def test_those_that_were_rejected_are_listed_beside(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    assert (await hooks.send(trigger, {}, secret="wrong")).status == 401
    page = (await asked(hooks, "GET", trigger)).json
    assert (page["items"], page["rejected"]) == ([], 1)
    (rejected,) = page["lastRejected"]
    assert (rejected["status"], rejected["code"], rejected["address"]) == (401, "not_verified", "192.0.2.7")
    assert rejected["receivedAt"].startswith("20") and rejected["headers"]["x-signature"] == "***"


async def test_a_replay_starts_a_new_execution_with_what_was_received(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    sent = await hooks.send(trigger, b"a=1&a=2", query="q=3", content_type="application/x-www-form-urlencoded")
    path = f"/{sent.json['delivery']}/replay"
    again = await asked(hooks, "POST", trigger, path, {})
    assert again.status == 201 and again.json["executionId"].startswith(f"replay:{trigger['id']}:{sent.json['delivery']}:")
    assert await result_of(hooks, sent.json["executionId"]) == await result_of(hooks, again.json["executionId"]) == {"a": ["1", "2"], "query": {"q": "3"}}
    twice = [(await asked(hooks, "POST", trigger, path, {"clientRequestId": "r1"})).json for _ in range(2)]
    assert [one["created"] for one in twice] == [True, False] and twice[0]["executionId"] == twice[1]["executionId"] != again.json["executionId"]


async def test_a_replay_is_by_the_trigger_as_it_is_now(hooks: Hooks) -> None:
    trigger = await hooks.trigger(mapping={"payload": "$.old"})
    sent = await hooks.send(trigger, {"old": 1, "new": 2})
    changed = await hooks.by(await hooks.key("author"), "PATCH", f"/api/triggers/{trigger['id']}", {"variableMapping": {"payload": "$.new"}, "enabled": False})
    assert changed.status == 200, changed
    again = await asked(hooks, "POST", trigger, f"/{sent.json['delivery']}/replay", {})
    assert [await result_of(hooks, one.json["executionId"]) for one in (sent, again)] == [1, 2]


async def test_a_body_that_was_not_kept_is_not_replayed(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    large = await hooks.send(trigger, b'"' + b"x" * BODY_BYTES_MAX + b'"')
    refused = await asked(hooks, "POST", trigger, f"/{large.json['delivery']}/replay", {})
    assert refused.status == 422 and "65,536" in refused.json["detail"]
    counted = (await asked(hooks, "POST", trigger, "/replay", {})).json
    assert (counted["matching"], counted["leftOut"]) == (1, [large.json["delivery"]])


async def test_many_are_replayed_only_as_counted(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    for n in range(4):
        _ = await hooks.send(trigger, {"n": n}, x_event_type="odd" if n % 2 else "even")
    counted = (await asked(hooks, "POST", trigger, "/replay", {"event": "odd"})).json
    assert (counted["matching"], counted["applied"], counted["started"]) == (2, False, [])
    assert (await asked(hooks, "POST", trigger, "/replay", {"event": "odd", "expect": 4})).status == 422
    assert len(await hooks.store.heads(ALL_HEADS)) == 4
    done = [(await asked(hooks, "POST", trigger, "/replay", {"event": "odd", "expect": 2, "clientRequestId": "r"})).json for _ in range(2)]
    assert [await result_of(hooks, one["executionId"]) for one in done[0]["started"]] == [{"n": 1}, {"n": 3}]  # the oldest first
    assert [one["created"] for one in done[0]["started"] + done[1]["started"]] == [True, True, False, False]
    assert len(await hooks.store.heads(ALL_HEADS)) == 6


async def test_only_operators_replay_and_only_their_own(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    sent = await hooks.send(trigger, {})
    path = f"/{sent.json['delivery']}"
    assert (await asked(hooks, "POST", trigger, f"{path}/replay", {}, role="viewer")).status == 403
    for method, place in (("GET", ""), ("GET", path), ("POST", f"{path}/replay"), ("POST", "/replay")):
        key = await hooks.key("admin", tenant="acme")
        assert (await hooks.by(key, method, f"/api/triggers/{trigger['id']}/deliveries{place}", {} if method == "POST" else None)).status == 404


async def test_a_trigger_of_another_kind_has_no_deliveries(hooks: Hooks) -> None:
    made = await hooks.by(await hooks.key("author"), "POST", "/api/triggers", {"name": "by hand", "config": {"type": "manual"}, "workflowId": "take"})
    assert (await asked(hooks, "GET", made.json)).status == 422
    assert (await asked(hooks, "GET", {"id": "none"})).status == 404
    trigger = await hooks.trigger()
    for wrong in ("x", "../x", "%00", "x" * 2_000):
        assert (await asked(hooks, "GET", trigger, f"/{wrong.replace('/', '%2F')}")).status in (400, 404), wrong


async def test_a_client_reads_and_replays_deliveries(hooks: Hooks) -> None:
    from perdure.async_triggers import AsyncTriggers

    triggers, trigger = AsyncTriggers(hooks.app.access), await hooks.trigger(verify=how("github"))
    sent = await hooks.send(trigger, {"a": 1}, how("github"), x_github_event="push", x_github_delivery="g1")
    page = await triggers.deliveries(trigger["id"], since="1h", event="push")
    assert [(one.id, one.sender_id) for one in page.items] == [(sent.json["delivery"], "g1")]
    shown = await triggers.delivery(trigger["id"], sent.json["delivery"])
    assert msgspec.json.decode(shown.body or "") == {"a": 1}
    again = await triggers.replay(trigger["id"], shown.id)
    assert await result_of(hooks, again.execution_id) == {"a": 1}
    assert (await triggers.replay_many(trigger["id"], until="0s")).matching == 1


async def test_a_sample_is_signed_on_the_server_received_like_any_other_and_no_secret_is_shown(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    key = await hooks.key("operator", "viewer")
    path = f"/api/triggers/{trigger['id']}/sample-delivery"
    sent = await hooks.by(key, "POST", path, {"body": '{"n": 1}', "event": "made", "deliveryId": "s1"})
    assert (sent.status, sent.json["verdict"], sent.json["senderId"]) == (200, "accepted", "s1"), sent
    assert sent.json["headers"]["x-signature"] == "***" and SECRET.encode() not in sent.body
    assert await result_of(hooks, sent.json["execution"]["id"]) == {"n": 1}
    (listed,) = (await asked(hooks, "GET", trigger)).json["items"]
    assert (listed["id"], listed["secret"], listed["address"], listed["event"]) == (sent.json["delivery"], "HOOK", "sample", "made")
    assert (await hooks.by(key, "POST", path, {"body": '{"n": 1}', "deliveryId": "s1"})).json["verdict"] == "known"
    rejected = (await hooks.by(key, "POST", path, {"body": "{"})).json
    assert (rejected["verdict"], rejected["code"], rejected["execution"]) == ("rejected", "unreadable", None)
    assert (await hooks.by(await hooks.key("viewer"), "POST", path, {})).status == 403


@pytest.mark.parametrize("scheme", ["github", "stripe", "slack", "standard_webhooks", "generic", "bearer"])
async def test_a_sample_is_accepted_by_every_scheme(hooks: Hooks, scheme: Any) -> None:
    trigger = await hooks.trigger(verify=how(scheme))
    sent = await hooks.by(await hooks.key("operator"), "POST", f"/api/triggers/{trigger['id']}/sample-delivery", {"event": "push"})
    assert (sent.status, sent.json.get("verdict")) == (200, "accepted"), sent


async def test_a_sample_of_a_trigger_that_is_disabled_or_without_its_secret_is_refused(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    trigger, key = await hooks.trigger(), await hooks.key("operator")
    path = f"/api/triggers/{trigger['id']}/sample-delivery"
    monkeypatch.delenv("PERDURE_SECRET_HOOK")
    missing = await hooks.by(key, "POST", path, {})
    assert missing.status == 422 and "perdure secret set HOOK" in missing.json["detail"]
    assert (await hooks.by(key, "POST", f"/api/triggers/{trigger['id']}/disable", {})).status == 200
    assert (await hooks.by(key, "POST", path, {})).status == 422
