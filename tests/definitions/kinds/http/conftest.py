"""What tests of requests are given: a server, and steps that may reach it."""

from collections.abc import AsyncIterator

import pytest

from tests.definitions.kinds.http.misbehaving_server import Server
from tests.definitions.kinds.http.request_sender import Caller, calling


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        yield server


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    async with calling("127.0.0.1", "::1") as caller:
        yield caller
