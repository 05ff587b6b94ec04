"""Claims about the HTTP API: it is made from the table of operations, and says what is wrong."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest

from perdure.api import api_app
from perdure.api.json_forms import form_of
from perdure.api.request_arguments import RequestArguments
from perdure.core import errors
from perdure.operations import wire_codec
from perdure.operations.operation_table import OPERATIONS, Operation
from perdure.operations.route_aliases import ALIASES, RouteAlias
from perdure.service.callers import Caller, Role
from tests.api.api_setup import Api, api_in_process

ROUTES: list[Operation | RouteAlias] = [*OPERATIONS, *ALIASES]
ROLES: tuple[Role, ...] = ("viewer", "operator", "approver", "author", "admin")


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with api_in_process(tmp_path) as api:
        yield api


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_each_operation_can_travel_in_both_forms_and_is_described(operation: Operation) -> None:
    assert operation.description and operation.role in (*ROLES, None)
    assert all(issubclass(one, errors.PerdureError) for one in operation.errors)
    _ = RequestArguments(operation), form_of(operation.result)
    _ = wire_codec._arguments_decoder(operation.name, operation), wire_codec._result_decoder(operation.name, operation)


def test_no_two_operations_have_the_same_name_or_route() -> None:
    assert len({one.name for one in OPERATIONS}) == len(OPERATIONS)
    assert len({(one.method, one.path) for one in ROUTES}) == len(OPERATIONS) + len(ALIASES)


def test_no_two_paths_differ_only_in_the_names_of_their_parameters() -> None:
    paths = {one.path for one in OPERATIONS}
    assert len({re.sub(r"\{\w+\}", "{}", path) for path in paths}) == len(paths)


async def test_all_arguments_of_an_operation_may_be_posted_as_json_by_its_name(api: Api) -> None:
    started = await api("POST", "/api/call/executions.start", {"workflow": "calc", "id": "o/1", "input": {"a": 3, "b": 4}})
    assert started.status == 201
    result = await api("POST", "/api/call/executions.result", {"workflow": "calc", "id": "o/1", "waitSeconds": 10})
    assert result.json["value"] == 7
    events = await api("POST", "/api/call/executions.events", {"workflow": "calc", "id": "o/1", "after": 1})
    assert events.json["items"] and events.json["next"] >= events.json["items"][-1]["id"]
    for body, where in (({"id": "o/1"}, "/workflow"), ({"workflow": "calc"}, "/id"), ({"workflow": 5, "id": "o/1"}, "/workflow"), ([], "body")):
        refused = await api("POST", "/api/call/executions.read", body)
        assert refused.status in (400, 422) and refused.json["where"] == where, refused
    unknown = await api("POST", "/api/call/executions.read", {"workflow": "calc", "id": "o/1", "more": 1})
    assert (unknown.status, unknown.json["where"]) == (422, "/more")
    assert (await api("POST", "/api/call/no.such", {})).status == 404


async def test_a_method_that_is_not_allowed_is_answered_with_those_of_the_most_specific_path(api: Api) -> None:
    answer = await api("DELETE", "/api/workflows/sync")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


async def test_an_execution_is_started_once_and_its_result_is_read(api: Api) -> None:
    started = {"workflow": "calc", "id": "o/1 ü", "input": {"a": 3, "b": 4}}
    assert (await api("POST", "/api/executions", started)).status == 201
    again = await api("POST", "/api/executions", started)
    assert (again.status, again.json) == (200, {"workflow": "calc", "id": "o/1 ü", "created": False})
    place = "/api/executions/calc/o%2F1%20%C3%BC"
    assert (await api("GET", f"{place}/result?waitSeconds=10")).json["value"] == 7
    shown = (await api("GET", place)).json
    assert shown["status"] == "completed" and shown["createdAt"].endswith("Z") and "tenant" not in shown
    assert [one["path"] for one in (await api("GET", f"{place}/steps")).json["items"]] == ["set:seen", "emit", "add"]
    assert (await api("GET", f"{place}/state")).json == {"seen": 3}
    assert (await api("GET", f"{place}/stream")).json == {"items": [{"number": 1, "value": {"a": 3}, "dropped": 0}], "next": 1}


async def test_an_idempotency_key_is_the_id_of_a_start_without_one(api: Api) -> None:
    answers = [await api("POST", "/api/executions", {"workflow": "calc", "input": [1]}, idempotency_key="k1") for _ in range(2)]
    assert [one.status for one in answers] == [201, 200] and {one.json["id"] for one in answers} == {"k1"}


async def test_a_list_has_pages(api: Api) -> None:
    for number in range(5):
        await api("POST", "/api/executions", {"workflow": "calc", "id": f"n{number}", "input": [number], "attributes": {"tag": ["a", "b"]}})
    found, after = list[str](), ""
    while True:
        page = (await api("GET", f"/api/executions?limit=2&workflow=calc&where=tag%3Db&after={after}")).json
        found += [one["id"] for one in page["items"]]
        if not (after := page["next"]):
            break
    assert found == ["n4", "n3", "n2", "n1", "n0"]
    assert (await api("GET", "/api/executions?since=1h&status=failed,cancelled")).json["items"] == []


async def test_a_message_is_sent_and_an_approval_decided(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "greet", "id": "g"})
    assert (await api("POST", "/api/executions/greet/g/messages", {"name": "named", "body": "Ada"})).status == 204
    assert (await api("GET", "/api/executions/greet/g/result?waitSeconds=10")).json["value"] == "Hello Ada"
    await api("POST", "/api/executions", {"workflow": "trip", "id": "t", "input": ["Rome"]})
    while not (waiting := (await api("GET", "/api/approvals")).json["items"]):
        await asyncio.sleep(0.01)
    decided = await api("POST", f"/api/approvals/{quote(waiting[0]['id'], safe='')}/decide", {"by": "ada", "approve": True})
    assert decided.status == 204
    assert (await api("GET", "/api/executions/trip/t/result?waitSeconds=10")).json["value"] == "to Rome: True"


REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/api/nothing", None, 404, "not_found"),
    ("PUT", "/api/executions", {}, 405, "method_not_allowed"),
    ("GET", "/api/executions/calc/none", None, 404, "not_found"),
    ("POST", "/api/executions/calc/none/cancel", {}, 404, "not_found"),
    ("POST", "/api/executions", {"workflow": "calc", "inptu": {}}, 422, "bad_value"),
    ("POST", "/api/executions", {"input": {}}, 422, "bad_value"),
    ("POST", "/api/executions", {"workflow": 7}, 422, "bad_value"),
    ("POST", "/api/executions", {"workflow": "calc", "input": 7}, 422, "bad_value"),
    ("POST", "/api/executions", {"workflow": "calc", "delaySeconds": "soon"}, 422, "bad_value"),
    ("GET", "/api/executions?limit=many", None, 422, "bad_value"),
    ("GET", "/api/executions?limit=1&limit=2", None, 422, "bad_value"),
    ("GET", "/api/executions?status=sleepy", None, 422, "bad_value"),
    ("GET", "/api/executions?after=nonsense", None, 422, "bad_value"),
    ("GET", "/api/executions?since=2026-11-28", None, 422, "bad_value"),
    ("GET", "/api/executions/calc/%FF", None, 400, "bad_request"),
    ("POST", "/api/executions/calc/x/messages", {}, 422, "bad_value"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), REFUSED, ids=lambda one: str(one)[:40])
async def test_what_is_wrong_is_said_as_a_problem(api: Api, method: str, path: str, body: Any, status: int, code: str) -> None:
    answer = await api(method, path, body)
    assert (answer.status, answer.json["code"], answer.headers["content-type"]) == (status, code, "application/problem+json")
    assert answer.json["status"] == status and answer.json["detail"]


async def test_a_misspelt_field_is_named_with_the_likely_one(api: Api) -> None:
    answer = await api("POST", "/api/executions", {"workflow": "calc", "inptu": {}})
    assert answer.json["where"] == "/inptu" and "inptu is no field here; input is" in answer.json["detail"]


@pytest.mark.parametrize(
    ("raw", "headers", "status", "code"),
    [
        (b"{", {}, 400, "bad_request"),
        (b"[1]", {}, 400, "bad_request"),
        (b"\xff\xfe", {}, 400, "bad_request"),
        (b"[" * 100_000, {}, 400, "bad_request"),
        (b"{}", {"content_type": "text/plain"}, 415, "not_json"),
        (b"{}", {"content_length": "999999999999"}, 413, "too_large"),
        (b"nonsense", {"content_type": wire_codec.MEDIA_TYPE}, 400, "bad_request"),
    ],
    ids=["broken", "an array", "not UTF-8", "deep", "not JSON", "huge", "not MessagePack"],
)
async def test_a_body_that_is_none_is_refused(api: Api, raw: bytes, headers: dict[str, str], status: int, code: str) -> None:
    answer = await api("POST", "/api/executions", raw=raw, **headers)
    assert (answer.status, answer.json["code"]) == (status, code)


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.role is not None], ids=lambda one: one.name)
async def test_each_operation_needs_its_role(api: Api, operation: Operation) -> None:
    others = frozenset(ROLES) - {operation.role, "admin"}
    api.caller = Caller("default", "key:1", others)
    path = "/".join("x" if part.startswith("{") else part for part in operation.path.split("/"))
    answer = await api(operation.method, path, {} if operation.method not in ("GET", "DELETE") else None)
    assert (answer.status, answer.json["code"]) == (403, "forbidden") and str(operation.role) in answer.json["detail"]


async def test_what_belongs_to_another_tenant_does_not_exist(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "greet", "id": "g"})
    api.caller = Caller("others", "key:1", frozenset(ROLES))
    assert (await api("GET", "/api/executions")).json["items"] == []
    for operation in OPERATIONS:
        if operation.path.startswith("/api/executions/{workflow}/{id}") and operation.name != "executions.send" and not operation.waits_for_answer:
            path = operation.path.format(workflow="greet", id="g")
            given = {"executions.preset": {"step": "x"}, "executions.plan": {"verb": "cancel"}, "runs.approve": {"approve": True, "resumeToken": "x"}}
            reported = {"runs.complete": {"status": "completed"}, "runs.report_status": {"status": "running"}}
            body = None if operation.method == "GET" else (given | reported).get(operation.name, {})
            query = {"executions.passages": "?node=x", "executions.conditions": "?path=x"}.get(operation.name, "")
            answer = await api(operation.method, path + query, body)
            assert answer.status == 404, operation.name


async def test_binary_arguments_of_another_tenant_are_refused(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "greet", "id": "g"})
    from perdure.core.paths import Key

    raw = wire_codec.encode({"key": Key("default", "greet", "g"), "reason": "mischief"})
    api.caller = Caller("others", "key:1", frozenset(ROLES))
    answer = await api("POST", "/api/call/executions.cancel", raw=raw, content_type=wire_codec.MEDIA_TYPE, accept=wire_codec.MEDIA_TYPE)
    assert answer.status == 404 and isinstance(wire_codec.decode_error(answer.body), errors.NotFound)


async def test_events_are_paged_and_streamed_from_where_a_reader_was(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "calc", "id": "e", "input": [1]})
    await api("GET", "/api/executions/calc/e/result?waitSeconds=10")
    page = (await api("GET", "/api/executions/calc/e/events")).json
    assert page["items"][0]["type"] == "execution.created" and page["next"] == page["items"][-1]["id"]
    assert (await api("GET", f"/api/executions/calc/e/events?after={page['next']}")).json == {"items": [], "next": page["next"]}
    streamed = (await api("GET", "/api/executions/calc/e/events", accept="text/event-stream", last_event_id="4")).body.decode()
    assert [line for line in streamed.splitlines() if line.startswith("id: ")] == ["id: 5", "id: 6"]
    assert "event: execution.completed" in streamed


async def test_the_schemas_of_the_document_are_valid(api: Api) -> None:
    document = (await api("GET", "/openapi.json")).json
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": document["components"]["schemas"]})


async def test_the_document_describes_every_route_and_refers_only_to_what_it_has(api: Api) -> None:
    document, links = (await api("GET", "/openapi.json")).json, ("/approvals/link/{token}", "/unsubscribe/{token}")
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(one.method, one.path) for one in ROUTES} | {(method, link) for link in links for method in ("GET", "POST")}
    ids = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(set(ids)) == len(ids)

    def references(part: Any) -> list[str]:
        if isinstance(part, dict):
            return [*([part["$ref"]] if "$ref" in part else []), *(one for value in part.values() for one in references(value))]
        return [one for value in part for one in references(value)] if isinstance(part, list) else []

    components = {f"#/components/{kind}/{name}" for kind in ("schemas", "parameters") for name in document["components"][kind]}
    assert set(references(document)) == components


async def test_health_and_readiness(api: Api) -> None:
    assert (await api("GET", "/healthz")).json == {"status": "ok"}
    assert (await api("GET", "/readyz")).json == {"status": "ok", "epoch": 1}
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert (await api("HEAD", path)).status == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            answer = await api(method, path)
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    api.app.begin_stop()
    assert (await api("GET", "/readyz")).status == 503


@pytest.mark.parametrize("kind", [errors.StoreError, errors.StoreUnavailable, errors.StoreDamaged])
async def test_a_process_whose_database_fails_is_not_ready(api: Api, monkeypatch: pytest.MonkeyPatch, kind: type[errors.StoreError]) -> None:
    async def store_time() -> None:
        raise kind("the file was replaced")

    monkeypatch.setattr(api.app.access.store, "store_time", store_time)
    answer = await api("GET", "/readyz")
    assert (answer.status, answer.json["code"]) == (503, kind.code)
    assert "the file was replaced" in answer.json["detail"]


async def test_a_process_whose_database_does_not_answer_says_in_time_that_it_is_not_ready(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def store_time() -> None:
        _ = await asyncio.Event().wait()

    monkeypatch.setattr(api_app, "READY_S", 0.01)
    monkeypatch.setattr(api.app.access.store, "store_time", store_time)
    answer = await asyncio.wait_for(api("GET", "/readyz"), 10)
    assert (answer.status, answer.json["code"]) == (503, "store_unavailable")


async def test_a_document_of_a_set_that_is_not_valid_is_named_by_its_place(api: Api) -> None:
    good = {"perdure": 1, "name": "good", "steps": [{"id": "note", "set": {"n": 1}}]}
    refused = await api("POST", "/api/workflows/sync-all", {"documents": [{"document": good}, {"document": {**good, "steps": []}}]})
    assert (refused.status, refused.json["where"]) == (422, "/documents/1/document")
    assert [one["pointer"] for one in refused.json["findings"]] == ["/documents/1/document/steps"]
