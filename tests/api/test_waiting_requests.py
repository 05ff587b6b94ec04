"""Claims about requests that wait for an answer of an execution, a tool or a person: they end with their client, and with its right to ask."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.api import request_watch
from perdure.api.http_requests import ApiRequest
from perdure.core.errors import Unauthenticated
from perdure.operations.operation_table import OPERATIONS
from perdure.service.callers import Caller
from tests.api.api_setup import Api, api_in_process

ASKED: dict[str, tuple[str, dict[str, str]]] = {
    "executions.ask": ("/api/executions/greet/g/ask", {"name": "other"}),
    "recordings.call": ("/api/recordings/r/calls", {"tool": "files.read"}),
    "recordings.end": ("/api/recordings/r/end", {}),
}
"""A request for each operation that waits, which nothing answers."""


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """An execution that waits for another message, and a recording that no process runs."""
    async with api_in_process(tmp_path) as api:
        assert (await api("POST", "/api/executions", {"workflow": "greet", "id": "g"})).status == 201
        assert (await api("POST", "/api/recordings", {"recording": "r"})).status == 201
        yield api


def test_there_is_a_request_for_each_operation_that_waits() -> None:
    assert {one.name for one in OPERATIONS if one.waits_for_answer} == set(ASKED)


@pytest.mark.parametrize("key", ["", "k1"])
@pytest.mark.parametrize("operation", ASKED)
async def test_a_request_whose_client_leaves_is_over(api: Api, operation: str, key: str) -> None:
    path, body = ASKED[operation]
    asking = asyncio.create_task(api("POST", path, body, **({"idempotency_key": key} if key else {})))
    await asyncio.sleep(0.2)
    assert not asking.done()
    api.left.set()
    async with asyncio.timeout(5):
        _ = await asking


@pytest.mark.parametrize("operation", ASKED)
async def test_a_request_whose_key_is_revoked_is_refused(api: Api, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_watch, "RECHECK_S", 0.05)
    path, body = ASKED[operation]
    asking = asyncio.create_task(api("POST", path, body))
    await asyncio.sleep(0.2)
    assert not asking.done()

    async def revoked(_: ApiRequest) -> Caller:
        raise Unauthenticated("the key was revoked")

    monkeypatch.setattr(api, "authenticate", revoked)
    async with asyncio.timeout(5):
        found: Any = await asking
    assert found.status == 401
