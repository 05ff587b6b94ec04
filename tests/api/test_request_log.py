"""Claims about the access log: one record for each request, with the template of its route and its caller, and nothing that the client chose freely."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import Unauthenticated
from perdure.observe.json_logs import JsonLogFormatter
from perdure.observe.log_setup import ACCESS_LOGGER
from perdure.service.callers import Caller
from tests.api.api_setup import Api, api_in_process


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with api_in_process(tmp_path) as api:
        yield api


@pytest.fixture
def accesses() -> Iterator[list[dict[str, Any]]]:
    found = list[dict[str, Any]]()

    class Objects(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(JsonLogFormatter().format(record)))

    logger, handler = logging.getLogger(ACCESS_LOGGER), Objects()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield found
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


async def test_a_request_is_logged_with_route_status_duration_and_caller(api: Api, accesses: list[dict[str, Any]]) -> None:
    api.caller = Caller("acme", "key:AbC", frozenset(("operator",)))
    answer = await api("POST", "/api/executions", {"workflow": "calc", "id": "secret-id", "input": [1]}, x_request_id="req-1")
    assert answer.status == 201 and answer.headers["x-request-id"] == "req-1"
    (found,) = accesses
    assert {name: found[name] for name in ("method", "route", "status", "subject", "tenant", "request")} == {
        "method": "POST",
        "route": "/api/executions",
        "status": 201,
        "subject": "key:AbC",
        "tenant": "acme",
        "request": "req-1",
    }
    assert 0 <= found["duration_ms"] < 60_000 and "secret-id" not in json.dumps(found)


async def test_paths_queries_and_headers_are_not_logged(api: Api, accesses: list[dict[str, Any]]) -> None:
    for path in ("/api/executions/calc/t0k3n/result?token=t0k3n", "/t0k3n/t0k3n?x=t0k3n", "/api/call/t0k3n"):
        _ = await api("GET", path, authorization="Bearer t0k3n", x_request_id="t0k3n with spaces")
    assert [(one["route"], one["status"]) for one in accesses] == [
        ("/api/executions/{workflow}/{id}/result", 422),
        ("(unknown)", 404),
        ("(unknown)", 404),
    ]
    assert "t0k3n" not in json.dumps(accesses)


async def test_a_refused_caller_a_failure_and_an_unknown_method_are_logged_as_such(api: Api, accesses: list[dict[str, Any]]) -> None:
    async def nobody(_: object) -> Caller:
        raise Unauthenticated("no key")

    api.authenticate = nobody  # type: ignore[method-assign]  # who asks is replaced
    assert (await api("GET", "/api/executions")).status == 401
    assert (await api("BREW", "/api/executions")).status == 405

    async def broken(_: object) -> Caller:
        raise RuntimeError("a defect")

    api.authenticate = broken  # type: ignore[method-assign]  # the same
    with pytest.raises(RuntimeError):
        await api("GET", "/api/executions")
    assert [(one["method"], one["route"], one["status"], one["subject"]) for one in accesses] == [
        ("GET", "/api/executions", 401, ""),
        ("other", "(unknown)", 405, ""),
        ("GET", "/api/executions", 500, ""),
    ]


async def test_a_client_that_has_gone_is_logged_with_499(api: Api, accesses: list[dict[str, Any]]) -> None:
    async def slow(_: object) -> Caller:
        await asyncio.Event().wait()
        raise AssertionError

    api.authenticate = slow  # type: ignore[method-assign]  # who asks is replaced
    asking = asyncio.create_task(api("GET", "/api/executions"))
    await asyncio.sleep(0.01)
    asking.cancel()
    _ = await asyncio.wait((asking,))
    assert [one["status"] for one in accesses] == [499]


async def test_probes_are_logged_for_debugging_only(api: Api, accesses: list[dict[str, Any]]) -> None:
    assert (await api("GET", "/healthz")).status == (await api("GET", "/readyz")).status == 200
    assert not accesses
    logging.getLogger(ACCESS_LOGGER).setLevel(logging.DEBUG)
    assert (await api("GET", "/healthz")).status == 200
    assert [(one["route"], one["level"]) for one in accesses] == [("/healthz", "debug")]


async def test_a_stream_is_logged_when_it_ends(api: Api, accesses: list[dict[str, Any]]) -> None:
    _ = await api("POST", "/api/executions", {"workflow": "calc", "id": "s1", "input": [1]})
    _ = await api("GET", "/api/executions/calc/s1/result?waitSeconds=10")
    asking = asyncio.create_task(api("GET", "/api/executions/calc/s1/events", accept="text/event-stream"))
    _ = await asyncio.wait((asking,), timeout=10)
    assert asking.done() and (accesses[-1]["route"], accesses[-1]["status"]) == ("/api/executions/{workflow}/{id}/events", 200)
