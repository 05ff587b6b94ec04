"""What tests of requests are given: a server, and steps that may reach it."""

from collections.abc import AsyncIterator

import pytest

from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer
from tests.definitions.kinds.http.request_sender import RequestSender, calling


@pytest.fixture
async def server() -> AsyncIterator[MisbehavingServer]:
    async with MisbehavingServer() as server:
        yield server


@pytest.fixture
async def caller() -> AsyncIterator[RequestSender]:
    async with calling("127.0.0.1", "::1") as caller:
        yield caller
