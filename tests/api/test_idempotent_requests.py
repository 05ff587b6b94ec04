"""Claims about the header Idempotency-Key: a request that repeats one with the same key is given the first answer, on every route that changes something."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.api.idempotent_requests import keyed_request
from perdure.operations import on_access
from perdure.operations.operation_table import OPERATIONS, Operation
from perdure.service.callers import LOCAL, Caller
from tests.api.api_setup import Api, api_in_process

DOCUMENT = {"perdure": 1, "name": "invoice", "steps": [{"id": "note", "set": {"n": 1}}], "vars": {"n": 0}}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with api_in_process(tmp_path) as api:
        yield api


async def test_a_repeated_creation_is_given_the_first_answer(api: Api) -> None:
    body = {"document": DOCUMENT, "slug": "invoice"}
    first, again = [await api("POST", "/api/workflows", body, idempotency_key="k1") for _ in range(2)]
    assert first.status == again.status and first.status in (200, 201) and first.body == again.body
    assert first.headers["content-type"] == again.headers["content-type"] == "application/json"
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    without = await api("POST", "/api/workflows", body)
    assert (without.status, without.json["code"]) == (409, "already_exists")


async def test_an_operation_without_a_result_is_replayed_without_one(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "greet", "id": "g"})
    for _ in range(2):
        sent = await api("POST", "/api/executions/greet/g/messages", {"name": "named", "body": "Ada"}, idempotency_key="k1")
        assert (sent.status, sent.body) == (204, b"")


async def test_what_a_part_of_the_store_does_is_done_with_a_key_as_without_one(api: Api) -> None:
    first, again = [await api("POST", "/api/upkeep/prune-values", {}, idempotency_key="k1") for _ in range(2)]
    assert (first.status, again.status, again.body) == (200, 200, first.body), first.body
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")


async def test_another_body_is_refused_and_another_caller_has_keys_of_their_own(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "calc", "id": "o1", "input": [1]})
    await api("GET", "/api/executions/calc/o1/result?waitSeconds=10")
    first = await api("POST", "/api/executions/calc/o1/rerun", {}, idempotency_key="k1")
    assert first.status == 200
    other = await api("POST", "/api/executions/calc/o1/rerun", {"version": 1}, idempotency_key="k1")
    assert (other.status, other.json["code"]) == (422, "idempotency_key_reused")
    assert (await api("POST", "/api/executions/calc/o1/rerun", {}, idempotency_key="k1")).json == first.json
    api.caller = Caller("default", "key:2", LOCAL.roles)
    assert (await api("POST", "/api/executions/calc/o1/rerun", {}, idempotency_key="k1")).json != first.json
    assert len((await api("GET", "/api/executions")).json["items"]) == 3


async def test_a_request_under_way_says_when_to_come_again(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "greet", "id": "g"})
    asking = asyncio.create_task(api("POST", "/api/executions/greet/g/ask", {"name": "other"}, idempotency_key="k1"))
    async with asyncio.timeout(10):
        while not api.app._idempotent._under_way:
            await asyncio.sleep(0.01)
    second = await api("POST", "/api/executions/greet/g/ask", {"name": "other"}, idempotency_key="k1")
    assert (second.json["code"], second.headers["retry-after"]) == ("request_under_way", "1")
    await api("POST", "/api/executions/greet/g/terminate", {})
    first = await asking
    assert first.json["code"] == "no_reply" and (await api("POST", "/api/executions/greet/g/ask", {"name": "other"}, idempotency_key="k1")).body == first.body


async def test_the_key_of_a_start_is_its_id_and_names_one_input(api: Api) -> None:
    answers = [await api("POST", "/api/executions", {"workflow": "calc", "input": [number]}, idempotency_key="k1") for number in (1, 1, 2)]
    assert [one.status for one in answers] == [201, 200, 422] and answers[2].json["code"] == "idempotency_key_reused"


async def test_the_key_of_a_start_names_one_definition(api: Api) -> None:
    other = {**DOCUMENT, "vars": {"n": 1}}
    answers = [await api("POST", "/api/inline-executions", {"document": one}, idempotency_key="k1") for one in (DOCUMENT, DOCUMENT, other)]
    assert [one.status for one in answers] == [201, 200, 422] and answers[2].json["code"] == "idempotency_key_reused"
    await api("POST", "/api/workflows", {"document": DOCUMENT})
    start, said = "/api/workflow-versions/invoice@{}/executions", {"idempotency_key": "k2"}
    assert (await api("POST", start.format("^1"), {}, **said)).status == 201
    await api("PUT", "/api/workflows/invoice", {"document": other, "part": "major"})
    assert [(await api("POST", start.format(one), {}, **said)).status for one in ("^1", "1.0.0", ">=1", "2.0.0", "^2")] == [200, 200, 200, 422, 422]


async def test_an_invalid_key_is_refused(api: Api) -> None:
    answer = await api("POST", "/api/workflows", {"document": DOCUMENT}, idempotency_key="a b")
    assert (answer.status, answer.json["where"]) == (422, "Idempotency-Key")
    assert (await api("GET", "/api/workflows")).json["items"] == []


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.method == "POST"], ids=lambda one: one.name)
async def test_a_key_is_honoured_on_every_post_that_changes_something(operation: Operation) -> None:
    from perdure.api.http_requests import ApiRequest

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"{}"}

    headers = [(b"idempotency-key", b"k1")]
    request = ApiRequest({"method": "POST", "path": operation.path, "query_string": b"", "headers": headers}, receive)
    keyed = await keyed_request(operation, request, LOCAL)
    assert (keyed is None) == (operation.is_start or operation.role == "viewer"), "an operation for viewers changes nothing"


def test_an_operation_that_shows_a_secret_is_known_by_its_result() -> None:
    shown = [Operation(one, "POST", "/x", "admin").shows_secret for one in (on_access.create_key, on_access.rotate_key, on_access.revoke_key)]
    assert shown == [True, True, False]
