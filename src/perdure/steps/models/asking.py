"""Asking: one request to a model, sent once, and its answer. What is to be tried again is said by the error, and done by who asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from perdure.core.thread_calls import carried
from perdure.programs.code.info import step_info
from perdure.steps.deployment import Deployment
from perdure.steps.models import translating, usage
from perdure.steps.models.clients import clients
from perdure.steps.models.failing import ModelRejected, UnknownModel, failure
from perdure.steps.models.messages import Answer, Request, Usage
from perdure.steps.models.sources import KEYS, Source, source

if TYPE_CHECKING:
    from pydantic_ai.models import Model

NO_KEY = "none"
"""What is sent as the key to a server that needs none."""


async def ask(request: Request, deployment: Deployment) -> Answer:
    """Send one request to the model that the deployment means by its name, and return what it answers. An async function there is asked as it is.

    It is sent once. The step's idempotency key goes with it. When cancelled, the connection is closed.

    Raises:
        UnknownModel, ModelRejected, ContextTooLong: asking again is useless; all are `Fatal`.
        ModelBusy: the provider said when to come again; it is a `RetryAfter`.
        ModelUnavailable: the provider failed, or its answer can't be read.
        MissingExtra: the library that asks is not installed.
    """
    given = deployment.models.get(request.model)
    if callable(given):
        return _of_function(await given(request), request)
    where = source(deployment.models, request.model)
    key = await asyncio.to_thread(carried(_key), where, request.model, deployment)
    model = await clients().model(where, key)
    from pydantic_ai.direct import model_request  # here, as it takes a library that is optional

    try:
        response = await model_request(
            model,
            translating.messages(request),
            model_settings=_settings(model, where, request),
            model_request_parameters=translating.parameters(request, model),
            instrument=False,
        )
    except Exception as error:
        told = failure(error, request.model, key)
        if told is error:
            raise
        raise told from None  # what it came of may hold the request's headers, and the key with them
    return translating.answer(response, request, where.price)


def _of_function(answer: Any, request: Request) -> Answer:
    """What a function answered that the deployment has in place of a provider, with a usage that can be true."""
    if not isinstance(answer, Answer):
        raise ModelRejected(f"the function that stands for the model {request.model!r} returned {type(answer).__name__}; have it return an Answer")
    told: Any = answer.usage  # nothing has checked it
    return msgspec.structs.replace(answer, usage=usage.checked(told if isinstance(told, Usage) else Usage(), answer, request))


def _key(where: Source, name: str, deployment: Deployment) -> str:
    called = where.key or KEYS[where.provider]
    found = deployment.secret(called) or _of_the_step(called)
    if found:
        return found
    if where.base_url and not where.key:
        return NO_KEY
    raise UnknownModel(f"there is no secret {called} where this runs, which the model {name!r} is asked with; give it one, and retry the execution")


def _of_the_step(name: str) -> str | None:
    try:
        return step_info().secret(name)
    except LookupError:  # nobody's step asks
        return None


def _settings(model: Model, where: Source, request: Request) -> Any:
    """The settings of one request: what the source says, then what the request does."""
    found: dict[str, Any] = dict(where.settings)
    if unknown := found.keys() - _known(where.provider):
        raise ModelRejected(f"the model {request.model!r} of the deployment has settings that there are not: {', '.join(sorted(unknown))}")
    if where.provider != "anthropic":
        found.setdefault("openai_store", False)
    if request.temperature is not None:
        found["temperature"] = request.temperature
    if request.max_tokens is not None:
        found["max_tokens"] = request.max_tokens
    found["extra_headers"] = {**_idempotency(), **found.get("extra_headers", {})}
    return found


def _idempotency() -> dict[str, str]:
    """The key of the step that asks, as a header takes it."""
    try:
        key = step_info().key
    except LookupError:  # nobody's step asks
        return {}
    return {"Idempotency-Key": quote(key, safe="/:~#,=;@+")}


def _known(provider: str) -> set[str]:
    """The names of the settings that the requests of a provider have."""
    if provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModelSettings

        return set(AnthropicModelSettings.__annotations__)
    from pydantic_ai.models.openai import OpenAIChatModelSettings, OpenAIResponsesModelSettings

    return set((OpenAIChatModelSettings if provider == "openai-chat" else OpenAIResponsesModelSettings).__annotations__)
