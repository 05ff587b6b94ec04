"""What tests of operations are given: a server, and documents that no other test has fetched."""

from collections.abc import AsyncIterator

import pytest

from perdure.definitions.kinds.openapi import document_sources
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer


@pytest.fixture
async def server() -> AsyncIterator[MisbehavingServer]:
    async with MisbehavingServer() as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no document been read before."""
    monkeypatch.setattr(document_sources, "CACHE", document_sources.DocumentCache())
