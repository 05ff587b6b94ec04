"""Clients: what an event loop asks models with is its own, and leaves nothing behind."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from perdure.core.errors import MissingExtra
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_client import send_model_request
from perdure.definitions.kinds.models.model_errors import ModelUnavailable
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ModelUsage
from perdure.fake_llm import serving_aside
from tests.definitions.kinds.models.scripted_provider import NAMES, deployment, said
from tests.open_descriptors import open_descriptors


@pytest.mark.slow
async def test_a_request_that_is_cancelled_leaves_nothing_and_the_next_one_is_answered() -> None:
    with serving_aside([{"when": {"contains": "slow"}, "answer": "late", "delay": "1h"}, {"answer": "soon", "repeat": True}]) as url:
        where = deployment(url)
        assert (await send_model_request(said("Hi"), where)).text == "soon"
        before = asyncio.all_tasks()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await send_model_request(said("slow"), where)
        assert asyncio.all_tasks() == before
        assert (await send_model_request(said("Hi"), where)).text == "soon"


async def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.direct", None)
    with pytest.raises(MissingExtra, match=r'pip install "perdure\[agents\]"'):
        await send_model_request(said("Hi"), deployment("http://127.0.0.1:1"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors where Linux shows them")
def test_the_connections_of_a_loop_are_closed_as_it_ends() -> None:
    async def once(url: str) -> None:
        for model in NAMES:
            assert (await send_model_request(said("Hi", model), deployment(url))).text == "Hello"

    def times(count: int) -> int:
        with serving_aside([{"answer": "Hello", "repeat": True}]) as url:
            for _ in range(count):
                asyncio.run(once(url))
        return open_descriptors()

    gc.disable()  # so that nothing else closes what was left open
    try:
        before = times(1)
        assert times(3) <= before
    finally:
        gc.enable()


@asynccontextmanager
async def answering(head: str, body: bytes, ended: bool) -> AsyncIterator[str]:
    """Where each request is answered so; unless that has ended, it goes on for ever."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _ = await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{head}\r\n\r\n".encode())
        with suppress(ConnectionError):
            while not ended:
                writer.write(body)
                await writer.drain()
            writer.write(body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "ended", "why"),
    [("Connection: close", False, "more than 16,000,000 bytes"), ("Content-Encoding: gzip", True, "is compressed")],
)
async def test_an_answer_without_end_or_one_that_could_unpack_to_anything_is_given_up(head: str, ended: bool, why: str) -> None:
    async with answering(head, b" " * 65_536, ended) as url:
        with pytest.raises(ModelUnavailable, match=why):
            await send_model_request(said("Hello"), deployment(url))


async def test_a_function_may_be_a_model() -> None:
    async def echo(request: ChatRequest) -> ChatAnswer:
        return ChatAnswer(text=request.messages[-1].text, usage=ModelUsage(10, 2))

    assert await send_model_request(said("Hello", model="mine"), Deployment(models={"mine": echo})) == ChatAnswer(text="Hello", usage=ModelUsage(10, 2))
