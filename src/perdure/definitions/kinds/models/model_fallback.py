"""Requests a model that may stand for several: the first that can answer does, and one that asked for time is left alone until then.

All of this is one attempt of the step. If none can answer, the error of the attempt says when, if ever, another attempt may help.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.live_text_writer import LiveTextWriter, live_text
from perdure.definitions.kinds.models.model_client import Write, send_model_request
from perdure.definitions.kinds.models.model_errors import (
    ContextTooLong,
    KeyRefused,
    MediaUnsupported,
    ModelBusy,
    ModelKeyMissing,
    ModelNotFound,
    ModelUnavailable,
    OutOfCredit,
)
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest
from perdure.definitions.kinds.models.model_sources import model_names, model_source
from perdure.definitions.kinds.models.usage_recorder import Asker, record_usage

logger = logging.getLogger("perdure.models")

FALLBACK_ERRORS = (ModelUnavailable, ModelBusy, ContextTooLong, KeyRefused, ModelKeyMissing, MediaUnsupported, ModelNotFound, OutOfCredit)
"""The errors after which the next model is asked: they are about the provider, the model or the account. Any other says that the request itself is wrong."""


class _Failure(NamedTuple):
    name: str
    error: Exception


_busy: WeakKeyDictionary[AbstractEventLoop, dict[Any, float]] = WeakKeyDictionary()
"""Until when, in the time of the loop, a model is left alone, for each loop."""


async def request_answer(request: ChatRequest, deployment: Deployment, stream: bool = False, asker: Asker | None = None, purpose: str = "") -> ChatAnswer:
    """Requests an answer of the model that the deployment has under the name, or of the first of those for which the name stands.

    With `stream`, the text of the answer is the live text of the step while it comes. What it has used is recorded for the `asker` (None: the running step).
    The `purpose` tells several requests of one attempt of a step apart.

    Raises:
        UnknownModel, ModelRejected, ContextTooLong, ModelBusy, ModelUnavailable, MissingExtra: as `send_model_request`; with several models, the one that says
            when another attempt may help, and why each of them has not answered.
    """
    if stream:
        async with live_text() as text:
            answer = await _request(request, deployment, text, purpose)
    else:
        answer = await _request(request, deployment, None, purpose)
    await record_usage(request, answer, asker, purpose)
    return answer


async def _request(request: ChatRequest, deployment: Deployment, text: LiveTextWriter | None, purpose: str) -> ChatAnswer:
    write, suffix = None if text is None else text.write, f"~{purpose}" if purpose else ""
    names = model_names(deployment.models, request.model)
    if names == (request.model,):
        return await send_model_request(request, deployment, suffix, write)
    failures = list[_Failure]()
    for name in names:
        if text is not None:
            text.begin()
        try:
            answer = await _request_unless_busy(msgspec.structs.replace(request, model=name), deployment, suffix, write)
        except FALLBACK_ERRORS as error:
            failures.append(_Failure(name, error))
            if isinstance(error, ModelKeyMissing):  # unlike the others it is a mistake of this process, which an answer of the next model would hide
                logger.warning("%s: %s. The next model of the list is asked", request.model, error)
        else:
            return msgspec.structs.replace(answer, answered_by=name)
    raise _combined(request.model, failures)


async def _request_unless_busy(request: ChatRequest, deployment: Deployment, suffix: str, write: Write | None) -> ChatAnswer:
    """Requests one of several models, unless it has asked for time that is not over."""
    loop = asyncio.get_running_loop()
    busy, identity = _busy.setdefault(loop, {}), _identity(deployment.models, request.model)
    if (left_s := busy.get(identity, 0.0) - loop.time()) > 0:
        raise ModelBusy(left_s, f"{request.model}: it has asked for time, of which {left_s:.3g} s are left")
    _ = busy.pop(identity, None)
    try:
        return await send_model_request(request, deployment, f"{suffix}~{request.model}", write)
    except ModelBusy as error:
        busy[identity] = loop.time() + error.after_s
        raise


def _identity(models: Mapping[str, Any], name: str) -> Any:
    """What tells a model from others: of a function, itself; else the provider, the address, the model and the secret."""
    if callable(models.get(name)):
        return models[name]
    source = model_source(models, name)
    return (source.provider, source.base_url, source.model, source.key)


def _combined(name: str, failures: Sequence[_Failure]) -> Exception:
    """The error of an attempt in which no model has answered."""
    why = f"{name}: none of its models has answered: {'; '.join(str(one.error) for one in failures)}"
    errors = [one.error for one in failures]
    if any(isinstance(error, ModelUnavailable) for error in errors):
        return ModelUnavailable(why)
    if waits_s := [error.after_s for error in errors if isinstance(error, ModelBusy)]:
        return ModelBusy(min(waits_s), why)
    return type(errors[0])(why)
