"""Claims about who is let in to a server: keys, sessions, what a browser may do with its cookie, rates, and the end of long requests."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.api import request_watch
from perdure.api.service_api import ServiceSettings
from perdure.service import credentials
from perdure.service.access_keys import revoke_key
from perdure.service.audit import AuditFilter, list_entries
from perdure.service.sessions import COOKIE
from tests.api.service_setup import Browser, Service, events_of, service_in_process


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with service_in_process(tmp_path) as service:
        yield service


def code(answer: object) -> tuple[int, str]:
    return answer.status, answer.json["code"]  # type: ignore[attr-defined]  # it is an answer


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({}, "does not say who sends it"),
        ({"authorization": "Basic YTpi"}, "Authorization: Bearer KEY"),
        ({"authorization": "Bearer "}, "Authorization: Bearer KEY"),
        ({"authorization": "Bearer nonsense"}, "not of the form"),
        ({"authorization": f"Bearer prd_AAAAAAAA_{'x' * 43}"}, "not known here"),
        ({"cookie": f"{COOKIE}=nonsense"}, "Sign in again"),
        ({"cookie": "other=1; broken"}, "does not say who sends it"),
    ],
)
async def test_without_a_valid_proof_nobody_is_let_in(service: Service, headers: dict[str, str], says: str) -> None:
    answer = await service("GET", "/api/executions", **headers)
    assert code(answer) == (401, "unauthenticated") and says in answer.json["detail"] and answer.headers["www-authenticate"] == "Bearer"


async def test_a_key_is_not_taken_from_the_url(service: Service) -> None:
    key = await service.key("viewer")
    for query in (f"key={key}", f"token={key}", f"access_token={key}"):
        assert (await service("GET", f"/api/executions?{query}")).status == 401
    assert (await service.by(key, "GET", "/api/executions")).status == 200


async def test_a_request_that_names_another_tenant_is_refused(service: Service) -> None:
    key = await service.key("admin", tenant="acme")
    assert (await service.by(key, "GET", "/api/executions", x_perdure_tenant="acme")).status == 200
    assert code(await service.by(key, "GET", "/api/executions", x_perdure_tenant="default")) == (403, "forbidden")


async def test_a_browser_reads_with_its_cookie_and_changes_things_with_the_csrf_token_from_its_own_page(service: Service) -> None:
    browser = Browser(service)
    csrf = await browser.sign_in(await service.key("operator", "viewer"))
    assert (await browser("GET", "/api/executions")).status == 200
    started = {"workflow": "greet", "id": "g"}
    assert code(await browser("POST", "/api/executions", started)) == (401, "unauthenticated")
    assert code(await browser("POST", "/api/executions", started, x_csrf_token="x" * 43)) == (401, "unauthenticated")
    for origin in ("https://evil.example", "null", "", "http://[", "http://[::1"):
        assert code(await browser("POST", "/api/executions", started, x_csrf_token=csrf, origin=origin)) == (403, "wrong_origin")
    assert (await browser("POST", "/api/executions", started, x_csrf_token=csrf)).status == 201
    for method, path in (("PUT", "/api/workflows/x"), ("PATCH", "/api/queues/x"), ("DELETE", "/api/keys/x"), ("POST", "/api/call/executions.page")):
        assert (await browser(method, path, {} if method != "DELETE" else None)).status == 401, "each method that is no GET needs the token"
    other = Browser(service)
    assert (await other("POST", "/api/executions", started, x_csrf_token=await Browser(service).sign_in(await service.key("operator")))).status == 401


async def test_the_process_that_takes_a_credential_back_refuses_it_at_once(service: Service) -> None:
    admin, revoked, rotated = await service.key("admin"), await service.key("viewer"), await service.key("viewer")
    browsers = [Browser(service), Browser(service), Browser(service)]
    for browser, key in zip(browsers, (admin, revoked, rotated), strict=True):
        await browser.sign_in(key)
        assert (await browser("GET", "/api/whoami")).status == (await service.by(key, "GET", "/api/whoami")).status == 200
    sessions = (await service.by(admin, "GET", f"/api/sessions?subject=key:{admin.split('_')[1]}")).json["items"]
    assert (await service.by(admin, "DELETE", f"/api/sessions/{sessions[0]['id']}")).status == 204
    assert (await service.by(admin, "DELETE", f"/api/keys/{revoked.split('_')[1]}")).status == 200
    second = await service.by(admin, "POST", f"/api/keys/{rotated.split('_')[1]}/rotate", {"overlapSeconds": 0})
    assert second.status == 200
    for browser in browsers:
        assert (await browser("GET", "/api/whoami")).status == 401
    for key in (revoked, rotated):
        assert (await service.by(key, "GET", "/api/whoami")).status == 401
    assert (await service.by(second.json["text"], "GET", "/api/whoami")).status == 200


async def test_each_caller_has_a_rate_of_their_own(tmp_path: Path) -> None:
    async with service_in_process(tmp_path, ServiceSettings(rate_per_s=2.0)) as service:
        first, second = await service.key("viewer"), await service.key("viewer")
        answers = [await service.by(first, "GET", "/api/executions") for _ in range(6)]
        assert [one.status for one in answers[:4]] == [200] * 4
        refused = next(one for one in answers if one.status != 200)
        assert code(refused) == (429, "too_many_requests") and refused.headers["retry-after"] == "1"
        assert (await service.by(second, "GET", "/api/executions")).status == 200


async def test_a_stream_ends_when_its_key_is_revoked_or_expires(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_watch, "RECHECK_S", 0.02)
    monkeypatch.setattr(credentials, "CACHE_S", 0.02)
    admin, key, short = await service.key("admin"), await service.key("viewer"), await service.key("viewer", valid_s=0.3)
    await service.by(admin, "POST", "/api/executions", {"workflow": "greet", "id": "g"})
    path = "/api/executions/greet/g/events"
    streams = [asyncio.create_task(service.by(one, "GET", path, accept="text/event-stream")) for one in (admin, key, short)]
    waits = asyncio.create_task(service.by(key, "GET", "/api/executions/greet/g/result?waitSeconds=20"))
    await asyncio.sleep(0.1)
    assert not any(one.done() for one in (*streams[:2], waits))
    await revoke_key(service.store, "default", key[4:12], "test")
    for stream, why in ((streams[1], "was revoked"), (streams[2], "has expired")):
        *_, (name, said) = events_of(await asyncio.wait_for(stream, 5))
        assert (name, said["code"]) == ("error", "unauthenticated") and why in said["detail"]
    assert code(await asyncio.wait_for(waits, 5)) == (401, "unauthenticated")
    assert not streams[0].done()
    await service.by(admin, "POST", "/api/executions/greet/g/messages", {"name": "named", "body": "Ada"})
    assert events_of(await asyncio.wait_for(streams[0], 5))[-1][0] == "execution.completed"


async def test_when_the_process_stops_streams_and_waits_end_and_say_so(service: Service) -> None:
    key = await service.key("admin")
    await service.by(key, "POST", "/api/executions", {"workflow": "greet", "id": "g"})
    stream = asyncio.create_task(service.by(key, "GET", "/api/executions/greet/g/events", accept="text/event-stream"))
    waits = asyncio.create_task(service.by(key, "GET", "/api/executions/greet/g/result?waitSeconds=20"))
    await asyncio.sleep(0.05)
    service.app.begin_stop()
    assert (await service("GET", "/readyz")).status == 503
    name, said = events_of(await asyncio.wait_for(stream, 5))[-1]
    assert (name, said["code"]) == ("error", "store_unavailable") and "is stopping" in said["detail"]
    answer = await asyncio.wait_for(waits, 5)
    assert code(answer) == (503, "store_unavailable") and answer.headers["retry-after"] == "1"
    assert (await service.by(key, "GET", "/api/executions")).status == 200, "what is on its way is answered"


async def test_a_change_is_audited_under_the_name_of_its_caller_with_their_address(service: Service) -> None:
    key = await service.key("operator")
    await service.by(key, "POST", "/api/executions", {"workflow": "greet", "id": "g"})
    await service.by(key, "POST", "/api/executions/greet/g/cancel", {"reason": "enough"})
    entries = [one.entry for one in (await list_entries(service.store, "default", AuditFilter(subject=f"key:{key[4:12]}"))).items]
    assert [(one.operation, one.address, one.targets[0].key, one.targets[0].change) for one in entries] == [
        ("executions.cancel", "192.0.2.7", "greet/g", "cancel")
    ], "a start and a message have none: they are in the log"
