"""Clients: the connections to providers, one HTTP client for each event loop, closed as that ends; and each model's own on top of it.

What it takes to make one (libraries of a second's import, certificates, prices) is done in a thread, so the loop turns meanwhile.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from perdure.core.errors import MissingExtra
from perdure.steps.models.failing import ModelUnavailable
from perdure.steps.models.sources import Source

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

HTTP_S, CONNECT_S = 600.0, 10.0
"""How long a server may say nothing, and how long it may take to be reached, whatever the step allows."""

ANSWER_BYTES_MAX = 16_000_000
"""How long an answer may be; it is asked for uncompressed, so that this is what it takes."""

MODELS_MAX = 256
"""How many models an event loop remembers; a key that was replaced makes another."""


class _Asked(NamedTuple):
    provider: str
    model: str
    base_url: str
    key: str


class Clients:
    """What one event loop asks models with."""

    def __init__(self) -> None:
        self._http: httpx2.AsyncClient | None = None
        self._models: dict[_Asked, Model] = {}
        self._making = asyncio.Lock()
        self._open = self._until_closed()

    async def model(self, source: Source, key: str) -> Model:
        """What asks this source with this key.

        Raises:
            MissingExtra: the library that does is not installed.
        """
        asked = _Asked(source.provider, source.model, source.base_url, key)
        if (found := self._models.get(asked)) is not None:
            return found
        async with self._making:
            if self._http is None:
                self._http = await asyncio.to_thread(_connected)
                await anext(self._open)
            if asked not in self._models:
                made = await asyncio.to_thread(_made, asked, self._http)
                while len(self._models) >= MODELS_MAX:
                    del self._models[next(iter(self._models))]
                self._models[asked] = made
            return self._models[asked]

    async def _until_closed(self) -> AsyncGenerator[None, None]:
        """Hold the connections until the loop shuts down its async generators, which is the only thing that an ending loop tells."""
        try:
            yield
        finally:
            http, self._http = self._http, None
            self._models.clear()
            if http is not None:
                await http.aclose()


_clients: WeakKeyDictionary[AbstractEventLoop, Clients] = WeakKeyDictionary()


def clients() -> Clients:
    """Those of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _clients.get(loop)
    if found is None:
        found = _clients[loop] = Clients()
    return found


def _connected() -> httpx2.AsyncClient:
    try:
        import pydantic_ai.direct  # noqa: F401  # what a first request would import on the event loop
    except ImportError:
        raise MissingExtra("asking models", "pydantic-ai-slim", "agents") from None
    import httpx2

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(HTTP_S, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=1_000, max_keepalive_connections=100),
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [_bounded]},
    )


async def _bounded(response: httpx2.Response) -> None:
    """Have no more of an answer be read than it may have."""
    if response.headers.get("content-encoding", "identity") != "identity":
        await response.aclose()
        raise ModelUnavailable("the provider's answer is compressed, which was not asked for")
    response.stream = _stream(response.stream)


def _stream(content: Any) -> httpx2.AsyncByteStream:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        """The same bytes, until they are too many."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = ANSWER_BYTES_MAX
            async for chunk in content:
                left -= len(chunk)
                if left < 0:
                    raise ModelUnavailable(f"the provider's answer has more than {ANSWER_BYTES_MAX:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await content.aclose()

    return Bounded()


def _made(asked: _Asked, http: httpx2.AsyncClient) -> Model:
    """A model that tries each request once: how often and when it is tried again is a matter of the step."""
    try:
        if asked.provider == "anthropic":
            return _anthropic(asked, http)
        return _openai(asked, http)
    except ImportError as error:
        raise MissingExtra("asking models", f"pydantic-ai-slim[openai,anthropic] ({error})", "agents") from None


def _openai(asked: _Asked, http: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(api_key=asked.key, base_url=asked.base_url or None, http_client=http, max_retries=0)
    kind = OpenAIChatModel if asked.provider == "openai-chat" else OpenAIResponsesModel
    return kind(asked.model, provider=OpenAIProvider(openai_client=client))


def _anthropic(asked: _Asked, http: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(api_key=asked.key, base_url=asked.base_url or None, http_client=http, max_retries=0)
    return AnthropicModel(asked.model, provider=AnthropicProvider(anthropic_client=client))
