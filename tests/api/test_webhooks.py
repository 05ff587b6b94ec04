"""Claims about webhooks: what is accepted starts an execution once, and everything else is refused at its place in the order of checks."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import pytest

import perdure.api
from perdure import App
from perdure.api.webhook_routes import BODY_BYTES_MAX
from perdure.service.secrets.vault_client import VaultClient, secret_keys
from perdure.service.triggers.trigger_records import Verification, VerificationScheme
from perdure.service.triggers.webhook_deliveries import REJECTED_KEPT
from perdure.stores.encryption import new_key
from perdure.stores.protocol import ALL_HEADS
from perdure.stores.secret_vault import VAULT
from tests.api.api_setup import Answer
from tests.api.webhook_setup import HOOKED, SECRET, Hooks, hooks_in_process, how, opened, received, working

SUM: dict[str, Any] = {
    "perdure": 1,
    "name": "sum",
    "input": {"a": {"type": "integer"}, "event": {"type": "string", "default": ""}},
    "steps": [{"id": "total", "set": {"value": "@input.a"}}],
    "output": "@input",
}


@pytest.fixture
async def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hooks]:
    """A service whose default tenant has the secret HOOK."""
    monkeypatch.setenv("PERDURE_SECRET_HOOK", SECRET)
    async with hooks_in_process(tmp_path) as found:
        yield found


async def result_of(hooks: Hooks, answer: Answer, tenant: str = "default") -> Any:
    """The result of the execution that a delivery has started."""
    key = await hooks.key("viewer", tenant=tenant)
    found = await hooks.by(key, "GET", f"/api/executions/{answer.json['workflow']}/{quoted(answer.json['executionId'])}/result?waitSeconds=5")
    assert found.status == 200, found
    return found.json["value"]


def quoted(text: str) -> str:
    """A segment of a path."""
    from urllib.parse import quote

    return quote(text, safe="")


def refused(answer: Answer) -> tuple[int, str]:
    """The status and the code of an answer."""
    return answer.status, answer.json["code"]


async def count(hooks: Hooks) -> int:
    """How many executions there are."""
    return len(await hooks.store.heads(ALL_HEADS))


# What is accepted


async def test_a_delivery_starts_an_execution_and_its_repetition_finds_it(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    first = await hooks.send(trigger, {"a": 1}, x_delivery_id="d1")
    again = await hooks.send(trigger, {"a": 1}, x_delivery_id="d1")
    other = await hooks.send(trigger, {"a": 1}, x_delivery_id="d2")
    assert (first.status, again.status, other.status) == (202, 200, 202)
    assert first.json["executionId"] == f"webhook:{trigger['id']}:d1" != other.json["executionId"]
    assert again.json == {**first.json, "created": False}
    assert (await hooks.by(await hooks.key("viewer"), "GET", f"/api/triggers/{trigger['id']}")).json["lastExecutionId"] == other.json["executionId"]
    assert await count(hooks) == 2


async def test_without_an_id_equal_requests_are_one_delivery(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    first = await hooks.send(trigger, {"a": 1}, query="x=1&y=2")
    assert (await hooks.send(trigger, {"a": 1}, query="y=2&x=1")).json["executionId"] == first.json["executionId"]
    assert (await hooks.send(trigger, {"a": 1}, query="y=2&x=3")).status == 202
    assert (await hooks.send(trigger, {"a": 2}, query="x=1&y=2")).status == 202


async def test_repetitions_at_the_same_time_start_one_execution(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    answers = await asyncio.gather(*(hooks.send(trigger, {"a": 1}, x_delivery_id="d") for _ in range(20)))
    assert sorted(one.status for one in answers) == [200] * 19 + [202]
    assert len({one.json["executionId"] for one in answers}) == await count(hooks) == 1


@pytest.mark.parametrize("scheme", ["github", "stripe", "slack", "standard_webhooks", "generic", "bearer", "none"])
async def test_each_scheme_is_accepted_from_its_sender_and_refused_from_others(hooks: Hooks, scheme: Any) -> None:
    trigger = await hooks.trigger(verify=how(scheme))
    assert (await hooks.send(trigger, {"a": 1}, how(scheme))).status == 202
    if scheme != "none":
        assert refused(await hooks.send(trigger, {"a": 2}, how(scheme), secret="c2VjcmV0")) == (401, "not_verified")
        assert refused(await hooks.send(trigger, {"a": 2}, how("none"))) == (401, "not_verified")


@pytest.mark.parametrize("scheme", ["bearer", "none"])
async def test_a_webhook_without_a_signature_has_a_path_that_nobody_can_guess(hooks: Hooks, scheme: Any) -> None:
    trigger = await hooks.trigger(verify=how(scheme))
    assert len(trigger["webhookUrl"].rpartition("/")[2]) == 32
    assert (await hooks.send({"webhookUrl": "/webhooks/in"}, {}, how(scheme))).status == 404


async def test_a_definition_is_started_with_what_the_mapping_finds(hooks: Hooks) -> None:
    key = await hooks.key("author", "viewer")
    webhook = {"path": "sum", "verify": {"scheme": "github", "secret": "@secrets.HOOK"}, "map": {"a": "$.order.lines[0].count"}}
    document = {**SUM, "triggers": [{"name": "orders", "webhook": webhook, "with": {"event": "@trigger.about.event"}}]}
    assert (await hooks.by(key, "POST", "/api/workflows", {"document": document})).status == 200
    sent = await hooks.send({"webhookUrl": "/webhooks/sum"}, {"order": {"lines": [{"count": 7}]}}, how("github"), x_github_event="push", x_github_delivery="g")
    assert (sent.status, sent.json["workflow"], sent.json["executionId"]) == (202, "sum", "webhook:sum:orders:g")
    assert await result_of(hooks, sent) == {"a": 7, "event": "push"}


async def test_an_input_that_the_workflow_does_not_take_is_refused_and_its_repetition_too(hooks: Hooks) -> None:
    key = await hooks.key("author")
    assert (await hooks.by(key, "POST", "/api/workflows", {"document": SUM})).status == 200
    trigger = await hooks.trigger("sum", mapping={"a": "$.a"})
    for _ in range(2):
        assert (await hooks.send(trigger, {"a": "seven"}, x_delivery_id="d")).status == 422
        assert (await hooks.send(trigger, {}, x_delivery_id="d")).status == 422
    assert (await hooks.send(trigger, {"a": 7}, x_delivery_id="d")).status == 202
    assert (await hooks.send(trigger, {"a": "seven"}, x_delivery_id="d")).status == 200  # it is known
    assert await count(hooks) == 1


async def test_a_ping_of_github_and_a_challenge_of_slack_are_answered_and_start_nothing(hooks: Hooks) -> None:
    github, slack = await hooks.trigger(verify=how("github"), path="g"), await hooks.trigger(verify=how("slack"), path="s")
    assert (await hooks.send(github, {"zen": "Keep it."}, how("github"), x_github_event="ping")).json == {"pong": True}
    challenge = {"type": "url_verification", "challenge": "3eZbrw", "token": "x"}
    assert (await hooks.send(slack, challenge, how("slack"))).json == {"challenge": "3eZbrw"}
    assert (await hooks.send(slack, challenge, how("slack"), secret="other")).status == 401
    assert await count(hooks) == 0


async def test_a_get_starts_something_only_where_the_trigger_says_so(hooks: Hooks) -> None:
    posted, got = await hooks.trigger(), await hooks.trigger(path="get", method="GET")
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert (await hooks.send(posted, b"", method=method, content_type="")).status == 405, method
    assert await count(hooks) == 0
    assert (await hooks.send(got, b"", method="GET", query="q=1&q=2&r=3", content_type="")).status == 202
    assert (await hooks.send(got, b"", content_type="")).status == 405
    async with asyncio.timeout(5):
        while not received:
            await asyncio.sleep(0)
    assert received == [{"query": {"q": ["1", "2"], "r": "3"}}]


# The result


async def test_with_respond_result_the_answer_is_the_result(hooks: Hooks) -> None:
    trigger = await hooks.trigger("add", respond="result", mapping={"a": "$.a"})
    assert [(one.status, one.json) for one in [await hooks.send(trigger, {"a": 1}, x_delivery_id="d") for _ in range(2)]] == [(200, 2), (200, 2)]


async def test_a_repetition_whose_execution_was_removed_is_answered_with_its_name(hooks: Hooks) -> None:
    trigger = await hooks.trigger("add", respond="result", mapping={"a": "$.a"})
    assert (await hooks.send(trigger, {"a": 1}, x_delivery_id="d")).json == 2
    for forget, left in ((False, 1), (True, 0)):
        pruned = await hooks.by(await hooks.key("admin"), "POST", "/api/upkeep/prune", {"olderThanSeconds": 0, "forgetIds": forget})
        assert (pruned.status, await count(hooks)) == (200, left), pruned
        again = await hooks.send(trigger, {"a": 1}, x_delivery_id="d")
        assert (again.status, again.json["executionId"], again.json["created"]) == (202, f"webhook:{trigger['id']}:d", False)
    assert await count(hooks) == 0


async def test_a_result_that_takes_longer_is_answered_with_the_execution(hooks: Hooks) -> None:
    trigger = await hooks.trigger("greet", respond="result", respondWithinSeconds=0.02, input={}, mapping={"x": "$.never"})
    answer = await hooks.send(trigger, {})
    assert (answer.status, answer.json["workflow"], answer.json["created"]) == (202, "greet", True)


async def test_a_failure_is_answered_without_what_is_inside(hooks: Hooks) -> None:
    trigger = await hooks.trigger("add", respond="result", mapping={"a": "$.a"})
    answer = await hooks.send(trigger, {"a": -1})
    assert refused(answer) == (409, "execution_failed")
    assert b"negative" not in answer.body and b"Traceback" not in answer.body


async def test_a_server_that_stops_answers_with_the_execution_in_place_of_the_result(hooks: Hooks) -> None:
    trigger = await hooks.trigger("greet", respond="result", respondWithinSeconds=60, mapping={"x": "$.never"})
    waiting = asyncio.create_task(hooks.send(trigger, {}))
    async with asyncio.timeout(5):
        while not await count(hooks):
            await asyncio.sleep(0)
    hooks.app.begin_stop()
    assert (await waiting).status == 202


# What is refused


async def test_there_is_no_webhook_at_other_paths(hooks: Hooks) -> None:
    trigger = await hooks.trigger(path="a/b")
    assert (await hooks.send(trigger, {})).status == 202
    for path in ("a", "a/b/c", "a%2Fb", "A/b", "a//b", "", "~/a/b", "~default/x", "~other/a/b", "a/b%00", "%ff", "..%2fa/b", "a/./b", "x" * 3_000):
        answer = await hooks.send({"webhookUrl": f"/webhooks/{path}"}, {})
        assert answer.status in (404, 400), (path, answer)
    assert (await hooks.send({"webhookUrl": "/webhooks/~default/a/b"}, {"other": 1})).status == 202


async def test_a_trigger_that_is_disabled_or_paused_takes_nothing_from_the_next_request_on(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    key = await hooks.key("operator")
    for off, on in (("disable", "enable"), ("pause", "resume")):
        assert (await hooks.send(trigger, {"before": off})).status == 202
        assert (await hooks.by(key, "POST", f"/api/triggers/{trigger['id']}/{off}")).status == 200
        assert refused(await hooks.send(trigger, {"during": off})) == (404, "not_found")
        assert (await hooks.by(key, "POST", f"/api/triggers/{trigger['id']}/{on}")).status == 200
        assert (await hooks.send(trigger, {"during": off})).status == 202


async def test_a_trigger_that_moves_to_another_path_is_no_longer_at_the_first(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    assert (await hooks.send(trigger, {})).status == 202
    key = await hooks.key("author")
    moved = await hooks.by(key, "PATCH", f"/api/triggers/{trigger['id']}", {"config": {**trigger["config"], "path": "elsewhere"}})
    assert (moved.status, moved.json["webhookUrl"]) == (200, "/webhooks/elsewhere"), moved
    assert (await hooks.send(trigger, {"a": 1})).status == 404
    assert (await hooks.send(moved.json, {"a": 1})).status == 202


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(hooks: Hooks) -> None:
    trigger = await hooks.trigger()
    assert refused(await hooks.send(trigger, b"{}", content_length=str(BODY_BYTES_MAX + 1))) == (413, "too_large")
    assert refused(await hooks.send(trigger, b" " * (BODY_BYTES_MAX + 1))) == (413, "too_large")
    assert (await hooks.send({"webhookUrl": "/webhooks/none"}, b"{}", content_length=str(10**9))).status == 404
    assert (await hooks.send(trigger, b"{}", content_encoding="gzip")).status == 415


async def test_a_large_body_is_verified_and_read_as_a_small_one_is(hooks: Hooks) -> None:
    trigger = await hooks.trigger("take", respond="result", mapping={"payload": "$.text.length()"})
    large = json.dumps({"text": "x" * 3_000_000}).encode()
    assert (await hooks.send(trigger, large)).json == {"got": 3_000_000}
    assert (await hooks.send(trigger, large, secret="another")).status == 401
    assert refused(await hooks.send(trigger, large[:-1])) == (400, "unreadable")


async def test_the_checks_come_in_their_order(hooks: Hooks) -> None:
    trigger = await hooks.trigger(headers={"X-Kind": "order"})
    assert (await hooks.send(trigger, b"{", method="PUT", secret="another")).status == 401
    assert (await hooks.send(trigger, b"{", method="PUT")).status == 405
    assert refused(await hooks.send(trigger, b"{")) == (400, "header_missing")
    assert refused(await hooks.send(trigger, b"{", x_kind="other")) == (400, "header_missing")
    assert refused(await hooks.send(trigger, b"{", x_kind="order")) == (400, "unreadable")
    assert (await hooks.send(trigger, b"{}", x_kind="order")).status == 202


async def test_a_request_that_was_recorded_is_refused_later(hooks: Hooks) -> None:
    trigger = await hooks.trigger(verify=how("stripe"))
    now_s = (await hooks.store.store_time()).now_s
    assert (await hooks.send(trigger, {"id": "evt_1"}, how("stripe"), at_s=now_s - 290)).status == 202
    assert (await hooks.send(trigger, {"id": "evt_2"}, how("stripe"), at_s=now_s - 310)).status == 401
    assert (await hooks.send(trigger, {"id": "evt_2"}, how("stripe"), at_s=now_s + 310)).status == 401


async def test_what_is_rejected_is_counted_in_memory_and_never_written(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = await hooks.trigger()
    commits = list[Any]()
    real = hooks.store.commit

    async def commit(changes: Any) -> Any:
        commits.extend(changes)
        return await real(changes)

    monkeypatch.setattr(hooks.store, "commit", commit)
    for number in range(REJECTED_KEPT + 5):
        assert (await hooks.send(trigger, {"number": number}, secret="another", authorization="Bearer s3cret")).status == 401
    assert commits == []
    found = hooks.app.access.rejected_deliveries
    last = found.last("default", trigger["id"])
    assert (found.count("default", trigger["id"]), len(last)) == (REJECTED_KEPT + 5, REJECTED_KEPT)
    assert (last[0].status, last[0].code, last[0].address) == (401, "not_verified", "192.0.2.7")
    assert {last[0].headers["x-signature"], last[0].headers["authorization"]} == {"***"} and last[0].headers["content-type"] == "application/json"


async def test_when_too_many_have_not_ended_the_sender_is_asked_to_come_back(hooks: Hooks) -> None:
    trigger = await hooks.trigger("greet", queuedMax=2, mapping={"x": "$.never"})
    assert [(await hooks.send(trigger, {}, x_delivery_id=f"d{number}")).status for number in range(3)] == [202, 202, 429]
    full = await hooks.send(trigger, {}, x_delivery_id="d2")
    assert (refused(full), full.headers["retry-after"]) == ((429, "too_many_active"), "30")
    assert (await hooks.send(trigger, {}, x_delivery_id="d1")).status == 200  # it was accepted
    assert await count(hooks) == 2


async def test_a_limit_of_active_executions_has_the_others_wait_in_a_queue(hooks: Hooks) -> None:
    trigger = await hooks.trigger("held", activeMax=1, queuedMax=2, mapping={"x": "$.never"})
    assert [(await hooks.send(trigger, {}, x_delivery_id=f"d{number}")).status for number in range(4)] == [202, 202, 202, 429]
    async with asyncio.timeout(5):
        while not working:
            await asyncio.sleep(0.002)
    queue = next(one for one in await hooks.store.queues() if one.name == f"webhook:{trigger['id']}" and one.tenant == "default")
    assert (queue.limits.concurrency, queue.executions, queue.executions_waiting) == (1, 1, 2)
    opened.set()
    async with asyncio.timeout(5):
        while {one.status for one in await hooks.store.heads(ALL_HEADS)} != {"completed"}:
            await asyncio.sleep(0.002)
    assert (await hooks.send(trigger, {}, x_delivery_id="d3")).status == 202  # it comes again, as it was asked to


# Secrets


async def test_a_secret_that_is_missing_is_the_operator_s_to_see(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    trigger = await hooks.trigger(verify=how("generic", "ABSENT"))
    for _ in range(3):
        answer = await hooks.send(trigger, {})
        assert refused(answer) == (401, "not_verified") and b"ABSENT" not in answer.body
    (rejected, *_) = hooks.app.access.rejected_deliveries.last("default", trigger["id"])
    assert "ABSENT" in rejected.message and "perdure secret set" in rejected.message
    assert [one.getMessage().count("ABSENT") for one in caplog.records if one.name == "perdure.webhooks"] == [1]  # not once for each


async def test_during_a_rotation_both_secrets_are_accepted(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SECRET_NEW", "new")
    trigger = await hooks.trigger(verify=how("generic", "HOOK", "NEW", "LATER"))
    assert (await hooks.send(trigger, {"a": 1})).status == (await hooks.send(trigger, {"a": 2}, secret="new")).status == 202
    assert (await hooks.send(trigger, {"a": 3}, secret="older")).status == 401


async def test_a_secret_in_a_wrong_form_is_the_operator_s_to_see(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SECRET_BAD", "not base64!")
    trigger = await hooks.trigger(verify=how("standard_webhooks", "BAD"))
    assert refused(await hooks.send(trigger, {}, how("standard_webhooks"))) == (401, "not_verified")
    (rejected,) = hooks.app.access.rejected_deliveries.last("default", trigger["id"])
    assert "BAD" in rejected.message and "base64" in rejected.message


async def test_a_secret_in_a_wrong_form_does_not_keep_another_one_from_being_tried(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SECRET_BAD", "not base64!")
    trigger = await hooks.trigger(verify=how("standard_webhooks", "BAD", "HOOK"))
    assert (await hooks.send(trigger, {}, how("standard_webhooks"))).status == 202


# Tenants


async def test_tenants_have_their_own_paths_and_secrets(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = await hooks.trigger(), await hooks.trigger(tenant="acme")
    assert (ours["webhookUrl"], theirs["webhookUrl"]) == ("/webhooks/in", "/webhooks/~acme/in")
    assert (await hooks.send(ours, {})).status == 202
    assert (await hooks.send(theirs, {})).status == 401  # the environment is for the default tenant alone
    assert len(await hooks.store.heads(ALL_HEADS)) == 1


async def test_another_tenant_s_trigger_is_none(hooks: Hooks) -> None:
    theirs = await hooks.trigger(tenant="acme", verify=Verification(scheme="none"))
    path = theirs["webhookUrl"].removeprefix("/webhooks/~acme/")
    for url in (f"/webhooks/{path}", f"/webhooks/~default/{path}", f"/webhooks/~ACME/{path}", f"/webhooks/~acme%00/{path}"):
        assert (await hooks.send({"webhookUrl": url}, {}, Verification(scheme="none"))).status in (400, 404), url
    assert (await hooks.send(theirs, {}, Verification(scheme="none"))).status == 202
    (head,) = await hooks.store.heads(ALL_HEADS)
    assert head.key.tenant == "acme"


async def test_each_tenant_has_its_own_secret_in_the_store(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = hooks.store.part(VAULT)
    assert vault is not None
    monkeypatch.setenv("PERDURE_SECRETS_KEY", f"k:{new_key()}")
    for tenant, secret in (("acme", "of acme"), ("other", "of other")):
        _ = await VaultClient(vault, secret_keys()).put(tenant, "HOOK", secret)
    acme, other = await hooks.trigger(tenant="acme"), await hooks.trigger(tenant="other")
    assert (await hooks.send(acme, {}, secret="of acme")).status == (await hooks.send(other, {}, secret="of other")).status == 202
    assert (await hooks.send(acme, {"a": 1}, secret="of other")).status == (await hooks.send(other, {"a": 1})).status == 401
    assert sorted(one.key.tenant for one in await hooks.store.heads(ALL_HEADS)) == ["acme", "other"]


# Whatever is sent

ODD = ["", " ", "0", "-1", "null", "é", "\xff", "x" * 5_000, "1e999", "'; DROP TABLE records; --", "../../etc/passwd", "{{7*7}}", "%00", "a,b", "\t", "v1="]
HEADERS = (
    *("x_signature", "x_delivery_id", "content_type", "content_encoding", "content_length", "host", "authorization", "cookie", "x_request_id", "expect"),
    *("x_github_event", "x_github_delivery", "idempotency_key", "webhook_id", "webhook_timestamp", "webhook_signature", "stripe_signature", "accept", "origin"),
    *("x_slack_signature", "x_slack_request_timestamp", "x_forwarded_for", "forwarded", "if_match", "range"),
)
BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"a": 1e999}',
    b"\xff\xfe",
    b'{"a": "\\ud800"}',
    b"[" * 50_000,
    b'{"a":' * 5_000,
    b"0" * 10_000,
    b'{"id": {"a": 1}}',
    b"a=1&a=%ff",
]
QUERIES = ["%ff", "a" * 20_000, "&" * 5_000, "a=1&" * 2_000, "=", "a[b]=1", "%", "query=1", "\xe9"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", get_args(VerificationScheme))
async def test_no_header_body_or_query_makes_the_server_fail(hooks: Hooks, scheme: VerificationScheme) -> None:
    trigger, sender = await hooks.trigger(verify=how(scheme)), how(scheme)
    for name in HEADERS:
        for value in ODD:
            headers: dict[str, Any] = {name: value}
            answer = await hooks.send(trigger, {"h": name}, sender, **headers)
            assert answer.status < 500, (name, value, answer)
    for body in BODIES:
        for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain", "image/png", "nonsense", ""):
            answer = await hooks.send(trigger, body, sender, content_type=kind)
            assert answer.status < 500, (body[:50], kind, answer)
    for query in QUERIES:
        answer = await hooks.send(trigger, {}, sender, query=query)
        assert answer.status < 500, (query[:50], answer)


async def test_without_the_secret_nothing_starts_whatever_else_is_right_or_wrong(hooks: Hooks) -> None:
    schemes: tuple[VerificationScheme, ...] = ("github", "stripe", "slack", "standard_webhooks", "generic", "bearer")
    for scheme in schemes:
        trigger = await hooks.trigger(verify=how(scheme), path=scheme)
        for secret in ("", "c2VjcmV0", SECRET[:-4], f"{SECRET}BBBB", "whsec_"):
            for body in (b"", b"{}", b'{"type": "url_verification", "challenge": "x"}'):
                for event in ("ping", "push"):
                    answer = await hooks.send(trigger, body, how(scheme), secret=secret, x_github_event=event)
                    assert answer.status == 401, (scheme, secret, body, answer)
    assert await count(hooks) == 0


async def test_the_document_describes_the_routes(hooks: Hooks) -> None:
    found = (await hooks("GET", "/openapi.json")).json["paths"]
    for path in ("/webhooks/{path}", "/webhooks/~{tenant}/{path}"):
        assert found[path]["post"]["security"] == [] and {"200", "202", "401", "404", "405", "413", "422", "429"} <= found[path]["post"]["responses"].keys()


async def test_webhooks_are_received_by_an_application_that_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SECRET_HOOK", SECRET)
    async with App(HOOKED, db=f"sqlite:///{tmp_path}/app.db") as app:
        service = perdure.api.app(app)
        async with service.lifespan():
            assert service._service is not None
            hooks = Hooks(service._service)
            assert (await hooks.send(await hooks.trigger(), {})).status == 202
