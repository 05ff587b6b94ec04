"""Clients of model providers: one HTTP client for each event loop, closed when the loop ends, and a client for each model on top of it.

Creating one (slow imports, certificates, prices) happens in a thread, so that it does not block the loop. A request is sent once; the error says whether it
should be retried, and the caller retries it.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from weakref import WeakKeyDictionary

import msgspec

from perdure.code.step_environment import step_info
from perdure.core.errors import MissingExtra
from perdure.core.thread_calls import without_stop_iteration
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.http.http_client import http_client
from perdure.definitions.kinds.models import model_messages, provider_translation
from perdure.definitions.kinds.models.model_errors import ModelKeyMissing, ModelRejected, ModelUnavailable, provider_error
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ModelUsage
from perdure.definitions.kinds.models.model_sources import API_KEY_VARIABLES, ModelSource, model_source

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters

Write = Callable[[str], None]
"""Takes the text of an answer, piece by piece."""


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


class ModelClients:
    """The clients of one event loop."""

    def __init__(self) -> None:
        self._http: httpx2.AsyncClient | None = None
        self._models: dict[_Asked, Model] = {}
        self._making = asyncio.Lock()
        self._open = self._until_closed()

    async def model(self, source: ModelSource, key: str) -> Model:
        """Returns the client of this source with this key.

        Raises:
            MissingExtra: the library that does is not installed.
            BadValue: a variable of the environment for proxies or certificates is not usable.
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
        """Holds the connections until the loop shuts down its async generators, which is the only thing that an ending loop tells."""
        try:
            yield
        finally:
            http, self._http = self._http, None
            self._models.clear()
            if http is not None:
                await http.aclose()


_clients: WeakKeyDictionary[AbstractEventLoop, ModelClients] = WeakKeyDictionary()


