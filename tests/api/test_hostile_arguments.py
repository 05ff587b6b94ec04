"""Claims about bad arguments: whatever a request gives in one place of one operation, it is refused with the place, or has a meaning. No answer is a 5xx."""

import asyncio
import json

import pytest

from perdure.api.api_app import ApiApp
from perdure.api.loopback_access import LoopbackAccess
from perdure.core import values
from perdure.core.paths import Key
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.dialects.definition_reader import read_definition
from perdure.operations import on_catalog, on_execution_changes, wire_codec
from perdure.operations.operation_table import OPERATIONS, Operation
from perdure.service.callers import Caller, Role
from perdure.service.execution_operations import StartRequest
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from tests.api.api_setup import Answer, Api
from tests.api.hostile_requests import requests_to
from tests.service.catalog_documents import document

ANSWER_S = 20.0
"""A request that takes this long waits for what never comes."""

ALLOWED = {200, 201, 204, 400, 401, 403, 404, 405, 409, 410, 413, 422, 429}


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore()
    access = StoreAccess(store)
    await on_execution_changes.start(access, StartRequest(key=Key("default", "zzz", "zzz"), input=values.encode(((), {}), "the input")))
    await on_catalog.create(access, "default", document(1), "ada", "zzz")
    await access.aclose()
    return store


def contents(store: MemoryStore) -> list[object]:
    """Everything that a store has."""
    return [store.item_of(one) for one in store.things()]


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
async def test_a_bad_argument_is_refused_with_its_place_and_changes_nothing(store: MemoryStore, operation: Operation) -> None:
    access = StoreAccess(store)
    api = Api(ApiApp(access, lambda request: api.authenticate(request), secret=b"a secret of the tests"))
    before, failures = contents(store), list[str]()
    for one in requests_to(operation):
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await api(one.method, one.path, raw=one.body, **one.headers)
        except Exception as error:  # every failure is listed below
            failures.append(f"{one.name}: {type(error).__name__}: {str(error)[:200]}")
            continue
        if answer.status not in ALLOWED:
            failures.append(f"{one.name}: {answer.status} {answer.body[:200]!r}")
        elif answer.status in (400, 422) and not says_where(answer):
            failures.append(f"{one.name}: {answer.status} without a place: {answer.body[:200]!r}")
        elif len(answer.body) > 20_000 + (len(one.body) if one.name.startswith("binary") else 0):  # an error has the value as it was given
            failures.append(f"{one.name}: an answer of {len(answer.body)} bytes")
        after = contents(store)
        if answer.status >= 400 and after != before:
            failures.append(f"{one.name}: {answer.status}, and the store has changed")
        before = after
    await access.aclose()
    assert not failures, f"{len(failures)} requests:\n" + "\n".join(failures)


def says_where(answer: Answer) -> bool:
    """Whether an answer names the place of the mistake."""
    if answer.headers.get("content-type") == wire_codec.MEDIA_TYPE:
        return bool(str(wire_codec.decode_error(answer.body)))
    return bool(json.loads(answer.body).get("where"))


async def test_internals_of_a_start_and_of_a_vote_are_no_fields_of_json(store: MemoryStore) -> None:
    access = StoreAccess(store)
    api = Api(ApiApp(access, lambda request: api.authenticate(request), secret=b"a secret of the tests"))
    before = contents(store)
    for name in ("definition", "seed", "admission", "carried", "isNew"):
        answer = await api("POST", "/api/executions", {"workflow": "zzz", "id": "new", name: None})
        assert (answer.status, answer.json["where"]) == (422, f"/{name}")
    for name in ("atSeconds", "at", "means"):
        answer = await api("POST", "/api/approvals/zzz/decide", {"by": "ada", "approve": True, name: "message"})
        assert (answer.status, answer.json["where"]) == (422, f"/{name}")
    assert contents(store) == before
    await access.aclose()


@pytest.mark.parametrize(("host", "origin"), [("[", ""), ("[::1", ""), ("²", ""), ("127.0.0.1", "http://["), ("127.0.0.1", "null")])
async def test_a_host_or_origin_that_is_none_is_refused(store: MemoryStore, host: str, origin: str) -> None:
    access = StoreAccess(store)
    api = Api(ApiApp(access, LoopbackAccess("a token")))
    headers = {"authorization": "Bearer a token", "host": host, **({"origin": origin} if origin else {})}
    assert (await api("GET", "/api/executions", **headers)).status == 403
    assert (await api("GET", "/api/executions", authorization="Bearer a token")).status == 200
    await access.aclose()


@pytest.mark.parametrize("name", ["forwarded", "x_forwarded_for", "x_forwarded_host", "x_forwarded_proto", "x_forwarded_port", "x_forwarded_prefix"])
async def test_a_request_that_a_proxy_has_forwarded_is_refused_on_this_machine(store: MemoryStore, name: str) -> None:
    access = StoreAccess(store)
    api = Api(ApiApp(access, LoopbackAccess("a token")))
    answer = await api("GET", "/api/executions", authorization="Bearer a token", **{name: "x"})
    assert (answer.status, answer.json["code"]) == (403, "forwarded")
    await access.aclose()


async def test_a_start_of_a_version_needs_no_workflow(store: MemoryStore) -> None:
    access = StoreAccess(store)
    api = Api(ApiApp(access, lambda request: api.authenticate(request), secret=b"a secret of the tests"))
    started = await api("POST", "/api/workflow-versions/zzz/executions", {"id": "new"})
    assert (started.status, started.json["workflow"]) == (201, "zzz")
    inline = await api("POST", "/api/inline-executions", {"id": "new", "document": read_definition(document(2, "inline")).canonical})
    assert (inline.status, inline.json["workflow"]) == (201, "inline")
    required = (await api("GET", "/openapi.json")).json["paths"]["/api/workflow-versions/{reference}/executions"]["post"]["requestBody"]["required"]
    assert required is False
    await access.aclose()


async def test_a_start_that_brings_its_definition_needs_an_author(store: MemoryStore) -> None:
    access = StoreAccess(store)
    api = Api(ApiApp(access, lambda request: api.authenticate(request), secret=b"a secret of the tests"))
    canonical = definition_bytes(read_definition(document(3, "inline")).canonical)
    raw = wire_codec.encode({"request": StartRequest(key=Key("default", "inline", "new"), version=1, definition=canonical)})
    before = contents(store)
    cases: list[tuple[set[Role], int]] = [({"operator"}, 403), ({"author"}, 403), ({"operator", "author"}, 200)]
    for roles, status in cases:
        api.caller = Caller("default", "key:1", frozenset(roles))
        answer = await api("POST", "/api/call/executions.start", raw=raw, content_type=wire_codec.MEDIA_TYPE, accept=wire_codec.MEDIA_TYPE)
        assert answer.status == status
        assert (contents(store) == before) == (status == 403)
    await access.aclose()