def loop_clients() -> ModelClients:
    """Those of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _clients.get(loop)
    if found is None:
        found = _clients[loop] = ModelClients()
    return found


def _connected() -> httpx2.AsyncClient:
    try:
        import pydantic_ai.direct  # noqa: F401  # what a first request would import on the event loop
    except ImportError:
        raise MissingExtra("asking models", "pydantic-ai-slim", "agents") from None
    import httpx2

    return http_client(
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
    """A client for a model that attempts each request once: the step decides about retries."""
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


NO_KEY = "none"
"""The key that is sent to a server that needs none."""


async def send_model_request(request: ChatRequest, deployment: Deployment, key_suffix: str = "", write: Write | None = None) -> ChatAnswer:
    """Sends one request to the model that the deployment has under its name, and returns the answer. An async function in the place of a model is called.

    The request carries the step's idempotency key, which ends in `key_suffix`. With `write`, the provider is asked to stream its answer, and `write` gets the
    text as it comes. Cancelling closes the connection.

    Raises:
        UnknownModel, ModelRejected: a retry is useless; both are `Fatal`, as are the errors that say more exactly why a request was rejected.
        ModelBusy: the provider said when to retry; it is a `RetryAfter`.
        ModelUnavailable: the provider failed, or its answer can't be parsed.
        MissingExtra: the client library is not installed.
        BadValue: a variable of the environment for proxies or certificates is not usable.
    """
    given = deployment.models.get(request.model)
    if callable(given):
        answer = _of_function(await given(request), request)
        if write is not None:
            write(answer.text)
        return answer
    where = model_source(deployment.models, request.model)
    key = await asyncio.to_thread(without_stop_iteration(_key), where, request.model, deployment)
    model = await loop_clients().model(where, key)
    wanted = _ProviderRequest(
        model,
        provider_translation.provider_messages(request, model.system),
        _settings(where, request, key_suffix),
        provider_translation.provider_parameters(request, model),
    )
    try:
        response = await (_whole(wanted) if write is None else _streamed(wanted, write))
    except Exception as error:
        told = provider_error(error, request.model, key, [one for message in request.messages for one in message.attachments])
        if told is error:
            raise
        raise told from None  # what it came of may hold the request's headers, and the key with them
    return provider_translation.model_answer(response, request, where.price)


class _ProviderRequest(NamedTuple):
    model: Model
    messages: list[ModelMessage]
    settings: Any
    parameters: ModelRequestParameters


async def _whole(wanted: _ProviderRequest) -> ModelResponse:
    from pydantic_ai.direct import model_request  # here, as it takes a library that is optional

    return await model_request(wanted.model, wanted.messages, model_settings=wanted.settings, model_request_parameters=wanted.parameters, instrument=False)


async def _streamed(wanted: _ProviderRequest, write: Write) -> ModelResponse:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    async with model_request_stream(
        wanted.model, wanted.messages, model_settings=wanted.settings, model_request_parameters=wanted.parameters, instrument=False
    ) as answer:
        async for event in answer:
            match event:
                case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                    write(text)
        return answer.get()


def _of_function(answer: Any, request: ChatRequest) -> ChatAnswer:
    """The answer of a function that replaces a provider, with plausible usage figures."""
    if not isinstance(answer, ChatAnswer):
        raise ModelRejected(f"the function that stands for the model {request.model!r} returned {type(answer).__name__}; have it return an Answer")
    told: Any = answer.usage  # nothing has checked it
    return msgspec.structs.replace(answer, usage=model_messages.checked_usage(told if isinstance(told, ModelUsage) else ModelUsage(), answer, request))


def _key(where: ModelSource, name: str, deployment: Deployment) -> str:
    called = where.key or API_KEY_VARIABLES[where.provider]
    found = deployment.secret(called) or _of_the_step(called)
    if found:
        return found
    if where.base_url and not where.key:
        return NO_KEY
    raise ModelKeyMissing(f"the secret {called} of the model {name!r} is missing in this process; set it, and retry the execution")


def _of_the_step(name: str) -> str | None:
    try:
        return step_info().secret(name)
    except LookupError:  # the request does not come from a step
        return None


def _settings(where: ModelSource, request: ChatRequest, key_suffix: str) -> Any:
    """The settings of a request: those of the source, overridden by those of the request."""
    found: dict[str, Any] = dict(where.settings)
    if unknown := found.keys() - _known(where.provider):
        raise ModelRejected(f"the model {request.model!r} of the deployment has unknown settings: {', '.join(sorted(unknown))}")
    if where.provider != "anthropic":
        found.setdefault("openai_store", False)
    if request.tools and not where.base_url:  # the next request of this agent begins like this one; other servers need not know these fields
        found = {**_cache_settings(where.provider), **found}
    if request.temperature is not None:
        found["temperature"] = request.temperature
    if request.max_tokens is not None:
        found["max_tokens"] = request.max_tokens
    found["extra_headers"] = {**_idempotency(key_suffix), **found.get("extra_headers", {})}
    return found


def _cache_settings(provider: str) -> dict[str, Any]:
    """The settings by which a vendor keeps the beginning of a conversation in its cache, and finds it there: Anthropic marks where it ends, OpenAI is given a
    key that all requests of an execution have.
    """
    if provider == "anthropic":
        return {"anthropic_cache": True, "anthropic_cache_instructions": True}
    try:
        return {"openai_prompt_cache_key": sha256(str(step_info().execution).encode()).hexdigest()[:32]}
    except LookupError:  # the request does not come from a step
        return {}


def _idempotency(suffix: str) -> dict[str, str]:
    """The key of the step that asks, as a header takes it."""
    try:
        key = step_info().key + suffix
    except LookupError:  # the request does not come from a step
        return {}
    return {"Idempotency-Key": quote(key, safe="/:~#,=;@+")}


def _known(provider: str) -> set[str]:
    """The names of the settings that the requests of a provider have."""
    if provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModelSettings

        return set(AnthropicModelSettings.__annotations__)
    from pydantic_ai.models.openai import OpenAIChatModelSettings, OpenAIResponsesModelSettings

    return set((OpenAIChatModelSettings if provider == "openai-chat" else OpenAIResponsesModelSettings).__annotations__)
